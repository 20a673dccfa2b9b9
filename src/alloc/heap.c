// SPDX-License-Identifier: MIT
#include "alloc/heap.h"

#include <stdlib.h>

#include "alloc/glibc.h"

bool heap_walk(const struct image *image, const struct places *places,
	const struct heap_options *options, struct error *err, struct heap *ret)
{
	const struct image_info *info = image_info(image);
	*ret = (struct heap){.unit = 2 * info->word_size,
		.header = 2 * info->word_size,
		.word = info->word_size};
	if (info->in_order)
		return error_set(err,
			"%s: the heap of a packed or piped dump cannot be walked; unpack it to a "
			"file first",
			info->path);
	if (info->format != IMAGE_ELF_CORE || info->overridden)
		return true;
	if (glibc_walk(image, places, options, err, ret))
		return true;
	heap_deinit(ret);
	return false;
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

const struct heap_region *heap_region_near(const struct heap *heap, uint64_t address, size_t *hint)
{
	const struct heap_region *list = heap->regions;
	size_t low = 0, high = heap->region_count;
	if (*hint < high && address - list[*hint].start < list[*hint].end - list[*hint].start)
		return &list[*hint];
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (list[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
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
