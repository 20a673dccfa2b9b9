// SPDX-License-Identifier: MIT
#include "alloc/glibc.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/arena.h"
#include "alloc/chunks.h"
#include "alloc/lists.h"
#include "base/huge.h"

struct glibc {
	struct chains chains;
	const struct places *places;
	struct heap *heap;
	struct window window;
	struct arenas arenas;
	struct chain *list; // what fills regions; owned
	size_t count, capacity;
	struct addresses mapped; // chunks that were mapped one by one; owned
	size_t segment;		 // the first one that may be of use for the next place
	size_t other_count;	 // regions that other allocators had before; sorted
};

static bool chain_add(struct glibc *glibc, enum heap_region_kind kind, uint64_t first, uint64_t end,
	struct stretch stretch)
{
	if (glibc->count == glibc->capacity) {
		const size_t wanted = 2 * glibc->capacity + 16;
		struct chain *list = reallocarray(glibc->list, wanted, sizeof *list);
		if (list == NULL)
			return false;
		glibc->list = list;
		glibc->capacity = wanted;
	}
	glibc->list[glibc->count++] = (struct chain){first, stretch};
	const struct heap_region region = chunks_region(kind, first, end, glibc->chains.word);
	return region.start >= end || heap_add_region(glibc->heap, &region);
}

// The first stretch at address or behind, and before end, that the dump has without a gap. False if
// there is none.
static bool present_next(
	const struct glibc *glibc, uint64_t address, uint64_t end, uint64_t *start, uint64_t *stop)
{
	const struct image_info *info = image_info(glibc->chains.image);
	*start = *stop = 0;
	for (size_t i = glibc->segment; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t from = max_u64(address, segment->address);
		const uint64_t to = min_u64(end, segment->address + segment->present);
		if (segment->address >= end || (*stop != 0 && segment->address > *stop))
			break;
		if (from >= to)
			continue;
		if (*stop == 0)
			*start = from;
		else if (from > *stop)
			break;
		*stop = max_u64(*stop, to);
	}
	return *stop != 0;
}

// Segments that end before the place are no longer of use.
static void segments_skip(struct glibc *glibc, uint64_t address)
{
	const struct image_info *info = image_info(glibc->chains.image);
	while (glibc->segment < info->segment_count &&
		info->segments[glibc->segment].address + info->segments[glibc->segment].size <=
			address)
		glibc->segment++;
}

// ---- the heap that grows with brk(2)

// What is not said to be the heap but lies before it in the same segment may be: the break need not
// be at the beginning of a page, and pages of 64 KiB are known.
#define BREAK_BEFORE ((uint64_t)64 << 10)

static uint64_t break_start(const struct glibc *glibc, uint64_t start)
{
	const struct image_segment *segment = image_segment_at(glibc->chains.image, start - 1);
	if (start == 0 || segment == NULL || (segment->flags & PF_W) == 0)
		return start;
	return max_u64(segment->address, start - min_u64(start, BREAK_BEFORE));
}

static void break_note(struct heap *heap, uint64_t chunk, uint64_t address, uint64_t resumed)
{
	if (heap->break_count < HEAP_BREAKS_MAX)
		heap->breaks[heap->break_count] = (struct heap_break){chunk, address, resumed};
	heap->break_count++;
}

// The first chunk from start on was found, but perhaps there were others before it: if the main
// arena has all its memory in one piece, that is as much as it says, and ends with the top.
static void front_check(struct glibc *glibc, uint64_t start, uint64_t first, uint64_t end)
{
	struct heap *heap = glibc->heap;
	const uint64_t unit = 2 * (uint64_t)glibc->chains.word;
	uint64_t lost = 0, field;
	for (size_t i = 0; i < glibc->arenas.count; i++) {
		const struct arena *arena = &glibc->arenas.list[i];
		if (!arena->in_one || arena->top < first || arena->top >= end ||
			!window_word(&glibc->window, arena->top + glibc->chains.word, &field))
			continue;
		const uint64_t top_end = arena->top + chunk_size(field);
		// Less than a chunk is what alignment leaves free.
		const uint64_t missing = arena->system - (top_end - first);
		if (missing < 2 * unit || missing > arena->system)
			continue;
		if (missing <= first - start) {
			lost = missing / unit * unit;
			break_note(heap, first - lost, first - lost, first);
		} else if (top_end < end) {
			break_note(heap, arena->top, top_end, end);
		}
	}
	heap->broken += lost;
	heap->outside += first - min_u64(first, start + lost);
}

