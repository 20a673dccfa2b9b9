// SPDX-License-Identifier: MIT
//
// Runs of objects of one type that follow each other at one distance, outside of known chunks: such
// as the elements of an array have. Of use where it is known which sizes an allocator has.
//
// A run is defined by what is around it alone: consecutive objects with the same distance between
// them; one that two runs share belongs to the one with the smaller distance.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "types/facts.h"
#include "types/sizeclass.h"

// Of larger distances there are no runs, in bytes.
#define RUN_DISTANCE_MAX ((uint64_t)4096)

// What a run looks like, in FACT_RUN.
enum run_kind {
	// The word before the first object has their number: Itanium C++ ABI, 2.7, array cookies.
	RUN_COUNTED = 1,
	// It can be no array, or looks as if it were made of single objects: where it begins no
	// block of its size can; behind it there is room for one more and then comes another; it
	// fills pages.
	RUN_SINGLES = 2,
	// It begins where pages do, and may be either.
	RUN_EITHER = 8,
	// See size_may_be_mapped.
	RUN_MAPPED = 4,
};

// The run that the last object of a candidate is in.
struct run {
	uint64_t last;	   // address of the object
	uint32_t piece;	   // number of its piece, and 1; 0: there is none
	uint32_t lead;	   // the word before the first object; 0: not known or greater
	uint32_t before;   // the word before the last one
	uint32_t steps;	   // objects behind the first one; of an open run: that are in the piece
	uint16_t distance; // bytes; 0: none yet
	uint8_t flags;
};

// A part of a run that lies in more than one piece, or what such a part must know.
struct run_part {
	uint64_t first; // address
	uint32_t id;
	uint32_t steps, lead;
	uint16_t distance;
	uint8_t flags;
};

// What one thread knows.
struct runs {
	const struct size_classes *classes;
	struct facts *facts;
	struct run *list; // by id; owned; NULL: runs are not looked for
	uint32_t count;
	struct run_part *parts; // owned
	size_t part_count, part_most;
	bool full; // there was no room for a fact
};

// Room for most candidates and, in memory bytes, for parts: beyond it a run that goes on in another
// piece is taken for two.
bool runs_init(struct runs *runs, const struct size_classes *classes, struct facts *facts,
	uint32_t most, size_t memory, struct error *err);
void runs_deinit(struct runs *runs);

// An object of a candidate before the piece with a number; before: the word before it, 0 if not
// known. All that are near the piece come, in order, before those in it.
void runs_recall(struct runs *runs, uint32_t id, uint32_t piece, uint64_t address, uint64_t before);
// An object in the piece, not farther than reach behind the end of what is no heap.
void runs_add(struct runs *runs, uint32_t id, uint32_t piece, uint64_t address, uint64_t before,
	uint64_t reach);
// The piece ends at an address. This is a candidate that may have an object near its end.
void runs_leave(struct runs *runs, uint32_t id, uint32_t piece, uint64_t end);
// So near the end of a piece objects matter, in bytes.
#define RUN_NEAR (2 * RUN_DISTANCE_MAX)

// All pieces have come.
void runs_finish(struct runs *runs);
// Put the parts of all threads together; the facts go to those of the first one.
bool runs_join(struct runs *const *all, unsigned threads, struct error *err);
