// SPDX-License-Identifier: MIT
//
// sift for processors with AVX2 and words of 8 bytes in their own order. Compiled with
// -mavx2; nothing else may be.
#ifdef __AVX2__
#include <immintrin.h>

#include "types/sift.h"

// A stretch as signed comparison needs it: both shifted by 2^63.
struct bounds {
	__m256i start, length;
};

static inline struct bounds bounds_of(const struct stretch *stretch)
{
	const uint64_t half = UINT64_C(1) << 63;
	const uint64_t start = stretch->start + half, length = stretch->length ^ half;
	return (struct bounds){
		.start = _mm256_set1_epi64x((int64_t)start),
		.length = _mm256_set1_epi64x((int64_t)length),
	};
}

static inline __m256i bounds_match(__m256i words, const struct bounds *bounds)
{
	return _mm256_cmpgt_epi64(bounds->length, _mm256_sub_epi64(words, bounds->start));
}

static inline unsigned bits_of(__m256i mask)
{
	return (unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(mask));
}

static inline __m256i words_match(__m256i words, const struct bounds *bounds, unsigned stretches)
{
	__m256i match = bounds_match(words, &bounds[0]);
	for (unsigned k = 1; k < stretches; k++)
		match = _mm256_or_si256(match, bounds_match(words, &bounds[k]));
	return match;
}

// What is known of 8 words, in lanes of 32 bits in the order below: -1 or 0.
struct look {
	__m256i zeros, texts;
	__m256i part; // texts that do not fill the word, in the highest bits
};

static const unsigned char look_order[8] = {0, 1, 4, 5, 2, 3, 6, 7};

// The printable characters, from 0x20 to 0x7e: the least signed bytes when 0x60 is added.
static inline __m256i bytes_printable(__m256i bytes)
{
	return _mm256_cmpgt_epi8(
		_mm256_set1_epi8(-0x21), _mm256_add_epi8(bytes, _mm256_set1_epi8(0x60)));
}

// Texts are words of printable characters and then NULs, of which less than half.
static inline struct look words_look(__m256i some, __m256i more)
{
	const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi8(-1);
	const __m256 floats = _mm256_castsi256_ps(some), others = _mm256_castsi256_ps(more);
	const __m256i low = _mm256_castps_si256(_mm256_shuffle_ps(floats, others, 0x88));
	const __m256i high = _mm256_castps_si256(_mm256_shuffle_ps(floats, others, 0xdd));
	const __m256i printable = bytes_printable(high), nul = _mm256_cmpeq_epi8(high, zero);
	// Bytes that are neither, and the first one that is not printable, unless it is a NUL and
	// no printable one follows: adding 1 carries up to there.
	const __m256i neither = _mm256_cmpeq_epi8(printable, nul);
	const __m256i carried = _mm256_sub_epi32(printable, ones);
	const __m256i wrong = _mm256_andnot_si256(nul, _mm256_or_si256(carried, neither));
	const __m256i texts = _mm256_and_si256(
		_mm256_cmpeq_epi32(wrong, zero), _mm256_cmpeq_epi32(bytes_printable(low), ones));
	return (struct look){
		.zeros = _mm256_cmpeq_epi32(_mm256_or_si256(low, high), zero),
		.texts = texts,
		.part = _mm256_and_si256(texts, nul),
	};
}

// Of texts that do not fill the word, those that are no addresses.
static uint64_t parts_count(const struct sifter *sifter, const uint64_t *words, uint64_t part)
{
	uint64_t count = 0;
	for (; part != 0; part &= part - 1) {
		const unsigned bit = (unsigned)__builtin_ctzll(part);
		count += sift_is_text(sifter, words[(bit & ~7u) + look_order[bit % 8]], false);
	}
	return count;
}

// In lanes of 32 bits.
static inline uint64_t lanes_sum(__m256i lanes)
{
	uint32_t all[8];
	uint64_t sum = 0;
	_mm256_storeu_si256((__m256i *)all, lanes);
	for (unsigned i = 0; i < 8; i++)
		sum += all[i];
	return sum;
}

// The loop for a number of stretches; count is a multiple of 64.
static inline void sift_words(const struct sifter *sifter, const uint64_t *words, size_t count,
	unsigned stretches, uint64_t *ret, struct sifted *sum)
{
	const struct stretch *stretch = sifter->ranges->stretches;
	struct bounds bounds[STRETCHES_MAX];
	__m256i zeros = _mm256_setzero_si256(), texts = zeros;
	for (unsigned k = 0; k < stretches; k++)
		bounds[k] = bounds_of(&stretch[k]);
	for (size_t i = 0; i < count; i += 64) {
		uint64_t marks = 0, part = 0;
#pragma GCC unroll 8
		for (unsigned k = 0; k < 64; k += 8) {
			const __m256i *at = (const __m256i *)(words + i + k);
			const __m256i some = _mm256_loadu_si256(at);
			const __m256i more = _mm256_loadu_si256(at + 1);
			const struct look look = words_look(some, more);
			const unsigned few = bits_of(words_match(some, bounds, stretches)) |
					     bits_of(words_match(more, bounds, stretches)) << 4;
			marks |= (uint64_t)few << k;
			// What is true is -1.
			zeros = _mm256_sub_epi32(zeros, look.zeros);
			texts = _mm256_sub_epi32(texts, look.texts);
			part |= (uint64_t)(unsigned)_mm256_movemask_ps(
					_mm256_castsi256_ps(look.part))
				<< k;
		}
		ret[i / 64] = marks;
		if (part != 0)
			sum->texts -= (unsigned)__builtin_popcountll(part) -
				      parts_count(sifter, words + i, part);
	}
	sum->zeros += lanes_sum(zeros);
	sum->texts += lanes_sum(texts);
}

void sift_avx2(const struct sifter *sifter, const void *words, size_t count, uint64_t *ret,
	struct sifted *sum)
{
	if (sifter->word_size != 8 || sifter->order != ORDER_NATIVE || sifter->texts_mapped ||
		sifter->ranges->count == 0) {
		sift(sifter, words, count, ret, sum);
		return;
	}
	const size_t most = count / 64 * 64;
	if (sifter->ranges->count == 1)
		sift_words(sifter, words, most, 1, ret, sum);
	else if (sifter->ranges->count == 2)
		sift_words(sifter, words, most, 2, ret, sum);
	else
		sift_words(sifter, words, most, 3, ret, sum);
	sift(sifter, (const uint64_t *)words + most, count - most, ret + most / 64, sum);
}
#endif
