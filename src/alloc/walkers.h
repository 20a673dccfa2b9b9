// SPDX-License-Identifier: MIT
//
// The walkers of all allocators but glibc's, and what becomes of the slabs that they find.
#pragma once

#include "alloc/slabs.h"
#include "alloc/walker.h"

// Let each look for its allocator; what they find is sorted. False if memory runs out; ret must be
// released with slabs_deinit in any case.
bool walkers_find(const struct walker_input *input, struct slabs *ret);
// Slabs one behind the other become a region. False if memory runs out.
bool walkers_add_regions(const struct slabs *slabs, struct heap *heap);
// Set the bits, once the regions are laid out, and count.
bool walkers_mark(struct slabs *slabs, struct heap *heap);