// Where the chain of a heap from `from` to `to` should begin, which is damaged so early that there
// is none to be found: the main arena says that its top is in it, and how much it has. False if the
// heap is not malloc's.
static bool front_guess(const struct glibc *glibc, uint64_t from, uint64_t to, uint64_t *ret)
{
	const uint64_t unit = 2 * (uint64_t)glibc->chains.word;
	for (size_t i = 0; i < glibc->arenas.count; i++) {
		const struct arena *arena = &glibc->arenas.list[i];
		if (arena->further || arena->top < from || arena->top >= to)
			continue;
		const bool whole = arena->in_one && arena->system <= to - from &&
				   arena->system >= to - arena->top;
		*ret = whole ? to - arena->system / unit * unit : from;
		return true;
	}
	return false;
}

static bool break_add(struct glibc *glibc, uint64_t start, uint64_t end)
{
	const struct stretch stretch = {end, 0};
	uint64_t at = start, search = break_start(glibc, start), from, to;
	while (at < end && present_next(glibc, at, end, &from, &to)) {
		uint64_t first;
		glibc->heap->missing += from - at;
		if (at != start)
			search = from;
		at = to;
		if (chain_search(&glibc->window, &stretch, search, to, &first)) {
			front_check(glibc, from, first, to);
		} else if (front_guess(glibc, from, to, &first)) {
			glibc->heap->outside += first - from;
		} else {
			glibc->heap->outside += to - from;
			continue;
		}
		if (!chain_add(glibc, HEAP_MAIN, first, to, stretch))
			return false;
	}
	glibc->heap->missing += end - at;
	return true;
}

static bool breaks_add(struct glibc *glibc)
{
	const struct places *places = glibc->places;
	for (size_t i = 0; i < places->count;) {
		const uint64_t start = places->spans[i].start;
		uint64_t end = places->spans[i].end;
		if (places->list[i++].type != PLACE_BREAK)
			continue;
		for (; i < places->count && places->list[i].type == PLACE_BREAK &&
			places->spans[i].start == end;
			i++)
			end = places->spans[i].end;
		glibc->segment = 0;
		if (!break_add(glibc, start, end))
			return false;
	}
	return true;
}

// ---- heaps of further arenas

static bool internal_add(struct heap *heap, uint64_t start, uint64_t end)
{
	return heap_add_range(
		&heap->internals, &heap->internal_count, &heap->internal_capacity, start, end);
}

// Where the first chunk of the heap at address can be: behind its heap_info, of four to six words,
// and the arena, if it is in it, so that objects are aligned. Returns how many places there are.
static size_t first_chunks(const struct glibc *glibc, const struct heap_info *info,
	uint64_t address, uint64_t ret[static 2])
{
	const uint64_t word = glibc->chains.word;
	const struct arena *arena = NULL;
	for (size_t i = 0; i < glibc->arenas.count; i++)
		if (glibc->arenas.list[i].bins - address < info->size)
			arena = &glibc->arenas.list[i];
	if (arena == NULL) {
		ret[0] = address + 4 * word;
		ret[1] = address + 6 * word;
		return 2;
	}
	// Behind system_mem and max_system_mem.
	const uint64_t behind = arena->end + 2 * word;
	ret[0] = ((behind + 2 * word + 15) & ~(uint64_t)15) - 2 * word;
	ret[1] = ((behind + 2 * word + 7) & ~(uint64_t)7) - 2 * word;
	return word == 8 ? 1 : 2;
}

