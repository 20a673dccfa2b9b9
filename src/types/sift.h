// SPDX-License-Identifier: MIT
//
// One look at each word: whether it points to a program, is zero, or is text.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cpu.h"
#include "image/places.h"
#include "types/ranges.h"

struct sifter {
	unsigned word_size; // bytes
	enum byte_order order;
	const struct ranges *ranges;
	const struct places *places;
	uint64_t mapped, mapped_end; // from the first place to the last one that texts may be in
	bool texts_mapped;	     // words that texts fill may be addresses
};

// ranges and places must live as long.
void sifter_init(struct sifter *sifter, const struct image_info *info, const struct ranges *ranges,
	const struct places *places);

// Words that were seen.
struct sifted {
	uint64_t zeros;
	// Of printable ASCII characters and then NULs, of which less than half; those that are
	// addresses are left out as in names/kinds.h.
	uint64_t texts;
};

#define MARKS_WORDS(count) ((count) / 64 + 2)

// Look at words as they lie in memory, aligned to their size. In ret, which has room for
// MARKS_WORDS(count), a bit becomes set for each that is in a stretch of ranges; those for more
// words than count are 0. What is seen is added to sum.
void sift(const struct sifter *sifter, const void *words, size_t count, uint64_t *ret,
	struct sifted *sum);
// The same for processors with AVX2; only if the program is compiled for x86-64.
void sift_avx2(const struct sifter *sifter, const void *words, size_t count, uint64_t *ret,
	struct sifted *sum);

typedef void sift_function(const struct sifter *sifter, const void *words, size_t count,
	uint64_t *ret, struct sifted *sum);
// The one for a level.
sift_function *sift_for(enum cpu_level level);

// Whether a word that could be a text, and fills the word or not, is none because it is an address.
static inline bool sift_is_text(const struct sifter *sifter, uint64_t value, bool full)
{
	size_t index;
	if (value - sifter->mapped >= sifter->mapped_end - sifter->mapped ||
		!places_find(sifter->places, value, &index))
		return true;
	const enum kind kind = sifter->places->spans[index].kind;
	return full && kind != KIND_CODE && kind != KIND_DATA;
}
