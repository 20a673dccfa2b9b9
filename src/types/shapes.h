// SPDX-License-Identifier: MIT
//
// What objects look like: which of their words are candidates, and which ones. Most objects in a
// heap look like one of a few, so that one comparison and one count tell all there is to know of
// them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "count/hash.h"

// Words of an object; of those that are candidates, the first few are compared at once.
#define SHAPE_WORDS 64
#define SHAPE_FIRST 4
#define SHAPE_HITS 32

struct shape {
	uint64_t marks; // a bit for each word that is a candidate; 0: none is known
	uint64_t count;
	uint32_t words; // of the object
	// The first candidates as they lie in memory, and which words they are; where there are
	// fewer, the last one again.
	uint8_t at[SHAPE_FIRST];
	uint64_t first[SHAPE_FIRST];
	uint64_t others; // marks without those of first
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct shape) == 64, "a line of the cache");

// What is seldom asked for.
struct shape_rest {
	uint64_t values[SHAPE_HITS - SHAPE_FIRST]; // of the others
	uint64_t kept;				   // the count when misses was 0
	uint32_t misses;			   // objects that wanted the place, lately
};

#define SHAPE_BITS 10
#define SHAPES ((size_t)1 << SHAPE_BITS)

static inline uint64_t shape_word(const unsigned char *object, unsigned at, unsigned word)
{
	return word_load_native(object + (size_t)at * word, word);
}

// The place of what looks like this object, if it is known.
static inline size_t shape_place(
	const struct hash *hash, const unsigned char *object, uint64_t marks, unsigned word)
{
	const uint64_t first = shape_word(object, (unsigned)__builtin_ctzll(marks), word);
	return (size_t)((first ^ marks * hash->second) * hash->factor >> (64 - SHAPE_BITS));
}

// Whether an object of some words with these candidates looks like a shape. word is a constant for
// the compiler.
static inline bool shape_matches(const struct shape *shape, const struct shape_rest *rest,
	const unsigned char *object, uint32_t words, uint64_t marks, unsigned word)
{
	uint64_t other = 0;
	if (shape->marks != marks || shape->words != words)
		return false;
#pragma GCC unroll 4
	for (unsigned i = 0; i < SHAPE_FIRST; i++)
		other |= shape->first[i] ^ shape_word(object, shape->at[i], word);
	const uint64_t *value = rest->values;
	for (uint64_t left = shape->others; left != 0; left &= left - 1)
		other |= *value++ ^ shape_word(object, (unsigned)__builtin_ctzll(left), word);
	return other == 0;
}

// Whether another object may have the place of a shape.
bool shape_yields(const struct shape *shape, struct shape_rest *rest);
// Make this object a shape; it has SHAPE_HITS candidates at most.
void shape_learn(struct shape *shape, struct shape_rest *rest, const unsigned char *object,
	uint32_t words, uint64_t marks, unsigned word);
