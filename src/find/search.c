// SPDX-License-Identifier: MIT
#include "find/search.h"

#include <string.h>

#include "base/bytes.h"

// Compilers turn operations on these into the vector instructions that the machine is sure to have.
typedef unsigned char bytes16 __attribute__((vector_size(16)));
typedef uint64_t words16 __attribute__((vector_size(16)));

// Looked at in one go.
#define BLOCK ((size_t)64)

// How frequent a byte is in memory, roughly: small numbers and pointers have many 0x00, 0xff, 0x7f
// and 0x55; of the characters, those of English texts and names in programs.
static unsigned byte_frequency(unsigned char byte)
{
	static const unsigned char frequent[] = "etaoinsrlcdumphgf_yb wvk/.0-1x2:,";
	if (byte == 0x00 || byte == 0xff)
		return 255;
	if (byte == 0x7f || byte == 0x55 || byte == 0x56 || byte < 0x10)
		return 100;
	const unsigned char *found = memchr(frequent, byte, sizeof frequent - 1);
	if (found != NULL)
		return 90 - (unsigned)(found - frequent);
	return byte >= 0x20 && byte < 0x7f ? 30 : 20;
}

static bool is_letter(unsigned char byte)
{
	return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

static unsigned char lower(unsigned char byte)
{
	return is_letter(byte) ? byte | 0x20 : byte;
}

void search_init(struct search *search, const char *text, size_t length, bool ignore_case)
{
	*search = (struct search){
		.text = (const unsigned char *)text,
		.length = length,
		.ignore_case = ignore_case,
	};
	for (size_t i = 1; i < length; i++)
		if (byte_frequency(search->text[i]) < byte_frequency(search->text[search->first]))
			search->first = i;
	search->second = search->first > 0 ? 0 : length - 1;
	for (size_t i = 0; i < length; i++)
		if (i != search->first && byte_frequency(search->text[i]) <
						  byte_frequency(search->text[search->second]))
			search->second = i;
}

static bool search_matches(const struct search *search, const unsigned char *bytes)
{
	if (!search->ignore_case)
		return memcmp(bytes, search->text, search->length) == 0;
	for (size_t i = 0; i < search->length; i++)
		if (lower(bytes[i]) != lower(search->text[i]))
			return false;
	return true;
}

// What one of the two bytes is compared with: (byte | mask) == key.
struct probe {
	bytes16 mask, key;
};

static struct probe probe_of(const struct search *search, size_t index)
{
	const unsigned char byte = search->text[index];
	const unsigned char mask = search->ignore_case && is_letter(byte) ? 0x20 : 0;
	return (struct probe){(bytes16){0} + mask, (bytes16){0} + (unsigned char)(byte | mask)};
}

static inline words16 probe_at(const struct probe *probe, const unsigned char *bytes)
{
	bytes16 vector;
	memcpy(&vector, bytes, sizeof vector);
	return (words16)((vector | probe->mask) == probe->key);
}

// Whether the text can begin at one of BLOCK places.
static inline bool block_may(const struct probe *first, const struct probe *second,
	const unsigned char *at_first, const unsigned char *at_second)
{
	words16 any = {0};
	for (size_t i = 0; i < BLOCK; i += sizeof any)
		any |= probe_at(first, at_first + i) & probe_at(second, at_second + i);
	return (any[0] | any[1]) != 0;
}

size_t search_find(const struct search *search, const unsigned char *bytes, size_t size,
	size_t from, size_t to)
{
	if (size < search->length)
		return to;
	const size_t end = size - search->length + 1 < to ? size - search->length + 1 : to;
	const struct probe first = probe_of(search, search->first);
	const struct probe second = probe_of(search, search->second);
	const unsigned char key = search->text[search->first];
	size_t at = from;
	while (at < end) {
		size_t stop = end;
		if (end - at >= BLOCK) {
			stop = at + BLOCK;
			if (!block_may(&first, &second, bytes + at + search->first,
				    bytes + at + search->second)) {
				at = stop;
				continue;
			}
		}
		for (; at < stop; at++)
			if ((bytes[at + search->first] == key || search->ignore_case) &&
				search_matches(search, bytes + at))
				return at;
	}
	return to;
}

static bool word_is_one(const uint64_t *words, size_t count, uint64_t word)
{
	for (size_t i = 0; i < count; i++)
		if (words[i] == word)
			return true;
	return false;
}

typedef uint32_t halves16 __attribute__((vector_size(16)));

// Half of a word, not zero if the other one is not, either: halves are compared much faster.
static uint32_t word_half(uint64_t word)
{
	return (uint32_t)word != 0 ? (uint32_t)word : (uint32_t)(word >> 32);
}

// Whether one of BLOCK bytes' words may be the one that has this half.
static inline bool block_may_have(const unsigned char *bytes, uint32_t half)
{
	halves16 any = {0};
	for (size_t i = 0; i < BLOCK; i += sizeof any) {
		halves16 vector;
		memcpy(&vector, bytes + i, sizeof vector);
		any |= (halves16)(vector == half);
	}
	const words16 sum = (words16)any;
	return (sum[0] | sum[1]) != 0;
}

size_t search_word(const uint64_t *words, size_t count, unsigned word_size,
	const unsigned char *bytes, size_t from, size_t to)
{
	size_t at = from;
	while (at < to) {
		size_t stop = to;
		if (to - at >= BLOCK) {
			bool any = false;
			stop = at + BLOCK;
			for (size_t i = 0; i < count; i++)
				any |= block_may_have(bytes + at, word_half(words[i]));
			if (!any) {
				at = stop;
				continue;
			}
		}
		for (; at < stop; at += word_size)
			if (word_is_one(words, count, word_load_native(bytes + at, word_size)))
				return at;
	}
	return to;
}
