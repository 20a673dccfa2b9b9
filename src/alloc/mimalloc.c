// SPDX-License-Identifier: MIT
//
// Segments that begin at multiples of their size, with an array of slices of 64 KiB; a page is one
// or more slices of blocks of one size, with three lists of free ones: its own, of what was freed
// meanwhile, and of what other threads have freed. What is freed while a page is full waits in a
// list of the heap. Secure builds encode the links.
//
// Source: mimalloc 2.0.3 to 2.4.1, include/mimalloc-types.h or include/mimalloc/types.h
// (mi_segment_t, mi_page_t, mi_heap_t), mimalloc-internal.h (mi_ptr_encode), src/segment.c
// (_mi_segment_page_start_from_slice).
#include "alloc/mimalloc.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/pages.h"

#define SLICE_BITS 16
#define HEADER_BYTES 384 // of a segment, before its slices
#define PAGE_BYTES 112	 // at most
#define ALIGN_LEAST ((uint64_t)32 << 20)

// Offsets in a segment: pages in use (and behind it a word made of its address and a cookie),
// number of slices, of those that the header takes, what kind it is, entries of the array, the
// array. 2.0.3; 2.0.9; 2.1.9.
static const struct segment_layout {
	uint64_t size; // and alignment
	unsigned used, slices, info, kind, entries, array;
} segment_layouts[] = {
	{(uint64_t)64 << 20, 312, 328, 336, 344, 360, 368},
	{(uint64_t)32 << 20, 208, 224, 232, 240, 248, 264},
	{(uint64_t)32 << 20, 216, 248, 256, 264, 272, 288},
};
#define SEGMENT_LAYOUTS (sizeof segment_layouts / sizeof *segment_layouts)

// Where a page begins behind its first slice, by the size of its blocks.
enum start_rule {
	START_ALIGNED,	 // from 8 to 1024 bytes 128 behind
	START_ALIGNED_3, // three times that
	START_BLOCKS,	 // up to 64 bytes three blocks behind, up to 512 one
	START_FIELD,	 // it has a pointer
	START_RULES
};

// Offsets in a page: how many blocks are set up and how many there can be (10 and 12 in all),
// lists, blocks in use (4 bytes, or 2), their size (4 bytes, or 8), where they begin (0: not
// there), two keys of a secure build (0: none), the heap; and in a heap the list of what was freed
// while pages were full, and its keys. 2.0.3 to 2.1.2, secure to 2.0.7, secure from 2.0.9 on; 2.1.4
// on, secure.
static const struct page_layout {
	unsigned stride, free, local, used, used_bytes, size, size_bytes, start, keys, other, heap,
		delayed, heap_keys;
} page_layouts[] = {
	{80, 16, 32, 24, 4, 28, 4, 0, 0, 40, 48, 2840, 2872},
	{96, 16, 48, 40, 4, 44, 4, 0, 24, 56, 64, 2840, 2864},
	{96, 16, 32, 24, 4, 28, 4, 0, 40, 56, 64, 2840, 2872},
	{96, 16, 24, 32, 2, 40, 8, 48, 0, 56, 64, 8, 40},
	{112, 16, 24, 32, 2, 40, 8, 48, 56, 72, 80, 8, 40},
};
#define PAGE_LAYOUTS (sizeof page_layouts / sizeof *page_layouts)

#define PAGE_CAPACITY 10
#define PAGE_RESERVED 12
#define SIZE_HUGE ((uint64_t)2 << 30) // said of blocks that are larger

struct segment {
	uint64_t address, used, slices, info, entries;
	uint64_t cookie; // the same for all of a process: that of its main heap
	const struct segment_layout *layout;
};

struct mi_page {
	uint64_t address; // of the structure
	uint64_t slices;  // number
	uint64_t free, local, other, used, size, start, heap, keys[2];
	unsigned capacity, reserved;
};

struct finder {
	const struct walker_input *input;
	struct slabs *slabs;
	struct pages headers, blocks;
	const struct segment_layout *segment_layout; // NULL: not known yet
	const struct page_layout *layout;
	enum start_rule rule;
	struct addresses heaps;
	struct addresses cookies; // of what looks like a segment
	uint64_t cookie;
	// While the layout is being found out: pages that agree with each layout and rule.
	uint64_t votes[SEGMENT_LAYOUTS][PAGE_LAYOUTS][START_RULES];
	uint64_t most; // of these, for best
	const struct segment_layout *best;
	size_t padded, plain; // pages of which the first block has padding or not
	bool failed;
};

// ---- segments

