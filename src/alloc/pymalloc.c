// SPDX-License-Identifier: MIT
//
// A static variable points at an array of what is known of each arena: 256 KiB or 1 MiB of memory,
// in pools of 4 or 16 KiB that have blocks of one size, up to 512 bytes. A pool begins with a
// header that leads to its free blocks, one to the next, and says how far blocks have been made.
//
// Source: CPython 3.7 to 3.13, Objects/obmalloc.c or (3.12) Include/internal/pycore_obmalloc.h
// (struct arena_object, struct pool_header; ALIGNMENT 16 where words have 8 bytes, else 8; pools
// and arenas are the larger ones since 3.10 where words have 8 bytes). The arrays of
// sub-interpreters are not in static variables and are not looked for.
#include "alloc/pymalloc.h"

#include <stdlib.h>

#include "alloc/pages.h"
#include "alloc/statics.h"

#define ARENAS_MAX (UINT32_C(1) << 20) // that an array is looked through for
#define UNUSED_MAX 65536	       // of these, in a row, that have no memory
#define SIZE_MOST 512

static const struct layout {
	uint64_t arena, pool; // bytes
} layouts[] = {{1 << 20, 16 << 10}, {256 << 10, 4 << 10}};

struct arena {
	uint64_t address, rest; // its memory; the first pool that was never used
	uint32_t free, pools;
};

struct pool {
	uint64_t used, free; // number of blocks; address of the first free one
	uint32_t arena, size, next;
};

struct finder {
	const struct walker_input *input;
	struct slabs *slabs;
	struct pages arenas, headers, blocks;
	unsigned word;
	struct addresses known; // arrays
};

// ---- arenas

// An entry: address, first pool that was never used, numbers of pools that are free and of all (4
// bytes each), and three links.
static uint64_t entry_bytes(const struct finder *finder)
{
	return 5 * (uint64_t)finder->word + 8;
}

static bool arena_read(struct finder *finder, uint64_t array, uint32_t index, struct arena *ret)
{
	const unsigned word = finder->word;
	const unsigned char *bytes = pages_get(
		&finder->arenas, array + index * entry_bytes(finder), (size_t)entry_bytes(finder));
	if (bytes == NULL)
		return false;
	*ret = (struct arena){
		.address = pages_load(&finder->arenas, bytes),
		.rest = pages_load(&finder->arenas, bytes + word),
		.free = load_u32(bytes + 2 * word, finder->arenas.order),
		.pools = load_u32(bytes + 2 * word + 4, finder->arenas.order),
	};
	return true;
}

static uint64_t arena_first(const struct arena *arena, const struct layout *layout)
{
	return (arena->address + layout->pool - 1) & ~(layout->pool - 1);
}

// Pools are aligned; if the arena is not, it has one less.
static bool arena_agrees(const struct arena *arena, const struct layout *layout)
{
	const uint64_t first = arena_first(arena, layout);
	const uint64_t pools = (arena->address + layout->arena - first) / layout->pool;
	return arena->address != 0 && arena->address <= UINT64_MAX - 2 * layout->arena &&
	       arena->pools == pools && arena->free <= pools && arena->rest >= first &&
	       arena->rest - first <= pools * layout->pool &&
	       (arena->rest - first) % layout->pool == 0;
}

// ---- pools

// Its blocks begin behind a header of six words at most, which is a multiple of the alignment.
static uint64_t pool_overhead(const struct finder *finder)
{
	return finder->word == 8 ? 48 : 32;
}

static uint64_t pool_alignment(const struct finder *finder)
{
	return finder->word == 8 ? 16 : 8;
}

// A header: number of blocks in use, in as much room as a pointer takes, the first free block, two
// links, and, of 4 bytes each, the index of the arena, that of the size, where the next block will
// be made and where the last one can be.
static bool pool_read(struct finder *finder, uint64_t address, struct pool *ret)
{
	const unsigned word = finder->word;
	const enum byte_order order = finder->headers.order;
	const unsigned char *bytes = pages_get(&finder->headers, address, 4 * word + 16);
	if (bytes == NULL)
		return false;
	*ret = (struct pool){
		.used = load_u32(bytes, order),
		.free = pages_load(&finder->headers, bytes + word),
		.arena = load_u32(bytes + 4 * word, order),
		.size = load_u32(bytes + 4 * word + 4, order),
		.next = load_u32(bytes + 4 * word + 8, order),
	};
	return true;
}

// So many blocks have been made in a pool; 0 if it contradicts itself.
static uint64_t pool_made(const struct finder *finder, const struct layout *layout, uint32_t index,
	const struct pool *pool, uint64_t size)
{
	const uint64_t overhead = pool_overhead(finder);
	if (pool->arena != index || size > SIZE_MOST || pool->next < overhead ||
		pool->next > layout->pool || (pool->next - overhead) % size != 0)
		return 0;
	const uint64_t made = (pool->next - overhead) / size;
	return pool->used <= made ? made : 0;
}

