// SPDX-License-Identifier: MIT
//
// A radix tree leads from each page to the extent that it belongs to: an array of pointers to
// leaves (in a static variable), leaves with an element for each page. An extent is a slab of
// blocks of one size with a bitmap, or one large block, or free. Threads keep free blocks in
// stacks.
//
// Source: jemalloc 5.0.0 to 5.3.1: include/jemalloc/internal/rtree.h (compact leaves: words of 8
// bytes of which 48 are an address), extent_structs.h or (5.3) edata.h, cache_bin.h,
// tcache_structs.h, size_classes.sh or (5.2) sc.h; src/base.c.
#include "alloc/jemalloc.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/pages.h"
#include "alloc/statics.h"

// An element of a leaf: bit 0, it is a slab; (5.3) 1, 2 to 4; the extent's address; from bit 48 on
// the index of the size.
#define ELEMENT_SLAB 1
#define ELEMENT_SIZE 48
#define ADDRESS_BITS 48

// An extent: bits, e_addr, e_size_esn, links, and at 64 the bitmap of a slab, in which 1 is free.
// The size has a serial number in the bits below a page.
#define EXTENT_BYTES 128
#define EXTENT_ADDRESS 8
#define EXTENT_SIZE 16
#define EXTENT_BITMAP 64
#define EXTENT_SLAB 12 // bit
#define SLAB_BLOCKS_MAX 512

// Sizes: 8, 16 to 64 in steps of 16, then four for each power of two.
#define SIZES 232
#define SIZES_END 236 // what stands for none is SIZES or, in other builds, a little more

#define BLOCK_ALIGN ((uint64_t)2 << 20) // of what it has for its own structures
#define LEAF_SAMPLE 64			// elements that are looked at to recognize a leaf

// Where the state and the index of the size are in an extent's bits: 5.0; 5.1 and 5.2, with the bit
// `dumpable`; 5.3, with `pai`, `guarded` and 3 bits of state.
static const struct layout {
	unsigned state, state_bits, size;
} layouts[] = {{15, 2, 17}, {16, 2, 18}, {17, 3, 20}};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

struct extent {
	uint64_t bits, start, address, size; // start: of the first page
	unsigned char bytes[EXTENT_BYTES];
};

// A tree that was found.
struct tree {
	uint64_t root; // address of the array
	unsigned page_bits, leaf_bits, root_bits;
	const struct layout *layout;
};

struct finder {
	const struct walker_input *input;
	struct slabs *slabs;
	struct pages leaf, extents, data, probe;
	struct tree tree;	// that is being walked
	struct addresses roots; // of trees: address * 4 + the kind of page, sorted in the end
	unsigned votes[LAYOUTS];
	uint64_t next_page;	 // all below is known
	struct addresses caches; // bins of threads' caches that have been looked at
	uint64_t budget;	 // bytes that may still be read to recognize leaves
	bool failed;
};

static uint64_t size_of_index(uint64_t index)
{
	if (index == 0)
		return 8;
	const uint64_t group = (index - 1) / 4, step = (index - 1) % 4 + 1;
	return group == 0 ? 16 * step
			  : (UINT64_C(64) << (group - 1)) + step * (UINT64_C(16) << (group - 1));
}

static void tree_shape(struct tree *tree, unsigned page_bits)
{
	const unsigned bits = ADDRESS_BITS - page_bits;
	tree->page_bits = page_bits;
	tree->root_bits = bits / 2;
	tree->leaf_bits = bits - bits / 2;
}

// The address of the extent that an element names: the bits above are those of the highest one. 0:
// none, although the index of the size may be there.
static uint64_t element_extent(uint64_t element)
{
	return (uint64_t)((int64_t)(element << 16) >> 16) & ~(uint64_t)(64 - 1);
}

