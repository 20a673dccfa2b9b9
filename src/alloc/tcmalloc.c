// SPDX-License-Identifier: MIT
//
// A page map of two levels leads from each page to its span: of blocks of one size class, with a
// list of those that are free, or one large block, or free. Other free blocks are in the lists of
// threads' caches, and in chains that central lists keep for threads.
//
// Source: gperftools 2.7 to 2.18, src/pagemap.h (TCMalloc_PageMap2), span.h, common.h (SizeMap),
// central_freelist.h, thread_cache.h, page_heap_allocator.h. Only little endian: its bit fields.
#include "alloc/tcmalloc.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/pages.h"
#include "alloc/statics.h"

#define ADDRESS_BITS 48

// Span: first page, number of pages, two links, list of free blocks, and of 32 bits the blocks in
// use (16), the size class (8), where it is (2).
#define SPAN_BYTES 48
#define SPAN_PREVIOUS 24
#define SPAN_OBJECTS 32
#define SPAN_BITS 40

// CentralFreeList: a lock, the size class, the heads of two rings of spans, two counters, 64 pairs
// of the first and last block of a chain, and how many of them are in use.
#define CENTRAL_CLASS 8
#define CENTRAL_EMPTY 16
#define CENTRAL_NONEMPTY (CENTRAL_EMPTY + SPAN_BYTES)
#define CENTRAL_CHAINS (CENTRAL_NONEMPTY + SPAN_BYTES + 16)
#define CHAINS_MAX 64
#define CENTRAL_USED (CENTRAL_CHAINS + 16 * CHAINS_MAX)

// ThreadCache: for each class a list: first block, four counters of which the first is its length,
// the size of its blocks; in all 32 bytes. Then counters, and links to other caches.
#define CACHE_LIST 32
#define CACHE_LENGTH 8
#define CACHE_SIZE 24
#define CACHE_REST 256 // bytes behind the lists in which the links are

#define CLASSES_MAX 128
#define CLASSES_LEAST 20
#define CLASS_SIZE_MAX (256 * 1024)

struct tc_span {
	uint64_t start, pages, previous, objects; // start: number of the page
	unsigned blocks, class, location;
};

struct finder {
	const struct walker_input *input;
	struct slabs *slabs;
	struct pages data, leaf, spans, blocks;
	unsigned page_bits, leaf_bits, root_bits;
	struct addresses roots; // address | kind of page
	uint32_t sizes[CLASSES_MAX];
	unsigned classes;		// 0: not found
	uint64_t of_class[CLASSES_MAX]; // address of a span of each class; 0: none
	uint64_t next_page;
	uint64_t budget;
	struct addresses own; // where structures of its own begin and end
	struct addresses caches;
};

static const unsigned page_kinds[] = {13, 12, 15, 16, 14, 18};

static void tree_shape(struct finder *finder, unsigned page_bits)
{
	const unsigned bits = ADDRESS_BITS - page_bits;
	finder->page_bits = page_bits;
	finder->leaf_bits = (bits + 1) / 2;
	finder->root_bits = bits - finder->leaf_bits;
}

static bool span_read(struct finder *finder, uint64_t address, struct tc_span *ret)
{
	const unsigned char *bytes = address % 8 == 0 && address != 0
					     ? pages_get(&finder->spans, address, SPAN_BYTES)
					     : NULL;
	if (bytes == NULL)
		return false;
	const uint32_t bits = load_u32(bytes + SPAN_BITS, ORDER_LITTLE);
	*ret = (struct tc_span){
		.start = word_load(bytes, 8, ORDER_LITTLE),
		.pages = word_load(bytes + 8, 8, ORDER_LITTLE),
		.previous = word_load(bytes + SPAN_PREVIOUS, 8, ORDER_LITTLE),
		.objects = word_load(bytes + SPAN_OBJECTS, 8, ORDER_LITTLE),
		.blocks = bits & 0xffff,
		.class = bits >> 16 & 0xff,
		.location = bits >> 24 & 3,
	};
	return ret->start != 0 && ret->pages != 0 &&
	       ret->start >> (ADDRESS_BITS - finder->page_bits) == 0 &&
	       ret->pages >> (ADDRESS_BITS - finder->page_bits) == 0 && ret->class < CLASSES_MAX &&
	       ret->location < 3;
}

