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

// A chunk that begins in a view, or a place from which on none is known.
typedef uint32_t chain_mark;
enum {
	MARK_USED = 1,
	MARK_NONE = 2,
	MARK_FLAGS = 3,
	// What is added to offsets: a chunk may begin a word before the view that has its size.
	MARK_BIAS = 16,
};

// The most marks that a view of some bytes can have.
static inline size_t chain_marks_max(size_t size, unsigned word)
{
	// Between two that are not chunks there is one, of four words at least.
	return size / (2 * (size_t)word) + 2;
}

// Move on through a view, which follows the one before, and note what begins there: the offset in
// the view, biased, and flags. Chunks whose size field is behind the view come with the next one.
// Returns the number of marks. What is found does not depend on where views begin and end.
size_t chain_follow(struct chain *chain, const struct view *view, chain_mark *ret);

// Move on to end over memory that is all zeros.
void chain_skip(struct chain *chain, uint64_t end);
