// SPDX-License-Identifier: MIT
//
// The chunks of glibc's malloc, one behind the other.
//
// Source: glibc, malloc/malloc.c, struct malloc_chunk. A chunk at address p has at p the size of
// the chunk before it, if that one is free, and at p + word its own size, a multiple of two words,
// with three flags: 1 the chunk before it is in use, 2 it was mapped by itself, 4 it is not in the
// main arena (if it is in use; else 4 may be missing). The object begins at p + 2 * word and may
// use the first word of the chunk behind it. The chunk behind begins at p + size. The last one, the
// top, is free; what is behind it is not malloc's. Where a heap had to end, two chunks of two words
// or less (sysmalloc calls them fenceposts) stand in the place of the top.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/addresses.h"
#include "alloc/heap.h"

enum chunk_flags { PREV_INUSE = 1, IS_MMAPPED = 2, NON_MAIN_ARENA = 4, CHUNK_FLAGS = 7 };

static inline uint64_t chunk_size(uint64_t field)
{
	return field & ~(uint64_t)CHUNK_FLAGS;
}

#define PAGE ((uint64_t)4096)

// What the chains of a dump have in common.
struct chains {
	const struct image *image;
	size_t word; // bytes
	enum byte_order order;
	struct addresses tops; // sorted: the top of each arena that is known; owned
};

// The word at bytes, as the process had it.
static inline uint64_t chains_load(const struct chains *chains, const unsigned char *bytes)
{
	return word_load(bytes, (unsigned)chains->word, chains->order);
}

// Reads memory, for one thread.
struct window {
	const struct chains *chains;
	unsigned char *bytes; // WINDOW_SIZE; owned
	uint64_t address;
	size_t size;
};
#define WINDOW_SIZE ((size_t)128 << 10)
bool window_init(struct window *window, const struct chains *chains);
void window_deinit(struct window *window);
// Let the window begin at address. False if the dump has not even two words there.
bool window_move(struct window *window, uint64_t address);
// The word at address, from the window if it is there; false if the dump has it not.
bool window_word(const struct window *window, uint64_t address, uint64_t *ret);

// A stretch of memory that one chain is expected to fill.
struct stretch {
	uint64_t end;
	unsigned arena; // NON_MAIN_ARENA or 0: the flag that all chunks in use have
};

// The size field of a chunk at address that can be part of a chain; false if there is none.
bool chunk_read(const struct window *window, const struct stretch *stretch, uint64_t address,
	uint64_t *field);
// Whether a chunk at address with this size field can follow one whose size field is before: what
// it says of it is right.
bool chunk_follows(const struct window *window, const struct stretch *stretch, uint64_t address,
	uint64_t field, uint64_t before);
// The bytes that chunks at address take that stand for the end of a heap; 0: there are none.
uint64_t fence_size(const struct window *window, const struct stretch *stretch, uint64_t address);
// Whether a chain of sound chunks begins at address: so many that it is no coincidence, or at least
// least up to an end that is right.
bool chain_begins(const struct window *window, const struct stretch *stretch, uint64_t address,
	unsigned least);
// The first address from `from` on and below limit at which a chain begins; false if there is none.
// The window moves.
bool chain_search(struct window *window, const struct stretch *stretch, uint64_t from,
	uint64_t limit, uint64_t *ret);
// Follow the chain that begins at address to where it ends. False if that is neither behind a top
// that is known, nor behind chunks that stand for an end.
bool chain_end(
	struct window *window, const struct stretch *stretch, uint64_t address, uint64_t *ret);

// What fills a region.
struct chain {
	uint64_t first; // address of its first chunk
	struct stretch stretch;
};

// A block begins two words behind its chunk, and may use the first word of the next chunk.
static inline struct heap_region chunks_region(
	enum heap_region_kind kind, uint64_t first, uint64_t end, size_t word)
{
	return (struct heap_region){
		.allocator = HEAP_GLIBC,
		.kind = kind,
		.start = first + 2 * word,
		.end = end,
		.unit_bits = word == 8 ? 4 : 3,
		.slack = (uint8_t)word,
		.lead = 2 * word,
	};
}

static inline size_t chunk_slot(const struct heap_region *region, uint64_t chunk)
{
	return region_slot(region, chunk + region->lead);
}

// The region of the chunk at address; NULL if there is none.
static inline const struct heap_region *chunk_region(
	const struct heap *heap, uint64_t chunk, size_t word)
{
	return heap_region_at(heap, chunk + 2 * word);
}

// Follow the chains, sorted by address, of regions of heap, with several threads. Sets bits, and
// the tallies but for fast and cached; *ret gets the chunks that may be threads' caches.
bool chunks_walk(const struct chains *chains, const struct heap_options *options,
	const struct chain *list, size_t count, struct heap *heap, struct error *err,
	struct addresses *ret);
