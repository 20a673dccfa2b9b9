// SPDX-License-Identifier: MIT
//
// ranges_mark for processors with AVX2 and words of 8 bytes in their own order. Compiled with
// -mavx2; nothing else may be.
#ifdef __AVX2__
#include <immintrin.h>

#include "types/ranges.h"

// A stretch as signed comparison needs it: both shifted by 2^63.
struct bounds {
	__m256i start, length;
};

static inline struct bounds bounds_of(const struct stretch *stretch)
{
	const uint64_t half = UINT64_C(1) << 63;
	return (struct bounds){
		.start = _mm256_set1_epi64x((long long)(stretch->start + half)),
		.length = _mm256_set1_epi64x((long long)(stretch->length ^ half)),
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

// The loop for a number of stretches; count is a multiple of 64.
static inline size_t mark_words(const struct ranges *ranges, const uint64_t *words, size_t count,
	unsigned stretches, uint64_t *ret)
{
	const __m256i zero = _mm256_setzero_si256();
	struct bounds bounds[STRETCHES_MAX];
	__m256i zeros = zero;
	for (unsigned k = 0; k < stretches; k++)
		bounds[k] = bounds_of(&ranges->stretches[k]);
	for (size_t i = 0; i < count; i += 64) {
		uint64_t bits = 0;
#pragma GCC unroll 8
		for (unsigned k = 0; k < 64; k += 8) {
			const __m256i *at = (const __m256i *)(words + i + k);
			const __m256i low = _mm256_loadu_si256(at);
			const __m256i high = _mm256_loadu_si256(at + 1);
			const unsigned few = bits_of(words_match(low, bounds, stretches)) |
					     bits_of(words_match(high, bounds, stretches)) << 4;
			// A match is -1.
			zeros = _mm256_sub_epi64(zeros, _mm256_cmpeq_epi64(low, zero));
			zeros = _mm256_sub_epi64(zeros, _mm256_cmpeq_epi64(high, zero));
			bits |= (uint64_t)few << k;
		}
		ret[i / 64] = bits;
	}
	uint64_t sums[4];
	_mm256_storeu_si256((__m256i *)sums, zeros);
	return (size_t)(sums[0] + sums[1] + sums[2] + sums[3]);
}

size_t ranges_mark_avx2(const struct ranges *ranges, const void *words, size_t count,
	unsigned word_size, enum byte_order order, uint64_t *ret)
{
	if (word_size != 8 || order != ORDER_NATIVE || ranges->count == 0)
		return ranges_mark(ranges, words, count, word_size, order, ret);
	const size_t most = count / 64 * 64;
	const size_t zeros = ranges->count == 1	  ? mark_words(ranges, words, most, 1, ret)
			     : ranges->count == 2 ? mark_words(ranges, words, most, 2, ret)
						  : mark_words(ranges, words, most, 3, ret);
	return zeros + ranges_mark(ranges, (const uint64_t *)words + most, count - most, word_size,
			       order, ret + most / 64);
}
#endif
