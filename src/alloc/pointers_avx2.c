// SPDX-License-Identifier: MIT
//
// pointers_mark for processors with AVX2 and words of 8 bytes in their own order. Compiled with
// -mavx2; nothing else may be.
#ifdef __AVX2__
#include "alloc/pointers.h"

#include <immintrin.h>

// A stretch as signed comparison needs it: both shifted by 2^63.
struct bounds {
	__m256i start, length;
};

static inline struct bounds bounds_of(const struct extent *extent)
{
	const uint64_t half = UINT64_C(1) << 63;
	return (struct bounds){
		.start = _mm256_set1_epi64x((int64_t)(extent->start + half)),
		.length = _mm256_set1_epi64x((int64_t)(extent->size ^ half)),
	};
}

static inline __m256i bounds_match(__m256i words, const struct bounds *bounds)
{
	return _mm256_cmpgt_epi64(bounds->length, _mm256_sub_epi64(words, bounds->start));
}

void pointers_mark_avx2(
	const struct pointers *pointers, const unsigned char *bytes, size_t count, uint64_t *ret)
{
	const size_t most = count / 64 * 64;
	if (pointers->word != 8 || pointers->order != ORDER_NATIVE) {
		pointers_mark_portable(pointers, bytes, count, ret);
		return;
	}
	const struct bounds a = bounds_of(&pointers->extents[0]);
	const struct bounds b = bounds_of(&pointers->extents[1]);
	const __m256i mask = _mm256_set1_epi64x((int64_t)pointers->mask);
	for (size_t i = 0; i < most; i += 64) {
		const __m256i *at = (const __m256i *)(bytes + i * 8);
		uint64_t marks = 0;
#pragma GCC unroll 16
		for (unsigned k = 0; k < 64; k += 4) {
			const __m256i words =
				_mm256_and_si256(_mm256_loadu_si256(at + k / 4), mask);
			const __m256i match =
				_mm256_or_si256(bounds_match(words, &a), bounds_match(words, &b));
			marks |= (uint64_t)(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(match))
				 << k;
		}
		ret[i / 64] = marks;
	}
	pointers_mark_portable(pointers, bytes + most * 8, count - most, ret + most / 64);
}
#endif