static bool arena_heap_add(struct glibc *glibc, uint64_t address)
{
	struct heap *heap = glibc->heap;
	struct heap_info info;
	uint64_t from, to, places[2] = {0}, first = 0, field;
	if (!heap_info_read(&glibc->chains, address, &info))
		return true;
	const uint64_t end = address + info.size;
	const struct stretch stretch = {end, NON_MAIN_ARENA};
	glibc->segment = 0;
	if (!present_next(glibc, address, end, &from, &to) || from != address) {
		heap->missing += info.size;
		return true;
	}
	const size_t count = first_chunks(glibc, &info, address, places);
	for (size_t i = 0; i < 2 * count; i++) {
		first = places[i % count];
		// If there is no chain, there may be one chunk.
		if (i < count ? chain_begins(&glibc->window, &stretch, first, 1)
			      : chunk_read(&glibc->window, &stretch, first, &field) &&
					(field & PREV_INUSE) != 0)
			break;
		first = 0;
	}
	heap->missing += end - to;
	if (first == 0) {
		if (!chain_search(&glibc->window, &stretch, places[count - 1], to, &first))
			first = to;
		break_note(heap, places[count - 1], places[count - 1], first);
		heap->broken += first - places[count - 1];
		heap->overhead += places[count - 1] - address;
	} else {
		heap->overhead += first - address;
	}
	return internal_add(heap, address, first) &&
	       chain_add(glibc, HEAP_ARENA, first, to, stretch);
}

// ---- chunks that were mapped one by one

// glibc, malloc/malloc.c, sysmalloc_mmap: the chunk of a mapping begins where it begins, but for
// alignment; what is left free before is its first word, with bit 0 for huge pages since 2.35. It
// ends where the mapping ends, or, since 2.43, a header before that.
static bool mapped_read(const struct glibc *glibc, uint64_t page, uint64_t chunk, uint64_t *end)
{
	const size_t word = glibc->chains.word;
	unsigned char bytes[16];
	if (image_read(glibc->chains.image, chunk, bytes, 2 * word) != 2 * word)
		return false;
	const uint64_t before = chains_load(&glibc->chains, bytes);
	const uint64_t field = chains_load(&glibc->chains, bytes + word);
	const uint64_t size = field & ~(uint64_t)CHUNK_FLAGS;
	if ((field & CHUNK_FLAGS) != IS_MMAPPED || (before & ~(uint64_t)1) != chunk - page ||
		size < 4 * (uint64_t)word || size > UINT64_MAX - PAGE - chunk)
		return false;
	*end = chunk + size;
	if (*end % PAGE != 0)
		*end += 2 * word;
	return *end % PAGE == 0;
}

// The chunk that begins the mapping at page, whether it is the first that it had or a later one
// that memalign has cut out. False if there is none.
static bool mapped_find(const struct glibc *glibc, uint64_t page, uint64_t *chunk, uint64_t *end)
{
	const size_t word = glibc->chains.word;
	uint64_t first = page, inner_end;
	if (!mapped_read(glibc, page, first, end)) {
		first += 8;
		if (word == 8 || !mapped_read(glibc, page, first, end))
			return false;
	}
	*chunk = first;
	for (uint64_t alignment = 4 * word; alignment < *end - first && alignment != 0;
		alignment *= 2) {
		// At the first place that is aligned, or, where what is left free before it had to
		// be large enough for a chunk, at the next.
		uint64_t inner = ((first + 2 * word + alignment - 1) & ~(alignment - 1)) - 2 * word;
		for (unsigned i = 0; i < 2; i++, inner += alignment)
			if (inner > first && inner < *end &&
				mapped_read(glibc, page, inner, &inner_end) && inner_end == *end)
				*chunk = inner;
	}
	return true;
}

// Blocks that were mapped one by one are pages apart, if they begin alike in their mappings.
#define MAPPED_UNIT_BITS 4
#define MAPPED_UNIT ((uint64_t)1 << MAPPED_UNIT_BITS)

