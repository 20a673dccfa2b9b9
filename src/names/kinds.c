// SPDX-License-Identifier: MIT
#include "names/kinds.h"

#include "base/escape.h"

// Nothing is mapped below (vm.mmap_min_addr), whatever a dump says: those words are numbers.
#define ADDRESS_MIN 4096

#define REPEAT(byte) (UINT64_C(0x0101010101010101) * (byte))

const char *kind_name(enum kind kind)
{
	static const char *const name[KIND_COUNT] = {
		"zero", "number", "text", "code", "data", "heap", "stack", "anon", "other"};
	return name[kind];
}

static const struct span *span_find(const struct kinds *kinds, uint64_t address)
{
	const struct span *base = kinds->spans;
	size_t count = kinds->span_count;
	if (count == 0)
		return NULL;
	while (count > 1) {
		const size_t half = count / 2;
		base = base[half].start <= address ? base + half : base;
		count -= half;
	}
	return address >= base->start && address < base->end ? base : NULL;
}

// The first byte in memory becomes the lowest one.
static uint64_t in_memory_order(const struct kinds *kinds, uint64_t value)
{
	if (kinds->order == ORDER_LITTLE)
		return value;
	return kinds->word_size == 8 ? __builtin_bswap64(value)
				     : __builtin_bswap32((uint32_t)value);
}

// The length of a text without the NULs at its end, 0 if it has others or is too short.
static size_t text_length(const struct kinds *kinds, uint64_t value)
{
	uint64_t word = in_memory_order(kinds, value);
	if (word == 0)
		return 0;
	const unsigned length = 8 - (unsigned)__builtin_clzll(word) / 8;
	if (length < kinds->word_size / 2)
		return 0;
	// Spaces instead of the NULs. Then no byte may be below a space or be a DEL; a carry out of
	// a byte of ASCII is not possible, and others are dealt with below.
	if (length < 8)
		word |= REPEAT(0x20) << (8 * length);
	if ((word & REPEAT(0x80)) == 0)
		return ((word + REPEAT(0x60)) & ~(word + REPEAT(0x01)) & REPEAT(0x80)) ==
				       REPEAT(0x80)
			       ? length
			       : 0;
	unsigned char bytes[8];
	word_store(bytes, word, 8, ORDER_LITTLE);
	for (size_t i = 0; i < length;) {
		const size_t size = escape_printable(bytes + i, length - i);
		if (size == 0)
			return 0;
		i += size;
	}
	return length;
}

size_t kinds_text(const struct kinds *kinds, uint64_t value, unsigned char bytes[static 8])
{
	word_store(bytes, value, kinds->word_size, kinds->order);
	return text_length(kinds, value);
}

enum kind kinds_of(const struct kinds *kinds, uint64_t value)
{
	if (value == 0)
		return KIND_ZERO;
	const uint64_t address = value & kinds->address_mask;
	const struct span *span = address >= ADDRESS_MIN ? span_find(kinds, address) : NULL;
	if (span != NULL && (span->kind == KIND_CODE || span->kind == KIND_DATA)) {
		if (kinds->occurs == NULL || address >= POINTERS_LOW ||
			kinds->occurs(kinds->pointers, address))
			return span->kind;
		span = NULL;
	}
	const size_t length = text_length(kinds, value);
	if (length == kinds->word_size)
		return KIND_TEXT;
	if (span != NULL)
		return span->kind;
	if (length > 0)
		return KIND_TEXT;
	return kinds_is_number(value, kinds->word_size) ? KIND_NUMBER : KIND_OTHER;
}
