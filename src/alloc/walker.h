// SPDX-License-Identifier: MIT
//
// What the walkers of allocators share. A walker finds its regions first; when all have, the
// regions are laid out, and each walker sets the bits of its own.
#pragma once

#include "alloc/heap.h"

// Add a region, of which slot is not known yet. False if memory runs out.
bool heap_add_region(struct heap *heap, const struct heap_region *region);
// Add a range to a list of the heap. False if memory runs out.
bool heap_add_range(
	struct heap_range **list, size_t *count, size_t *capacity, uint64_t start, uint64_t end);

// What a walker that hands over slabs (slabs.h) is given.
struct walker_input {
	const struct image *image;
	const struct places *places;
	const atomic_int *stop; // not zero: give up
};

static inline bool walker_stopped(const struct walker_input *input)
{
	return atomic_load(input->stop) != 0;
}
