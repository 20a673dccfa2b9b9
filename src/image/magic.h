// SPDX-License-Identifier: MIT
//
// Files that are no dump but are easily taken for one.
#pragma once

#include <stddef.h>

// The most bytes from the beginning of a file that magic_find looks at.
#define MAGIC_SIZE ((size_t)512)

struct magic {
	size_t offset;
	const char *bytes;
	size_t size;
	const char *name;   // "a gzip file"
	const char *advice; // what to do to get at the dump
};

// What the first size bytes of a file say it is; NULL if nothing known.
const struct magic *magic_find(const void *bytes, size_t size);