static bool extent_read(
	struct finder *finder, uint64_t address, unsigned page_bits, struct extent *ret)
{
	const uint64_t page = (uint64_t)1 << page_bits;
	const unsigned char *bytes = pages_get(&finder->extents, address, EXTENT_BYTES);
	if (address == 0 || bytes == NULL)
		return false;
	memcpy(ret->bytes, bytes, EXTENT_BYTES);
	ret->bits = pages_load(&finder->extents, bytes);
	ret->address = pages_load(&finder->extents, bytes + EXTENT_ADDRESS);
	ret->start = ret->address & ~(page - 1);
	ret->size = pages_load(&finder->extents, bytes + EXTENT_SIZE) & ~(page - 1);
	return ret->start != 0 && ret->size != 0 && ret->size <= UINT64_MAX - ret->start;
}

// ---- recognizing a tree

// Whether an element and its extent have the same size. Of free extents one of them has none, and
// so have elements of pages inside of large blocks.
static bool element_agrees(uint64_t element, const struct extent *extent)
{
	const uint64_t size = element >> ELEMENT_SIZE;
	for (size_t i = 0; i < LAYOUTS; i++) {
		const uint64_t field = extent->bits >> layouts[i].size & 0xff;
		if (field == size || (field >= SIZES && field <= SIZES_END))
			return true;
	}
	return size >= SIZES;
}

// The page whose element it is, if it is one of a tree. index: in its leaf.
static bool element_page(struct finder *finder, const struct tree *tree, uint64_t element,
	uint64_t index, struct extent *extent, uint64_t *ret)
{
	const struct image *image = finder->input->image;
	if (element >> ELEMENT_SIZE > SIZES_END ||
		!extent_read(finder, element_extent(element), tree->page_bits, extent))
		return false;
	const uint64_t mask = ((uint64_t)1 << tree->leaf_bits) - 1;
	const uint64_t behind = (index - (extent->start >> tree->page_bits)) & mask;
	const uint64_t last = extent->start + (extent->size - 1);
	*ret = extent->start + (behind << tree->page_bits);
	return behind < extent->size >> tree->page_bits && last >> ADDRESS_BITS == 0 &&
	       element_agrees(element, extent) && image_segment_at(image, extent->start) != NULL &&
	       image_segment_at(image, last) != NULL;
}

// Whether a leaf of a tree is at address; *ret becomes the index of the leaf in its root. strict:
// it must have blocks.
static bool leaf_recognize(struct finder *finder, const struct tree *tree, uint64_t address,
	bool strict, uint64_t *ret)
{
	const uint64_t elements = (uint64_t)1 << tree->leaf_bits;
	uint64_t seen = 0, wrong = 0, blocks = 0;
	struct extent extent;
	const uint64_t end = address + 8 * elements;
	for (uint64_t i = 0; i < elements && seen < LEAF_SAMPLE;) {
		const unsigned char *bytes;
		uint64_t stop;
		// Most of what is no leaf is known by its first words.
		if (i > 0 && !image_has_data(finder->input->image, address + 8 * i, end, &stop)) {
			i = (stop - address + 7) / 8;
			continue;
		}
		const size_t size = pages_some(&finder->probe, address + 8 * i, &bytes);
		if (size < 8 || finder->budget == 0)
			break;
		for (size_t k = 0; k < size / 8 && i < elements && seen < LEAF_SAMPLE; k++, i++) {
			const uint64_t element = pages_load(&finder->probe, bytes + 8 * k);
			uint64_t page, place;
			finder->budget -= finder->budget >= 8 ? 8 : finder->budget;
			if (element_extent(element) == 0)
				continue;
			const bool right = element_page(finder, tree, element, i, &extent, &page);
			place = right ? page >> (tree->page_bits + tree->leaf_bits) : 0;
			if (right && seen++ == 0)
				*ret = place;
			blocks += right && element >> ELEMENT_SIZE < SIZES;
			// Some may be damaged.
			wrong += !right || place != *ret;
			if (wrong > 1 + seen / 8)
				return false;
		}
	}
	return (strict ? blocks : seen) > wrong;
}