static bool segment_read(struct finder *finder, uint64_t address,
	const struct segment_layout *layout, struct segment *ret)
{
	const unsigned char *bytes = pages_get(&finder->headers, address, HEADER_BYTES);
	if (bytes == NULL)
		return false;
	*ret = (struct segment){
		.address = address,
		.used = pages_load(&finder->headers, bytes + layout->used),
		.cookie = pages_load(&finder->headers, bytes + layout->used + 8) ^ address,
		.slices = pages_load(&finder->headers, bytes + layout->slices),
		.info = pages_load(&finder->headers, bytes + layout->info),
		.entries = pages_load(&finder->headers, bytes + layout->entries),
		.layout = layout,
	};
	const uint32_t kind = load_u32(bytes + layout->kind, finder->headers.order);
	const uint64_t usual = layout->size >> SLICE_BITS;
	return kind <= 1 && ret->info > 0 && ret->info <= 4 && ret->entries > ret->info &&
	       ret->entries <= usual && ret->used <= ret->entries && ret->slices >= ret->entries &&
	       ret->slices < (uint64_t)1 << (48 - SLICE_BITS) &&
	       (kind == 1 || ret->slices == usual);
}

static bool page_read(struct finder *finder, const struct segment *segment, uint64_t index,
	const struct page_layout *layout, struct mi_page *ret)
{
	const uint64_t address = segment->address + segment->layout->array + index * layout->stride;
	const unsigned char *bytes = pages_get(&finder->headers, address, PAGE_BYTES);
	const enum byte_order order = finder->headers.order;
	if (bytes == NULL)
		return false;
	*ret = (struct mi_page){
		.address = address,
		.slices = load_u32(bytes, order),
		.capacity = load_u16(bytes + PAGE_CAPACITY, order),
		.reserved = load_u16(bytes + PAGE_RESERVED, order),
		.free = word_load(bytes + layout->free, 8, order),
		.local = word_load(bytes + layout->local, 8, order),
		.other = word_load(bytes + layout->other, 8, order) & ~(uint64_t)3,
		.used = layout->used_bytes == 2 ? load_u16(bytes + layout->used, order)
						: load_u32(bytes + layout->used, order),
		.size = word_load(bytes + layout->size, layout->size_bytes, order),
		.start = layout->start != 0 ? word_load(bytes + layout->start, 8, order) : 0,
		.heap = word_load(bytes + layout->heap, 8, order),
	};
	if (layout->keys != 0)
		for (unsigned i = 0; i < 2; i++)
			ret->keys[i] = word_load(bytes + layout->keys + 8 * i, 8, order);
	return true;
}

// Whether slices follow each other up to the end.
static bool segment_is_tiled(
	struct finder *finder, const struct segment *segment, const struct page_layout *layout)
{
	struct mi_page page;
	if (!page_read(finder, segment, 0, layout, &page) || page.slices != segment->info)
		return false;
	uint64_t i = segment->info;
	while (i < segment->entries) {
		if (!page_read(finder, segment, i, layout, &page) || page.slices == 0 ||
			page.slices > segment->slices - i)
			return false;
		i += page.slices;
	}
	return true;
}

// Where the blocks of a page begin and end; false if it contradicts itself.
static bool page_bounds(const struct segment *segment, uint64_t index, enum start_rule rule,
	struct mi_page *page, uint64_t *end)
{
	const uint64_t slice = segment->address + (index << SLICE_BITS);
	*end = slice + (page->slices << SLICE_BITS);
	switch (rule) {
	case START_ALIGNED:
	case START_ALIGNED_3:
		page->start = slice + (page->size >= 8 && page->size <= 1024
						      ? (rule == START_ALIGNED ? 128 : 384)
						      : 0);
		break;
	case START_BLOCKS:
		page->start = slice + (page->size < 8		  ? 0
					      : page->size <= 64  ? 3 * page->size
					      : page->size <= 512 ? page->size
								  : 0);
		break;
	default:
		break;
	}
	if (page->size == SIZE_HUGE)
		page->size = *end - page->start;
	return page->start >= slice && page->start < *end && page->size != 0 &&
	       page->reserved != 0 && page->capacity <= page->reserved &&
	       page->used <= page->capacity && page->size <= (*end - page->start) / page->reserved;
}

typedef bool segment_found(struct finder *finder, const struct segment *segment);

struct search {
	struct finder *finder;
	segment_found *found;
};

static bool segments_search(void *context, uint64_t start, uint64_t end)
{
	const struct search *search = context;
	struct finder *finder = search->finder;
	for (uint64_t at = (start + ALIGN_LEAST - 1) & ~(ALIGN_LEAST - 1); at >= start && at < end;
		at += ALIGN_LEAST) {
		if (walker_stopped(finder->input))
			return true;
		for (size_t i = 0; i < SEGMENT_LAYOUTS; i++) {
			const struct segment_layout *layout = &segment_layouts[i];
			struct segment segment;
			if (at % layout->size != 0 ||
				(finder->segment_layout != NULL &&
					finder->segment_layout != layout) ||
				!segment_read(finder, at, layout, &segment))
				continue;
			if (!search->found(finder, &segment)) {
				finder->failed = true;
				return false;
			}
		}
	}
	return true;
}

