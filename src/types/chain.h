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

// A piece of memory that has been read.
struct view {
	const struct image *image; // for what lies outside; NULL: that is not known
	uint64_t address;
	const unsigned char *bytes;
	size_t size;
};

struct chain {
	unsigned word; // bytes
	enum byte_order order;
	uint64_t end;	   // of the segment; 0: no chunks are looked for
	uint64_t next;	   // where the next chunk begins, or may begin
	bool known;	   // a chunk begins at next if the chain is sound
	uint64_t patience; // up to here every place is tried, behind it only pages
	// The chunk before next, valid if size is not 0.
	uint64_t chunk, size;
	bool used;
	uint64_t arena; // the flag 4 of the chain, which all its chunks have alike
};

// Begin with a segment from start to end.
void chain_begin(struct chain *chain, const struct image_info *info, uint64_t start, uint64_t end);

// Move on until the chunk that holds address, which must not be less than in the call before, is
// the current one, or until it is known that there is none. What is found does not depend on what
// the view holds, except that no chain is looked for behind its end.
void chain_advance(struct chain *chain, const struct view *view, uint64_t address);

// Move on to end over memory that is all zeros.
void chain_skip(struct chain *chain, uint64_t end);

// The object that holds address, in the current chunk; false if none is known. *size is the
// chunk's.
static inline bool chain_object(
	const struct chain *chain, uint64_t address, uint64_t *start, uint64_t *size)
{
	if (chain->size == 0 || address - chain->chunk - chain->word >= chain->size)
		return false;
	*start = chain->chunk + 2 * (uint64_t)chain->word;
	*size = chain->size;
	return true;
}
