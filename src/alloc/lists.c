// SPDX-License-Identifier: MIT
#include "alloc/lists.h"

#define SMALL_BINS 64
#define BINS_MAX 76
// A list of a thread's cache is not longer: its length has 16 bits.
#define CACHED_MAX 65535
#define FASTBINS_MAX 11

// What a thread's cache looks like.
struct layout {
	unsigned count_size; // bytes of a count
	unsigned bins;
	bool room; // counts say how much room is left
};

// By the size of its chunk, which can be a unit more than is needed.
static bool layout_of(const struct chains *chains, uint64_t size, struct layout *ret)
{
	static const struct layout layouts[] = {{1, 64, false}, {2, 64, false}, {2, 76, true}};
	const size_t word = chains->word, unit = 2 * word;
	for (unsigned i = 0; i < sizeof layouts / sizeof *layouts; i++) {
		const uint64_t wanted = layouts[i].bins * (layouts[i].count_size + word) + word;
		const uint64_t least = (wanted + unit - 1) / unit * unit;
		// With words of 4 bytes chunks are multiples of 8 or of 16.
		if (size < least || size > least + unit)
			continue;
		*ret = layouts[i];
		return true;
	}
	return false;
}

struct cache {
	uint64_t entries[BINS_MAX];
	unsigned counts[BINS_MAX];
	unsigned most; // of the counts
};

static void cache_load(const struct chains *chains, const struct layout *layout,
	const unsigned char *chunk, struct cache *ret)
{
	const size_t word = chains->word;
	const unsigned char *counts = chunk + 2 * word;
	const unsigned char *entries = counts + (size_t)layout->bins * layout->count_size;
	ret->most = 0;
	for (unsigned i = 0; i < layout->bins; i++) {
		ret->entries[i] = chains_load(chains, entries + i * word);
		ret->counts[i] = layout->count_size == 1
					 ? counts[i]
					 : load_u16(counts + 2 * (size_t)i, chains->order);
		if (ret->counts[i] > ret->most)
			ret->most = ret->counts[i];
	}
}

bool cache_is_likely(const struct chains *chains, const unsigned char *chunk, uint64_t size)
{
	struct layout layout;
	struct cache cache;
	unsigned lists = 0, wrong = 0;
	if (!layout_of(chains, size, &layout))
		return false;
	cache_load(chains, &layout, chunk, &cache);
	for (unsigned i = 0; i < layout.bins; i++) {
		const bool empty = cache.counts[i] == (layout.room ? cache.most : 0);
		if (cache.entries[i] % (2 * chains->word) != 0)
			return false;
		lists += cache.entries[i] != 0;
		wrong += empty != (cache.entries[i] == 0);
	}
	// The thread may be about to change one.
	return lists > 0 && wrong <= 1;
}

// ---- following lists

// Links are as they are, or hidden.
enum links { LINKS_PLAIN, LINKS_HIDDEN, LINKS_COUNT };

// So many chunks of a list are enough to see how they are linked.
#define TRIAL_MAX 1000
// And so many of all lists: more are in damaged dumps only.
#define TRIALS_MAX ((size_t)1 << 20)

struct follower {
	const struct lists_heap *of;
	uint64_t word, unit, header; // bytes: of a size field, of alignment, before an object
	enum links links;
	size_t right[LINKS_COUNT]; // lists that are sound if links are so
	size_t tried;		   // chunks, to find that out
	bool trial;		   // only find that out
	bool enough;		   // no more chunks are wanted
	struct lists_result result;
};

// A list of chunks of some sizes. Pointers lead so many bytes into a chunk.
struct list {
	uint64_t first, ahead;
	uint64_t least, most;
	size_t limit; // it has no more chunks
};

// The chunk that a pointer of a list leads to, if it is one.
static bool list_chunk(
	const struct follower *follower, const struct list *list, uint64_t pointer, uint64_t *size)
{
	return follower->of->in_use(follower->of->context, pointer - list->ahead, size) &&
	       *size >= list->least && *size <= list->most;
}

