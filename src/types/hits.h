// SPDX-License-Identifier: MIT
//
// What one thread sees of the candidates in the pieces of memory that it is given: where they are,
// in which objects, at which distances. What is told of a word depends on the memory and on the
// blocks around it, never on where pieces begin and end.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "image/places.h"
#include "names/pointers.h"
#include "types/candidates.h"
#include "types/facts.h"
#include "types/parts.h"
#include "types/ranges.h"
#include "types/runs.h"
#include "types/shapes.h"
#include "types/sift.h"

// What must be there of the memory before a piece, in bytes: neighbours and outer objects that are
// noted are not farther away.
#define CONTEXT ((size_t)16 << 10)

// In the last two there are no objects of an allocator.
enum site { SITE_HEAP, SITE_ANON, SITE_STACK, SITE_DATA, SITE_COUNT };

#define EXAMPLES_MAX 3

// So many offsets at which it is the first candidate of a block are told apart.
#define EXAMPLE_OFFSETS 6

struct example {
	uint64_t address;
	uint32_t order;	 // of the scan: the number of a piece
	uint16_t offset; // in its block, where that is told apart
	bool is_static;	 // where there are no objects: comes last
};

// The first ones.
struct examples {
	struct example list[EXAMPLES_MAX];
	uint32_t count;
};

// The first one at each offset at which they are the first candidates of blocks, and outside of
// known blocks.
struct openers {
	struct example list[EXAMPLE_OFFSETS]; // sorted by offset
	struct example alone;
	uint32_t count;
	bool has_alone;
};

// The only place of some: its index and 1; 0: there is none yet.
typedef uint32_t only_place;
#define PLACES_MANY UINT32_MAX

static inline void only_place_add(only_place *only, only_place place)
{
	*only = *only == 0 || *only == place || place == 0 ? *only | place : PLACES_MANY;
}

// What one thread knows of a candidate, apart from facts.
struct tally {
	uint64_t last; // position of the last hit, see hits.c
	// Hits by where they are, without those that opened objects or lie in them: FACT_OPEN and
	// FACT_INNER have these.
	uint64_t sites[SITE_COUNT];
	uint64_t freed;		  // in free blocks
	only_place stack, module; // of those hits: index in places, and of the module
	struct examples examples;
	struct openers openers;
};

// Keep the first ones.
void example_add(struct examples *examples, const struct example *example);
void opener_add(struct openers *openers, const struct example *example);
void opener_add_alone(struct openers *openers, const struct example *example);

// What all threads share.
struct hits_shared {
	const struct image_info *info;
	const struct places *places;
	const struct ranges *ranges;
	const struct sifter *sifter;
	sift_function *sift;
	struct candidates *candidates;
	const struct hash *hash;
	const struct pointers *pointers;    // see survey_options
	const struct size_classes *classes; // of the allocator; NULL: they are not known
};

// A piece of the memory. Those of one thread come in the order of their numbers.
struct piece {
	struct view view;
	size_t context; // bytes that are in memory before the view, and belong there
	uint64_t number;
	const struct parts *parts;
	// The beginning of the block parts->before, as far as it is before the view.
	unsigned char opening[OFFSET_MAX + 8];
	size_t opening_size;
};

// The last words that were identified, to find them again without a search: a power of two.
#define RECENT 512

struct recent {
	uint64_t value;
	uint32_t id; // NO_ID: it is not to be counted
};

// The place that the words at hand are in.
struct cursor {
	uint64_t start, size;
	enum site site;
	only_place place;
	uint64_t stale; // addresses below are left over from calls that have returned
};

// What is remembered from one hit to the next.
struct recall {
	uint64_t block;	 // of the last hit in one: its address
	uint32_t opener; // the first candidate in it; NO_ID: none yet
	uint32_t before; // the last hit; NO_ID: none
	uint64_t before_address;
};

struct hits {
	const struct hits_shared *shared;
	uint64_t *marks;       // of the words in the piece; owned
	struct tally *tallies; // by id; owned
	struct facts facts;
	struct runs runs;
	struct shape *shapes;	  // SHAPES of them; owned
	struct shape_rest *rests; // of the shapes; owned
	uint64_t told;		  // shapes
	struct recent recent[RECENT];
	struct cursor cursor;
	struct recall recall;
	uint64_t words;
	struct sifted sifted;
	bool full; // there was no room for all facts or candidates
};

// For pieces of up to size bytes.
bool hits_init(struct hits *hits, const struct hits_shared *shared, size_t size, struct error *err);
void hits_deinit(struct hits *hits);
// What it takes, in bytes, without what hits_reset takes.
size_t hits_memory(const struct image_info *info, size_t size);

// Forget everything; room for most candidates, memory bytes for facts, and a tenth more for parts
// of runs.
bool hits_reset(struct hits *hits, uint32_t most, size_t memory, struct error *err);
// Give back what hits_reset has taken.
void hits_forget(struct hits *hits);

// Look at a piece.
void hits_feed(struct hits *hits, const struct piece *piece);
// No piece follows: now facts are complete, but for runs.
void hits_finish(struct hits *hits);
// Only add up in cells, of which there are CANDIDATE_CELLS, how often the values of each come.
void hits_feed_cells(struct hits *hits, const struct view *view, uint32_t *cells);
