// SPDX-License-Identifier: MIT
//
// The chain of chunks in a heap of glibc's malloc, followed through memory that is read in order.
//
// Source: glibc, malloc/malloc.c, struct malloc_chunk. A chunk at address p has at p the size of
// the chunk before it, if that one is free, and at p + word its own size, a multiple of two words,
// with three flags: 1 the chunk before it is in use, 2 it was mapped by itself, 4 it is not in the
// main arena. The object begins at p + 2 * word and may use the first word of the chunk behind it.
// The chunk behind begins at p + size. The last chunk of a heap, the top, is free.
//
// No symbol is needed: a chain is recognized by its consistency.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "types/chunks.h"

struct chain {
	unsigned word; // bytes
	enum byte_order order;
	uint64_t end;	   // of the segment; 0: no chunks are looked for
	uint64_t next;	   // where the next chunk begins, or may begin
	bool known;	   // a chunk begins at next if the chain is sound
	uint64_t patience; // up to here every place is tried, behind it only pages
	// The last chunk before next. If none is known there, the place from which on none is, and
	// 0.
	uint64_t chunk, size;
	bool used;
	uint64_t arena; // the flag 4 of the chain, which all its chunks have alike
	// How often each value of a size field came, CHAIN_FIELDS of them; greater ones at 0.
	uint64_t *fields;
};

// Larger chunks are not so many that anyone would ask.
#define CHAIN_FIELDS ((uint64_t)1 << 16)

// Begin with a segment from start to end. fields stay.
void chain_begin(struct chain *chain, const struct image_info *info, uint64_t start, uint64_t end);

// Move on through a view, which follows the one before, and find its chunks. Those whose size field
// is behind the view come with the next one. What is found does not depend on where views begin and
// end.
void chain_follow(struct chain *chain, const struct view *view, struct chunks *chunks);

// Move on to end over memory that is all zeros.
void chain_skip(struct chain *chain, uint64_t end);
