// SPDX-License-Identifier: MIT
//
// ranges_select for processors with AVX2 and words of 8 bytes in their own order. Compiled with
// -mavx2; nothing else may be.
#ifdef __AVX2__
#include <immintrin.h>

#include "types/ranges.h"

// Words looked at in one step.
#define STEP 8

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

// The loop for a number of stretches.
static inline size_t select_words(const struct ranges *ranges, const uint64_t *words, size_t count,
	unsigned stretches, uint32_t *ret, size_t *zeros)
{
	const __m256i zero = _mm256_setzero_si256();
	struct bounds bounds[STRETCHES_MAX];
	__m256i nothing = zero;
	size_t found = 0;
	for (unsigned k = 0; k < stretches; k++)
		bounds[k] = bounds_of(&ranges->stretches[k]);
	for (size_t i = 0; i < count; i += STEP) {
		const __m256i low = _mm256_loadu_si256((const __m256i *)(words + i));
		const __m256i high = _mm256_loadu_si256((const __m256i *)(words + i + STEP / 2));
		__m256i low_match = bounds_match(low, &bounds[0]);
		__m256i high_match = bounds_match(high, &bounds[0]);
		for (unsigned k = 1; k < stretches; k++) {
			low_match = _mm256_or_si256(low_match, bounds_match(low, &bounds[k]));
			high_match = _mm256_or_si256(high_match, bounds_match(high, &bounds[k]));
		}
		// A match is -1.
		nothing = _mm256_sub_epi64(nothing, _mm256_cmpeq_epi64(low, zero));
		nothing = _mm256_sub_epi64(nothing, _mm256_cmpeq_epi64(high, zero));
		unsigned bits = bits_of(low_match) | bits_of(high_match) << STEP / 2;
		for (; bits != 0; bits &= bits - 1)
			ret[found++] = (uint32_t)i + (unsigned)__builtin_ctz(bits);
	}
	uint64_t sums[4];
	_mm256_storeu_si256((__m256i *)sums, nothing);
	*zeros = (size_t)(sums[0] + sums[1] + sums[2] + sums[3]);
	return found;
}

size_t ranges_select_avx2(const struct ranges *ranges, const void *words, size_t count,
	unsigned word_size, enum byte_order order, uint32_t *ret, size_t *zeros)
{
	if (word_size != 8 || order != ORDER_NATIVE || ranges->count == 0)
		return ranges_select(ranges, words, count, word_size, order, ret, zeros);
	const size_t steps = count / STEP * STEP;
	size_t found = ranges->count == 1   ? select_words(ranges, words, steps, 1, ret, zeros)
		       : ranges->count == 2 ? select_words(ranges, words, steps, 2, ret, zeros)
					    : select_words(ranges, words, steps, 3, ret, zeros);
	size_t more_zeros;
	const size_t more = ranges_select(ranges, (const uint64_t *)words + steps, count - steps,
		word_size, order, ret + found, &more_zeros);
	for (size_t i = 0; i < more; i++)
		ret[found + i] += (uint32_t)steps;
	*zeros += more_zeros;
	return found + more;
}
#endif
