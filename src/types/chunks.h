// SPDX-License-Identifier: MIT
//
// The chunks of an allocator that begin in a piece of memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"

// A piece of memory that has been read.
struct view {
	const struct image *image; // for what lies outside; NULL: that is not known
	uint64_t address;
	const unsigned char *bytes;
	size_t size;
};

// Of glibc's malloc, see chain.h: the size field is a word behind address, the object begins
// another word behind it, and ends a word behind the end of the chunk.
struct chunk {
	uint64_t address;
	uint64_t size; // 0: none is known, nor from a word behind address on
	bool used;
};

struct chunks {
	struct chunk before; // the last one whose size field is before the view
	// Those whose size field is in the view, in order: its offset there, and CHUNK_USED; owned.
	// What no chunk covers is not known to be in one.
	uint32_t *list;
	size_t count;
};

#define CHUNK_USED ((uint32_t)1)

// The most chunks that a view of some bytes can have: each has four words at least.
static inline size_t chunks_max(size_t size, unsigned word)
{
	return size / (4 * (size_t)word) + 1;
}
