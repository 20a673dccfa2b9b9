// SPDX-License-Identifier: MIT
//
// Which words may point into a heap: one look at each, to leave out the others.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "base/bytes.h"
#include "base/cpu.h"
#include "image/image.h"

// A stretch of addresses.
struct extent {
	uint64_t start, size;
};

struct pointers {
	unsigned word; // bytes
	enum byte_order order;
	uint64_t mask; // of the bits of a word that make an address
	// All objects lie in these two.
	struct extent extents[2];
};

// For the objects in the regions of heap, which need no bits yet.
void pointers_init(
	struct pointers *pointers, const struct image_info *info, const struct heap *heap);

// Whether a word, masked, is in one of the stretches.
static inline bool pointers_have(const struct pointers *pointers, uint64_t value)
{
	const struct extent *a = &pointers->extents[0], *b = &pointers->extents[1];
	return value - a->start < a->size || value - b->start < b->size;
}

// In ret, which has room for a bit for each word and is filled up with zeros to whole elements, a
// bit becomes set for each of count words that may be a pointer.
typedef void pointers_mark(
	const struct pointers *pointers, const unsigned char *bytes, size_t count, uint64_t *ret);
pointers_mark pointers_mark_portable;
// The same for processors with AVX2; only if the program is compiled for x86-64.
pointers_mark pointers_mark_avx2;

// The one for a level.
pointers_mark *pointers_mark_for(enum cpu_level level);
