// SPDX-License-Identifier: MIT
//
// The memory that was left out when the dump was written, by what was mapped there: segments
// without bytes (MADV_DONTDUMP, the kernel's coredump_filter), and mapped files without a segment.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

// What was left out of one file, or of all memory that is no file's.
struct left_out {
	const char *name;  // the file's path, as the dump has it, the image's; NULL: no file
	uint64_t bytes;	   // without those that are only reserved
	uint64_t writable; // of these: of mappings that the process could write to
};

struct left_outs {
	struct left_out *list; // by bytes, descending; owned
	size_t count, capacity;
	uint64_t bytes, writable; // of all
	uint64_t reserved; // bytes of segments that the process could not even read: addresses
			   // that are taken, no memory
};

// Every address counts once. *ret is the caller's, to be released with left_outs_deinit.
bool left_outs_find(const struct image *image, struct error *err, struct left_outs *ret);
void left_outs_deinit(struct left_outs *outs);
