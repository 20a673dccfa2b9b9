// SPDX-License-Identifier: MIT
#include "alloc/freed.h"

#include <stdlib.h>

#include "alloc/arena.h"
#include "alloc/lists.h"

// Of a place, so much is looked at: the memory of threads is small, and so is that of the dynamic
// linker.
#define PLACE_MAX ((uint64_t)1 << 20)
// Of all places together.
#define PLACES_MAX ((uint64_t)64 << 20)
#define BLOCK_SIZE ((size_t)16 << 10)
// Of the heap's beginning.
#define BREAK_FRONT ((uint64_t)16 << 10)
// More threads are in damaged dumps only.
#define CACHES_MAX ((size_t)1 << 16)

struct finder {
	struct chains chains;
	const struct places *places;
	unsigned char *block; // BLOCK_SIZE; owned
	uint64_t left;	      // bytes that may be looked at
	uint64_t low, high;   // all heaps that grow are between
	struct addresses caches;
	struct addresses chunks;
	size_t most;
	bool more, lost; // lost: there was no memory
};

static bool finder_in_use(void *context, uint64_t address, uint64_t *size)
{
	const struct finder *finder = context;
	const struct image *image = finder->chains.image;
	const uint64_t word = finder->chains.word;
	uint64_t next;
	if (address % (2 * word) != 0 && (word == 8 || address % 4 != 0))
		return false;
	if (!image_read_word(image, address + word, size) || (*size & IS_MMAPPED) != 0)
		return false;
	*size = chunk_size(*size);
	return *size >= 4 * word && *size <= UINT64_MAX - address - word &&
	       image_read_word(image, address + *size + word, &next) && (next & PREV_INUSE) != 0;
}

static bool finder_take(void *context, uint64_t address, uint64_t size, enum list_kind kind)
{
	struct finder *finder = context;
	(void)size;
	(void)kind;
	finder->more = finder->chunks.count == finder->most;
	finder->lost = !finder->more && !addresses_add(&finder->chunks, address);
	return !finder->more && !finder->lost;
}

// ---- caches

// Whether a word is a pointer that a thread keeps of its cache.
static bool cache_is_at(struct finder *finder, uint64_t pointer)
{
	const struct chains *chains = &finder->chains;
	const uint64_t chunk = pointer - 2 * chains->word;
	unsigned char bytes[CACHE_BYTES_MAX];
	uint64_t size;
	return finder_in_use(finder, chunk, &size) && size >= CACHE_SIZE_MIN &&
	       size <= CACHE_SIZE_MAX &&
	       image_read(chains->image, chunk, bytes, (size_t)size + chains->word) ==
		       size + chains->word &&
	       cache_is_likely(chains, bytes, size);
}

static bool caches_scan(struct finder *finder, uint64_t start, uint64_t end)
{
	const size_t word = finder->chains.word;
	uint64_t at = (start + word - 1) / word * word;
	end = min_u64(end, add_saturated(at, min_u64(PLACE_MAX, finder->left)));
	while (at < end) {
		const size_t size = image_read(finder->chains.image, at, finder->block,
			(size_t)min_u64(BLOCK_SIZE, end - at));
		for (size_t i = 0; i + word <= size; i += word) {
			const uint64_t value = chains_load(&finder->chains, finder->block + i);
			if (value - finder->low >= finder->high - finder->low ||
				value % (2 * word) != 0 || !cache_is_at(finder, value))
				continue;
			if (finder->caches.count == CACHES_MAX)
				return true;
			if (!addresses_add(&finder->caches, value - 2 * word))
				return false;
		}
		finder->left -= min_u64(finder->left, size + word);
		// What the dump has not is skipped.
		at = size >= word ? at + size / word * word : (at + PAGE) / PAGE * PAGE;
	}
	return true;
}

// The lowest stack pointer in a stack; its start, if there is none.
static uint64_t stack_pointer(const struct finder *finder, const struct span *span)
{
	const struct image_process *process = &image_info(finder->chains.image)->process;
	uint64_t ret = span->end;
	for (size_t i = 0; i < process->thread_count; i++) {
		const uint64_t pointer = process->threads[i].stack_pointer;
		if (pointer >= span->start && pointer < span->end)
			ret = min_u64(ret, pointer);
	}
	return ret < span->end ? ret : span->start;
}

static bool place_scan(struct finder *finder, size_t index)
{
	const struct span *span = &finder->places->spans[index];
	const uint64_t size = span->end - span->start;
	switch (finder->places->list[index].type) {
	case PLACE_BREAK:
		return caches_scan(finder, span->start, span->start + min_u64(size, BREAK_FRONT));
	case PLACE_ANON:
		return size > PLACE_MAX || caches_scan(finder, span->start, span->end);
	case PLACE_STACK: {
		// Its thread's storage is at its end.
		const uint64_t start = stack_pointer(finder, span);
		return caches_scan(
			finder, max_u64(start, span->end - min_u64(size, PLACE_MAX)), span->end);
	}
	case PLACE_MODULE:
	case PLACE_ARENA:
	case PLACE_BLOCKS:
		break;
	}
	return true;
}

static void extent_find(struct finder *finder)
{
	const struct places *places = finder->places;
	finder->low = UINT64_MAX;
	for (size_t i = 0; i < places->count; i++) {
		if (places->list[i].type != PLACE_BREAK && places->list[i].type != PLACE_ARENA)
			continue;
		finder->low = min_u64(finder->low, places->spans[i].start);
		finder->high = max_u64(finder->high, places->spans[i].end);
	}
}

static bool caches_find(struct finder *finder)
{
	extent_find(finder);
	for (size_t i = 0; finder->low < finder->high && i < finder->places->count; i++)
		if (!place_scan(finder, i))
			return false;
	addresses_sort(&finder->caches);
	addresses_unite(&finder->caches);
	return true;
}

// ---- the whole

static bool finder_run(struct finder *finder)
{
	const struct lists_heap of = {&finder->chains, finder, finder_in_use, finder_take};
	struct arenas arenas;
	size_t used = 0;
	bool ok = arenas_find(&finder->chains, finder->places, &arenas);
	for (size_t i = 0; i < arenas.count; i++)
		used += arenas.list[i].top != 0;
	if (ok && used > 0) {
		ok = caches_find(finder);
		if (ok)
			lists_follow(&of, &finder->caches, &arenas);
	}
	arenas_deinit(&arenas);
	return ok && !finder->lost;
}

bool freed_find(const struct image *image, const struct places *places, size_t most,
	struct error *err, struct freed *ret)
{
	const struct image_info *info = image_info(image);
	*ret = (struct freed){0};
	if (info->in_order || info->format != IMAGE_ELF_CORE || info->overridden)
		return true;
	struct finder finder = {
		.chains = {.image = image, .word = info->word_size, .order = info->order},
		.places = places,
		.block = malloc(BLOCK_SIZE),
		.left = PLACES_MAX,
		.most = most,
	};
	const bool ok = (finder.block != NULL && finder_run(&finder)) || error_memory(err);
	free(finder.block);
	free(finder.caches.list);
	ret->all = !finder.more;
	addresses_sort(&finder.chunks);
	addresses_unite(&finder.chunks);
	ret->list = finder.chunks.list;
	ret->count = finder.chunks.count;
	if (!ok)
		freed_deinit(ret);
	return ok;
}

void freed_deinit(struct freed *freed)
{
	free(freed->list);
	*freed = (struct freed){0};
}
