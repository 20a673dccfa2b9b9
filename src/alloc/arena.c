// SPDX-License-Identifier: MIT
#include "alloc/arena.h"

#include <elf.h>
#include <stdlib.h>

#define BINS 127
#define BINMAP_SIZE 16
// An arena begins so many bytes behind its heap's beginning at most.
#define ARENA_OFFSET_MAX 256
// Before the bins: fastbins and what comes before them. Behind the binmap: five words.
#define WORDS_BEFORE 24
#define WORDS_BEHIND 5
// More are in damaged dumps only.
#define ARENAS_MAX 16384
#define HEAPS_MAX ((size_t)1 << 20)
// Of what looks like an empty bin but belongs to no arena, so much is looked at.
#define FAILURES_MAX 1000
#define BLOCK_SIZE ((size_t)64 << 10)

struct finder {
	const struct chains *chains;
	struct arenas *arenas;
	unsigned char *block; // BLOCK_SIZE; owned
	unsigned failures;
	size_t segment; // the first one that may be of use for the next place
};

static uint64_t load(const struct chains *chains, const unsigned char *bytes, size_t word)
{
	return chains_load(chains, bytes + word * chains->word);
}

static bool is_page(uint64_t value)
{
	return value != 0 && value % PAGE == 0;
}

bool heap_info_read(const struct chains *chains, uint64_t address, struct heap_info *ret)
{
	const size_t word = chains->word;
	unsigned char bytes[4 * 8];
	if (image_read(chains->image, address, bytes, 4 * word) != 4 * word)
		return false;
	*ret = (struct heap_info){
		load(chains, bytes, 0), load(chains, bytes, 1), load(chains, bytes, 2)};
	const uint64_t writable = load(chains, bytes, 3), inside = ret->arena - address;
	if (!is_page(ret->size) || !is_page(writable) || ret->size > writable ||
		writable > (uint64_t)1 << 32 || ret->previous % PAGE != 0 || ret->arena % word != 0)
		return false;
	if (ret->previous == 0)
		return inside >= 4 * (uint64_t)word && inside <= ARENA_OFFSET_MAX;
	return ret->arena != 0 && ret->arena % PAGE <= ARENA_OFFSET_MAX && ret->previous != address;
}

// Whether the word at address, which a bin leads to, leads back to it. What is not in the dump, but
// was in the process, may.
static bool leads_back(const struct chains *chains, uint64_t address, uint64_t chunk)
{
	uint64_t word;
	if (image_read_word(chains->image, address, &word))
		return word == chunk;
	return image_segment_at(chains->image, address) != NULL;
}

// Whether the pair of words at the address of a bin are the ends of its ring.
static bool bin_is_sound(const struct chains *chains, uint64_t address, const unsigned char *bytes)
{
	const size_t word = chains->word;
	const uint64_t chunk = address - 2 * word;
	const uint64_t first = load(chains, bytes, 0), last = load(chains, bytes, 1);
	if (first == chunk || last == chunk)
		return first == last;
	return first % (2 * word) == 0 && last % (2 * word) == 0 &&
	       leads_back(chains, first + 3 * (uint64_t)word, chunk) &&
	       leads_back(chains, last + 2 * (uint64_t)word, chunk);
}

static bool bins_are_sound(
	const struct chains *chains, uint64_t address, const unsigned char *bytes)
{
	for (unsigned i = 0; i < BINS; i++) {
		const size_t offset = 2 * (size_t)i * chains->word;
		if (!bin_is_sound(chains, address + offset, bytes + offset))
			return false;
	}
	return true;
}

// What is around the bins at an address, where bytes are of it and of the words around it.
static struct arena arena_read(
	const struct chains *chains, uint64_t address, const unsigned char *bytes)
{
	const size_t word = chains->word;
	const uint64_t behind = address + (size_t)2 * BINS * word + BINMAP_SIZE;
	const unsigned char *tail = bytes + (size_t)2 * BINS * word + BINMAP_SIZE;
	struct arena ret = {.bins = address, .end = behind + 3 * word};
	struct heap_info info;
	image_read_word(chains->image, address - 2 * word, &ret.top);
	// None has been made.
	if (ret.top == address - 2 * word)
		ret.top = 0;
	ret.next = load(chains, tail, 0);
	// A link before it is either 0 or greater than both, a number of threads is small.
	for (size_t i = 1; i < WORDS_BEHIND - 1; i++) {
		const uint64_t system = load(chains, tail, i);
		if (system >= PAGE && load(chains, tail, i + 1) >= system) {
			ret.system = system;
			ret.end = behind + i * word;
			break;
		}
	}
	const uint64_t page = address / PAGE * PAGE;
	ret.further =
		heap_info_read(chains, page, &info) && info.previous == 0 && info.arena < address;
	return ret;
}

