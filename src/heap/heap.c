// SPDX-License-Identifier: MIT
#include "heap/heap.h"

#include <stdlib.h>

#include "heap/glibc.h"

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
	if (glibc_walk(image, places, options, err, ret) && heap_index(ret, err))
		return true;
	heap_deinit(ret);
	return false;
}

void heap_deinit(struct heap *heap)
{
	free(heap->regions);
	free(heap->used);
	for (size_t i = 0; i < HEAP_LEVELS; i++)
		free(heap->levels[i]);
	free(heap->breaks);
	*heap = (struct heap){0};
}

bool heap_index(struct heap *heap, struct error *err)
{
	const uint64_t *below = heap->used;
	size_t words = heap->slot_count / 64;
	for (size_t level = 0; level < HEAP_LEVELS && words > 1; level++) {
		uint64_t *bits = calloc(words / 64 + 1, sizeof *bits);
		if (bits == NULL)
			return error_memory(err);
		for (size_t i = 0; i < words; i++)
			bits[i / 64] |= (uint64_t)(below[i] != 0) << i % 64;
		heap->levels[level] = bits;
		below = bits;
		words = words / 64 + 1;
	}
	return true;
}

const struct heap_region *heap_region_at(const struct heap *heap, uint64_t address)
{
	size_t low = 0, high = heap->region_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (heap->regions[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < heap->region_count && address >= heap->regions[low].start ? &heap->regions[low]
									       : NULL;
}

// The bits of a word up to the given one.
static uint64_t bits_up_to(uint64_t word, size_t bit)
{
	return word & (UINT64_MAX >> (63 - bit));
}

static size_t bit_highest(uint64_t word)
{
	return 63 - (size_t)__builtin_clzll(word);
}

// The last bit that is set at slot or before; false if there is none.
static bool slot_find(const struct heap *heap, size_t slot, size_t *ret)
{
	const uint64_t *bits = heap->used;
	size_t level = 0, at = slot;
	uint64_t word = bits_up_to(bits[at / 64], at % 64);
	// Up until there is a bit, and down again.
	while (word == 0) {
		at /= 64;
		if (at == 0 || level == HEAP_LEVELS || heap->levels[level] == NULL)
			return false;
		at--;
		bits = heap->levels[level++];
		word = bits_up_to(bits[at / 64], at % 64);
	}
	at = at / 64 * 64 + bit_highest(word);
	while (level > 0) {
		level--;
		bits = level == 0 ? heap->used : heap->levels[level - 1];
		at = at * 64 + bit_highest(bits[at]);
	}
	*ret = at;
	return true;
}

bool heap_find_in(const struct heap *heap, const struct heap_region *region, uint64_t address,
	uint64_t *chunk, size_t *slot)
{
	if (!slot_find(heap, heap_slot(heap, region, address), slot) || *slot < region->slot)
		return false;
	*chunk = region->start + (uint64_t)(*slot - region->slot) * heap->unit;
	return true;
}

bool heap_find(const struct heap *heap, uint64_t address, uint64_t *chunk)
{
	size_t slot;
	const struct heap_region *region = heap_region_at(heap, address);
	return region != NULL && heap_find_in(heap, region, address, chunk, &slot);
}