// A word of a static variable may be the pointer to a leaf.
static bool root_try(void *context, uint64_t at, uint64_t leaf)
{
	struct finder *finder = context;
	static const unsigned kinds[] = {12, 14, 16};
	for (size_t i = 0; leaf % 64 == 0 && i < sizeof kinds / sizeof *kinds; i++) {
		struct tree tree;
		uint64_t place;
		tree_shape(&tree, kinds[i]);
		if (!leaf_recognize(finder, &tree, leaf, true, &place) ||
			place >> tree.root_bits != 0)
			continue;
		return addresses_add(&finder->roots, (at - 8 * place) | i);
	}
	return true;
}

// ---- walking it

static bool extent_add_slab(struct finder *finder, const struct extent *extent, uint64_t index)
{
	const uint64_t size = size_of_index(index), count = extent->size / size;
	if (count == 0 || count > (uint64_t)SLAB_BLOCKS_MAX << (finder->tree.page_bits - 12) ||
		size > extent->size) {
		finder->slabs->damaged += extent->size;
		return true;
	}
	if (!slabs_add(finder->slabs, HEAP_JEMALLOC, extent->start, size, (uint32_t)count))
		return false;
	uint64_t free = 0;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t group = word_load(
			extent->bytes + EXTENT_BITMAP + i / 64 * 8, 8, finder->data.order);
		if ((group >> i % 64 & 1) != 0)
			free++;
		else
			slabs_use(finder->slabs, (uint32_t)i);
	}
	// The number of free ones is behind the index of the size.
	if (free != (extent->bits >> (finder->tree.layout->size + 8) & 0x3ff))
		finder->slabs->damaged += extent->size;
	return slabs_add_range(
		finder->slabs, extent->start + size * count, extent->start + extent->size, false);
}

static bool extent_add(struct finder *finder, const struct extent *extent)
{
	const struct layout *layout = finder->tree.layout;
	const uint64_t end = extent->start + extent->size;
	const uint64_t index = extent->bits >> layout->size & 0xff;
	if ((extent->bits >> layout->state & ((1u << layout->state_bits) - 1)) != 0)
		return slabs_add_range(finder->slabs, extent->start, end, true);
	if (index >= SIZES || size_of_index(index) > end - extent->address) {
		finder->slabs->damaged += extent->size;
		return true;
	}
	if ((extent->bits >> EXTENT_SLAB & 1) != 0)
		return extent_add_slab(finder, extent, index);
	if (!slabs_add_range(finder->slabs, extent->start, extent->address, false) ||
		!slabs_add(finder->slabs, HEAP_JEMALLOC, extent->address, size_of_index(index), 1))
		return false;
	slabs_use(finder->slabs, 0);
	return slabs_add_range(finder->slabs, extent->address + size_of_index(index), end, false);
}

// vote: find out the layout of extents.
static bool leaf_walk(struct finder *finder, uint64_t place, uint64_t leaf, bool vote)
{
	const struct tree *tree = &finder->tree;
	const uint64_t elements = (uint64_t)1 << tree->leaf_bits;
	const uint64_t first = place << (tree->page_bits + tree->leaf_bits);
	for (uint64_t i = 0; i < elements;) {
		const unsigned char *bytes;
		const size_t size = pages_some(&finder->leaf, leaf + 8 * i, &bytes);
		if (size < 8) {
			if (!vote)
				finder->slabs->missing += (elements - i) << tree->page_bits;
			break;
		}
		uint64_t next = i + size / 8;
		for (uint64_t k = i; k < next && k < elements; k++) {
			const uint64_t element = pages_load(&finder->leaf, bytes + 8 * (k - i));
			const uint64_t page = first + (k << tree->page_bits);
			struct extent extent;
			uint64_t found;
			if (element_extent(element) == 0 || page < finder->next_page)
				continue;
			if (!element_page(finder, tree, element, k, &extent, &found) ||
				found != page) {
				if (!vote)
					finder->slabs->damaged += (uint64_t)1 << tree->page_bits;
				continue;
			}
			if (vote) {
				for (size_t v = 0; v < LAYOUTS; v++)
					finder->votes[v] +=
						(extent.bits >> layouts[v].size & 0xff) ==
						element >> ELEMENT_SIZE;
				continue;
			}
			finder->next_page = extent.start + extent.size;
			if (!extent_add(finder, &extent))
				return false;
		}
		i = next;
	}
	return true;
}

