// SPDX-License-Identifier: MIT
#include "alloc/usage.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define PAGE ((uint64_t)4096)

// Up to this size each multiple of 8 bytes is a class of its own; above, sixteen are between one
// power of two and the next.
#define EXACT_MAX ((uint64_t)64 << 10)
#define EXACT_CLASSES ((size_t)(EXACT_MAX / 8) + 1)
#define LARGE_STEPS 16
#define CLASSES (EXACT_CLASSES + (64 - 16) * LARGE_STEPS)

static size_t class_of(uint64_t size)
{
	if (size <= EXACT_MAX)
		return (size_t)((size + 7) / 8);
	const unsigned bits = 63 - (unsigned)__builtin_clzll(size - 1);
	return EXACT_CLASSES + (size_t)(bits - 16) * LARGE_STEPS +
	       (size_t)((size - 1) >> (bits - 4) & (LARGE_STEPS - 1));
}

struct counter {
	const struct image *image;
	const struct heap *heap;
	const atomic_int *stop;
	struct usage *usage;
	struct usage_heap *row; // of the region
	size_t gap;		// the first one that may lie ahead
	uint64_t run_start;	// of free blocks that follow each other; 0: none
	unsigned char *buffer;	// BUFFER_SIZE; owned
};
#define BUFFER_SIZE ((size_t)64 << 10)

static void tally_add(struct heap_tally *tally, uint64_t bytes)
{
	tally->count++;
	tally->bytes += bytes;
}

static void size_add(struct usage_size *size, bool used, uint64_t bytes)
{
	size->least = size->most == 0 ? bytes : min_u64(size->least, bytes);
	size->most = max_u64(size->most, bytes);
	tally_add(used ? &size->used : &size->free, bytes);
}

// ---- the largest ones, in a heap with the smallest of them first

static bool block_less(const struct usage_block *a, const struct usage_block *b)
{
	return a->size != b->size ? a->size < b->size : a->address > b->address;
}

static void blocks_sink(struct usage_block *list, size_t count, size_t at)
{
	for (;;) {
		size_t least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
			if (block_less(&list[child], &list[least]))
				least = child;
		if (least == at)
			return;
		const struct usage_block moved = list[at];
		list[at] = list[least];
		list[least] = moved;
		at = least;
	}
}

static void blocks_add(struct usage *usage, uint64_t address, uint64_t size)
{
	const struct usage_block block = {address, size};
	if (usage->block_count < usage->block_most) {
		usage->blocks[usage->block_count++] = block;
		if (usage->block_count == usage->block_most)
			for (size_t i = usage->block_count / 2 + 1; i-- > 0;)
				blocks_sink(usage->blocks, usage->block_count, i);
		return;
	}
	if (usage->block_most == 0 || !block_less(&usage->blocks[0], &block))
		return;
	usage->blocks[0] = block;
	blocks_sink(usage->blocks, usage->block_count, 0);
}

// ---- free memory

