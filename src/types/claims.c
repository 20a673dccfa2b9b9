// SPDX-License-Identifier: MIT
#include "types/claims.h"

#include <stdlib.h>

bool claims_init(const struct heap *heap, struct error *err, struct claims *ret)
{
	*ret = (struct claims){.bits = calloc(heap->slot_count / 64 + 1, sizeof *ret->bits)};
	return ret->bits != NULL ? lookup_init(&ret->lookup, heap, err) : error_memory(err);
}

void claims_deinit(struct claims *claims)
{
	free(claims->bits);
	lookup_deinit(&claims->lookup);
	*claims = (struct claims){0};
}

void claims_add(struct claims *claims, uint64_t address)
{
	const struct heap_region *region = heap_region_at(claims->lookup.heap, address);
	if (region == NULL)
		return;
	const size_t slot = lookup_start(&claims->lookup, region_slot(region, address));
	atomic_fetch_or_explicit(
		&claims->bits[slot / 64], UINT64_C(1) << slot % 64, memory_order_relaxed);
}