static bool leaf_each(struct finder *finder, bool vote)
{
	const struct tree *tree = &finder->tree;
	const uint64_t count = (uint64_t)1 << tree->root_bits;
	finder->next_page = 0;
	for (uint64_t i = 0; i < count && !walker_stopped(finder->input);) {
		const unsigned char *bytes;
		const size_t size = pages_some(&finder->data, tree->root + 8 * i, &bytes);
		if (size < 8)
			break;
		for (size_t k = 0; k < size / 8 && i < count; k++, i++) {
			const uint64_t leaf = pages_load(&finder->data, bytes + 8 * k);
			uint64_t place;
			if (leaf == 0 || !leaf_recognize(finder, tree, leaf, false, &place) ||
				place != i)
				continue;
			if (!leaf_walk(finder, i, leaf, vote))
				return false;
		}
	}
	return true;
}

static bool tree_walk(struct finder *finder)
{
	memset(finder->votes, 0, sizeof finder->votes);
	if (!leaf_each(finder, true))
		return false;
	size_t best = 0;
	for (size_t i = 1; i < LAYOUTS; i++)
		if (finder->votes[i] > finder->votes[best])
			best = i;
	finder->tree.layout = &layouts[best];
	return leaf_each(finder, false);
}

// ---- what threads keep

// The bins of a thread's cache: so many at most, each of 24 bytes. Since 5.3: where the next block
// is on a stack that grows down, a counter, and the low 16 bits of where it was lowest, where the
// stack is full, and where it is empty. Before: lowest and present number of blocks, a counter, and
// what is behind the last one of an array.
#define BIN_BYTES 24
#define BINS_MAX 128
#define BINS_LEAST 8 // that must be sound to recognize them
#define BIN_BLOCKS_MAX 8192

struct bin {
	uint64_t first, count; // address of the first pointer to a block, and how many there are
	uint64_t bottom, top;  // addresses where its array begins (0: not known) and ends
};

static bool bin_read(struct finder *finder, uint64_t address, bool stack, struct bin *ret)
{
	const unsigned char *bytes = pages_get(&finder->data, address, BIN_BYTES);
	const enum byte_order order = finder->data.order;
	if (bytes == NULL)
		return false;
	if (stack) {
		const uint64_t head = word_load(bytes, 8, order);
		const uint16_t full = load_u16(bytes + 18, order),
			       empty = load_u16(bytes + 20, order);
		const uint16_t cached = (uint16_t)(empty - head), all = (uint16_t)(empty - full);
		*ret = (struct bin){head, cached / 8, head + cached - all, head + cached};
		return head != 0 && head % 8 == 0 && cached % 8 == 0 && all % 8 == 0 &&
		       cached <= all && all > 0;
	}
	const int32_t lowest = (int32_t)load_u32(bytes, order),
		      count = (int32_t)load_u32(bytes + 4, order);
	const uint64_t top = word_load(bytes + 16, 8, order);
	*ret = (struct bin){top - 8 * (uint64_t)(uint32_t)count, (uint32_t)count, 0, top};
	return count >= 0 && count <= BIN_BLOCKS_MAX && lowest >= -1 && lowest <= count &&
	       top % 8 == 0 && top > 8 * BIN_BLOCKS_MAX;
}

