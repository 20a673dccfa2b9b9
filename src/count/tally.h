// SPDX-License-Identifier: MIT
//
// The innermost loops: what is done to each word of a block.
#pragma once

#include "count/known.h"

// Cells of 32 bits, a set for each thread. 2^15 are enough where the last row is frequent: with the
// keys and the block they fill half of a second-level cache of 512 KiB. 2^21 stay in a third-level
// cache.
#define CELL_BITS_MIN 15
#define CELL_BITS_USUAL 17
#define CELL_BITS_MAX 21

// Counters of a known word, used in turn, so that equal words in a row need not wait for each
// other.
#define LANES 2

// One thread's counters of a full pass.
struct tally {
	const uint64_t *keys; // of the known words
	unsigned known_shift;
	unsigned cell_shift;
	uint64_t factor; // of the hash
	uint32_t *known; // LANES counts for each known word
	uint32_t *cells; // the other words; not used by tally_known
};

// Add one for each word: to its own counter if it is known, else to its cell's.
void tally_words(const struct tally *tally, const void *words, size_t count, unsigned word_size);
// Add one for each known word and copy all others to rest, which has room for count words and one.
// Returns how many.
size_t tally_known(const struct tally *tally, const void *words, size_t count, unsigned word_size,
	uint64_t *rest);
