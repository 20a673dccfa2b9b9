// SPDX-License-Identifier: MIT
//
// Files that are no dump but are easily taken for one.
#pragma once

#include <stddef.h>

// The most bytes from the beginning of a file that magic_find looks at.
#define MAGIC_SIZE ((size_t)512)

// Compression formats that are unpacked while reading.
enum packing {
	PACKING_NONE,
	PACKING_GZIP,
	PACKING_BZIP2,
	PACKING_XZ,
	PACKING_ZSTD,
	PACKING_LZ4,
	PACKING_LZIP,
	PACKING_LZOP,
	PACKING_COMPRESS,
};

// "zstd"; NULL for PACKING_NONE.
const char *packing_name(enum packing packing);
// The command that unpacks a file to its standard output: "zstd -dc".
const char *packing_command(enum packing packing);

struct magic {
	size_t offset;
	const char *bytes;
	size_t size;
	const char *name;   // "a gzip file"
	const char *advice; // what to do to get at the dump
	enum packing packing;
};

// What the first size bytes of a file say it is; NULL if nothing known.
const struct magic *magic_find(const void *bytes, size_t size);