static bool page_is_zero(const unsigned char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

// Bytes of whole pages from start to end that have been touched.
static uint64_t pages_touched(const struct counter *counter, uint64_t start, uint64_t end)
{
	uint64_t sum = 0, data_end;
	start = add_saturated(start, PAGE - 1) & ~(PAGE - 1);
	end &= ~(PAGE - 1);
	while (start < end && atomic_load(counter->stop) == 0) {
		if (!image_has_data(counter->image, start, end, &data_end) && data_end > start) {
			// Of a page that is in part a hole the rest may be data.
			start = max_u64(data_end & ~(PAGE - 1), start + PAGE);
			continue;
		}
		const size_t size = image_read(counter->image, start, counter->buffer,
			(size_t)min_u64(BUFFER_SIZE, end - start));
		for (size_t at = 0; at + PAGE <= size; at += PAGE)
			sum += page_is_zero(counter->buffer + at) ? 0 : PAGE;
		start += max_u64(size & ~(PAGE - 1), PAGE);
	}
	return sum;
}

// Free blocks end here. last: with their region.
static void run_end(struct counter *counter, uint64_t end, bool last)
{
	const uint64_t start = counter->run_start;
	const uint64_t word = counter->heap->word;
	struct usage_heap *row = counter->row;
	if (start == 0)
		return;
	counter->run_start = 0;
	row->largest_free = max_u64(row->largest_free, end - start);
	if (last && (row->kind == HEAP_MAIN || row->kind == HEAP_ARENA))
		row->end_bytes += end - start;
	// The pointers of a free list stay, at its beginning, and the next block's header.
	if (end - start > PAGE)
		row->free_pages += pages_touched(counter, start + 4 * word, end - 2 * word);
}

// ---- blocks

static bool block_is_gap(struct counter *counter, uint64_t address)
{
	const struct heap *heap = counter->heap;
	while (counter->gap < heap->gap_count && heap->gaps[counter->gap].end <= address)
		counter->gap++;
	return counter->gap < heap->gap_count && heap->gaps[counter->gap].start <= address;
}

static void block_add(struct counter *counter, uint64_t address, uint64_t size, bool used)
{
	struct usage_heap *row = counter->row;
	if (!used && block_is_gap(counter, address)) {
		run_end(counter, address, false);
		return;
	}
	tally_add(used ? &row->used : &row->free, size);
	size_add(&counter->usage->sizes[class_of(size)], used, size);
	if (used) {
		run_end(counter, address, false);
		blocks_add(counter->usage, address, size);
	} else if (counter->run_start == 0) {
		counter->run_start = address;
	}
}

static bool heap_add(struct counter *counter, const struct heap_region *region)
{
	struct usage *usage = counter->usage;
	const bool alone = region->kind == HEAP_MAIN || region->kind == HEAP_ARENA;
	for (size_t i = 0; !alone && i < usage->heap_count; i++)
		if (usage->heaps[i].allocator == region->allocator &&
			usage->heaps[i].kind == region->kind) {
			counter->row = &usage->heaps[i];
			counter->row->regions++;
			return true;
		}
	if (usage->heap_count == usage->heap_capacity) {
		const size_t wanted = 2 * usage->heap_capacity + 16;
		struct usage_heap *grown = reallocarray(usage->heaps, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		usage->heaps = grown;
		usage->heap_capacity = wanted;
	}
	counter->row = &usage->heaps[usage->heap_count++];
	*counter->row = (struct usage_heap){.allocator = region->allocator,
		.kind = region->kind,
		.address = region->start,
		.regions = 1};
	return true;
}

static void region_count(struct counter *counter, const struct heap_region *region)
{
	const struct heap *heap = counter->heap;
	const size_t end = region_end_slot(region);
	size_t before = SIZE_MAX;
	for (size_t cell = region->slot / 64; cell * 64 < end && atomic_load(counter->stop) == 0;
		cell++)
		for (uint64_t bits = heap->cells[cell].starts; bits != 0; bits &= bits - 1) {
			const size_t slot = cell * 64 + (unsigned)__builtin_ctzll(bits);
			if (slot >= end)
				break;
			if (before != SIZE_MAX)
				block_add(counter, region_address(region, before),
					(uint64_t)(slot - before) << region->unit_bits,
					heap_is_used(heap, before));
			before = slot;
		}
	if (before == SIZE_MAX)
		return;
	const uint64_t last = region_address(region, before);
	block_add(counter, last, region->end + region->lead - last, heap_is_used(heap, before));
	run_end(counter, region->end, true);
}

// ---- the whole

static int heap_compare(const void *left, const void *right)
{
	const struct usage_heap *a = left, *b = right;
	const uint64_t x = a->used.bytes + a->free.bytes, y = b->used.bytes + b->free.bytes;
	if (x != y)
		return x > y ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

static int size_compare(const void *left, const void *right)
{
	const struct usage_size *a = left, *b = right;
	if (a->used.bytes != b->used.bytes)
		return a->used.bytes > b->used.bytes ? -1 : 1;
	if (a->free.bytes != b->free.bytes)
		return a->free.bytes > b->free.bytes ? -1 : 1;
	return a->least < b->least ? -1 : a->least > b->least;
}

static int block_compare(const void *left, const void *right)
{
	return block_less(left, right) ? 1 : block_less(right, left) ? -1 : 0;
}

static void usage_sort(struct usage *usage)
{
	size_t kept = 0;
	for (size_t i = 0; i < CLASSES; i++)
		if (usage->sizes[i].most > 0)
			usage->sizes[kept++] = usage->sizes[i];
	usage->size_count = kept;
	qsort(usage->sizes, kept, sizeof *usage->sizes, size_compare);
	if (usage->heap_count > 0)
		qsort(usage->heaps, usage->heap_count, sizeof *usage->heaps, heap_compare);
	if (usage->block_count > 0)
		qsort(usage->blocks, usage->block_count, sizeof *usage->blocks, block_compare);
}

bool usage_init(const struct image *image, const struct heap *heap, size_t largest,
	const atomic_int *stop, struct usage *ret)
{
	struct counter counter = {.image = image, .heap = heap, .stop = stop, .usage = ret};
	*ret = (struct usage){.block_most = largest};
	ret->sizes = calloc(CLASSES, sizeof *ret->sizes);
	ret->blocks = calloc(largest + 1, sizeof *ret->blocks);
	counter.buffer = malloc(BUFFER_SIZE);
	bool ok = ret->sizes != NULL && ret->blocks != NULL && counter.buffer != NULL;
	for (size_t i = 0; ok && i < heap->region_count; i++) {
		ok = heap_add(&counter, &heap->regions[i]);
		if (ok)
			region_count(&counter, &heap->regions[i]);
	}
	free(counter.buffer);
	if (ok)
		usage_sort(ret);
	else
		usage_deinit(ret);
	ret->partial = atomic_load(stop) != 0;
	return ok;
}

void usage_deinit(struct usage *usage)
{
	free(usage->heaps);
	free(usage->sizes);
	free(usage->blocks);
	*usage = (struct usage){0};
}
