// SPDX-License-Identifier: MIT
#include "alloc/lookup.h"

#include <stdlib.h>

#include "base/bytes.h"

bool lookup_init(struct lookup *lookup, const struct heap *heap, struct error *err)
{
	const size_t cells = (heap->slot_count + 63) / 64, groups = cells / 64 + 1;
	*lookup = (struct lookup){
		.heap = heap,
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
	return true;
}

void lookup_deinit(struct lookup *lookup)
{
	free(lookup->summary);
	free(lookup->before);
	*lookup = (struct lookup){0};
}

const struct heap_region *lookup_slot_region(const struct lookup *lookup, size_t slot, size_t *hint)
{
	const struct heap_region *list = lookup->heap->regions;
	size_t low = 0, high = lookup->heap->region_count;
	if (*hint < high && list[*hint].slot <= slot &&
		(*hint + 1 == high || slot < list[*hint + 1].slot))
		return &list[*hint];
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;
		if (list[middle].slot <= slot)
			low = middle;
		else
			high = middle;
	}
	*hint = low;
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
