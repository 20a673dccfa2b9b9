// SPDX-License-Identifier: MIT
#include "alloc/walkers.h"

#include <stdlib.h>

#include "alloc/golang.h"
#include "alloc/jemalloc.h"
#include "alloc/mimalloc.h"
#include "alloc/musl.h"
#include "alloc/pymalloc.h"
#include "alloc/tcmalloc.h"
#include "base/bytes.h"

typedef bool walker(const struct walker_input *input, struct slabs *slabs);

static walker *const walkers[] = {
	jemalloc_walk, tcmalloc_walk, mimalloc_walk, pymalloc_walk, musl_walk, golang_walk};

bool walkers_find(const struct walker_input *input, struct slabs *ret)
{
	*ret = (struct slabs){0};
	if (image_info(input->image)->live && input->places->count == 0)
		return true;
	for (size_t i = 0; i < sizeof walkers / sizeof *walkers; i++)
		if (!walkers[i](input, ret))
			return false;
	slabs_sort(ret);
	return true;
}

// ---- regions

// Blocks begin at multiples of so many bytes.
static uint8_t slab_unit_bits(const struct slab *slab)
{
	return slab->start % 16 == 0 && slab->size % 16 == 0 ? 4 : 3;
}

// Whether all from start to end is the allocator's. *next: the first range that may be of use.
static bool ranges_cover(const struct slabs *slabs, uint64_t start, uint64_t end, size_t *next)
{
	while (start < end && *next < slabs->range_count && slabs->ranges[*next].start <= start) {
		start = max_u64(start, slabs->ranges[*next].end);
		if (slabs->ranges[*next].end > end)
			break;
		++*next;
	}
	return start >= end;
}

bool walkers_add_regions(const struct slabs *slabs, struct heap *heap)
{
	struct heap_region region = {0};
	size_t next = 0;
	for (size_t i = 0; i < slabs->count; i++) {
		const struct slab *slab = &slabs->list[i];
		const uint8_t unit_bits = slab_unit_bits(slab);
		if (region.end != 0) {
			while (next < slabs->range_count && slabs->ranges[next].end <= region.end)
				next++;
			if (region.allocator == slab->allocator && region.unit_bits == unit_bits &&
				ranges_cover(slabs, region.end, slab->start, &next)) {
				region.end = slab_end(slab);
				continue;
			}
			if (!heap_add_region(heap, &region))
				return false;
		}
		region = (struct heap_region){
			.allocator = slab->allocator,
			.kind = HEAP_SLABS,
			.start = slab->start,
			.end = slab_end(slab),
			.unit_bits = unit_bits,
			.slack = slabs->padding[slab->allocator],
		};
	}
	return region.end == 0 || heap_add_region(heap, &region);
}

// ---- bits

static void slab_mark(struct heap *heap, const struct slabs *slabs, const struct slab *slab,
	const struct heap_region *region)
{
	uint64_t used = 0;
	for (uint32_t i = 0; i < slab->count; i++) {
		const size_t slot = region_slot(region, slab->start + i * slab->size);
		if (slab_is_used(slabs, slab, i)) {
			heap_mark_used(heap, slot);
			used++;
		} else {
			heap_mark_start(heap, slot);
		}
	}
	heap->in_use.count += used;
	heap->in_use.bytes += used * slab->size;
	heap->binned.count += slab->count - used;
	heap->binned.bytes += (slab->count - used) * slab->size;
	if (slab_end(slab) < region->end)
		heap_mark_start(heap, region_slot(region, slab_end(slab)));
}

// Take a block off those in use. False if it is none.
static bool block_clear(
	struct heap *heap, const struct slabs *slabs, uint64_t address, uint64_t *size)
{
	const struct heap_region *region = heap_region_at(heap, address);
	size_t slab;
	uint32_t index;
	if (region == NULL || region->kind != HEAP_SLABS ||
		!slabs_find(slabs, address, &slab, &index) ||
		slabs->list[slab].start + index * slabs->list[slab].size != address)
		return false;
	const size_t slot = region_slot(region, address);
	if (!heap_is_used(heap, slot))
		return false;
	heap->cells[slot / 64].used &= ~((uint64_t)1 << slot % 64);
	*size = slabs->list[slab].size;
	heap->in_use.count--;
	heap->in_use.bytes -= *size;
	return true;
}