// The link of a chunk, two words into it.
static bool link_read(
	const struct follower *follower, uint64_t chunk, enum links links, uint64_t *ret)
{
	const uint64_t at = chunk + follower->header;
	if (!image_read_word(follower->of->chains->image, at, ret))
		return false;
	if (links == LINKS_HIDDEN)
		*ret ^= at >> 12;
	return true;
}

// Note with what kind of links the list ends as it should.
static void list_try(struct follower *follower, const struct list *list)
{
	for (enum links links = 0; links < LINKS_COUNT; links++) {
		uint64_t at = list->first, size;
		size_t count = 0;
		while (at != 0 && count < TRIAL_MAX && count < list->limit &&
			follower->tried++ < TRIALS_MAX && list_chunk(follower, list, at, &size) &&
			link_read(follower, at - list->ahead, links, &at))
			count++;
		follower->right[links] += at == 0 || count == TRIAL_MAX;
	}
}

static void list_follow(struct follower *follower, const struct list *list, enum list_kind kind)
{
	const struct lists_heap *of = follower->of;
	uint64_t at = list->first, size;
	if (follower->trial) {
		list_try(follower, list);
		return;
	}
	for (size_t count = 0; at != 0 && !follower->enough && count < list->limit &&
			       list_chunk(follower, list, at, &size);
		count++) {
		follower->enough = !of->take(of->context, at - list->ahead, size, kind);
		if (!link_read(follower, at - list->ahead, follower->links, &at))
			break;
	}
	follower->result.broken += at != 0 && !follower->enough;
}

// The sizes of chunks in a list of a cache. With words of 4 bytes, alignment is 8 or 16.
static void bin_sizes(
	uint64_t unit, unsigned bin, unsigned alignment, uint64_t *least, uint64_t *most)
{
	const uint64_t smallest = 2 * unit;
	if (bin < SMALL_BINS) {
		*least = *most = smallest + (uint64_t)bin * alignment;
		return;
	}
	// From the largest of the others on: large_csize2tidx.
	const uint64_t largest = smallest + (uint64_t)(SMALL_BINS - 1) * alignment;
	const unsigned power = 63 - (unsigned)__builtin_clzll(largest) + bin - SMALL_BINS;
	*least = max_u64(largest + 1, (uint64_t)1 << power);
	*most = ((uint64_t)2 << power) - 1;
}

// Whether the first chunks of most lists of a cache are what they should be.
static bool cache_is_sound(const struct follower *follower, const struct layout *layout,
	const struct cache *cache, unsigned alignment)
{
	unsigned right = 0, wrong = 0;
	for (unsigned i = 0; i < layout->bins; i++) {
		uint64_t size, least, most;
		if (cache->entries[i] == 0)
			continue;
		bin_sizes(follower->unit, i, alignment, &least, &most);
		const struct list list = {.ahead = follower->header, .least = least, .most = most};
		const bool sound = list_chunk(follower, &list, cache->entries[i], &size);
		right += sound;
		wrong += !sound;
	}
	// One damaged size can hide several of them.
	return right > wrong && (wrong == 0 || right > 1);
}

static void cache_follow(struct follower *follower, uint64_t address)
{
	const struct chains *chains = follower->of->chains;
	unsigned char bytes[CACHE_BYTES_MAX];
	struct layout layout;
	struct cache cache;
	uint64_t size;
	if (!follower->of->in_use(follower->of->context, address, &size) || size > CACHE_SIZE_MAX ||
		image_read(chains->image, address, bytes, (size_t)size + chains->word) !=
			size + chains->word ||
		!layout_of(chains, size, &layout))
		return;
	cache_load(chains, &layout, bytes, &cache);
	unsigned alignment = 16;
	if (!cache_is_sound(follower, &layout, &cache, alignment)) {
		alignment = 8;
		if (chains->word == 8 || !cache_is_sound(follower, &layout, &cache, alignment))
			return;
	}
	follower->result.caches += !follower->trial;
	for (unsigned i = 0; i < layout.bins; i++) {
		struct list list = {
			.first = cache.entries[i], .ahead = follower->header, .limit = CACHED_MAX};
		bin_sizes(follower->unit, i, alignment, &list.least, &list.most);
		if (list.first != 0)
			list_follow(follower, &list, LIST_CACHE);
	}
}

