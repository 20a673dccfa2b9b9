// SPDX-License-Identifier: MIT
#include "count/tally.h"

// The counter is chosen without a branch: which words are known cannot be predicted.
static inline void tally_word(const struct tally *tally, uint64_t word)
{
	const uint64_t hash = word * tally->factor;
	const size_t slot = hash >> tally->known_shift;
	uint32_t *cell = &tally->cells[cell_of(hash)];
	uint32_t *known = &tally->known[slot];
	uint32_t *counter = tally->keys[slot] == word ? known : cell;
	++*counter;
}

void tally_words(const struct tally *tally, const void *words, size_t count, unsigned word_size)
{
	const struct tally local = *tally;
	if (word_size == 8) {
		const uint64_t *word = words;
		for (size_t i = 0; i < count; i++)
			tally_word(&local, word[i]);
	} else {
		const uint32_t *word = words;
		for (size_t i = 0; i < count; i++)
			tally_word(&local, word[i]);
	}
}
