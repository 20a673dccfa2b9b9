// SPDX-License-Identifier: MIT
#include "heap/lookup.h"

#include <stdlib.h>

#include "base/bytes.h"

// Two stretches around all regions, parted at the greatest gap: the heap that grows with brk(2) and
// what is mapped lie far from each other.
static void lookup_part(struct lookup *lookup)
{
	const struct heap *heap = lookup->heap;
	const struct heap_region *list = heap->regions;
	const size_t count = heap->region_count;
	size_t split = 0; // regions before the gap
	uint64_t most = 0;
	if (count == 0)
		return;
	for (size_t i = 1; i < count; i++)
		if (list[i].start - list[i - 1].end > most) {
			most = list[i].start - list[i - 1].end;
			split = i;
		}
	// Objects lie a header behind their chunks.
	const uint64_t shift = heap->header;
	const struct heap_region *last = split > 0 ? &list[split - 1] : &list[count - 1];
	lookup->extents[0] = (struct extent){list[0].start + shift, last->end - list[0].start};
	if (split > 0)
		lookup->extents[1] = (struct extent){
			list[split].start + shift, list[count - 1].end - list[split].start};
}

bool lookup_init(struct lookup *lookup, const struct heap *heap, unsigned word, struct error *err)
{
	const size_t cells = (heap->slot_count + 63) / 64, groups = cells / 64 + 1;
	*lookup = (struct lookup){
		.heap = heap,
		.word = word,
		.unit_bits = (unsigned)__builtin_ctz(heap->unit),
		.summary = calloc(groups, sizeof *lookup->summary),
		.before = calloc(groups, sizeof *lookup->before),
	};
	if (lookup->summary == NULL || lookup->before == NULL) {
		lookup_deinit(lookup);
		return error_memory(err);
	}
	size_t last = 0;
	for (size_t i = 0; i < cells; i++) {
		if (i % 64 == 0)
			lookup->before[i / 64] = last;
		if (heap->cells[i].starts == 0)
			continue;
		lookup->summary[i / 64] |= UINT64_C(1) << (i % 64);
		last = i * 64 + 63 - (size_t)__builtin_clzll(heap->cells[i].starts);
	}
	lookup_part(lookup);
	return true;
}

void lookup_deinit(struct lookup *lookup)
{
	free(lookup->summary);
	free(lookup->before);
	*lookup = (struct lookup){0};
}

const struct heap_region *lookup_region(const struct lookup *lookup, uint64_t address, size_t *hint)
{
	const struct heap_region *list = lookup->heap->regions;
	size_t low = 0, high = lookup->heap->region_count;
	if (*hint < high && address - list[*hint].start < list[*hint].end - list[*hint].start)
		return &list[*hint];
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (list[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == lookup->heap->region_count || address < list[low].start)
		return NULL;
	*hint = low;
	return &list[low];
}

const struct heap_region *lookup_slot_region(const struct lookup *lookup, size_t slot)
{
	const struct heap_region *list = lookup->heap->regions;
	size_t low = 0, high = lookup->heap->region_count;
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;
		if (list[middle].slot <= slot)
			low = middle;
		else
			high = middle;
	}
	return &list[low];
}

size_t lookup_next(const struct lookup *lookup, size_t slot, size_t end)
{
	const struct heap_cell *cells = lookup->heap->cells;
	size_t at = slot + 1;
	if (at >= end)
		return end;
	uint64_t here = cells[at / 64].starts >> (at % 64);
	if (here != 0) {
		at += (size_t)__builtin_ctzll(here);
		return at < end ? at : end;
	}
	// The next cell that has any.
	size_t cell = at / 64 + 1;
	const size_t cell_end = (end + 63) / 64;
	while (cell < cell_end) {
		here = lookup->summary[cell / 64] >> (cell % 64);
		if (here != 0) {
			cell += (size_t)__builtin_ctzll(here);
			break;
		}
		cell = (cell / 64 + 1) * 64;
	}
	if (cell >= cell_end)
		return end;
	at = cell * 64 + (size_t)__builtin_ctzll(cells[cell].starts);
	return at < end ? at : end;
}
