// SPDX-License-Identifier: MIT
//
// What lies at an address is looked up as a processor does it: in tables of four levels, whose
// slots are regions of 512 GiB, 1 GiB, 2 MiB and 4 KiB. A slot has the number of the next table; in
// the last level, the kind of the page. A table whose slots all have the same kind is stored once
// for all levels: its number is that kind, and so are all its slots.
#include "names/filter.h"

#include <stdlib.h>
#include <string.h>

#include "names/text.h"

#define PAGE_BITS 12
#define LEVEL_BITS 9
#define LEVEL_COUNT 4
#define SLOTS ((size_t)1 << LEVEL_BITS)
#define ADDRESS_BITS (PAGE_BITS + LEVEL_COUNT * LEVEL_BITS)
// 16 MiB. Real dumps need some hundred; what does not fit is looked up word by word.
#define TABLES_MAX 16384

// Kinds of pages beside those of words: nothing there; several kinds, or not known.
enum { PAGE_NONE = KIND_COUNT, PAGE_MIXED, PAGE_KINDS };

#define REPEAT(byte) (UINT64_C(0x0101010101010101) * (byte))

struct kind_filter {
	struct kinds kinds;
	kind_set wanted;
	// Leaves words out that are not wanted; of 8 bytes only. NULL: there is no such function.
	size_t (*reduce)(uint64_t *words, size_t count);
	uint16_t top[SLOTS + 1];   // the last one is for all addresses of more bits
	uint16_t (*tables)[SLOTS]; // owned
	size_t count, capacity;
	uint64_t high_start, high_size;	    // where there are spans of more bits
	uint64_t wanted_start, wanted_size; // where those of wanted kinds are, from first to last
};

static bool tables_reserve(struct kind_filter *filter)
{
	if (filter->count < filter->capacity)
		return true;
	const size_t wanted = 2 * (filter->capacity + PAGE_KINDS);
	void *grown = reallocarray(filter->tables, wanted, sizeof *filter->tables);
	if (grown == NULL)
		return false;
	filter->tables = grown;
	filter->capacity = wanted;
	return true;
}

// A new table with one value in all slots.
static bool table_add(struct kind_filter *filter, uint16_t value, uint16_t *ret)
{
	if (!tables_reserve(filter))
		return false;
	*ret = (uint16_t)filter->count++;
	for (size_t i = 0; i < SLOTS; i++)
		filter->tables[*ret][i] = value;
	return true;
}

// Enter the part of a span that is in the slots of a table, which begins at base. level 0 has the
// pages; the table is filter->top for the highest one.
static bool table_enter(struct kind_filter *filter, unsigned level, uint16_t table, uint64_t base,
	const struct span *span)
{
	const unsigned bits = PAGE_BITS + level * LEVEL_BITS;
	const bool is_top = level == LEVEL_COUNT - 1;
	const uint64_t start = max_u64(span->start, base);
	const uint64_t last = min_u64(span->end - 1, base + ((uint64_t)SLOTS << bits) - 1);
	for (uint64_t i = (start - base) >> bits; i <= (last - base) >> bits; i++) {
		uint16_t *slot = is_top ? &filter->top[i] : &filter->tables[table][i];
		const uint64_t at = base + (i << bits);
		const bool whole = span->start <= at && span->end - at >= (uint64_t)1 << bits;
		if (whole && *slot == PAGE_NONE) {
			*slot = (uint16_t)span->kind;
			continue;
		}
		if (level == 0 || *slot == PAGE_MIXED || filter->count >= TABLES_MAX) {
			*slot = PAGE_MIXED;
			continue;
		}
		uint16_t below = *slot;
		if (below < PAGE_KINDS) {
			if (!table_add(filter, below, &below))
				return false;
			// The tables may have moved.
			slot = is_top ? &filter->top[i] : &filter->tables[table][i];
			*slot = below;
		}
		if (!table_enter(filter, level - 1, below, at, span))
			return false;
	}
	return true;
}

