// SPDX-License-Identifier: MIT
#include "names/kinds.h"

#include "base/escape.h"

// Up to a trillion a word is shown in decimal: the sizes, counters, timestamps in milliseconds and
// identifiers that people know by heart lie below, pointers of 64-bit systems above.
#define NUMBER_MAX UINT64_C(1000000000000)
// Nothing is mapped below (vm.mmap_min_addr), whatever a dump says: those words are numbers.
#define ADDRESS_MIN 4096
// The filter looks at addresses in pieces of 2 MiB: a program and its libraries have some dozens.
#define PIECE_BITS 21

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

// Negative numbers have the word's own width.
static bool is_number(const struct kinds *kinds, uint64_t value)
{
	const uint64_t number = kinds->word_size == 8 ? value : (uint64_t)(int32_t)value;
	return number + NUMBER_MAX <= 2 * NUMBER_MAX;
}

enum kind kinds_of(const struct kinds *kinds, uint64_t value)
{
	if (value == 0)
		return KIND_ZERO;
	const uint64_t address = value & kinds->address_mask;
	const struct span *span = address >= ADDRESS_MIN ? span_find(kinds, address) : NULL;
	if (span != NULL && (span->kind == KIND_CODE || span->kind == KIND_DATA))
		return span->kind;
	const size_t length = text_length(kinds, value);
	if (length == kinds->word_size)
		return KIND_TEXT;
	if (span != NULL)
		return span->kind;
	if (length > 0)
		return KIND_TEXT;
	return is_number(kinds, value) ? KIND_NUMBER : KIND_OTHER;
}

static unsigned piece_hash(uint64_t address)
{
	return (unsigned)((address >> PIECE_BITS) * UINT64_C(0x9e3779b97f4a7c15) >>
			  (64 - FILTER_BITS));
}

void kind_filter_init(struct kind_filter *filter, const struct kinds *kinds, kind_set wanted)
{
	*filter = (struct kind_filter){.kinds = *kinds, .wanted = wanted};
	filter->addresses_only = (wanted & ~KINDS_ADDRESS) == 0;
	for (size_t i = 0; i < kinds->span_count; i++) {
		const struct span *span = &kinds->spans[i];
		if (filter->addresses_only && (wanted >> span->kind & 1) == 0)
			continue;
		const uint64_t first = span->start >> PIECE_BITS;
		const uint64_t last = (span->end - 1) >> PIECE_BITS;
		if (last - first >= 1U << FILTER_BITS) {
			memset(filter->bitmap, 0xff, sizeof filter->bitmap);
			return;
		}
		for (uint64_t piece = first; piece <= last; piece++) {
			const unsigned bit = piece_hash(piece << PIECE_BITS);
			filter->bitmap[bit / 64] |= UINT64_C(1) << (bit % 64);
		}
	}
}

static inline bool filter_wants(const struct kind_filter *filter, uint64_t value)
{
	const struct kinds *kinds = &filter->kinds;
	const unsigned bit = piece_hash(value & kinds->address_mask);
	const bool near = (filter->bitmap[bit / 64] >> (bit % 64) & 1) != 0;
	if (!near && filter->addresses_only)
		return false;
	return (filter->wanted >> kinds_of(kinds, value) & 1) != 0;
}

size_t kind_filter_select(const struct kind_filter *filter, void *words, size_t count)
{
	const unsigned size = filter->kinds.word_size;
	const enum byte_order order = filter->kinds.order;
	char *bytes = words;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t value = word_load(bytes + i * size, size, order);
		memmove(bytes + kept * size, bytes + i * size, size);
		kept += filter_wants(filter, value);
	}
	return kept;
}