// present: where what the dump has of it ends.
static bool mapped_add(
	struct glibc *glibc, uint64_t page, uint64_t chunk, uint64_t end, uint64_t present)
{
	struct heap *heap = glibc->heap;
	struct heap_region *last =
		heap->region_count > 0 ? &heap->regions[heap->region_count - 1] : NULL;
	heap->mapped.count++;
	heap->mapped.bytes += end - page;
	heap->missing += end - min_u64(end, present);
	if (!addresses_add(&glibc->mapped, chunk))
		return false;
	const struct heap_region region = {
		.allocator = HEAP_GLIBC,
		.kind = HEAP_MAPPED,
		.start = chunk + 2 * glibc->chains.word,
		.end = min_u64(end, present),
		.unit_bits = MAPPED_UNIT_BITS,
		.slack = (uint8_t)min_u64(chunk - page + 2 * glibc->chains.word, MAPPED_UNIT),
		.lead = chunk - page + 2 * glibc->chains.word,
	};
	// Neighbours that begin alike are one region.
	if (last != NULL && last->kind == HEAP_MAPPED && last->end == page &&
		last->lead == region.lead && region.lead <= MAPPED_UNIT) {
		last->end = region.end;
		return true;
	}
	return region.start >= region.end || heap_add_region(heap, &region);
}

// Whether a part of the main heap that was mapped because brk(2) failed begins at chunk. Such a
// part can be short, but then it ends as it should.
static bool main_begins(struct glibc *glibc, uint64_t chunk, uint64_t end, uint64_t *stop)
{
	const struct stretch stretch = {end, 0};
	uint64_t field;
	if (!chunk_read(&glibc->window, &stretch, chunk, &field) || (field & PREV_INUSE) == 0)
		return false;
	if (chain_end(&glibc->window, &stretch, chunk, stop))
		return true;
	// Where it breaks, it may go on.
	*stop = end;
	return chain_begins(&glibc->window, &stretch, chunk, UINT32_MAX);
}

static bool main_find(
	struct glibc *glibc, uint64_t page, uint64_t end, uint64_t *chunk, uint64_t *stop)
{
	*chunk = page;
	if (main_begins(glibc, page, end, stop))
		return true;
	*chunk = page + 8;
	return glibc->chains.word == 4 && main_begins(glibc, *chunk, end, stop);
}

enum page { PAGE_ZEROS, PAGE_OTHER, PAGE_CHUNK };

// What a page begins with: most can be told from a chunk with one read. main: whether parts of the
// main heap are looked for.
static enum page page_look(const struct glibc *glibc, uint64_t page, bool main)
{
	static const unsigned char zeros[32];
	const size_t word = glibc->chains.word;
	unsigned char bytes[32];
	if (image_read(glibc->chains.image, page, bytes, 4 * word) != 4 * word)
		return PAGE_OTHER;
	if (memcmp(bytes, zeros, 4 * word) == 0)
		return PAGE_ZEROS;
	// With words of 4 bytes the chunk can begin behind two words.
	for (size_t i = 1; i < (word == 8 ? 2 : 4); i += 2) {
		const uint64_t field = chains_load(&glibc->chains, bytes + i * word);
		const uint64_t flags = field & CHUNK_FLAGS;
		if (field >= 4 * word && (flags == IS_MMAPPED || (main && flags == PREV_INUSE)))
			return PAGE_CHUNK;
	}
	return PAGE_OTHER;
}

// How far it is to the next page that is worth a look.
static uint64_t page_skip(const struct glibc *glibc, uint64_t page, enum page look)
{
	uint64_t end;
	if (look != PAGE_ZEROS || image_has_data(glibc->chains.image, page, UINT64_MAX, &end))
		return PAGE;
	return max_u64(PAGE, (end - page) / PAGE * PAGE);
}