// ---- recognizing a page map

static bool span_is_mapped(const struct finder *finder, const struct tc_span *span)
{
	const struct image *image = finder->input->image;
	return image_segment_at(image, span->start << finder->page_bits) != NULL &&
	       image_segment_at(image, ((span->start + span->pages) << finder->page_bits) - 1) !=
		       NULL;
}

static bool leaf_recognize(struct finder *finder, uint64_t address, uint64_t *ret)
{
	const uint64_t elements = (uint64_t)1 << finder->leaf_bits, mask = elements - 1,
		       end = address + 8 * elements;
	unsigned seen = 0, wrong = 0;
	for (uint64_t i = 0; i < elements && seen < 16;) {
		const unsigned char *bytes;
		uint64_t stop;
		// Most of what is no leaf is known by its first words.
		if (i > 0 && !image_has_data(finder->input->image, address + 8 * i, end, &stop)) {
			i = (stop - address + 7) / 8;
			continue;
		}
		const size_t size = pages_some(&finder->leaf, address + 8 * i, &bytes);
		if (size < 8 || finder->budget == 0)
			break;
		const uint64_t first = i, next = i + size / 8;
		while (i < next && i < elements && seen < 16) {
			const uint64_t element =
				word_load(bytes + 8 * (i - first), 8, ORDER_LITTLE);
			struct tc_span span;
			finder->budget -= min_u64(finder->budget, 8);
			if (element == 0) {
				i++;
				continue;
			}
			const bool known =
				span_read(finder, element, &span) && span_is_mapped(finder, &span);
			const uint64_t inside = known ? (i - span.start) & mask : 0;
			const uint64_t place =
				known ? (span.start + inside) >> finder->leaf_bits : 0;
			// Some may be damaged.
			if (!known || inside >= span.pages ||
				(seen > 0 && (place != *ret || inside != 0))) {
				if (++wrong > 1 + seen / 8)
					return false;
				i++;
				continue;
			}
			*ret = place;
			seen++;
			// What is behind the first page of a span may be a remnant.
			i += span.pages - inside;
		}
	}
	return seen > wrong;
}

static bool root_try(void *context, uint64_t at, uint64_t leaf)
{
	struct finder *finder = context;
	for (size_t i = 0; leaf % 8 == 0 && i < sizeof page_kinds / sizeof *page_kinds; i++) {
		uint64_t place;
		tree_shape(finder, page_kinds[i]);
		if (leaf_recognize(finder, leaf, &place) && place >> finder->root_bits == 0)
			return addresses_add(&finder->roots, (at - 8 * place) | i);
	}
	return true;
}

// ---- size classes

// The sizes are an array of 32 bits each, from 0 and 8 upwards; the pages of a span of each class
// follow it.
static bool sizes_read(struct finder *finder, uint64_t address)
{
	const unsigned char *bytes = pages_get(&finder->spans, address, 4 * CLASSES_MAX);
	unsigned count = 1;
	if (bytes == NULL)
		return false;
	for (; count < CLASSES_MAX; count++) {
		const uint32_t size = load_u32(bytes + 4 * count, ORDER_LITTLE),
			       last = load_u32(bytes + 4 * (count - 1), ORDER_LITTLE);
		if (size <= last || size % 8 != 0 || size > CLASS_SIZE_MAX)
			break;
	}
	if (count < CLASSES_LEAST || count <= finder->classes)
		return false;
	for (unsigned i = 0; i < count; i++)
		finder->sizes[i] = load_u32(bytes + 4 * i, ORDER_LITTLE);
	finder->classes = count;
	return true;
}