static bool filter_enter(struct kind_filter *filter, const struct span *span)
{
	const uint64_t limit = (uint64_t)1 << ADDRESS_BITS;
	struct span low = *span;
	// Addresses in the first page are no addresses (kinds.c).
	low.start = max_u64(low.start, (uint64_t)1 << PAGE_BITS);
	low.end = min_u64(low.end, limit);
	// There each word is looked at.
	if (filter->kinds.occurs != NULL && low.start < POINTERS_LOW &&
		(span->kind == KIND_CODE || span->kind == KIND_DATA))
		low.kind = (enum kind)PAGE_MIXED;
	if (span->end > limit) {
		const uint64_t start = max_u64(span->start, limit);
		if (filter->high_size == 0)
			filter->high_start = start;
		filter->high_size = span->end - filter->high_start;
	}
	return low.start >= low.end || table_enter(filter, LEVEL_COUNT - 1, 0, 0, &low);
}

bool kind_filter_create(const struct kinds *kinds, kind_set wanted, enum cpu_level level,
	struct error *err, struct kind_filter **ret)
{
	struct kind_filter *filter = calloc(1, sizeof *filter);
	if (filter == NULL)
		return error_memory(err);
	filter->kinds = *kinds;
	filter->wanted = wanted;
#ifdef __x86_64__
	if (level == CPU_AVX2 && kinds->word_size == 8 && wanted == (kind_set)1 << KIND_TEXT)
		filter->reduce = texts_keep_avx2;
#endif
	(void)level;
	for (size_t i = 0; i <= SLOTS; i++)
		filter->top[i] = PAGE_NONE;
	bool done = true;
	uint16_t ignored;
	for (uint16_t kind = 0; kind < PAGE_KINDS && done; kind++)
		done = table_add(filter, kind, &ignored);
	uint64_t wanted_start = UINT64_MAX, wanted_end = 0;
	for (size_t i = 0; i < kinds->span_count && done; i++) {
		const struct span *span = &kinds->spans[i];
		done = filter_enter(filter, span);
		if ((wanted >> span->kind & 1) != 0) {
			wanted_start = min_u64(wanted_start, span->start);
			wanted_end = max_u64(wanted_end, span->end);
		}
	}
	filter->wanted_start = wanted_start;
	filter->wanted_size = wanted_end > wanted_start ? wanted_end - wanted_start : 0;
	if (!done) {
		kind_filter_destroy(filter);
		return error_memory(err);
	}
	*ret = filter;
	return true;
}

void kind_filter_destroy(struct kind_filter *filter)
{
	if (filter == NULL)
		return;
	free(filter->tables);
	free(filter);
}

// The kind of the page that holds address.
static inline unsigned page_kind(const struct kind_filter *filter, uint64_t address)
{
	const size_t mask = SLOTS - 1;
	const uint64_t first = address >> (ADDRESS_BITS - LEVEL_BITS);
	const uint16_t(*tables)[SLOTS] = (const uint16_t(*)[SLOTS])filter->tables;
	uint16_t table = filter->top[first < SLOTS ? first : SLOTS];
	table = tables[table][address >> (PAGE_BITS + 2 * LEVEL_BITS) & mask];
	table = tables[table][address >> (PAGE_BITS + LEVEL_BITS) & mask];
	return tables[table][address >> PAGE_BITS & mask];
}

struct text_test {
	bool full, part; // a text without bytes above 0x7f that fills the word, or that does not
	bool unsure;	 // there are such bytes, and nothing yet that makes it no text
};

// As kinds_text, without branches.
static inline struct text_test text_test(uint64_t word, unsigned size)
{
	// Without bytes, the count is not defined; the word is zero then, and no text.
	const unsigned length = 8 - (unsigned)__builtin_clzll(word | 1) / 8;
	// Spaces instead of the NULs at the end.
	word |= length < 8 ? REPEAT(0x20) << (8 * (length & 7)) : 0;
	const uint64_t low = word & REPEAT(0x7f);
	const uint64_t control = ~(low + REPEAT(0x60)) | (low + REPEAT(0x01));
	const bool bad = (control & ~word & REPEAT(0x80)) != 0 || length < size / 2;
	const uint64_t high = word & REPEAT(0x80);
	// In UTF-8 a byte that begins a sequence is followed by one that continues it, and before
	// such a one there is one of the two. The rest is left to the decoder.
	const uint64_t begins = high & word << 1, continues = high & ~begins;
	const bool open = (begins << 8 & ~continues) != 0 || (continues & ~(high << 8)) != 0 ||
			  (begins >> (8 * (length - 1)) & 0x80) != 0;
	const bool ascii = high == 0, whole = length == size;
	return (struct text_test){
		.full = !(bad | !ascii | !whole),
		.part = !(bad | !ascii | whole),
		.unsure = !(bad | ascii | open),
	};
}

