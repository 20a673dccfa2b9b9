// SPDX-License-Identifier: MIT
#include "alloc/slabs.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

void slabs_deinit(struct slabs *slabs)
{
	free(slabs->list);
	free(slabs->used);
	free(slabs->waiting.list);
	free(slabs->internal.list);
	free(slabs->moved.list);
	free(slabs->ranges);
	*slabs = (struct slabs){0};
}

// Room for so many bits more, all zero.
static bool bits_grow(struct slabs *slabs, size_t bits)
{
	const size_t wanted = (slabs->bits + bits + 63) / 64;
	if (wanted <= slabs->bit_capacity)
		return true;
	const size_t capacity = wanted + wanted / 2 + 64;
	uint64_t *used = reallocarray(slabs->used, capacity, sizeof *used);
	if (used == NULL)
		return false;
	memset(used + slabs->bit_capacity, 0, (capacity - slabs->bit_capacity) * sizeof *used);
	slabs->used = used;
	slabs->bit_capacity = capacity;
	return true;
}

bool slabs_add(struct slabs *slabs, enum heap_allocator allocator, uint64_t start, uint64_t size,
	uint32_t count)
{
	if (slabs->count == slabs->capacity) {
		const size_t wanted = 2 * slabs->capacity + 64;
		struct slab *list = reallocarray(slabs->list, wanted, sizeof *list);
		if (list == NULL)
			return false;
		slabs->list = list;
		slabs->capacity = wanted;
	}
	if (!bits_grow(slabs, count))
		return false;
	slabs->list[slabs->count++] =
		(struct slab){start, size, slabs->bits, count, (uint8_t)allocator};
	slabs->bits += count;
	slabs->found[allocator] = true;
	return true;
}

void slabs_use(struct slabs *slabs, uint32_t index)
{
	const size_t bit = slabs->list[slabs->count - 1].first + index;
	slabs->used[bit / 64] |= UINT64_C(1) << bit % 64;
}

void slabs_use_all(struct slabs *slabs)
{
	for (uint32_t i = 0; i < slabs->list[slabs->count - 1].count; i++)
		slabs_use(slabs, i);
}

bool slabs_unuse(struct slabs *slabs, uint32_t index)
{
	const size_t bit = slabs->list[slabs->count - 1].first + index;
	const uint64_t mask = UINT64_C(1) << bit % 64;
	const bool used = (slabs->used[bit / 64] & mask) != 0;
	slabs->used[bit / 64] &= ~mask;
	return used;
}

bool slabs_add_range(struct slabs *slabs, uint64_t start, uint64_t end, bool spare)
{
	if (start >= end)
		return true;
	if (slabs->range_count == slabs->range_capacity) {
		const size_t wanted = 2 * slabs->range_capacity + 64;
		struct slab_range *ranges = reallocarray(slabs->ranges, wanted, sizeof *ranges);
		if (ranges == NULL)
			return false;
		slabs->ranges = ranges;
		slabs->range_capacity = wanted;
	}
	slabs->ranges[slabs->range_count++] = (struct slab_range){start, end, spare};
	return true;
}

static int slab_compare(const void *left, const void *right)
{
	const struct slab *a = left, *b = right;
	return a->start != b->start ? (a->start < b->start ? -1 : 1)
				    : (a->first > b->first) - (a->first < b->first);
}

static int range_compare(const void *left, const void *right)
{
	const struct slab_range *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

void slabs_sort(struct slabs *slabs)
{
	size_t kept = 0;
	uint64_t end = 0;
	if (slabs->count > 0)
		qsort(slabs->list, slabs->count, sizeof *slabs->list, slab_compare);
	for (size_t i = 0; i < slabs->count; i++) {
		const struct slab *slab = &slabs->list[i];
		if (slab->start < end)
			continue;
		end = slab_end(slab);
		slabs->list[kept++] = *slab;
	}
	slabs->count = kept;
	if (slabs->range_count > 0)
		qsort(slabs->ranges, slabs->range_count, sizeof *slabs->ranges, range_compare);
}

// So many slabs begin at address or before.
static size_t slabs_up_to(const struct slabs *slabs, uint64_t address)
{
	size_t low = 0, high = slabs->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (slabs->list[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool slabs_find(const struct slabs *slabs, uint64_t address, size_t *slab, uint32_t *index)
{
	const size_t before = slabs_up_to(slabs, address);
	if (before == 0)
		return false;
	const struct slab *found = &slabs->list[before - 1];
	*slab = before - 1;
	*index = (uint32_t)min_u64((address - found->start) / found->size, UINT32_MAX);
	return *index < found->count;
}

bool slabs_any(const struct slabs *slabs, uint64_t start, uint64_t end)
{
	size_t slab;
	uint32_t index;
	const size_t before = slabs_up_to(slabs, start);
	return start < end && (slabs_find(slabs, start, &slab, &index) ||
				      (before < slabs->count && slabs->list[before].start < end));
}