static bool pool_add(
	struct finder *finder, const struct layout *layout, uint32_t index, uint64_t address)
{
	struct slabs *slabs = finder->slabs;
	struct pool pool;
	if (!pool_read(finder, address, &pool)) {
		slabs->missing += layout->pool;
		return true;
	}
	// Nothing of it is in use: it is in the arena's list of free ones.
	if (pool.used == 0)
		return slabs_add_range(slabs, address, address + layout->pool, true);
	const uint64_t size = ((uint64_t)pool.size + 1) * pool_alignment(finder);
	const uint64_t made = pool_made(finder, layout, index, &pool, size);
	const uint64_t start = address + pool_overhead(finder);
	const uint64_t count = (layout->pool - pool_overhead(finder)) / size;
	if (made == 0) {
		slabs->damaged += layout->pool;
		return true;
	}
	if (!slabs_add_range(slabs, address, start, false) ||
		!slabs_add(slabs, HEAP_PYMALLOC, start, size, (uint32_t)count))
		return false;
	for (uint64_t i = 0; i < made; i++)
		slabs_use(slabs, (uint32_t)i);
	uint64_t free = 0, block = pool.free;
	for (; block != 0; free++) {
		const uint64_t at = (block - start) / size;
		if (block < start || at >= made || start + at * size != block ||
			!slabs_unuse(slabs, (uint32_t)at) ||
			!pages_word(&finder->blocks, block, &block)) {
			slabs->lists_broken++;
			break;
		}
	}
	if (free + pool.used != made)
		slabs->damaged += layout->pool;
	return slabs_add_range(slabs, start + count * size, address + layout->pool, false);
}

static bool arena_add(struct finder *finder, const struct layout *layout, uint32_t index,
	const struct arena *arena)
{
	const uint64_t first = arena_first(arena, layout);
	for (uint64_t pool = first; pool < arena->rest; pool += layout->pool)
		if (walker_stopped(finder->input) || !pool_add(finder, layout, index, pool))
			return walker_stopped(finder->input);
	return slabs_add_range(finder->slabs, arena->address, first, false) &&
	       slabs_add_range(finder->slabs, arena->rest, arena->address + layout->arena, true);
}

// ---- arrays

// The first arena has a pool with blocks that knows its index, or none has been used.
static const struct layout *array_recognize(struct finder *finder, uint64_t array)
{
	struct arena arena;
	// Those in front can have been given back.
	for (uint32_t i = 0; i < 64 && arena_read(finder, array, i, &arena); i++) {
		if (arena.address == 0)
			continue;
		for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
			const struct layout *layout = &layouts[k];
			struct pool pool;
			if (!arena_agrees(&arena, layout))
				continue;
			for (uint64_t at = arena_first(&arena, layout); at < arena.rest;
				at += layout->pool)
				if (pool_read(finder, at, &pool) && pool.used != 0)
					return pool_made(finder, layout, i, &pool,
						       ((uint64_t)pool.size + 1) *
							       pool_alignment(finder)) > 0
						       ? layout
						       : NULL;
		}
		return NULL;
	}
	return NULL;
}

static bool array_try(void *context, uint64_t at, uint64_t array)
{
	struct finder *finder = context;
	struct arena arena;
	const struct layout *layout;
	(void)at;
	if (array % finder->word != 0 || !arena_read(finder, array, 0, &arena) ||
		(arena.address != 0 && !arena_agrees(&arena, &layouts[0]) &&
			!arena_agrees(&arena, &layouts[1])))
		return true;
	layout = array_recognize(finder, array);
	for (size_t i = 0; layout != NULL && i < finder->known.count; i++)
		if (finder->known.list[i] == array)
			layout = NULL;
	if (layout == NULL)
		return true;
	uint32_t unused = 0;
	for (uint32_t i = 0;
		i < ARENAS_MAX && unused < UNUSED_MAX && arena_read(finder, array, i, &arena);
		i++) {
		if (arena.address == 0) {
			unused++;
			continue;
		}
		// Behind the end of the array is something else.
		if (!arena_agrees(&arena, layout))
			break;
		unused = 0;
		if (!arena_add(finder, layout, i, &arena))
			return false;
	}
	return addresses_add(&finder->known, array);
}

bool pymalloc_walk(const struct walker_input *input, struct slabs *slabs)
{
	struct finder finder = {
		.input = input, .slabs = slabs, .word = image_info(input->image)->word_size};
	const bool ok = pages_init(&finder.arenas, input->image, 8192) &&
			pages_init(&finder.headers, input->image, 8192) &&
			pages_init(&finder.blocks, input->image, 65536) &&
			statics_each(input, UINT32_MAX, array_try, &finder);
	pages_deinit(&finder.arenas);
	pages_deinit(&finder.headers);
	pages_deinit(&finder.blocks);
	free(finder.known.list);
	return ok;
}
