// SPDX-License-Identifier: MIT
//
// From an address to the block that holds it, in constant time and without reading memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "base/error.h"

struct lookup {
	const struct heap *heap;
	uint64_t *summary; // a bit for each cell: it has starts; owned
	size_t *before;	   // for each 64 cells, the last start before them; owned
};

// heap must live as long.
bool lookup_init(struct lookup *lookup, const struct heap *heap, struct error *err);
void lookup_deinit(struct lookup *lookup);

// The region that has a slot. hint: the index of a region that is tried first, becomes that of the
// one found.
const struct heap_region *lookup_slot_region(
	const struct lookup *lookup, size_t slot, size_t *hint);

// Whether a cell has starts.
static inline bool lookup_has_starts(const struct lookup *lookup, size_t cell)
{
	return (lookup->summary[cell / 64] >> (cell % 64) & 1) != 0;
}

// The slot where the block begins that holds a slot. There is one in every region.
static inline size_t lookup_start(const struct lookup *lookup, size_t slot)
{
	const struct heap_cell *cells = lookup->heap->cells;
	const size_t cell = slot / 64, group = cell / 64;
	const uint64_t here = cells[cell].starts << (63 - slot % 64);
	if (here != 0)
		return slot - (size_t)__builtin_clzll(here);
	// Not a shift by 64 where the cell is the first of its group.
	const uint64_t below = lookup->summary[group] & ((UINT64_C(1) << (cell % 64)) - 1);
	if (below == 0)
		return lookup->before[group];
	const size_t other = group * 64 + 63 - (size_t)__builtin_clzll(below);
	return other * 64 + 63 - (size_t)__builtin_clzll(cells[other].starts);
}

// The first start behind a slot, or `end`.
size_t lookup_next(const struct lookup *lookup, size_t slot, size_t end);

// The region and the slot of what a pointer points at. False if it is in no region. hint: see
// heap_region_near.
static inline bool lookup_locate(const struct lookup *lookup, uint64_t pointer, size_t *hint,
	const struct heap_region **region, size_t *slot)
{
	*region = heap_region_near(lookup->heap, pointer, hint);
	if (*region == NULL)
		return false;
	*slot = region_slot(*region, pointer);
	return true;
}

// The block in use that a pointer points into, from where lookup_locate found it: the slot where it
// begins. False if there is none: free memory, or what the allocator has behind a block, where
// pointers to its end point.
static inline bool lookup_resolve(const struct lookup *lookup, uint64_t pointer,
	const struct heap_region *region, size_t slot, size_t *ret)
{
	const struct heap *heap = lookup->heap;
	const size_t start = lookup_start(lookup, slot);
	if ((heap->cells[start / 64].used >> (start % 64) & 1) == 0)
		return false;
	const size_t next = slot + 1;
	if (region_in_slack(region, pointer) && next < region_end_slot(region) &&
		(heap->cells[next / 64].starts >> (next % 64) & 1) != 0)
		return false;
	*ret = start;
	return true;
}
