// SPDX-License-Identifier: MIT
#include "types/sift.h"

#include <string.h>

#define REPEAT(byte) (UINT64_C(0x0101010101010101) * (byte))

void sifter_init(struct sifter *sifter, const struct image_info *info, const struct ranges *ranges,
	const struct places *places)
{
	*sifter = (struct sifter){
		.word_size = info->word_size,
		.order = info->order,
		.ranges = ranges,
		.places = places,
	};
	// From the least to the greatest word that a text fills.
	const uint64_t least = info->word_size == 8 ? REPEAT(0x20) : (uint32_t)REPEAT(0x20);
	const uint64_t most = info->word_size == 8 ? REPEAT(0x7e) : (uint32_t)REPEAT(0x7e);
	for (size_t i = 0; i < places->count; i++) {
		const struct span *span = &places->spans[i];
		if (span->start > most)
			break;
		sifter->texts_mapped |= span->end > least;
		sifter->mapped = places->spans[0].start;
		sifter->mapped_end = span->end;
	}
}

struct text_look {
	bool is, full;
};

// Whether the bytes of a word, the first one lowest, could be a text.
static inline struct text_look text_look(uint64_t word, unsigned size)
{
	// Of zero this is 1, too short.
	const unsigned length = 8 - (unsigned)__builtin_clzll(word | 1) / 8;
	// Spaces instead of the NULs. A carry out of a byte of ASCII is not possible.
	word |= length < 8 ? REPEAT(0x20) << (8 * length) : 0;
	const uint64_t control = ~(word + REPEAT(0x60)) | (word + REPEAT(0x01)) | word;
	return (struct text_look){
		.is = (control & REPEAT(0x80)) == 0 && length >= size / 2,
		.full = length == size,
	};
}

// The loop for one word size and byte order.
static inline __attribute__((always_inline)) void sift_words(const struct sifter *sifter,
	const unsigned char *words, size_t count, unsigned size, enum byte_order order,
	uint64_t *ret, struct sifted *sum)
{
	// Without a stretch start is 0 and length is 0.
	const struct ranges *ranges = sifter->ranges;
	const struct stretch first = ranges->stretches[0], second = ranges->stretches[1],
			     third = ranges->stretches[2];
	for (size_t i = 0; i < count; i++) {
		const uint64_t loaded = word_load_native(words + i * size, size);
		const uint64_t value = word_swap(loaded, size, order);
		const uint64_t match = (value - first.start < first.length) |
				       (value - second.start < second.length) |
				       (value - third.start < third.length);
		const struct text_look text =
			text_look(word_swap(loaded, size, ORDER_LITTLE), size);
		ret[i / 64] |= match << (i % 64);
		sum->zeros += value == 0;
		sum->texts += text.is && sift_is_text(sifter, value, text.full);
	}
}

void sift(const struct sifter *sifter, const void *words, size_t count, uint64_t *ret,
	struct sifted *sum)
{
	// The names of the orders are constants for the compiler.
	const enum byte_order other = ORDER_NATIVE == ORDER_LITTLE ? ORDER_BIG : ORDER_LITTLE;
	const bool native = sifter->order == ORDER_NATIVE;
	memset(ret, 0, MARKS_WORDS(count) * sizeof *ret);
	if (sifter->word_size == 8 && native)
		sift_words(sifter, words, count, 8, ORDER_NATIVE, ret, sum);
	else if (sifter->word_size == 8)
		sift_words(sifter, words, count, 8, other, ret, sum);
	else if (native)
		sift_words(sifter, words, count, 4, ORDER_NATIVE, ret, sum);
	else
		sift_words(sifter, words, count, 4, other, ret, sum);
}

sift_function *sift_for(enum cpu_level level)
{
#ifdef __x86_64__
	if (level == CPU_AVX2)
		return sift_avx2;
#endif
	(void)level;
	return sift;
}