static bool sizes_search(void *context, uint64_t start, uint64_t end)
{
	struct finder *finder = context;
	for (uint64_t at = (start + 3) & ~(uint64_t)3; at < end && end - at >= 12;) {
		const unsigned char *bytes;
		const size_t size =
			(size_t)min_u64(pages_some(&finder->data, at, &bytes), end - at) &
			~(size_t)3;
		if (size < 12)
			break;
		for (size_t i = 0; i + 12 <= size; i += 4)
			if (load_u32(bytes + i, ORDER_LITTLE) == 0 &&
				load_u32(bytes + i + 4, ORDER_LITTLE) == 8 &&
				load_u32(bytes + i + 8, ORDER_LITTLE) == 16)
				sizes_read(finder, at + i);
		at += size - 8;
	}
	return true;
}

// ---- spans

// Blocks in the list of a span are not in use.
static bool span_add_blocks(
	struct finder *finder, const struct tc_span *span, uint64_t start, uint64_t end)
{
	const uint64_t size = finder->sizes[span->class];
	const uint64_t count = (end - start) / size;
	struct slabs *slabs = finder->slabs;
	if (!slabs_add(slabs, HEAP_TCMALLOC, start, size, (uint32_t)count))
		return false;
	slabs_use_all(slabs);
	uint64_t block = span->objects, listed = 0;
	for (; block != 0 && listed < count; listed++) {
		const uint64_t index = (block - start) / size;
		if (index >= count || start + index * size != block ||
			!slabs_unuse(slabs, (uint32_t)index) ||
			!pages_word(&finder->blocks, block, &block))
			break;
	}
	if (block != 0)
		slabs->lists_broken++;
	if (listed + span->blocks != count)
		slabs->damaged += end - start;
	return slabs_add_range(slabs, start + count * size, end, false);
}

static bool span_add(struct finder *finder, uint64_t address, const struct tc_span *span)
{
	const uint64_t start = span->start << finder->page_bits, end = (span->start + span->pages)
								       << finder->page_bits;
	if (!addresses_add(&finder->own, address))
		return false;
	if (span->location != 0)
		return slabs_add_range(finder->slabs, start, end, true);
	if (span->class == 0) {
		if (!slabs_add(finder->slabs, HEAP_TCMALLOC, start, end - start, 1))
			return false;
		slabs_use_all(finder->slabs);
		return true;
	}
	finder->of_class[span->class] = address;
	if (span->class < finder->classes && finder->sizes[span->class] <= end - start &&
		(end - start) / 8 <= UINT32_MAX)
		return span_add_blocks(finder, span, start, end);
	finder->slabs->damaged += end - start;
	return true;
}

static bool leaf_walk(struct finder *finder, uint64_t place, uint64_t leaf)
{
	const uint64_t elements = (uint64_t)1 << finder->leaf_bits;
	for (uint64_t i = 0; i < elements;) {
		const unsigned char *bytes;
		const size_t size = pages_some(&finder->leaf, leaf + 8 * i, &bytes);
		if (size < 8) {
			finder->slabs->missing += (elements - i) << finder->page_bits;
			break;
		}
		const uint64_t next = i + size / 8;
		for (uint64_t k = i; k < next && k < elements; k++) {
			const uint64_t element = word_load(bytes + 8 * (k - i), 8, ORDER_LITTLE);
			const uint64_t page = (place << finder->leaf_bits) + k;
			struct tc_span span;
			if (element == 0 || page < finder->next_page)
				continue;
			if (!span_read(finder, element, &span) || span.start != page) {
				finder->slabs->damaged += (uint64_t)1 << finder->page_bits;
				continue;
			}
			finder->next_page = span.start + span.pages;
			if (!span_add(finder, element, &span))
				return false;
		}
		i = next;
	}
	return true;
}

static bool leaf_each(struct finder *finder, uint64_t root)
{
	const uint64_t count = (uint64_t)1 << finder->root_bits;
	finder->next_page = 0;
	for (uint64_t i = 0; i < count && !walker_stopped(finder->input);) {
		const unsigned char *bytes;
		const size_t size = pages_some(&finder->data, root + 8 * i, &bytes);
		if (size < 8)
			break;
		for (size_t k = 0; k < size / 8 && i < count; k++, i++) {
			const uint64_t leaf = word_load(bytes + 8 * k, 8, ORDER_LITTLE);
			uint64_t place;
			if (leaf == 0 || !leaf_recognize(finder, leaf, &place) || place != i)
				continue;
			const uint64_t end = leaf + ((uint64_t)8 << finder->leaf_bits);
			if (!slabs_add_range(finder->slabs, leaf, end, false) ||
				!leaf_walk(finder, i, leaf))
				return false;
		}
	}
	return true;
}

