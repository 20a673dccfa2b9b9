// SPDX-License-Identifier: MIT
#include "heap/lists.h"

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
	const unsigned word = chains->word, unit = 2 * word;
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
	const unsigned word = chains->word;
	const unsigned char *counts = chunk + 2 * word;
	const unsigned char *entries = counts + layout->bins * layout->count_size;
	ret->most = 0;
	for (unsigned i = 0; i < layout->bins; i++) {
		ret->entries[i] = word_load(entries + i * word, word, chains->order);
		ret->counts[i] = layout->count_size == 1 ? counts[i]
							 : load_u16(counts + 2 * i, chains->order);
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

enum links { LINKS_UNKNOWN, LINKS_PLAIN, LINKS_HIDDEN };

struct cleaner {
	const struct chains *chains;
	struct heap *heap;
	enum links links;
};

// Whether a chunk in use begins at address, and its size.
static bool chunk_in_use(
	const struct cleaner *cleaner, uint64_t address, size_t *slot, uint64_t *size)
{
	const struct heap *heap = cleaner->heap;
	const struct heap_region *region = heap_region_at(heap, address);
	if (region == NULL || region->kind == HEAP_MAPPED ||
		(address - region->start) % heap->unit != 0)
		return false;
	*slot = heap_slot(heap, region, address);
	if (!heap_is_used(heap, *slot) ||
		!image_read_word(cleaner->chains->image, address + heap->word, size))
		return false;
	*size &= ~(uint64_t)CHUNK_FLAGS;
	return true;
}

// What the link at address leads to: to what is `ahead` bytes into a chunk, or to the end of the
// list, 0. False if neither.
static bool link_follow(struct cleaner *cleaner, uint64_t address, uint64_t ahead, uint64_t *ret)
{
	uint64_t stored, size;
	size_t slot;
	if (!image_read_word(cleaner->chains->image, address, &stored))
		return false;
	const uint64_t shown = stored ^ address >> 12;
	const bool hidden = shown == 0 || chunk_in_use(cleaner, shown - ahead, &slot, &size);
	const bool plain = stored == 0 || chunk_in_use(cleaner, stored - ahead, &slot, &size);
	if (cleaner->links == LINKS_UNKNOWN && hidden != plain)
		cleaner->links = hidden ? LINKS_HIDDEN : LINKS_PLAIN;
	*ret = cleaner->links == LINKS_PLAIN ? stored : shown;
	return cleaner->links == LINKS_PLAIN ? plain : hidden;
}

// Take the chunks of a list off those in use. The link of a chunk is two words into it. Sizes are
// from least to most. Returns how many there were.
static size_t list_clear(struct cleaner *cleaner, uint64_t first, uint64_t ahead, uint64_t least,
	uint64_t most, size_t limit, struct heap_tally *tally)
{
	struct heap *heap = cleaner->heap;
	uint64_t at = first, size;
	size_t slot, count = 0;
	for (; at != 0; count++) {
		const uint64_t chunk = at - ahead;
		// A ring ends here too: what has been seen is no longer in use.
		if (count == limit || !chunk_in_use(cleaner, chunk, &slot, &size) || size < least ||
			size > most)
			break;
		const bool sound = link_follow(cleaner, chunk + heap->header, ahead, &at);
		heap->cells[slot / 64].used &= ~((uint64_t)1 << slot % 64);
		heap->in_use.count--;
		heap->in_use.bytes -= size;
		tally->count++;
		tally->bytes += size;
		if (!sound) {
			count++;
			break;
		}
	}
	heap->lists_broken += at != 0;
	return count;
}

// The sizes of chunks in a list of a cache. With words of 4 bytes, alignment is 8 or 16.
static void bin_sizes(
	const struct heap *heap, unsigned bin, unsigned alignment, uint64_t *least, uint64_t *most)
{
	const uint64_t smallest = 2 * (uint64_t)heap->unit;
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

// Whether the first chunks of all lists of a cache are what they should be.
static bool cache_is_sound(const struct cleaner *cleaner, const struct layout *layout,
	const struct cache *cache, unsigned alignment)
{
	unsigned right = 0, wrong = 0;
	for (unsigned i = 0; i < layout->bins; i++) {
		uint64_t size, least, most;
		size_t slot;
		if (cache->entries[i] == 0)
			continue;
		bin_sizes(cleaner->heap, i, alignment, &least, &most);
		const bool sound = chunk_in_use(cleaner, cache->entries[i] - cleaner->heap->header,
					   &slot, &size) &&
				   size >= least && size <= most;
		right += sound;
		wrong += !sound;
	}
	return right > 0 && (wrong == 0 || (wrong == 1 && right > 1));
}

static void cache_clear(struct cleaner *cleaner, uint64_t address)
{
	struct heap *heap = cleaner->heap;
	const struct chains *chains = cleaner->chains;
	unsigned char bytes[CACHE_BYTES_MAX];
	struct layout layout;
	struct cache cache;
	uint64_t size;
	size_t slot;
	if (!chunk_in_use(cleaner, address, &slot, &size) || size > CACHE_SIZE_MAX ||
		image_read(chains->image, address, bytes, (size_t)size + chains->word) !=
			size + chains->word ||
		!layout_of(chains, size, &layout))
		return;
	cache_load(chains, &layout, bytes, &cache);
	unsigned alignment = 16;
	if (!cache_is_sound(cleaner, &layout, &cache, alignment)) {
		alignment = 8;
		if (chains->word == 8 || !cache_is_sound(cleaner, &layout, &cache, alignment))
			return;
	}
	heap->caches++;
	for (unsigned i = 0; i < layout.bins; i++) {
		uint64_t least, most;
		bin_sizes(heap, i, alignment, &least, &most);
		if (cache.entries[i] != 0)
			list_clear(cleaner, cache.entries[i], heap->header, least, most, CACHED_MAX,
				&heap->cached);
	}
}

static void fastbins_clear(struct cleaner *cleaner, const struct arena *arena)
{
	struct heap *heap = cleaner->heap;
	const unsigned word = cleaner->chains->word;
	for (unsigned i = 1; i <= FASTBINS_MAX; i++) {
		uint64_t first, size;
		size_t slot;
		if (!image_read_word(cleaner->chains->image, arena->bins - (uint64_t)(2 + i) * word,
			    &first) ||
			first == 0 || !chunk_in_use(cleaner, first, &slot, &size))
			continue;
		// fastbin_index; there are 10 of them, or 11 with words of 4 bytes and chunks of
		// multiples of 16.
		const uint64_t index = (size >> (word == 8 ? 4 : 3)) - 2;
		if (index + i != 10 && (word == 8 || index + i != 11))
			continue;
		list_clear(cleaner, first, 0, size, size, SIZE_MAX, &heap->fast);
	}
}

void lists_clear(const struct chains *chains, const struct addresses *caches,
	const struct arenas *arenas, struct heap *heap)
{
	struct cleaner cleaner = {.chains = chains, .heap = heap};
	for (size_t i = 0; i < caches->count; i++)
		cache_clear(&cleaner, caches->list[i]);
	for (size_t i = 0; i < arenas->count; i++)
		fastbins_clear(&cleaner, &arenas->list[i]);
}