static bool arena_add(struct finder *finder, const struct arena *arena)
{
	struct arenas *arenas = finder->arenas;
	for (size_t i = 0; i < arenas->count; i++)
		if (arenas->list[i].bins == arena->bins)
			return true;
	if (arenas->count == ARENAS_MAX)
		return true;
	if (arenas->count == arenas->capacity) {
		const size_t wanted = 2 * arenas->capacity + 8;
		struct arena *list = reallocarray(arenas->list, wanted, sizeof *list);
		if (list == NULL)
			return false;
		arenas->list = list;
		arenas->capacity = wanted;
	}
	arenas->list[arenas->count++] = *arena;
	return true;
}

// Read size bytes at address; what the dump has not before the page of the last one becomes zeros.
static bool read_around(const struct chains *chains, uint64_t address, unsigned char *bytes,
	size_t size, size_t needed)
{
	const size_t spare = size - needed;
	if (image_read(chains->image, address, bytes, size) == size)
		return true;
	const size_t skipped = (size_t)min_u64(spare, -address % PAGE);
	memset(bytes, 0, skipped);
	return image_read(chains->image, address + skipped, bytes + skipped, size - skipped) ==
	       size - skipped;
}

// Find the bins to which an empty one at address belongs. False if there are none.
static bool arena_around(struct finder *finder, uint64_t address, struct arena *ret)
{
	const struct chains *chains = finder->chains;
	const size_t word = chains->word;
	unsigned char bytes[8 * (4 * BINS + WORDS_BEHIND) + BINMAP_SIZE];
	// The bins begin here at the earliest, if it is the last one.
	const size_t before = (size_t)2 * (BINS - 1) * word;
	const size_t behind = (size_t)(2 * BINS + WORDS_BEHIND) * word + BINMAP_SIZE;
	if (!read_around(chains, address - before, bytes, before + behind, behind))
		return false;
	for (size_t i = 0; i < BINS; i++) {
		const size_t back = 2 * i * word;
		if (bins_are_sound(chains, address - back, bytes + before - back)) {
			*ret = arena_read(chains, address - back, bytes + before - back);
			return true;
		}
	}
	return false;
}

// Look for arenas from start to end. False if memory ran out.
static bool arena_scan(struct finder *finder, uint64_t start, uint64_t end)
{
	const struct chains *chains = finder->chains;
	const size_t word = chains->word;
	uint64_t at = (start + word - 1) / word * word;
	while (at < end && finder->failures < FAILURES_MAX) {
		const size_t size = image_read(
			chains->image, at, finder->block, (size_t)min_u64(BLOCK_SIZE, end - at));
		size_t i = 0;
		for (; i + 2 * word <= size; i += word) {
			const uint64_t chunk = at + i - 2 * word;
			struct arena arena;
			if (chains_load(chains, finder->block + i) != chunk ||
				chains_load(chains, finder->block + i + word) != chunk)
				continue;
			if (!arena_around(finder, at + i, &arena)) {
				if (++finder->failures == FAILURES_MAX)
					break;
				continue;
			}
			if (!arena_add(finder, &arena))
				return false;
			// Behind it.
			i = (size_t)min_u64(size, arena.end - at);
			i -= i % word;
		}
		if (i == 0)
			// The dump has not this page.
			at = (at + PAGE) / PAGE * PAGE;
		else
			at += i;
		if (at < start)
			break;
	}
	return true;
}

// Look for the arena whose structure begins at address.
static bool arena_scan_at(struct finder *finder, uint64_t address)
{
	const uint64_t word = finder->chains->word;
	return arena_scan(
		finder, address, add_saturated(address, (WORDS_BEFORE + 2 * BINS) * word));
}

static bool heap_add(struct finder *finder, uint64_t address)
{
	return finder->arenas->heaps.count == HEAPS_MAX ||
	       addresses_add(&finder->arenas->heaps, address);
}