// ---- what threads and central lists keep

// A chain of so many blocks of a class at most, linked by their first words.
static bool chain_take(
	struct finder *finder, uint64_t block, uint64_t last, unsigned class, uint64_t most)
{
	struct slabs *slabs = finder->slabs;
	for (uint64_t i = 0; block != 0 && i < most; i++) {
		size_t slab;
		uint32_t index;
		if (!slabs_find(slabs, block, &slab, &index) ||
			slabs->list[slab].size != finder->sizes[class] ||
			slabs->list[slab].start + index * slabs->list[slab].size != block) {
			slabs->lists_broken++;
			return true;
		}
		if (!addresses_add(&slabs->waiting, block))
			return false;
		if (block == last || !pages_word(&finder->blocks, block, &block))
			return true;
	}
	return true;
}

// The central list of a class is where the ring of its spans has its head, in static data.
static bool central_find(struct finder *finder, unsigned class, uint64_t *ret)
{
	uint64_t at = finder->of_class[class], value;
	struct tc_span span;
	for (uint64_t i = 0; i < UINT32_MAX && span_read(finder, at, &span) && span.class == class;
		i++)
		at = span.previous;
	for (uint64_t offset = CENTRAL_EMPTY; offset <= CENTRAL_NONEMPTY; offset += SPAN_BYTES) {
		*ret = at - offset;
		if (pages_word(&finder->spans, *ret + CENTRAL_CLASS, &value) && value == class)
			return true;
	}
	return false;
}

static bool centrals_take(struct finder *finder)
{
	for (unsigned class = 1; class < finder->classes; class ++) {
		unsigned char bytes[16 * CHAINS_MAX + 4];
		uint64_t list;
		if (finder->of_class[class] == 0)
			continue;
		if (!central_find(finder, class, &list) ||
			image_read(finder->input->image, list + CENTRAL_CHAINS, bytes,
				sizeof bytes) != sizeof bytes) {
			finder->slabs->lists_broken++;
			continue;
		}
		const uint32_t used = load_u32(bytes + 16 * CHAINS_MAX, ORDER_LITTLE);
		for (uint32_t i = 0; i < used && i < CHAINS_MAX; i++)
			if (!chain_take(finder, word_load(bytes + 16 * i, 8, ORDER_LITTLE),
				    word_load(bytes + 16 * i + 8, 8, ORDER_LITTLE), class,
				    UINT32_MAX))
				return false;
	}
	return true;
}

static bool cache_recognize(struct finder *finder, uint64_t address)
{
	for (unsigned class = 1; class < finder->classes; class ++) {
		const unsigned char *bytes =
			pages_get(&finder->spans, address + class * CACHE_LIST, CACHE_LIST);
		if (bytes == NULL ||
			load_u32(bytes + CACHE_SIZE, ORDER_LITTLE) != finder->sizes[class])
			return false;
	}
	return true;
}

static bool cache_add(struct finder *finder, uint64_t address)
{
	if (address < 0x10000 || address % 8 != 0 || address >> ADDRESS_BITS != 0 ||
		!cache_recognize(finder, address))
		return true;
	for (size_t i = 0; i < finder->caches.count; i++)
		if (finder->caches.list[i] == address)
			return true;
	return addresses_add(&finder->caches, address);
}

static bool cache_try(void *context, uint64_t at, uint64_t value)
{
	(void)at;
	return cache_add(context, value);
}