// How many sound bins there are from address on: each has its array behind that of the one before.
static unsigned bins_count(struct finder *finder, uint64_t address, bool stack)
{
	struct bin bin, last = {0};
	unsigned count = 0;
	for (; count < BINS_MAX &&
		bin_read(finder, address + (uint64_t)count * BIN_BYTES, stack, &bin);
		count++) {
		if (count > 0 && (stack ? bin.bottom != last.top
					: bin.top <= last.top || bin.first < last.top ||
							 bin.top - last.top > 8 * BIN_BLOCKS_MAX))
			break;
		last = bin;
	}
	return count;
}

static bool bin_take(struct finder *finder, const struct bin *bin)
{
	for (uint64_t i = 0; i < bin->count; i++) {
		uint64_t block;
		size_t slab;
		uint32_t index;
		if (!pages_word(&finder->extents, bin->first + 8 * i, &block) ||
			!slabs_find(finder->slabs, block, &slab, &index) ||
			finder->slabs->list[slab].start + finder->slabs->list[slab].size * index !=
				block) {
			finder->slabs->lists_broken++;
			return true;
		}
		if (!addresses_add(&finder->slabs->waiting, block))
			return false;
	}
	return true;
}

// The bins at address, if there are any; their arrays are in a block of their own.
static bool bins_take(struct finder *finder, uint64_t address, bool stack, unsigned least)
{
	struct bin bin;
	size_t slab;
	uint32_t index;
	const unsigned count = bins_count(finder, address, stack);
	if (count < least || !bin_read(finder, address, stack, &bin) ||
		!slabs_find(finder->slabs, bin.top - 8, &slab, &index))
		return true;
	for (size_t i = 0; i < finder->caches.count; i++)
		if (finder->caches.list[i] == address)
			return true;
	const struct slab *in = &finder->slabs->list[slab];
	if (!addresses_add(&finder->caches, address) ||
		!addresses_add(&finder->slabs->internal, in->start + in->size * index))
		return false;
	for (unsigned i = 0; i < count; i++)
		if (bin_read(finder, address + (uint64_t)i * BIN_BYTES, stack, &bin) &&
			!bin_take(finder, &bin))
			return false;
	finder->slabs->caches += least > 1;
	return true;
}

// A word of an arena may lead to a ring of caches: since 5.1 of descriptors, two links and a
// pointer to the bins, until 5.2 one more to those of large blocks; in 5.0 of the caches
// themselves, two words and the bins; 36 bins, links, the arena, 4 and 36 bytes, and the bins of
// large blocks.
#define OLD_BINS 16
#define OLD_LARGE (OLD_BINS + 36 * BIN_BYTES + 64)

static bool ring_try(struct finder *finder, uint64_t first)
{
	uint64_t at = first, next, previous, bins, large;
	if (finder->tree.layout == &layouts[0])
		return bins_take(finder, first + OLD_BINS, false, BINS_LEAST) &&
		       (bins_count(finder, first + OLD_BINS, false) < BINS_LEAST ||
			       bins_take(finder, first + OLD_LARGE, false, 1));
	for (unsigned i = 0; i < 65536; i++) {
		const bool stack = finder->tree.layout == &layouts[2];
		const size_t known = finder->caches.count;
		if (!pages_word(&finder->extents, at, &next) ||
			!pages_word(&finder->extents, at + 8, &previous) ||
			!pages_word(&finder->extents, at + 16, &bins) || next % 8 != 0 ||
			next == 0 || previous == 0 || bins % 8 != 0)
			return true;
		if (bins_count(finder, bins, stack) < BINS_LEAST)
			return true;
		if (!bins_take(finder, bins, stack, BINS_LEAST))
			return false;
		if (known == finder->caches.count)
			return true; // all of the ring is known
		if (!stack && pages_word(&finder->extents, at + 24, &large) &&
			!bins_take(finder, large, false, 1))
			return false;
		at = next;
	}
	return true;
}

