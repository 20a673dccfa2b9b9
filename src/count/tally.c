// SPDX-License-Identifier: MIT
#include "count/tally.h"

// Words that are looked at together.
#define GROUP 8

// Both compilers know this; at -O2 gcc does not unroll by itself, and the group would not stay in
// registers.
#define UNROLL _Pragma("GCC unroll 8")

#define INLINE static inline __attribute__((always_inline))

// known if the word is the slot's key, else cell. The words of a heap do not let a branch be
// predicted well, and compilers make one of this; a conditional move takes a tenth off the pass.
INLINE uint32_t *counter_choose(const uint64_t *key, uint64_t word, uint32_t *known, uint32_t *cell)
{
#ifdef __x86_64__
	__asm__("cmpq %3, %2\n\tcmove %1, %0"
		: "+r"(cell)
		: "r"(known), "r"(word), "m"(*key)
		: "cc");
	return cell;
#else
	return *key == word ? known : cell;
#endif
}

INLINE void tally_word(const struct tally *tally, uint64_t word, size_t lane, uint32_t times)
{
	const uint64_t hash = word * tally->factor;
	const size_t slot = hash >> tally->known_shift;
	uint32_t *cell = &tally->cells[hash >> tally->cell_shift];
	uint32_t *known = &tally->known[slot * LANES + lane];
	*counter_choose(&tally->keys[slot], word, known, cell) += times;
}

// Whether all words of a group are equal. Two comparisons tell nearly all others.
INLINE bool group_equal(const char *bytes, unsigned word_size)
{
	const uint64_t first = word_load_native(bytes, word_size);
	if (word_load_native(bytes + word_size, word_size) != first ||
		word_load_native(bytes + (size_t)(GROUP - 1) * word_size, word_size) != first)
		return false;
	uint64_t differ = 0;
	UNROLL
	for (size_t i = 2; i < GROUP - 1; i++)
		differ |= word_load_native(bytes + i * word_size, word_size) ^ first;
	return differ == 0;
}

INLINE void tally_sized(const struct tally *tally, const char *bytes, size_t count, unsigned size)
{
	const struct tally local = *tally;
	size_t i = 0;
	for (; i + GROUP <= count; i += GROUP) {
		const char *group = bytes + i * size;
		// Zeros, and what else memory is filled with, come in long runs.
		if (group_equal(group, size)) {
			tally_word(&local, word_load_native(group, size), 0, GROUP);
			continue;
		}
		UNROLL
		for (size_t k = 0; k < GROUP; k++)
			tally_word(&local, word_load_native(group + k * size, size), k % LANES, 1);
	}
	for (; i < count; i++)
		tally_word(&local, word_load_native(bytes + i * size, size), 0, 1);
}

void tally_words(const struct tally *tally, const void *words, size_t count, unsigned word_size)
{
	if (word_size == 8)
		tally_sized(tally, words, count, 8);
	else
		tally_sized(tally, words, count, 4);
}

INLINE size_t known_sized(
	const struct tally *tally, const char *bytes, size_t count, unsigned size, uint64_t *rest)
{
	const struct tally local = *tally;
	size_t used = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t word = word_load_native(bytes + i * size, size);
		const size_t slot = word * local.factor >> local.known_shift;
		const bool known = local.keys[slot] == word;
		local.known[slot * LANES + i % LANES] += known;
		rest[used] = word;
		used += !known;
	}
	return used;
}

size_t tally_known(const struct tally *tally, const void *words, size_t count, unsigned word_size,
	uint64_t *rest)
{
	return word_size == 8 ? known_sized(tally, words, count, 8, rest)
			      : known_sized(tally, words, count, 4, rest);
}