static void fastbins_follow(struct follower *follower, const struct arena *arena)
{
	const struct lists_heap *of = follower->of;
	const uint64_t word = follower->word;
	for (unsigned i = 1; i <= FASTBINS_MAX; i++) {
		uint64_t first, size;
		if (!image_read_word(of->chains->image, arena->bins - (2 + i) * word, &first) ||
			first == 0 || !of->in_use(of->context, first, &size))
			continue;
		// fastbin_index; there are 10 of them, or 11 with words of 4 bytes and chunks of
		// multiples of 16.
		const uint64_t index = (size >> (word == 8 ? 4 : 3)) - 2;
		if (index + i != 10 && (word == 8 || index + i != 11))
			continue;
		const struct list list = {
			.first = first, .least = size, .most = size, .limit = SIZE_MAX};
		list_follow(follower, &list, LIST_FAST);
	}
}

struct lists_result lists_follow(
	const struct lists_heap *of, const struct addresses *caches, const struct arenas *arenas)
{
	const uint64_t word = of->chains->word;
	struct follower follower = {.of = of, .word = word, .unit = 2 * word, .header = 2 * word};
	for (unsigned pass = 0; pass < 2; pass++) {
		follower.trial = pass == 0;
		for (size_t i = 0; i < caches->count; i++)
			cache_follow(&follower, caches->list[i]);
		for (size_t i = 0; i < arenas->count; i++)
			fastbins_follow(&follower, &arenas->list[i]);
		follower.links = follower.right[LINKS_HIDDEN] > follower.right[LINKS_PLAIN]
					 ? LINKS_HIDDEN
					 : LINKS_PLAIN;
	}
	return follower.result;
}

// ---- in a heap that was walked

struct cleaner {
	const struct chains *chains;
	struct heap *heap;
};

static bool heap_slot_of(const struct heap *heap, uint64_t address, size_t *slot)
{
	const struct heap_region *region = chunk_region(heap, address, heap->word);
	if (region == NULL || region->allocator != HEAP_GLIBC || region->kind == HEAP_MAPPED ||
		(address - region->start) % (2 * heap->word) != 0)
		return false;
	*slot = chunk_slot(region, address);
	return true;
}

static bool cleaner_in_use(void *context, uint64_t address, uint64_t *size)
{
	const struct cleaner *cleaner = context;
	size_t slot;
	if (!heap_slot_of(cleaner->heap, address, &slot) || !heap_is_used(cleaner->heap, slot) ||
		!image_read_word(cleaner->chains->image, address + cleaner->heap->word, size))
		return false;
	*size &= ~(uint64_t)CHUNK_FLAGS;
	return true;
}

// Take a chunk off those in use: so a ring ends, too.
static bool cleaner_take(void *context, uint64_t address, uint64_t size, enum list_kind kind)
{
	struct heap *heap = ((const struct cleaner *)context)->heap;
	struct heap_tally *tally = kind == LIST_CACHE ? &heap->cached : &heap->fast;
	size_t slot;
	if (heap_slot_of(heap, address, &slot))
		heap->cells[slot / 64].used &= ~((uint64_t)1 << slot % 64);
	heap->in_use.count--;
	heap->in_use.bytes -= size;
	tally->count++;
	tally->bytes += size;
	return true;
}

void lists_clear(const struct chains *chains, const struct addresses *caches,
	const struct arenas *arenas, struct heap *heap)
{
	struct cleaner cleaner = {chains, heap};
	const struct lists_heap of = {chains, &cleaner, cleaner_in_use, cleaner_take};
	const struct lists_result result = lists_follow(&of, caches, arenas);
	heap->caches += result.caches;
	heap->lists_broken += result.broken;
}
