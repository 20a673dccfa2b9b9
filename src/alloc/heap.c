// SPDX-License-Identifier: MIT
#include "alloc/heap.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/glibc.h"
#include "alloc/walkers.h"
#include "base/huge.h"

const char *heap_allocator_name(enum heap_allocator allocator)
{
	static const char *const names[HEAP_ALLOCATORS] = {
		[HEAP_UNKNOWN] = "unknown",
		[HEAP_GLIBC] = "glibc",
		[HEAP_JEMALLOC] = "jemalloc",
		[HEAP_TCMALLOC] = "tcmalloc",
		[HEAP_MIMALLOC] = "mimalloc",
		[HEAP_MUSL] = "musl",
		[HEAP_GO] = "go",
		[HEAP_PYMALLOC] = "pymalloc",
	};
	return names[allocator];
}

enum heap_allocator heap_allocator_named(const char *name)
{
	for (unsigned i = 0; name != NULL && i < HEAP_ALLOCATORS; i++)
		if (strcmp(heap_allocator_name(i), name) == 0)
			return i;
	return HEAP_UNKNOWN;
}

static int region_compare(const void *left, const void *right)
{
	const struct heap_region *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

// Put the regions in order and give each its bits. What overlaps is in damaged dumps only.
static bool heap_lay_out(struct heap *heap)
{
	size_t kept = 0;
	uint64_t slots = 0;
	if (heap->region_count > 0)
		qsort(heap->regions, heap->region_count, sizeof *heap->regions, region_compare);
	for (size_t i = 0; i < heap->region_count; i++) {
		struct heap_region region = heap->regions[i];
		if (kept > 0 && region.start - region.lead < heap->regions[kept - 1].end)
			continue;
		region.slot = (size_t)slots;
		slots += (((region.end - region.start) >> region.unit_bits) / 64 + 1) * 64;
		if (heap->unit_bits < region.unit_bits)
			heap->unit_bits = region.unit_bits;
		heap->regions[kept++] = region;
	}
	heap->region_count = kept;
	heap->slot_count = (size_t)slots;
	heap->cells = huge_reserve((heap->slot_count / 64 + 1) * sizeof *heap->cells);
	return heap->cells != NULL &&
	       targets_init(heap->slot_count, heap->unit_bits, &heap->targets);
}

static int range_compare(const void *left, const void *right)
{
	const struct heap_range *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

static void ranges_sort(struct heap_range *list, size_t count)
{
	if (count > 0)
		qsort(list, count, sizeof *list, range_compare);
}

static bool allocators_walk(const struct walker_input *input, const struct heap_options *options,
	struct slabs *slabs, struct error *err, struct heap *heap)
{
	struct glibc *glibc;
	if (!walkers_find(input, slabs) || !walkers_add_regions(slabs, heap))
		return error_memory(err);
	if (!glibc_find(input->image, input->places, heap, err, &glibc))
		return false;
	// What grows with brk(2) is another one's.
	if (heap->allocator == HEAP_UNKNOWN && slabs->count > 0)
		heap->outside = heap->missing = 0;
	const bool ok = (heap_lay_out(heap) || error_memory(err)) &&
			glibc_walk(glibc, options, err) &&
			(walkers_mark(slabs, heap) || error_memory(err));
	glibc_destroy(glibc);
	ranges_sort(heap->gaps, heap->gap_count);
	ranges_sort(heap->internals, heap->internal_count);
	return ok;
}

bool heap_walk(const struct image *image, const struct places *places,
	const struct heap_options *options, struct error *err, struct heap *ret)
{
	const struct image_info *info = image_info(image);
	*ret = (struct heap){.word = info->word_size};
	if (info->in_order)
		return error_set(err,
			"%s: the heap of a packed or piped dump cannot be walked; unpack it to a "
			"file first",
			info->path);
	if (info->format != IMAGE_ELF_CORE || info->overridden)
		return true;
	const struct walker_input input = {image, places, options->stop};
	struct slabs slabs = {0};
	const bool ok = allocators_walk(&input, options, &slabs, err, ret);
	slabs_deinit(&slabs);
	if (!ok)
		heap_deinit(ret);
	return ok;
}

bool heap_add_region(struct heap *heap, const struct heap_region *region)
{
	if (heap->region_count == heap->region_capacity) {
		const size_t wanted = 2 * heap->region_capacity + 16;
		struct heap_region *regions = reallocarray(heap->regions, wanted, sizeof *regions);
		if (regions == NULL)
			return false;
		heap->regions = regions;
		heap->region_capacity = wanted;
	}
	heap->regions[heap->region_count++] = *region;
	return true;
}

void heap_deinit(struct heap *heap)
{
	free(heap->regions);
	free(heap->cells);
	targets_deinit(&heap->targets);
	free(heap->gaps);
	free(heap->internals);
	free(heap->young);
	free(heap->breaks);
	*heap = (struct heap){0};
}

bool heap_add_range(
	struct heap_range **list, size_t *count, size_t *capacity, uint64_t start, uint64_t end)
{
	if (*count == *capacity) {
		const size_t wanted = 2 * *capacity + 16;
		struct heap_range *grown = reallocarray(*list, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		*list = grown;
		*capacity = wanted;
	}
	(*list)[(*count)++] = (struct heap_range){start, end};
	return true;
}

size_t heap_region_behind(const struct heap *heap, uint64_t address)
{
	size_t low = 0, high = heap->region_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (heap->regions[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct heap_region *heap_region_near(const struct heap *heap, uint64_t address, size_t *hint)
{
	const struct heap_region *list = heap->regions;
	if (*hint < heap->region_count &&
		address - list[*hint].start < list[*hint].end - list[*hint].start)
		return &list[*hint];
	const size_t low = heap_region_behind(heap, address);
	if (low == heap->region_count || address < list[low].start)
		return NULL;
	*hint = low;
	return &list[low];
}

const struct heap_region *heap_region_at(const struct heap *heap, uint64_t address)
{
	size_t hint = SIZE_MAX;
	return heap_region_near(heap, address, &hint);
}

uint64_t heap_block_behind(const struct heap *heap, uint64_t address)
{
	const uint64_t block = add_saturated(address, 2 * (uint64_t)heap->word);
	const struct heap_region *region = heap_region_at(heap, block);
	if (region == NULL || region->allocator != HEAP_GLIBC)
		return 0;
	const size_t slot = region_slot(region, block);
	return region_address(region, slot) == block && heap_is_used(heap, slot) ? block : 0;
}