// Look for rings in what is used of a block of its own structures.
static bool block_search(void *context, uint64_t start, uint64_t end)
{
	struct finder *finder = context;
	for (uint64_t at = (start + 7) & ~(uint64_t)7;
		at < end && end - at >= 8 && !walker_stopped(finder->input);) {
		const unsigned char *bytes;
		const size_t size =
			(size_t)min_u64(pages_some(&finder->leaf, at, &bytes), end - at) &
			~(size_t)7;
		if (size == 0)
			break;
		for (size_t i = 0; i < size; i += 8) {
			const uint64_t word = pages_load(&finder->leaf, bytes + i);
			if (word >= 0x10000 && word % 8 == 0 && word >> ADDRESS_BITS == 0 &&
				!ring_try(finder, word)) {
				finder->failed = true;
				return false;
			}
		}
		at += size;
	}
	return true;
}

// Blocks of its own structures begin at multiples of 2 MiB, with their size, a link, and an extent
// for what is not used yet.
static bool blocks_search(void *context, uint64_t start, uint64_t end)
{
	struct finder *finder = context;
	for (uint64_t at = (start + BLOCK_ALIGN - 1) & ~(BLOCK_ALIGN - 1); at >= start && at < end;
		at += BLOCK_ALIGN) {
		const unsigned char *bytes = pages_get(&finder->data, at, 16 + EXTENT_BYTES);
		if (bytes == NULL)
			continue;
		const uint64_t size = pages_load(&finder->data, bytes),
			       next = pages_load(&finder->data, bytes + 8);
		const uint64_t rest = pages_load(&finder->data, bytes + 16 + EXTENT_ADDRESS);
		const uint64_t left = pages_load(&finder->data, bytes + 16 + EXTENT_SIZE);
		size_t slab;
		uint32_t index;
		if (size == 0 || size % BLOCK_ALIGN != 0 || next % BLOCK_ALIGN != 0 ||
			size > UINT64_MAX - at || rest - at > size || left != at + size - rest ||
			slabs_find(finder->slabs, at, &slab, &index))
			continue;
		if (!slabs_add_range(finder->slabs, at, at + size, false)) {
			finder->failed = true;
			return false;
		}
		if (!pages_each_data(finder->input->image, at, rest, block_search, finder))
			return false;
	}
	return true;
}

// ---- the whole

static bool trees_find(struct finder *finder)
{
	if (!statics_each(finder->input, UINT32_MAX, root_try, finder))
		return false;
	addresses_sort(&finder->roots);
	addresses_unite(&finder->roots);
	return true;
}

static bool trees_walk(struct finder *finder)
{
	static const unsigned kinds[] = {12, 14, 16};
	for (size_t i = 0; i < finder->roots.count; i++) {
		const size_t before = finder->slabs->count;
		finder->tree.root = finder->roots.list[i] & ~(uint64_t)7;
		tree_shape(&finder->tree, kinds[finder->roots.list[i] & 7]);
		if (!tree_walk(finder))
			return false;
		if (finder->slabs->count == before)
			continue;
		slabs_sort(finder->slabs);
		pages_each_data(finder->input->image, 0, UINT64_MAX, blocks_search, finder);
		if (finder->failed)
			return false;
	}
	return true;
}

bool jemalloc_walk(const struct walker_input *input, struct slabs *slabs)
{
	const struct image_info *info = image_info(input->image);
	struct finder finder = {.input = input,
		.slabs = slabs,
		.budget = ((uint64_t)256 << 20) + info->bytes_present / 4};
	if (info->word_size != 8)
		return true;
	const bool ok = pages_init(&finder.probe, input->image, 8192) &&
			pages_init(&finder.leaf, input->image, 65536) &&
			pages_init(&finder.extents, input->image, 16384) &&
			pages_init(&finder.data, input->image, 65536) && trees_find(&finder) &&
			trees_walk(&finder);
	pages_deinit(&finder.probe);
	pages_deinit(&finder.leaf);
	pages_deinit(&finder.extents);
	pages_deinit(&finder.data);
	free(finder.roots.list);
	free(finder.caches.list);
	return ok;
}
