// SPDX-License-Identifier: MIT
//
// What the allocator has: --heap.
#include <stdio.h>
#include <stdlib.h>

#include "alloc/usage.h"
#include "answer/answer.h"
#include "answer/leaks.h"
#include "base/bytes.h"
#include "types/largest.h"

static const char *kind_of(const struct usage_heap *heap)
{
	static const char *const names[] = {
		[HEAP_MAIN] = "main",
		[HEAP_ARENA] = "arena",
		[HEAP_MAPPED] = "mapped",
		[HEAP_SLABS] = "slabs",
	};
	return names[heap->kind];
}

// "glibc, jemalloc": those that have heaps.
static void allocators_list(const struct usage *usage, size_t size, char *ret)
{
	bool known[HEAP_ALLOCATORS] = {false};
	size_t used = 0;
	ret[0] = '\0';
	for (size_t i = 0; i < usage->heap_count; i++) {
		const enum heap_allocator allocator = usage->heaps[i].allocator;
		if (known[allocator] || used >= size)
			continue;
		known[allocator] = true;
		used += (size_t)snprintf(ret + used, size - used, "%s%s", used > 0 ? ", " : "",
			heap_allocator_name(allocator));
	}
}

static struct report_heap totals_of(
	const struct heap *heap, const struct usage *usage, const char *allocators)
{
	struct report_heap ret = {
		.allocators = allocators,
		.cached_count = heap->fast.count + heap->cached.count,
		.cached_bytes = heap->fast.bytes + heap->cached.bytes,
		.unwalked_bytes = heap->broken + heap->missing,
		.unknown = usage->partial || heap->partial || usage->heap_count == 0,
	};
	for (size_t i = 0; i < heap->internal_count; i++)
		ret.own_bytes += heap->internals[i].end - heap->internals[i].start;
	for (size_t i = 0; i < usage->heap_count; i++) {
		const struct usage_heap *row = &usage->heaps[i];
		ret.used_count += row->used.count;
		ret.used_bytes += row->used.bytes;
		ret.free_count += row->free.count;
		ret.free_bytes += row->free.bytes;
		ret.end_bytes += row->end_bytes;
		ret.free_pages += row->free_pages;
	}
	return ret;
}

static void heaps_report(const struct usage *usage, size_t most, struct report *report)
{
	report_list(report, REPORT_HEAPS);
	for (size_t i = 0; i < usage->heap_count && i < most; i++) {
		const struct usage_heap *heap = &usage->heaps[i];
		const struct report_heap_row row = {
			.allocator = heap_allocator_name(heap->allocator),
			.kind = kind_of(heap),
			.address = heap->address,
			.used_count = heap->used.count,
			.used_bytes = heap->used.bytes,
			.free_count = heap->free.count,
			.free_bytes = heap->free.bytes,
			.end_bytes = heap->end_bytes,
			.largest_free = heap->largest_free,
			.free_pages = heap->free_pages,
		};
		report_heap(report, &row);
	}
}

static void row_add(struct report_heap_row *row, const struct usage_size *size)
{
	row->used_count += size->used.count;
	row->used_bytes += size->used.bytes;
	row->free_count += size->free.count;
	row->free_bytes += size->free.bytes;
}

// Blocks up to each power of two; all rows, there are few.
static void histogram_report(const struct usage *usage, struct report *report)
{
	struct report_heap_row rows[64] = {0};
	for (size_t i = 0; i < usage->size_count; i++) {
		const struct usage_size *size = &usage->sizes[i];
		const unsigned bits =
			size->most > 1 ? 64 - (unsigned)__builtin_clzll(size->most - 1) : 0;
		row_add(&rows[min_u64(bits, 63)], size);
	}
	report_list(report, REPORT_HISTOGRAM);
	for (unsigned i = 0; i < 64; i++) {
		if (rows[i].used_count == 0 && rows[i].free_count == 0)
			continue;
		rows[i].least = i > 0 ? ((uint64_t)1 << (i - 1)) + 1 : 1;
		rows[i].most = (uint64_t)1 << i;
		report_heap(report, &rows[i]);
	}
}

static void sizes_report(const struct usage *usage, size_t most, struct report *report)
{
	report_list(report, REPORT_SIZES);
	for (size_t i = 0; i < usage->size_count && i < most; i++) {
		struct report_heap_row row = {
			.least = usage->sizes[i].least, .most = usage->sizes[i].most};
		row_add(&row, &usage->sizes[i]);
		report_heap(report, &row);
	}
}

static void blocks_report(const struct large_block *list, size_t count, struct report *report)
{
	report_list(report, REPORT_BLOCKS);
	for (size_t i = 0; i < count; i++) {
		const struct large_block *block = &list[i];
		const struct report_block row = {
			.address = block->address,
			.size = block->size,
			.name = block->name,
			.kind = block->kind,
			.module = block->module,
			.lost = block->lost,
			.holder = block->holder,
			.holder_kind = block->holder_kind,
			.holder_module = block->holder_module,
			.offset_known = block->offset_known,
			.offset = block->offset,
			.where = block->where,
		};
		report_block(report, &row);
	}
}

bool answer_heap(struct dump *dump, struct report *report, struct error *err)
{
	const struct options *options = dump->options;
	const struct image_info *info = image_info(dump->image);
	struct leaks leaks = {0};
	struct usage usage = {0};
	struct large_block *blocks = NULL;
	struct dump_head head = {0};
	char allocators[128];
	bool ok = leaks_reach(dump, "--heap", err, &leaks);
	ok = ok && (usage_init(dump->image, &leaks.heap, options->top, dump->stop, &usage) ||
			   error_memory(err));
	const size_t count = usage.block_count;
	ok = ok && dump_head_init(dump, "heap", info->bytes_present / info->word_size,
			   usage.partial || leaks.heap.partial, err, &head);
	ok = ok && large_blocks_find(dump->image, dump->names, leaks.reach, usage.blocks, count,
			   (unsigned)options->threads, options->redact, err, &blocks);
	if (ok) {
		allocators_list(&usage, sizeof allocators, allocators);
		const struct report_heap totals = totals_of(&leaks.heap, &usage, allocators);
		head.head.heap = &totals;
		report_begin(report, &head.head);
		if (!totals.unknown) {
			heaps_report(&usage, options->top, report);
			histogram_report(&usage, report);
			sizes_report(&usage, options->top, report);
			blocks_report(blocks, reach_partial(leaks.reach) ? 0 : count, report);
		}
		report_end(report);
		ok = dump_flush(dump, report, err);
		head.head.heap = NULL;
	}
	if (ok)
		dump_time(dump, 2, (unsigned)options->threads);
	large_blocks_free(blocks, count);
	dump_head_deinit(&head);
	usage_deinit(&usage);
	leaks_deinit(&leaks);
	return ok;
}
