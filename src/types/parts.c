// SPDX-License-Identifier: MIT
#include "types/parts.h"

// Regions that end behind address; the first one.
static size_t region_behind(const struct heap *heap, uint64_t address, size_t hint)
{
	return hint < heap->region_count && heap->regions[hint].end > address &&
			       (hint == 0 || heap->regions[hint - 1].end <= address)
		       ? hint
		       : heap_region_behind(heap, address);
}

// Gaps of a region are no blocks, but memory of others. The gap that address is in; NULL: none.
static const struct heap_range *gap_at(const struct heap *heap, uint64_t address)
{
	size_t low = 0, high = heap->gap_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (heap->gaps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < heap->gap_count && heap->gaps[low].start <= address ? &heap->gaps[low] : NULL;
}

static enum part_state slot_state(
	const struct heap *heap, const struct heap_region *region, size_t slot)
{
	if (heap_is_used(heap, slot))
		return PART_USED;
	// A gap is said to begin where a block would.
	return heap->gap_count > 0 &&
			       gap_at(heap, region_address(region, slot) - region->lead) != NULL
		       ? PART_NONE
		       : PART_FREE;
}

static inline part_mark mark_make(
	uint64_t offset, enum part_state state, const struct heap_region *region, unsigned word)
{
	return (part_mark)(offset << MARK_BITS | (uint64_t)(region->slack / word) << 2 | state);
}

// What the last block of a region costs counts with what is before the first one: each has what is
// before it, but is counted up to the next one.
static struct part region_last(const struct heap_region *region, part_mark mark, uint64_t address)
{
	const enum part_state state = mark_state(mark);
	return (struct part){
		.address = address,
		.limit = region->end,
		.size = state == PART_NONE ? 0 : region->end - address + region->lead,
		.state = state,
	};
}

// The block of region that address is in, or what is none.
static struct part part_at(const struct lookup *lookup, const struct heap_region *region,
	uint64_t address, unsigned word)
{
	const size_t end = region_end_slot(region);
	const size_t slot = lookup_start(lookup, region_slot(region, address));
	const size_t next = lookup_next(lookup, slot, end);
	const uint64_t start = region_address(region, slot);
	const part_mark mark = mark_make(0, slot_state(lookup->heap, region, slot), region, word);
	return next == end ? region_last(region, mark, start)
			   : mark_part(mark, start, region_address(region, next) - start, word);
}

struct part part_last(const struct heap *heap, part_mark mark, uint64_t address, size_t *hint)
{
	return region_last(heap_region_near(heap, address, hint), mark, address);
}

// List the parts of region that begin in the view from address on. Returns where the last one ends.
static uint64_t region_list(const struct lookup *lookup, const struct heap_region *region,
	const struct view *view, uint64_t address, unsigned word, struct parts *parts)
{
	const struct heap *heap = lookup->heap;
	const uint64_t stop = min_u64(region->end, view->address + view->size);
	const size_t end = region_end_slot(region);
	const uint64_t unit = (uint64_t)1 << region->unit_bits;
	const size_t first = parts->count;
	size_t slot = region_slot(region, address + unit - 1);
	const size_t behind = region_slot(region, stop + unit - 1);
	for (; slot < behind; slot = (slot / 64 + 1) * 64) {
		const uint64_t mask = behind - slot / 64 * 64 < 64
					      ? (UINT64_C(1) << behind % 64) - 1
					      : UINT64_MAX;
		const struct heap_cell cell = heap->cells[slot / 64];
		uint64_t bits = cell.starts & mask & UINT64_MAX << slot % 64;
		for (; bits != 0; bits &= bits - 1) {
			const unsigned bit = (unsigned)__builtin_ctzll(bits);
			const size_t at = slot / 64 * 64 + bit;
			const enum part_state state = (cell.used >> bit & 1) != 0
							      ? PART_USED
							      : slot_state(heap, region, at);
			parts->list[parts->count++] = mark_make(
				region_address(region, at) - view->address, state, region, word);
		}
	}
	if (stop < region->end) {
		// The next one begins behind the view, if there is one.
		const size_t next = lookup_next(lookup, behind - 1, end);
		if (next < end)
			return region_address(region, next);
	}
	if (parts->count > first)
		parts->list[parts->count - 1] |= MARK_LAST;
	return region->end;
}

void parts_find(
	const struct lookup *lookup, const struct view *view, unsigned word, struct parts *parts)
{
	const struct heap *heap = lookup->heap;
	const uint64_t end = view->address + view->size;
	size_t index = region_behind(heap, view->address, parts->hint);
	uint64_t at = view->address;
	parts->heap = heap;
	parts->hint = index;
	parts->count = 0;
	parts->before = (struct part){
		.address = index > 0 ? heap->regions[index - 1].end : 0,
		.limit = UINT64_MAX,
	};
	if (index < heap->region_count)
		parts->before.limit = heap->regions[index].start;
	if (index < heap->region_count && heap->regions[index].start < at) {
		parts->before = part_at(lookup, &heap->regions[index], at, word);
		// A block that begins with the view is listed.
		if (parts->before.address == at)
			parts->before = (struct part){.address = at, .limit = at};
	}
	parts->end = parts->before.limit;
	for (; index < heap->region_count && heap->regions[index].start < end; index++) {
		const struct heap_region *region = &heap->regions[index];
		at = region_list(
			lookup, region, view, max_u64(region->start, view->address), word, parts);
		parts->hint = index;
		if (at >= end)
			break;
		// What is behind a region is nobody's.
		parts->list[parts->count++] =
			(part_mark)((at - view->address) << MARK_BITS | PART_NONE);
		at = index + 1 < heap->region_count ? heap->regions[index + 1].start : UINT64_MAX;
	}
	if (parts->count > 0)
		parts->end = at;
}