// Where the region of another allocator that holds address ends; 0 if there is none.
static uint64_t other_end(const struct glibc *glibc, uint64_t address)
{
	const struct heap others = {
		.regions = glibc->heap->regions, .region_count = glibc->other_count};
	const struct heap_region *region = heap_region_at(&others, address);
	return region != NULL ? region->end : 0;
}

// Look at every page from start to end, which the dump has, but those inside what is found.
static bool pages_probe(
	struct glibc *glibc, uint64_t start, uint64_t end, uint64_t place_end, bool main)
{
	uint64_t at = (start + PAGE - 1) / PAGE * PAGE, chunk, stop;
	while (at >= start && at < end) {
		stop = other_end(glibc, at);
		if (stop != 0) {
			at = add_saturated(stop, PAGE - 1) / PAGE * PAGE;
			continue;
		}
		const enum page look = page_look(glibc, at, main);
		if (look == PAGE_CHUNK && mapped_find(glibc, at, &chunk, &stop) &&
			stop <= place_end) {
			if (!mapped_add(glibc, at, chunk, stop, end))
				return false;
			at = stop;
		} else if (look == PAGE_CHUNK && main &&
			   main_find(glibc, at, place_end, &chunk, &stop)) {
			if (!chain_add(glibc, HEAP_MAIN, chunk, min_u64(stop, end),
				    (struct stretch){stop, 0}))
				return false;
			at = (stop + PAGE - 1) / PAGE * PAGE;
		} else {
			at = add_saturated(at, page_skip(glibc, at, look));
		}
	}
	return true;
}

// The highest stack pointer in a stack; its start, if there is none.
static uint64_t stack_pointer(const struct glibc *glibc, const struct span *span)
{
	const struct image_process *process = &image_info(glibc->chains.image)->process;
	uint64_t ret = span->start;
	for (size_t i = 0; i < process->thread_count; i++) {
		const uint64_t pointer = process->threads[i].stack_pointer;
		if (pointer < span->end)
			ret = max_u64(ret, pointer);
	}
	return ret;
}

// Look at the part of a place from start to end.
static bool place_probe(struct glibc *glibc, uint64_t start, uint64_t end, bool main)
{
	uint64_t at = start, from, to;
	for (; at < end && present_next(glibc, at, end, &from, &to); at = to) {
		const struct image_segment *segment = image_segment_at(glibc->chains.image, from);
		if (segment != NULL && (segment->flags & PF_W) != 0 &&
			!pages_probe(glibc, from, to, end, main))
			return false;
	}
	return true;
}

// Mappings can be neighbours of a stack: above the stack pointer, where both are one segment, or
// below it, where a segment begins with one. The rest below is dead.
static bool stack_probe(struct glibc *glibc, const struct span *span, bool main)
{
	const struct image_info *info = image_info(glibc->chains.image);
	const uint64_t pointer = stack_pointer(glibc, span);
	for (size_t i = glibc->segment; i < info->segment_count; i++) {
		const uint64_t start = info->segments[i].address;
		const uint64_t end = start + info->segments[i].present;
		if (start >= pointer)
			break;
		if (start >= span->start && start < end &&
			page_look(glibc, start, main) == PAGE_CHUNK &&
			!place_probe(glibc, start, min_u64(end, pointer), main))
			return false;
	}
	return place_probe(glibc, pointer, span->end, main);
}

// Whether malloc may have mapped a place, or a part of it.
static bool place_is_mapped(const struct glibc *glibc, size_t index)
{
	const struct places *places = glibc->places;
	const enum place_type type = places->list[index].type;
	const struct image_segment *segment =
		image_segment_at(glibc->chains.image, places->spans[index].start);
	return (type == PLACE_BLOCKS || type == PLACE_ANON) && segment != NULL &&
	       (segment->flags & PF_W) != 0;
}