// A block in use begins later in its place.
static void block_move(struct heap *heap, const struct slabs *slabs, uint64_t address)
{
	const struct heap_region *region = heap_region_at(heap, address);
	size_t slab;
	uint32_t index;
	if (region == NULL || region->kind != HEAP_SLABS ||
		!slabs_find(slabs, address, &slab, &index))
		return;
	const uint64_t start = slabs->list[slab].start + index * slabs->list[slab].size;
	const size_t from = region_slot(region, start), to = region_slot(region, address);
	if (!heap_is_used(heap, from) || region_address(region, to) != address || from == to)
		return;
	heap->cells[from / 64].used &= ~((uint64_t)1 << from % 64);
	heap_mark_used(heap, to);
	heap->in_use.bytes -= address - start;
	heap->overhead += address - start;
}

// The parts of the ranges that are in no region, each once. Both are sorted.
static bool ranges_add(const struct slabs *slabs, struct heap *heap)
{
	size_t region = 0;
	uint64_t done = 0;
	for (size_t i = 0; i < slabs->range_count; i++) {
		const struct slab_range *range = &slabs->ranges[i];
		for (uint64_t at = max_u64(range->start, done); at < range->end; at = done) {
			while (region < heap->region_count && heap->regions[region].end <= at)
				region++;
			const bool more = region < heap->region_count;
			const uint64_t limit =
				more ? min_u64(range->end, max_u64(at, heap->regions[region].start))
				     : range->end;
			if (at < limit && !heap_add_range(&heap->internals, &heap->internal_count,
						  &heap->internal_capacity, at, limit))
				return false;
			done = limit < range->end ? heap->regions[region].end : limit;
		}
	}
	return true;
}

// What is not blocks, in regions too.
static void ranges_count(const struct slabs *slabs, struct heap *heap)
{
	uint64_t done = 0;
	for (size_t i = 0; i < slabs->range_count; i++) {
		const struct slab_range *range = &slabs->ranges[i];
		const uint64_t start = max_u64(range->start, done);
		if (start >= range->end)
			continue;
		done = range->end;
		if (range->spare) {
			heap->binned.count++;
			heap->binned.bytes += range->end - start;
		} else {
			heap->overhead += range->end - start;
		}
	}
}

bool walkers_mark(struct slabs *slabs, struct heap *heap)
{
	uint64_t bytes[HEAP_ALLOCATORS] = {[HEAP_GLIBC] = heap->in_use.bytes}, size;
	size_t hint = SIZE_MAX;
	for (size_t i = 0; i < slabs->count; i++) {
		const struct heap_region *region =
			heap_region_near(heap, slabs->list[i].start, &hint);
		if (region == NULL || region->kind != HEAP_SLABS)
			continue;
		const uint64_t before = heap->in_use.bytes;
		slab_mark(heap, slabs, &slabs->list[i], region);
		bytes[slabs->list[i].allocator] += heap->in_use.bytes - before;
	}
	for (unsigned i = 0; i < HEAP_ALLOCATORS; i++)
		if (slabs->found[i] && bytes[i] >= bytes[heap->allocator])
			heap->allocator = i;
	for (size_t i = 0; i < slabs->moved.count; i++)
		block_move(heap, slabs, slabs->moved.list[i]);
	for (size_t i = 0; i < slabs->waiting.count; i++)
		if (block_clear(heap, slabs, slabs->waiting.list[i], &size)) {
			heap->cached.count++;
			heap->cached.bytes += size;
		}
	for (size_t i = 0; i < slabs->internal.count; i++)
		if (block_clear(heap, slabs, slabs->internal.list[i], &size))
			heap->overhead += size;
	ranges_count(slabs, heap);
	if (!ranges_add(slabs, heap))
		return false;
	heap->broken += slabs->damaged;
	heap->missing += slabs->missing;
	heap->lists_broken += slabs->lists_broken;
	heap->caches += slabs->caches;
	return true;
}