static bool segments_each(struct finder *finder, segment_found *found)
{
	struct search search = {finder, found};
	pages_each_data(finder->input->image, 0, UINT64_MAX, segments_search, &search);
	return !finder->failed;
}

// ---- which version it is

static bool segment_vote(struct finder *finder, const struct segment *segment)
{
	if (!addresses_add(&finder->cookies, segment->cookie))
		return false;
	for (size_t i = 0; i < PAGE_LAYOUTS; i++) {
		const struct page_layout *layout = &page_layouts[i];
		if (!segment_is_tiled(finder, segment, layout))
			continue;
		struct mi_page page;
		for (uint64_t k = segment->info;
			k < segment->entries && page_read(finder, segment, k, layout, &page);
			k += page.slices) {
			if (page.slices == 0)
				break;
			for (unsigned rule = 0; rule < START_RULES && page.size != 0; rule++) {
				struct mi_page tried = page;
				uint64_t end;
				if ((layout->start != 0) != (rule == START_FIELD) ||
					!page_bounds(segment, k, rule, &tried, &end))
					continue;
				// A list leads to a block.
				const uint64_t block = tried.free != 0	  ? tried.free
						       : tried.local != 0 ? tried.local
									  : tried.other;
				const bool listed = block - tried.start < end - tried.start &&
						    (block - tried.start) % tried.size == 0;
				uint64_t *votes =
					&finder->votes[segment->layout - segment_layouts][i][rule];
				*votes += block == 0 ? 1 : listed ? 16 : 0;
				if (*votes > finder->most) {
					finder->most = *votes;
					finder->best = segment->layout;
					finder->layout = layout;
					finder->rule = rule;
				}
			}
		}
	}
	return true;
}

// The cookie that most have.
static uint64_t cookie_choose(struct finder *finder)
{
	const struct addresses *cookies = &finder->cookies;
	uint64_t best = 0;
	size_t most = 0;
	addresses_sort(&finder->cookies);
	for (size_t i = 0, first = 0; i < cookies->count; i++) {
		if (cookies->list[i] != cookies->list[first])
			first = i;
		if (i - first + 1 > most) {
			most = i - first + 1;
			best = cookies->list[i];
		}
	}
	return best;
}

// ---- blocks

static uint64_t link_decode(uint64_t value, uint64_t null, const uint64_t keys[static 2])
{
	const unsigned turn = keys[0] & 63, back = (64 - turn) & 63;
	const uint64_t moved = value - keys[0];
	const uint64_t link = ((moved >> turn) | (moved << back)) ^ keys[1];
	return link == null ? 0 : link;
}

// Blocks of the last slab in a list are not in use.
static uint64_t list_take(struct finder *finder, const struct mi_page *page, uint64_t block)
{
	uint64_t count = 0;
	while (block != 0) {
		const uint64_t index = (block - page->start) / page->size;
		if (block < page->start || index >= page->capacity ||
			page->start + index * page->size != block ||
			!slabs_unuse(finder->slabs, (uint32_t)index) ||
			!pages_word(&finder->blocks, block, &block)) {
			finder->slabs->lists_broken++;
			return count;
		}
		count++;
		if (finder->layout->keys != 0)
			block = link_decode(block, page->address, page->keys);
	}
	return count;
}

static uint64_t link_encode(uint64_t value, const uint64_t keys[static 2])
{
	const unsigned turn = keys[0] & 63, back = (64 - turn) & 63;
	const uint64_t mixed = value ^ keys[1];
	return ((mixed << turn) | (mixed >> back)) + keys[0];
}

// Secure builds since 2.1 end each block in use with a mark, made of its address and of the page's
// keys, and with what is left free before (mi_padding_t: 4 bytes each).
#define PADDING 8

static void padding_look(struct finder *finder, const struct mi_page *page)
{
	const unsigned char *bytes =
		pages_get(&finder->blocks, page->start + page->size - PADDING, 4);
	if (finder->layout->keys == 0 || page->size <= PADDING || page->used != page->capacity ||
		bytes == NULL)
		return;
	// Its lowest byte can be zero.
	const uint32_t mark = (uint32_t)link_encode(page->start, page->keys);
	*(((mark ^ load_u32(bytes, finder->headers.order)) & 0xffffff00) == 0 ? &finder->padded
									      : &finder->plain) +=
		1;
}

