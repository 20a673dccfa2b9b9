// SPDX-License-Identifier: MIT
//
// Compiled with -mavx2; nothing else may be.
#ifdef __AVX2__
#include "names/text.h"

#include <immintrin.h>

// Words looked at in one step: their bytes have a bit each in a mask.
#define STEP 4

#define EACH(bits) (UINT32_C(0x01010101) * (bits))

// Bytes that keep a word from being a text: control characters, but for NULs in the second half;
// and what UTF-8 does not allow: there a byte that begins a sequence is followed by one that
// continues it, and before such a one there is one of the two.
static inline uint32_t bytes_bad(__m256i words)
{
	const __m256i space = _mm256_set1_epi8(0x20);
	const __m256i second = _mm256_set1_epi64x(-(INT64_C(1) << 32));
	const __m256i nul = _mm256_cmpeq_epi8(words, _mm256_setzero_si256());
	const __m256i filled = _mm256_or_si256(words, _mm256_and_si256(nul, second));
	const __m256i shown = _mm256_cmpeq_epi8(filled, _mm256_max_epu8(filled, space));
	// The upper bit of each byte is what _mm256_movemask_epi8 takes.
	const uint32_t good = (uint32_t)_mm256_movemask_epi8(shown);
	const uint32_t high = (uint32_t)_mm256_movemask_epi8(words);
	const uint32_t begins =
		high & (uint32_t)_mm256_movemask_epi8(_mm256_add_epi8(words, words));
	const uint32_t continues = high & ~begins;
	return ~good | (begins & ~(continues >> 1 & EACH(0x7f))) |
	       (continues & ~(high << 1 & EACH(0xfe)));
}

size_t texts_keep_avx2(uint64_t *words, size_t count)
{
	size_t kept = 0, i = 0;
	for (; i + STEP <= count; i += STEP) {
		const uint32_t bad = bytes_bad(_mm256_loadu_si256((const __m256i *)(words + i)));
		// The highest bit of each byte that is zero; a borrow out of one may add others
		// above it.
		if (((bad - EACH(0x01)) & ~bad & EACH(0x80)) == 0)
			continue;
		for (size_t k = 0; k < STEP; k++) {
			words[kept] = words[i + k];
			kept += (bad >> 8 * k & 0xff) == 0;
		}
	}
	for (; i < count; i++)
		words[kept++] = words[i];
	return kept;
}
#endif