static inline bool filter_test(const struct kind_filter *filter, uint64_t value, unsigned size,
	enum byte_order order, bool addresses_only)
{
	const uint64_t address = value & filter->kinds.address_mask;
	const unsigned page = page_kind(filter, address);
	bool unsure = page == PAGE_MIXED || address - filter->high_start < filter->high_size;
	unsigned kind = page;
	// A text that fills 8 bytes is no address of 48 bits.
	if (!addresses_only || size == 4) {
		const uint64_t word = order == ORDER_LITTLE ? value
				      : size == 8	    ? __builtin_bswap64(value)
							    : __builtin_bswap32((uint32_t)value);
		const struct text_test text = text_test(word, size);
		const bool in_file = page == KIND_CODE || page == KIND_DATA;
		kind = kinds_is_number(value, size) ? KIND_NUMBER : KIND_OTHER;
		kind = text.part ? KIND_TEXT : kind;
		kind = page != PAGE_NONE ? page : kind;
		kind = (text.full & !in_file) ? KIND_TEXT : kind;
		kind = value == 0 ? KIND_ZERO : kind;
		unsure |= text.unsure & (page == PAGE_NONE || size == 4);
	}
	if (__builtin_expect(unsure, 0))
		kind = kinds_of(&filter->kinds, value);
	return (filter->wanted >> kind & 1) != 0;
}

// One loop for each size and order, made by the compiler.
static inline __attribute__((always_inline)) size_t select_words(const struct kind_filter *filter,
	char *words, size_t count, unsigned size, enum byte_order order, bool addresses_only)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t loaded = word_load_native(words + i * size, size);
		const uint64_t value = word_swap(loaded, size, order);
		const uint32_t half = (uint32_t)loaded;
		if (size == 8)
			memcpy(words + kept * size, &loaded, sizeof loaded);
		else
			memcpy(words + kept * size, &half, sizeof half);
		kept += filter_test(filter, value, size, order, addresses_only);
	}
	return kept;
}

// Of words of 8 bytes, keep those that lie between the first and the last address of wanted kinds:
// that leaves out zeros, numbers and texts, most of what there is, in a few instructions.
static inline __attribute__((always_inline)) size_t select_near(
	const struct kind_filter *filter, char *words, size_t count, enum byte_order order)
{
	const uint64_t start = filter->wanted_start, size = filter->wanted_size;
	const uint64_t mask = filter->kinds.address_mask;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t loaded = word_load_native(words + i * 8, 8);
		memcpy(words + kept * 8, &loaded, sizeof loaded);
		kept += (word_swap(loaded, 8, order) & mask) - start < size;
	}
	return kept;
}

bool kind_filter_fast(const struct kind_filter *filter)
{
	return filter->reduce != NULL;
}

size_t kind_filter_select(const struct kind_filter *filter, void *words, size_t count)
{
	const enum byte_order order = filter->kinds.order;
	if (filter->reduce != NULL)
		count = filter->reduce(words, count);
	if (filter->kinds.word_size == 8) {
		const bool addresses_only = (filter->wanted & ~KINDS_ADDRESS) == 0;
		if (addresses_only)
			count = order == ORDER_LITTLE
					? select_near(filter, words, count, ORDER_LITTLE)
					: select_near(filter, words, count, ORDER_BIG);
		if (addresses_only && order == ORDER_LITTLE)
			return select_words(filter, words, count, 8, ORDER_LITTLE, true);
		if (addresses_only)
			return select_words(filter, words, count, 8, ORDER_BIG, true);
		if (order == ORDER_LITTLE)
			return select_words(filter, words, count, 8, ORDER_LITTLE, false);
		return select_words(filter, words, count, 8, ORDER_BIG, false);
	}
	if (order == ORDER_LITTLE)
		return select_words(filter, words, count, 4, ORDER_LITTLE, false);
	return select_words(filter, words, count, 4, ORDER_BIG, false);
}