static bool cache_take(struct finder *finder, uint64_t address)
{
	for (unsigned class = 1; class < finder->classes; class ++) {
		const unsigned char *bytes =
			pages_get(&finder->spans, address + class * CACHE_LIST, CACHE_LIST);
		if (bytes != NULL && !chain_take(finder, word_load(bytes, 8, ORDER_LITTLE), 0,
					     class, load_u32(bytes + CACHE_LENGTH, ORDER_LITTLE)))
			return false;
	}
	// There is room for more classes than are used.
	for (unsigned i = finder->classes * CACHE_LIST; i < CLASSES_MAX * CACHE_LIST + CACHE_REST;
		i += 8) {
		uint64_t link;
		if (pages_word(&finder->spans, address + i, &link) && !cache_add(finder, link))
			return false;
	}
	finder->slabs->caches++;
	return addresses_add(&finder->own, address) &&
	       addresses_add(&finder->own, address + CLASSES_MAX * CACHE_LIST);
}

// ---- the whole

// Structures come from pieces of 128 KiB, and what lies between two of them, and is no block, is of
// the same kind.
#define OWN_PIECE (128 * 1024)

static bool own_add(struct finder *finder)
{
	struct slabs *slabs = finder->slabs;
	struct addresses *own = &finder->own;
	addresses_sort(own);
	for (size_t i = 0; i < own->count;) {
		const uint64_t start = own->list[i];
		uint64_t end = start + SPAN_BYTES;
		while (++i < own->count && own->list[i] - end <= OWN_PIECE &&
			!slabs_any(slabs, end, own->list[i]))
			end = max_u64(end, own->list[i] + SPAN_BYTES);
		if (!slabs_add_range(slabs, start, end, false))
			return false;
	}
	return true;
}

static bool sizes_find(struct finder *finder, uint32_t module)
{
	const struct places *places = finder->input->places;
	for (size_t i = 0; i < places->count; i++)
		if (places->list[i].type == PLACE_MODULE && places->list[i].module == module)
			pages_each_data(finder->input->image, places->spans[i].start,
				places->spans[i].end, sizes_search, finder);
	return finder->classes > 0;
}

static bool tree_walk(struct finder *finder, uint64_t root)
{
	size_t place;
	finder->classes = 0;
	finder->own.count = finder->caches.count = 0;
	memset(finder->of_class, 0, sizeof finder->of_class);
	if (!places_find(finder->input->places, root, &place))
		return true;
	const uint32_t module = finder->input->places->list[place].module;
	if (!sizes_find(finder, module))
		return true;
	if (!leaf_each(finder, root))
		return false;
	slabs_sort(finder->slabs);
	if (!centrals_take(finder) || !statics_each(finder->input, module, cache_try, finder))
		return false;
	for (size_t i = 0; i < finder->caches.count; i++)
		if (!cache_take(finder, finder->caches.list[i]))
			return false;
	return own_add(finder);
}

bool tcmalloc_walk(const struct walker_input *input, struct slabs *slabs)
{
	const struct image_info *info = image_info(input->image);
	struct finder finder = {.input = input,
		.slabs = slabs,
		.budget = ((uint64_t)256 << 20) + info->bytes_present / 4};
	if (info->word_size != 8 || info->order != ORDER_LITTLE)
		return true;
	bool ok = pages_init(&finder.data, input->image, 65536) &&
		  pages_init(&finder.leaf, input->image, 8192) &&
		  pages_init(&finder.spans, input->image, 16384) &&
		  pages_init(&finder.blocks, input->image, 16384) &&
		  statics_each(input, UINT32_MAX, root_try, &finder);
	addresses_sort(&finder.roots);
	addresses_unite(&finder.roots);
	for (size_t i = 0; ok && i < finder.roots.count; i++) {
		tree_shape(&finder, page_kinds[finder.roots.list[i] & 7]);
		ok = tree_walk(&finder, finder.roots.list[i] & ~(uint64_t)7);
	}
	pages_deinit(&finder.data);
	pages_deinit(&finder.leaf);
	pages_deinit(&finder.spans);
	pages_deinit(&finder.blocks);
	free(finder.roots.list);
	free(finder.own.list);
	free(finder.caches.list);
	return ok;
}