static bool places_probe(struct glibc *glibc)
{
	const struct places *places = glibc->places;
	uint64_t main_bytes = 0, claimed = UINT64_MAX;
	for (size_t i = 0; i < glibc->heap->region_count; i++) {
		const struct heap_region *region = &glibc->heap->regions[i];
		if (region->kind == HEAP_MAIN)
			main_bytes += region->end - region->start + region->lead;
	}
	for (size_t i = 0; i < glibc->arenas.count; i++)
		if (!glibc->arenas.list[i].further && glibc->arenas.list[i].system != 0)
			claimed = glibc->arenas.list[i].system;
	// Not all of the main heap was found.
	const bool main = glibc->heap->arenas > 0 && main_bytes < claimed;
	glibc->segment = 0;
	for (size_t i = 0; i < places->count; i++) {
		const struct span *span = &places->spans[i];
		segments_skip(glibc, span->start);
		if (places->list[i].type == PLACE_STACK && !stack_probe(glibc, span, main))
			return false;
		if (!place_is_mapped(glibc, i))
			continue;
		// Mappings are where the kernel says; a segment may end in one.
		uint64_t end = span->end;
		while (i + 1 < places->count && place_is_mapped(glibc, i + 1) &&
			places->spans[i + 1].start == end)
			end = places->spans[++i].end;
		if (!place_probe(glibc, span->start, end, main))
			return false;
	}
	return true;
}

// ---- the whole

static int chain_compare(const void *left, const void *right)
{
	const struct chain *a = left, *b = right;
	return a->first < b->first ? -1 : a->first > b->first;
}

static void mapped_mark(struct glibc *glibc)
{
	struct heap *heap = glibc->heap;
	for (size_t i = 0; i < glibc->mapped.count; i++) {
		const uint64_t chunk = glibc->mapped.list[i];
		const struct heap_region *region = chunk_region(heap, chunk, glibc->chains.word);
		if (region != NULL && region->kind == HEAP_MAPPED)
			heap_mark_used(heap, region_slot(region, chunk + 2 * glibc->chains.word));
	}
}

static bool arenas_learn(struct glibc *glibc)
{
	struct heap *heap = glibc->heap;
	if (!arenas_find(&glibc->chains, glibc->places, &glibc->arenas))
		return false;
	for (size_t i = 0; i < glibc->arenas.count; i++) {
		const struct arena *arena = &glibc->arenas.list[i];
		// One without a top was not used: the program may have another allocator.
		heap->arenas += arena->top != 0;
		heap->claimed += arena->system;
		// That of a further one is in its first heap.
		if (!arena->further && !internal_add(heap, arena->start, arena->end))
			return false;
		if (arena->top != 0 && !addresses_add(&glibc->chains.tops, arena->top))
			return false;
	}
	addresses_sort(&glibc->chains.tops);
	return true;
}

// Whether a region holds address.
static bool regions_have(const struct heap *heap, uint64_t address)
{
	for (size_t i = 0; i < heap->region_count; i++) {
		const struct heap_region *region = &heap->regions[i];
		if (address - (region->start - region->lead) <
			region->end - (region->start - region->lead))
			return true;
	}
	return false;
}

// A top that is in no heap that was found: the break is where nobody looked, or the heap is not in
// the dump. What the arena has from the system is missing then.
static bool tops_add(struct glibc *glibc)
{
	struct heap *heap = glibc->heap;
	for (size_t i = 0; i < glibc->arenas.count; i++) {
		const struct arena *arena = &glibc->arenas.list[i];
		const struct image_segment *segment =
			image_segment_at(glibc->chains.image, arena->top);
		if (arena->top == 0 || regions_have(heap, arena->top))
			continue;
		const uint64_t missing = heap->missing;
		size_t place;
		glibc->segment = 0;
		if (!arena->further && segment != NULL && segment->present > 0 &&
			places_find(glibc->places, arena->top, &place) &&
			(glibc->places->list[place].type == PLACE_ANON ||
				glibc->places->list[place].type == PLACE_BLOCKS) &&
			!break_add(glibc,
				max_u64(segment->address, glibc->places->spans[place].start),
				glibc->places->spans[place].end))
			return false;
		if (regions_have(heap, arena->top))
			continue;
		heap->arenas_lost++;
		// What other heaps lack was counted already.
		heap->missing = max_u64(missing, heap->missing);
		if (heap->missing < arena->system)
			heap->missing = arena->system;
	}
	return true;
}