// Find the heaps of an arena from its newest one on, which holds its top.
static bool arena_find_heaps(struct finder *finder, const struct arena *arena)
{
	struct heap_info info;
	uint64_t most = (uint64_t)1 << 20;
	for (; most <= (uint64_t)1 << 32; most *= 2) {
		const uint64_t heap = arena->top & ~(most - 1);
		if (!heap_info_read(finder->chains, heap, &info) || info.arena >= arena->bins ||
			arena->bins - info.arena > ARENA_OFFSET_MAX ||
			arena->top - heap >= info.size)
			continue;
		if (!heap_add(finder, heap))
			return false;
		for (size_t i = 0; i < HEAPS_MAX && info.previous != 0; i++) {
			const uint64_t previous = info.previous, of = info.arena;
			if (!heap_info_read(finder->chains, previous, &info) || info.arena != of)
				break;
			if (!heap_add(finder, previous))
				return false;
		}
		break;
	}
	return true;
}

// Small places that belong to no file may be the data of one of which nothing is known.
#define SMALL_PLACE ((uint64_t)4 << 20)

// Look at those parts of a place that could be written to.
static bool place_scan(struct finder *finder, const struct span *span)
{
	const struct image_info *info = image_info(finder->chains->image);
	while (finder->segment < info->segment_count &&
		info->segments[finder->segment].address + info->segments[finder->segment].size <=
			span->start)
		finder->segment++;
	for (size_t i = finder->segment; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t start = max_u64(span->start, segment->address);
		const uint64_t end = min_u64(span->end, segment->address + segment->present);
		if (segment->address >= span->end)
			break;
		if ((segment->flags & PF_W) != 0 && start < end && !arena_scan(finder, start, end))
			return false;
	}
	return true;
}

static bool places_scan(struct finder *finder, const struct places *places)
{
	struct heap_info info;
	for (size_t i = 0; i < places->count; i++) {
		const struct span *span = &places->spans[i];
		const enum place_type type = places->list[i].type;
		if (type == PLACE_ARENA && heap_info_read(finder->chains, span->start, &info)) {
			if (!heap_add(finder, span->start) || !arena_scan_at(finder, info.arena))
				return false;
		} else if (type == PLACE_MODULE ||
			   (type == PLACE_ANON && span->end - span->start <= SMALL_PLACE)) {
			if (!place_scan(finder, span))
				return false;
		}
	}
	return true;
}

static bool is_in_one(const struct chains *chains, uint64_t start)
{
	unsigned char flags[4];
	return image_read(chains->image, start + 4, flags, 4) == 4 &&
	       (load_u32(flags, chains->order) & 2) == 0;
}

// Arenas are linked in a ring, by where their structures begin.
static void arenas_find_starts(const struct chains *chains, struct arenas *arenas)
{
	struct addresses links = {0};
	for (size_t i = 0; i < arenas->count; i++)
		if (!addresses_add(&links, arenas->list[i].next))
			break;
	addresses_sort(&links);
	for (size_t i = 0; i < arenas->count; i++) {
		struct arena *arena = &arenas->list[i];
		arena->start = arena->bins - 2 * (uint64_t)chains->word;
		for (uint64_t k = 3; k < WORDS_BEFORE; k++)
			if (addresses_have(&links, arena->bins - k * chains->word)) {
				arena->start = arena->bins - k * chains->word;
				arena->in_one = !arena->further && is_in_one(chains, arena->start);
			}
	}
	free(links.list);
}

bool arenas_find(const struct chains *chains, const struct places *places, struct arenas *ret)
{
	struct finder finder = {.chains = chains, .arenas = ret, .block = malloc(BLOCK_SIZE)};
	*ret = (struct arenas){0};
	bool ok = finder.block != NULL && places_scan(&finder, places);
	// The list grows by those that are linked.
	for (size_t i = 0; ok && i < ret->count; i++) {
		const struct arena arena = ret->list[i];
		ok = arena_scan_at(&finder, arena.next) &&
		     (!arena.further || arena_find_heaps(&finder, &arena));
	}
	free(finder.block);
	arenas_find_starts(chains, ret);
	// The same heap can have been found twice.
	addresses_sort(&ret->heaps);
	addresses_unite(&ret->heaps);
	return ok;
}

void arenas_deinit(struct arenas *arenas)
{
	free(arenas->list);
	free(arenas->heaps.list);
	*arenas = (struct arenas){0};
}
