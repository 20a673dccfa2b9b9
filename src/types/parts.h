// SPDX-License-Identifier: MIT
//
// What a piece of memory is made of, by the map of blocks (alloc/heap.h): blocks in use, what is
// free or the allocator's own, and memory that no known allocator has.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/lookup.h"
#include "image/image.h"

// A piece of memory that has been read.
struct view {
	const struct image *image; // for what lies outside; NULL: it cannot be read
	uint64_t address;
	const unsigned char *bytes;
	size_t size;
};

enum part_state {
	PART_NONE, // no allocator is known to have it
	PART_FREE, // free, or the allocator's own
	PART_USED, // a block in use
};

struct part {
	uint64_t address; // where it begins
	uint64_t limit;	  // behind the last byte that may be used
	uint64_t size;	  // bytes that it costs, with what the allocator keeps for it; 0: PART_NONE
	enum part_state state;
};

// A part begins in a view: its offset there, its state, how much of its end is the allocator's (in
// words), and whether its region ends with it.
typedef uint32_t part_mark;
enum { MARK_STATE = 3, MARK_SLACK = 7 << 2, MARK_LAST = 1 << 5, MARK_BITS = 6 };

struct parts {
	const struct heap *heap;
	size_t hint; // a region of the view, see heap_region_near
	struct part
		before; // that the view begins in; it may begin with the view, if it is PART_NONE
	// Those that begin in the view, in order; owned. There are none before the first one but
	// `before`.
	part_mark *list;
	size_t count;
	uint64_t end; // address where the last one ends, the next one's slack included
};

// The most parts that a view of some bytes can have.
static inline size_t parts_max(size_t size, unsigned word)
{
	return size / word + 1;
}

static inline uint32_t mark_offset(part_mark mark)
{
	return mark >> MARK_BITS;
}

static inline enum part_state mark_state(part_mark mark)
{
	return (enum part_state)(mark & MARK_STATE);
}

// The part that begins with a mark, and is followed by another one so many bytes behind. It is not
// the last one of its region.
static inline struct part mark_part(
	part_mark mark, uint64_t address, uint64_t length, unsigned word)
{
	const enum part_state state = mark_state(mark);
	const uint64_t slack = (mark & MARK_SLACK) / 4 * (uint64_t)word;
	return (struct part){
		.address = address,
		.limit = address + length - (state == PART_NONE ? 0 : slack),
		.size = state == PART_NONE ? 0 : length,
		.state = state,
	};
}

// The last part of a region, which has MARK_LAST.
struct part part_last(const struct heap *heap, part_mark mark, uint64_t address, size_t *hint);

// Find the parts of a view. Their list has room for parts_max.
void parts_find(
	const struct lookup *lookup, const struct view *view, unsigned word, struct parts *parts);