static bool regions_find(struct glibc *glibc)
{
	glibc->heap->breaks = calloc(HEAP_BREAKS_MAX, sizeof *glibc->heap->breaks);
	if (glibc->heap->breaks == NULL || !window_init(&glibc->window, &glibc->chains) ||
		!arenas_learn(glibc) || !breaks_add(glibc))
		return false;
	for (size_t i = 0; i < glibc->arenas.heaps.count; i++)
		if (!arena_heap_add(glibc, glibc->arenas.heaps.list[i]))
			return false;
	// An arena that was never used is in every program; but all that it asked for may have been
	// mapped block by block.
	if (glibc->count == 0 && glibc->heap->arenas == 0 &&
		(glibc->arenas.count == 0 || glibc->other_count > 0))
		return true;
	if (!places_probe(glibc) || !tops_add(glibc))
		return false;
	if (glibc->heap->region_count > glibc->other_count || glibc->heap->arenas > 0)
		glibc->heap->allocator = HEAP_GLIBC;
	return true;
}

// A live process goes on: what it takes from the tops of its arenas from now on is young.
static bool young_note(struct glibc *glibc)
{
	struct heap *heap = glibc->heap;
	const struct addresses *tops = &glibc->chains.tops;
	for (size_t i = 0; i < tops->count; i++) {
		const struct heap_region *region =
			chunk_region(heap, tops->list[i], glibc->chains.word);
		if (region != NULL && region->allocator == HEAP_GLIBC &&
			region->kind != HEAP_MAPPED &&
			!heap_add_range(&heap->young, &heap->young_count, &heap->young_capacity,
				tops->list[i] + region->lead, region->end))
			return false;
	}
	return true;
}

bool glibc_find(const struct image *image, const struct places *places, struct heap *heap,
	struct error *err, struct glibc **ret)
{
	const struct image_info *info = image_info(image);
	struct glibc *glibc = calloc(1, sizeof *glibc);
	if (glibc == NULL)
		return error_memory(err);
	glibc->chains =
		(struct chains){.image = image, .word = info->word_size, .order = info->order};
	glibc->places = places;
	glibc->heap = heap;
	glibc->other_count = heap->region_count;
	if (!regions_find(glibc)) {
		glibc_destroy(glibc);
		return error_memory(err);
	}
	if (glibc->count > 0)
		qsort(glibc->list, glibc->count, sizeof *glibc->list, chain_compare);
	*ret = glibc;
	return true;
}

static bool walk_begin(struct glibc *glibc, const struct heap_options *options)
{
	return !image_info(glibc->chains.image)->live ||
	       (young_note(glibc) &&
		       (options->begin == NULL || options->begin(options->context, glibc->heap)));
}

bool glibc_walk(struct glibc *glibc, const struct heap_options *options, struct error *err)
{
	struct heap *heap = glibc->heap;
	struct addresses caches = {0};
	if (!walk_begin(glibc, options))
		return error_memory(err);
	mapped_mark(glibc);
	const bool ok =
		chunks_walk(&glibc->chains, options, glibc->list, glibc->count, heap, err, &caches);
	if (ok && !heap->partial)
		lists_clear(&glibc->chains, &caches, &glibc->arenas, heap);
	heap->in_use.count += heap->mapped.count;
	heap->in_use.bytes += heap->mapped.bytes;
	free(caches.list);
	return ok;
}

void glibc_destroy(struct glibc *glibc)
{
	if (glibc == NULL)
		return;
	window_deinit(&glibc->window);
	arenas_deinit(&glibc->arenas);
	free(glibc->chains.tops.list);
	free(glibc->list);
	free(glibc->mapped.list);
	free(glibc);
}
