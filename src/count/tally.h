// SPDX-License-Identifier: MIT
//
// The innermost loops: what is done to each word of a block.
#pragma once

#include "count/known.h"

// 2^17 cells of 32 bits, one set for each thread: they stay in its second-level cache.
#define CELL_BITS 17
#define CELL_COUNT ((size_t)1 << CELL_BITS)

static inline size_t cell_of(uint64_t hash)
{
	return (size_t)(hash >> (64 - CELL_BITS));
}

// One thread's counters of a full pass.
struct tally {
	const uint64_t *keys; // of the known words
	unsigned known_shift;
	uint64_t factor; // of the hash
	uint32_t *known; // a count for each known word
	uint32_t *cells; // the other words
};

// Add one for each word: to its own counter if it is known, else to its cell's.
void tally_words(const struct tally *tally, const void *words, size_t count, unsigned word_size);
