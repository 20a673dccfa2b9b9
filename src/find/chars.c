// SPDX-License-Identifier: MIT
#include "find/chars.h"

#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/escape.h"

const char *encoding_name(enum encoding encoding)
{
	static const char *const names[] = {"utf-8", "utf-16le", "utf-16be", "latin-1"};
	return names[encoding];
}

static inline bool is_plain(unsigned char byte)
{
	return (byte >= 0x20 && byte < 0x7f) || byte == '\t';
}

static inline bool is_letter(unsigned char byte)
{
	return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

size_t chars_at(const unsigned char *bytes, size_t index, size_t size)
{
	const unsigned char byte = bytes[index];
	if (byte < 0x80)
		return is_plain(byte);
	if (byte < 0xc0)
		return 0;
	const size_t wide = escape_printable(bytes + index, size - index < 4 ? size - index : 4);
	if (wide > 0)
		return wide;
	if (byte == 0xd7 || byte == 0xf7 || index == 0 || !is_letter(bytes[index - 1]))
		return 0;
	const unsigned char next = index + 1 < size ? bytes[index + 1] : 0;
	return next == 0 || is_plain(next);
}

size_t chars_before(const unsigned char *bytes, size_t index, size_t size)
{
	for (size_t length = 1; length <= 4 && length <= index; length++)
		if ((bytes[index - length] & 0xc0) != 0x80)
			return chars_at(bytes, index - length, size) == length ? length : 0;
	return 0;
}

bool unit_is_text(uint16_t unit)
{
	return (unit >= 0x20 && unit < 0x7f) || unit == '\t' || unit_is_accented(unit) ||
	       (unit >= 0x386 && unit <= 0x3ce) || (unit >= 0x400 && unit <= 0x45f) ||
	       (unit >= 0x2010 && unit <= 0x201f) || unit == 0x20ac;
}

size_t utf8_write(uint16_t code, unsigned char ret[static 3])
{
	if (code < 0x80) {
		ret[0] = (unsigned char)code;
		return 1;
	}
	const size_t size = code < 0x800 ? 2 : 3;
	if (size == 3)
		ret[0] = (unsigned char)(0xe0 | code >> 12);
	ret[size - 2] = (unsigned char)((size == 2 ? 0xc0 : 0x80) | (code >> 6 & 0x3f));
	ret[size - 1] = (unsigned char)(0x80 | (code & 0x3f));
	return size;
}

// Of 64 bytes: which are plain, which are above 0x7f, and of these which continue a sequence.
struct classes {
	uint64_t plain, high, continues;
};

static inline struct classes classes_of(const unsigned char *bytes)
{
	struct classes ret = {0};
#if defined(__SSE2__)
	for (unsigned i = 0; i < 64; i += 16) {
		const __m128i vector = _mm_loadu_si128((const __m128i *)(bytes + i));
		// Signed: bytes above 0x7f are below 0x20, too.
		const __m128i printable =
			_mm_andnot_si128(_mm_cmpeq_epi8(vector, _mm_set1_epi8(0x7f)),
				_mm_cmpgt_epi8(vector, _mm_set1_epi8(0x1f)));
		const __m128i plain =
			_mm_or_si128(printable, _mm_cmpeq_epi8(vector, _mm_set1_epi8('\t')));
		const __m128i continues = _mm_cmplt_epi8(vector, _mm_set1_epi8(-0x40));
		ret.plain |= (uint64_t)(unsigned)_mm_movemask_epi8(plain) << i;
		ret.high |= (uint64_t)(unsigned)_mm_movemask_epi8(vector) << i;
		ret.continues |= (uint64_t)(unsigned)_mm_movemask_epi8(continues) << i;
	}
#else
	for (unsigned i = 0; i < 64; i++) {
		ret.plain |= (uint64_t)is_plain(bytes[i]) << i;
		ret.high |= (uint64_t)(bytes[i] >> 7) << i;
		ret.continues |= (uint64_t)((bytes[i] & 0xc0) == 0x80) << i;
	}
#endif
	return ret;
}

uint64_t chars_mask(
	const unsigned char *bytes, size_t index, size_t size, uint64_t *starts, uint64_t *latin1)
{
	struct classes classes = classes_of(bytes + index);
	const uint64_t ends = UINT64_C(1) << 63;
	// What is behind the end, nobody has set.
	const uint64_t inside =
		size - index < 64 ? (UINT64_C(1) << (size - index)) - 1 : UINT64_MAX;
	classes.plain &= inside;
	classes.high &= inside;
	classes.continues &= inside;
	uint64_t mask = classes.plain;
	*starts = mask;
	*latin1 = 0;
	// A character that began in the block before.
	for (size_t back = 1; classes.continues & 1 && back <= 3 && back <= index; back++) {
		if ((bytes[index - back] & 0xc0) == 0x80)
			continue;
		const size_t length = chars_at(bytes, index - back, size);
		if (length > back)
			mask |= (UINT64_C(1) << (length - back)) - 1;
		break;
	}
	// One that begins here is followed by a byte that continues it; or it stands between plain
	// ones, or before a NUL, which is left to chars_at.
	const uint64_t leads = classes.high & ~classes.continues;
	uint64_t may = leads & (classes.continues >> 1 | ends | (classes.plain << 1 | 1));
	for (; may != 0; may &= may - 1) {
		const unsigned bit = (unsigned)__builtin_ctzll(may);
		if (index + bit >= size)
			break;
		const size_t length = chars_at(bytes, index + bit, size);
		if (length == 0)
			continue;
		mask |= ((UINT64_C(1) << length) - 1) << bit;
		*starts |= UINT64_C(1) << bit;
		*latin1 |= (uint64_t)(length == 1) << bit;
	}
	return mask;
}

uint32_t units_mask(const unsigned char *bytes, size_t index, enum encoding encoding)
{
	uint32_t mask = 0;
#if defined(__SSE2__)
	__m128i tests[4];
	for (unsigned i = 0; i < 4; i++) {
		__m128i vector = _mm_loadu_si128((const __m128i *)(bytes + index + 16 * i));
		if (encoding == ENCODING_UTF16BE)
			vector = _mm_or_si128(_mm_slli_epi16(vector, 8), _mm_srli_epi16(vector, 8));
		// From tabs to the last Cyrillic letter, and a block of punctuation.
		const __m128i above = _mm_sub_epi16(vector, _mm_set1_epi16('\t'));
		const __m128i low = _mm_cmpeq_epi16(
			_mm_subs_epu16(above, _mm_set1_epi16(0x45f - '\t')), _mm_setzero_si128());
		const __m128i block =
			_mm_cmpeq_epi16(_mm_srli_epi16(vector, 8), _mm_set1_epi16(0x20));
		tests[i] = _mm_or_si128(low, block);
	}
	mask = (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(tests[0], tests[1])) |
	       (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(tests[2], tests[3])) << 16;
#else
	for (unsigned i = 0; i < 32; i++)
		mask |= (uint32_t)unit_is_text(unit_at(bytes, index + 2 * i, encoding)) << i;
#endif
	return mask;
}
