// SPDX-License-Identifier: MIT
#include "alloc/glibc.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/arena.h"
#include "alloc/chunks.h"
#include "alloc/lists.h"
#include "base/huge.h"

// A region, and what its chain is expected to fill.
struct plan {
	struct heap_region region;
	struct stretch stretch;
};

struct builder {
	struct chains chains;
	const struct places *places;
	struct heap *heap;
	struct window window;
	struct arenas arenas;
	struct plan *plans; // owned
	size_t count, capacity;
	struct addresses mapped; // chunks that were mapped one by one; owned
	size_t segment;		 // the first one that may be of use for the next place
};

static bool plan_add(struct builder *builder, enum heap_region_kind kind, uint64_t start,
	uint64_t end, struct stretch stretch)
{
	if (start >= end)
		return true;
	if (builder->count == builder->capacity) {
		const size_t wanted = 2 * builder->capacity + 16;
		struct plan *plans = reallocarray(builder->plans, wanted, sizeof *plans);
		if (plans == NULL)
			return false;
		builder->plans = plans;
		builder->capacity = wanted;
	}
	builder->plans[builder->count++] =
		(struct plan){{.kind = kind, .start = start, .end = end}, stretch};
	return true;
}

// The first stretch at address or behind, and before end, that the dump has without a gap. False if
// there is none.
static bool present_next(const struct builder *builder, uint64_t address, uint64_t end,
	uint64_t *start, uint64_t *stop)
{
	const struct image_info *info = image_info(builder->chains.image);
	*start = *stop = 0;
	for (size_t i = builder->segment; i < info->segment_count; i++) {
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
static void segments_skip(struct builder *builder, uint64_t address)
{
	const struct image_info *info = image_info(builder->chains.image);
	while (builder->segment < info->segment_count &&
		info->segments[builder->segment].address + info->segments[builder->segment].size <=
			address)
		builder->segment++;
}

// ---- the heap that grows with brk(2)

// What is not said to be the heap but lies before it in the same segment may be: the break need not
// be at the beginning of a page, and pages of 64 KiB are known.
#define BREAK_BEFORE ((uint64_t)64 << 10)

static uint64_t break_start(const struct builder *builder, uint64_t start)
{
	const struct image_segment *segment = image_segment_at(builder->chains.image, start - 1);
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
static void front_check(struct builder *builder, uint64_t start, uint64_t first, uint64_t end)
{
	struct heap *heap = builder->heap;
	const uint64_t unit = 2 * (uint64_t)builder->chains.word;
	uint64_t lost = 0, field;
	for (size_t i = 0; i < builder->arenas.count; i++) {
		const struct arena *arena = &builder->arenas.list[i];
		if (!arena->in_one || arena->top < first || arena->top >= end ||
			!window_word(&builder->window, arena->top + builder->chains.word, &field))
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

static bool break_add(struct builder *builder, uint64_t start, uint64_t end)
{
	const struct stretch stretch = {end, 0};
	uint64_t at = start, search = break_start(builder, start), from, to;
	while (at < end && present_next(builder, at, end, &from, &to)) {
		uint64_t first;
		builder->heap->missing += from - at;
		if (at != start)
			search = from;
		at = to;
		if (!chain_search(&builder->window, &stretch, search, to, &first)) {
			builder->heap->outside += to - from;
			continue;
		}
		front_check(builder, from, first, to);
		if (!plan_add(builder, HEAP_MAIN, first, to, stretch))
			return false;
	}
	builder->heap->missing += end - at;
	return true;
}

static bool breaks_add(struct builder *builder)
{
	const struct places *places = builder->places;
	for (size_t i = 0; i < places->count;) {
		const uint64_t start = places->spans[i].start;
		uint64_t end = places->spans[i].end;
		if (places->list[i++].type != PLACE_BREAK)
			continue;
		for (; i < places->count && places->list[i].type == PLACE_BREAK &&
			places->spans[i].start == end;
			i++)
			end = places->spans[i].end;
		builder->segment = 0;
		if (!break_add(builder, start, end))
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
static size_t first_chunks(const struct builder *builder, const struct heap_info *info,
	uint64_t address, uint64_t ret[static 2])
{
	const uint64_t word = builder->chains.word;
	const struct arena *arena = NULL;
	for (size_t i = 0; i < builder->arenas.count; i++)
		if (builder->arenas.list[i].bins - address < info->size)
			arena = &builder->arenas.list[i];
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

static bool arena_heap_add(struct builder *builder, uint64_t address)
{
	struct heap *heap = builder->heap;
	struct heap_info info;
	uint64_t from, to, places[2] = {0}, first = 0, field;
	if (!heap_info_read(&builder->chains, address, &info))
		return true;
	const uint64_t end = address + info.size;
	const struct stretch stretch = {end, NON_MAIN_ARENA};
	builder->segment = 0;
	if (!present_next(builder, address, end, &from, &to) || from != address) {
		heap->missing += info.size;
		return true;
	}
	const size_t count = first_chunks(builder, &info, address, places);
	for (size_t i = 0; i < 2 * count; i++) {
		first = places[i % count];
		// If there is no chain, there may be one chunk.
		if (i < count ? chain_begins(&builder->window, &stretch, first, 1)
			      : chunk_read(&builder->window, &stretch, first, &field) &&
					(field & PREV_INUSE) != 0)
			break;
		first = 0;
	}
	heap->missing += end - to;
	if (first == 0) {
		if (!chain_search(&builder->window, &stretch, places[count - 1], to, &first))
			first = to;
		break_note(heap, places[count - 1], places[count - 1], first);
		heap->broken += first - places[count - 1];
		heap->overhead += places[count - 1] - address;
	} else {
		heap->overhead += first - address;
	}
	return internal_add(heap, address, first) &&
	       plan_add(builder, HEAP_ARENA, first, to, stretch);
}

// ---- chunks that were mapped one by one

// glibc, malloc/malloc.c, sysmalloc_mmap: the chunk of a mapping begins where it begins, but for
// alignment; what is left free before is its first word, with bit 0 for huge pages since 2.35. It
// ends where the mapping ends, or, since 2.43, a header before that.
static bool mapped_read(const struct builder *builder, uint64_t page, uint64_t chunk, uint64_t *end)
{
	const size_t word = builder->chains.word;
	unsigned char bytes[16];
	if (image_read(builder->chains.image, chunk, bytes, 2 * word) != 2 * word)
		return false;
	const uint64_t before = chains_load(&builder->chains, bytes);
	const uint64_t field = chains_load(&builder->chains, bytes + word);
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
static bool mapped_find(
	const struct builder *builder, uint64_t page, uint64_t *chunk, uint64_t *end)
{
	const size_t word = builder->chains.word;
	uint64_t first = page, inner_end;
	if (!mapped_read(builder, page, first, end)) {
		first += 8;
		if (word == 8 || !mapped_read(builder, page, first, end))
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
				mapped_read(builder, page, inner, &inner_end) && inner_end == *end)
				*chunk = inner;
	}
	return true;
}

// present: where what the dump has of it ends.
static bool mapped_add(
	struct builder *builder, uint64_t page, uint64_t chunk, uint64_t end, uint64_t present)
{
	struct plan *last = builder->count > 0 ? &builder->plans[builder->count - 1] : NULL;
	builder->heap->mapped.count++;
	builder->heap->mapped.bytes += end - page;
	builder->heap->missing += end - min_u64(end, present);
	if (!addresses_add(&builder->mapped, chunk))
		return false;
	if (last != NULL && last->region.kind == HEAP_MAPPED && last->region.end == page) {
		last->region.end = min_u64(end, present);
		return true;
	}
	return plan_add(builder, HEAP_MAPPED, chunk, min_u64(end, present), (struct stretch){0});
}

// Whether a part of the main heap that was mapped because brk(2) failed begins at chunk. Such a
// part can be short, but then it ends as it should.
static bool main_begins(struct builder *builder, uint64_t chunk, uint64_t end, uint64_t *stop)
{
	const struct stretch stretch = {end, 0};
	uint64_t field;
	if (!chunk_read(&builder->window, &stretch, chunk, &field) || (field & PREV_INUSE) == 0)
		return false;
	if (chain_end(&builder->window, &stretch, chunk, stop))
		return true;
	// Where it breaks, it may go on.
	*stop = end;
	return chain_begins(&builder->window, &stretch, chunk, UINT32_MAX);
}

static bool main_find(
	struct builder *builder, uint64_t page, uint64_t end, uint64_t *chunk, uint64_t *stop)
{
	*chunk = page;
	if (main_begins(builder, page, end, stop))
		return true;
	*chunk = page + 8;
	return builder->chains.word == 4 && main_begins(builder, *chunk, end, stop);
}

enum page { PAGE_ZEROS, PAGE_OTHER, PAGE_CHUNK };

// What a page begins with: most can be told from a chunk with one read. main: whether parts of the
// main heap are looked for.
static enum page page_look(const struct builder *builder, uint64_t page, bool main)
{
	static const unsigned char zeros[32];
	const size_t word = builder->chains.word;
	unsigned char bytes[32];
	if (image_read(builder->chains.image, page, bytes, 4 * word) != 4 * word)
		return PAGE_OTHER;
	if (memcmp(bytes, zeros, 4 * word) == 0)
		return PAGE_ZEROS;
	// With words of 4 bytes the chunk can begin behind two words.
	for (size_t i = 1; i < (word == 8 ? 2 : 4); i += 2) {
		const uint64_t field = chains_load(&builder->chains, bytes + i * word);
		const uint64_t flags = field & CHUNK_FLAGS;
		if (field >= 4 * word && (flags == IS_MMAPPED || (main && flags == PREV_INUSE)))
			return PAGE_CHUNK;
	}
	return PAGE_OTHER;
}

// How far it is to the next page that is worth a look.
static uint64_t page_skip(const struct builder *builder, uint64_t page, enum page look)
{
	uint64_t end;
	if (look != PAGE_ZEROS || image_has_data(builder->chains.image, page, UINT64_MAX, &end))
		return PAGE;
	return max_u64(PAGE, (end - page) / PAGE * PAGE);
}

// Look at every page from start to end, which the dump has, but those inside what is found.
static bool pages_probe(
	struct builder *builder, uint64_t start, uint64_t end, uint64_t place_end, bool main)
{
	uint64_t at = (start + PAGE - 1) / PAGE * PAGE, chunk, stop;
	while (at >= start && at < end) {
		const enum page look = page_look(builder, at, main);
		if (look == PAGE_CHUNK && mapped_find(builder, at, &chunk, &stop) &&
			stop <= place_end) {
			if (!mapped_add(builder, at, chunk, stop, end))
				return false;
			at = stop;
		} else if (look == PAGE_CHUNK && main &&
			   main_find(builder, at, place_end, &chunk, &stop)) {
			if (!plan_add(builder, HEAP_MAIN, chunk, min_u64(stop, end),
				    (struct stretch){stop, 0}))
				return false;
			at = (stop + PAGE - 1) / PAGE * PAGE;
		} else {
			at = add_saturated(at, page_skip(builder, at, look));
		}
	}
	return true;
}

// The highest stack pointer in a stack; its start, if there is none.
static uint64_t stack_pointer(const struct builder *builder, const struct span *span)
{
	const struct image_process *process = &image_info(builder->chains.image)->process;
	uint64_t ret = span->start;
	for (size_t i = 0; i < process->thread_count; i++) {
		const uint64_t pointer = process->threads[i].stack_pointer;
		if (pointer < span->end)
			ret = max_u64(ret, pointer);
	}
	return ret;
}

// Look at the part of a place from start to end.
static bool place_probe(struct builder *builder, uint64_t start, uint64_t end, bool main)
{
	uint64_t at = start, from, to;
	for (; at < end && present_next(builder, at, end, &from, &to); at = to) {
		const struct image_segment *segment = image_segment_at(builder->chains.image, from);
		if (segment != NULL && (segment->flags & PF_W) != 0 &&
			!pages_probe(builder, from, to, end, main))
			return false;
	}
	return true;
}

// Mappings can be neighbours of a stack: above the stack pointer, where both are one segment, or
// below it, where a segment begins with one. The rest below is dead.
static bool stack_probe(struct builder *builder, const struct span *span, bool main)
{
	const struct image_info *info = image_info(builder->chains.image);
	const uint64_t pointer = stack_pointer(builder, span);
	for (size_t i = builder->segment; i < info->segment_count; i++) {
		const uint64_t start = info->segments[i].address;
		const uint64_t end = start + info->segments[i].present;
		if (start >= pointer)
			break;
		if (start >= span->start && start < end &&
			page_look(builder, start, main) == PAGE_CHUNK &&
			!place_probe(builder, start, min_u64(end, pointer), main))
			return false;
	}
	return place_probe(builder, pointer, span->end, main);
}

static bool places_probe(struct builder *builder)
{
	const struct places *places = builder->places;
	uint64_t main_bytes = 0, claimed = UINT64_MAX;
	for (size_t i = 0; i < builder->count; i++)
		if (builder->plans[i].region.kind == HEAP_MAIN)
			main_bytes += builder->plans[i].region.end - builder->plans[i].region.start;
	for (size_t i = 0; i < builder->arenas.count; i++)
		if (!builder->arenas.list[i].further && builder->arenas.list[i].system != 0)
			claimed = builder->arenas.list[i].system;
	// Not all of the main heap was found.
	const bool main = main_bytes < claimed;
	builder->segment = 0;
	for (size_t i = 0; i < places->count; i++) {
		const struct span *span = &places->spans[i];
		const enum place_type type = places->list[i].type;
		segments_skip(builder, span->start);
		if (type == PLACE_STACK && !stack_probe(builder, span, main))
			return false;
		if ((type == PLACE_BLOCKS || type == PLACE_ANON) &&
			!place_probe(builder, span->start, span->end, main))
			return false;
	}
	return true;
}

// ---- the whole

static int plan_compare(const void *left, const void *right)
{
	const struct plan *a = left, *b = right;
	return a->region.start < b->region.start ? -1 : a->region.start > b->region.start;
}

// Put the regions in order and give each its bits. What overlaps is in damaged dumps only.
static bool regions_init(struct builder *builder, struct stretch **stretches)
{
	struct heap *heap = builder->heap;
	if (builder->count > 0)
		qsort(builder->plans, builder->count, sizeof *builder->plans, plan_compare);
	heap->regions = calloc(builder->count + 1, sizeof *heap->regions);
	*stretches = calloc(builder->count + 1, sizeof **stretches);
	if (heap->regions == NULL || *stretches == NULL)
		return false;
	uint64_t slots = 0;
	for (size_t i = 0; i < builder->count; i++) {
		struct heap_region region = builder->plans[i].region;
		const size_t count = heap->region_count;
		if (count > 0 && region.start < heap->regions[count - 1].end)
			continue;
		region.slot = (size_t)slots;
		slots += ((region.end - region.start) / heap->unit / 64 + 1) * 64;
		(*stretches)[count] = builder->plans[i].stretch;
		heap->regions[heap->region_count++] = region;
	}
	heap->slot_count = (size_t)slots;
	heap->cells = huge_reserve((heap->slot_count / 64 + 1) * sizeof *heap->cells);
	return heap->cells != NULL && targets_init(heap->slot_count, heap->unit, &heap->targets);
}

static void mapped_mark(struct builder *builder)
{
	struct heap *heap = builder->heap;
	for (size_t i = 0; i < builder->mapped.count; i++) {
		const struct heap_region *region = heap_region_at(heap, builder->mapped.list[i]);
		if (region == NULL || region->kind != HEAP_MAPPED)
			continue;
		const size_t slot = heap_slot(heap, region, builder->mapped.list[i]);
		heap_mark_used(heap, slot);
	}
}

static bool arenas_learn(struct builder *builder)
{
	struct heap *heap = builder->heap;
	if (!arenas_find(&builder->chains, builder->places, &builder->arenas))
		return false;
	for (size_t i = 0; i < builder->arenas.count; i++) {
		const struct arena *arena = &builder->arenas.list[i];
		// One without a top was not used: the program may have another allocator.
		heap->arenas += arena->top != 0;
		heap->claimed += arena->system;
		// That of a further one is in its first heap.
		if (!arena->further && !internal_add(heap, arena->start, arena->end))
			return false;
		if (arena->top != 0 && !addresses_add(&builder->chains.tops, arena->top))
			return false;
	}
	addresses_sort(&builder->chains.tops);
	return true;
}

static bool regions_find(struct builder *builder)
{
	builder->heap->breaks = calloc(HEAP_BREAKS_MAX, sizeof *builder->heap->breaks);
	if (builder->heap->breaks == NULL || !window_init(&builder->window, &builder->chains) ||
		!arenas_learn(builder) || !breaks_add(builder))
		return false;
	for (size_t i = 0; i < builder->arenas.heaps.count; i++)
		if (!arena_heap_add(builder, builder->arenas.heaps.list[i]))
			return false;
	if (builder->count == 0 && builder->heap->arenas == 0)
		return true;
	builder->heap->allocator = HEAP_GLIBC;
	return places_probe(builder);
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

// A live process goes on: what it takes from the tops of its arenas from now on is young.
static bool young_note(struct builder *builder)
{
	struct heap *heap = builder->heap;
	const struct addresses *tops = &builder->chains.tops;
	for (size_t i = 0; i < tops->count; i++) {
		const struct heap_region *region = heap_region_at(heap, tops->list[i]);
		if (region != NULL && region->kind != HEAP_MAPPED &&
			!heap_add_range(&heap->young, &heap->young_count, &heap->young_capacity,
				tops->list[i], region->end))
			return false;
	}
	return true;
}

static bool walk_begin(struct builder *builder, const struct heap_options *options)
{
	return !image_info(builder->chains.image)->live ||
	       (young_note(builder) &&
		       (options->begin == NULL || options->begin(options->context, builder->heap)));
}

bool glibc_walk(const struct image *image, const struct places *places,
	const struct heap_options *options, struct error *err, struct heap *ret)
{
	const struct image_info *info = image_info(image);
	struct builder builder = {
		.chains = {.image = image, .word = info->word_size, .order = info->order},
		.places = places,
		.heap = ret,
	};
	struct stretch *stretches = NULL;
	struct addresses caches = {0};
	bool ok = (regions_find(&builder) && regions_init(&builder, &stretches) &&
			  walk_begin(&builder, options)) ||
		  error_memory(err);
	if (ok) {
		mapped_mark(&builder);
		ok = chunks_walk(&builder.chains, options, stretches, ret, err, &caches);
	}
	if (ok && !ret->partial)
		lists_clear(&builder.chains, &caches, &builder.arenas, ret);
	ranges_sort(ret->gaps, ret->gap_count);
	ranges_sort(ret->internals, ret->internal_count);
	ret->in_use.count += ret->mapped.count;
	ret->in_use.bytes += ret->mapped.bytes;
	window_deinit(&builder.window);
	arenas_deinit(&builder.arenas);
	free(builder.chains.tops.list);
	free(builder.plans);
	free(builder.mapped.list);
	free(stretches);
	free(caches.list);
	return ok;
}