static bool page_add(
	struct finder *finder, const struct segment *segment, uint64_t index, struct mi_page *page)
{
	struct slabs *slabs = finder->slabs;
	uint64_t end;
	const uint64_t slice = segment->address + (index << SLICE_BITS);
	if (page->size == 0)
		return slabs_add_range(slabs, slice, slice + (page->slices << SLICE_BITS), true);
	if (!page_bounds(segment, index, finder->rule, page, &end)) {
		slabs->damaged += page->slices << SLICE_BITS;
		return true;
	}
	if (page->heap != 0 &&
		(finder->heaps.count == 0 ||
			finder->heaps.list[finder->heaps.count - 1] != page->heap) &&
		!addresses_add(&finder->heaps, page->heap))
		return false;
	if (!slabs_add_range(slabs, slice, page->start, false) ||
		!slabs_add(slabs, HEAP_MIMALLOC, page->start, page->size, page->reserved))
		return false;
	for (unsigned i = 0; i < page->capacity; i++)
		slabs_use(slabs, i);
	padding_look(finder, page);
	const uint64_t free =
		list_take(finder, page, page->free) + list_take(finder, page, page->local);
	list_take(finder, page, page->other); // these count as used
	if (free + page->used != page->capacity)
		slabs->damaged += page->size * page->capacity;
	return slabs_add_range(slabs, page->start + page->size * page->reserved, end, false);
}

static bool segment_add(struct finder *finder, const struct segment *segment)
{
	const uint64_t end = segment->address + (segment->slices << SLICE_BITS);
	const uint64_t first = segment->address + (segment->info << SLICE_BITS);
	struct mi_page page;
	if (segment->cookie != finder->cookie || !segment_is_tiled(finder, segment, finder->layout))
		return true;
	if (segment->used == 0)
		return slabs_add_range(finder->slabs, segment->address, end, true);
	if (!slabs_add_range(finder->slabs, segment->address, first, false))
		return false;
	for (uint64_t i = segment->info; i < segment->entries; i += page.slices) {
		if (!page_read(finder, segment, i, finder->layout, &page) || page.slices == 0)
			return true;
		const uint64_t slices = page.slices;
		if (!page_add(finder, segment, i, &page))
			return false;
		page.slices = slices;
	}
	return true;
}

// ---- what waits in heaps

static bool heap_take(struct finder *finder, uint64_t heap)
{
	struct slabs *slabs = finder->slabs;
	uint64_t keys[2] = {0}, block, link;
	const struct page_layout *layout = finder->layout;
	// One more list of pages is before it.
	const uint64_t shift = slabs->padding[HEAP_MIMALLOC] != 0 && layout->start == 0 ? 8 : 0;
	if (!pages_word(&finder->headers, heap + layout->delayed + shift, &block))
		return true;
	for (unsigned i = 0; layout->keys != 0 && i < 2; i++)
		if (!pages_word(
			    &finder->headers, heap + layout->heap_keys + shift + 8 * i, &keys[i]))
			return true;
	// A ring would not end.
	for (size_t i = 0; block != 0 && i < slabs->bits; i++) {
		size_t slab;
		uint32_t index;
		if (!slabs_find(slabs, block, &slab, &index) ||
			slabs->list[slab].start + index * slabs->list[slab].size != block ||
			!pages_word(&finder->blocks, block, &link)) {
			slabs->lists_broken++;
			return true;
		}
		if (!addresses_add(&slabs->waiting, block))
			return false;
		block = layout->keys != 0 ? link_decode(link, heap, keys) : link;
	}
	slabs->caches++;
	return true;
}

bool mimalloc_walk(const struct walker_input *input, struct slabs *slabs)
{
	const struct image_info *info = image_info(input->image);
	struct finder finder = {.input = input, .slabs = slabs, .layout = page_layouts};
	if (info->word_size != 8)
		return true;
	bool ok = pages_init(&finder.headers, input->image, 65536) &&
		  pages_init(&finder.blocks, input->image, 65536) &&
		  segments_each(&finder, segment_vote);
	if (ok && finder.best != NULL) {
		finder.segment_layout = finder.best;
		finder.cookie = cookie_choose(&finder);
		ok = segments_each(&finder, segment_add);
		if (finder.padded > finder.plain)
			slabs->padding[HEAP_MIMALLOC] = PADDING;
		slabs_sort(slabs);
		addresses_sort(&finder.heaps);
		addresses_unite(&finder.heaps);
		for (size_t i = 0; ok && i < finder.heaps.count; i++)
			ok = heap_take(&finder, finder.heaps.list[i]);
	}
	pages_deinit(&finder.headers);
	pages_deinit(&finder.blocks);
	free(finder.heaps.list);
	free(finder.cookies.list);
	return ok;
}
