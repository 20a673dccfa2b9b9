// SPDX-License-Identifier: MIT
#include "types/sizeclass.h"

#include <string.h>

#include "base/bytes.h"

#define KIB ((uint64_t)1024)
#define MIB (KIB * KIB)

static uint64_t round_up(uint64_t size, uint64_t unit)
{
	return add_saturated(size, unit - 1) / unit * unit;
}

// To the next of the four classes of a doubling.
static uint64_t round_quarter(uint64_t size, uint64_t least)
{
	const unsigned bits = 63 - (unsigned)__builtin_clzll((size - 1) | 1);
	return round_up(size, max_u64(least, bits < 2 ? 1 : (uint64_t)1 << (bits - 2)));
}

// The first class in the list that holds size bytes, or whole pages.
static uint64_t round_listed(const struct size_classes *classes, uint64_t size)
{
	size_t low = 0, high = classes->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (classes->list[middle] < size)
			low = middle + 1;
		else
			high = middle;
	}
	return low < classes->count ? classes->list[low] : round_up(size, classes->page);
}

// ---- jemalloc

static uint64_t jemalloc_round(const struct size_classes *classes, uint64_t size, bool mapped)
{
	(void)classes;
	(void)mapped;
	return size <= 8 ? 8 : round_quarter(size, 16);
}

// ---- tcmalloc

#define TCMALLOC_PAGE ((uint32_t)8192)
#define TCMALLOC_MAX ((uint32_t)1 << 18)

static uint32_t tcmalloc_alignment(uint32_t size)
{
	if (size < 16)
		return 8;
	if (size < 128)
		return 16;
	const uint32_t eighth = UINT32_C(1) << (31 - __builtin_clz(size) - 3);
	return eighth < TCMALLOC_PAGE ? eighth : TCMALLOC_PAGE;
}

// Bytes of a span: an eighth may be left over, and it has a quarter of what threads take at once:
// 64 KiB, but not more than 32 objects.
static uint32_t tcmalloc_span(uint32_t size)
{
	uint32_t batch = 64 * 1024 / size;
	batch = batch < 2 ? 2 : batch > 32 ? 32 : batch;
	uint32_t span = 0;
	do {
		span += TCMALLOC_PAGE;
		while (span % size > span / 8)
			span += TCMALLOC_PAGE;
	} while (span / size < batch / 4);
	return span;
}

static uint64_t tcmalloc_round(const struct size_classes *classes, uint64_t size, bool mapped)
{
	(void)mapped;
	return round_listed(classes, size);
}

static void tcmalloc_list(struct size_classes *classes)
{
	uint32_t before = 0; // span of the last class
	for (uint32_t size = 8; size <= TCMALLOC_MAX; size += tcmalloc_alignment(size)) {
		const uint32_t span = tcmalloc_span(size);
		const size_t last = classes->count - 1;
		if (span == before && span / size == before / classes->list[last])
			classes->list[last] = size;
		else if (classes->count < SIZE_CLASSES_MAX)
			classes->list[classes->count++] = size;
		before = span;
	}
	classes->page = TCMALLOC_PAGE;
}

// ---- mimalloc

static uint64_t mimalloc_round(const struct size_classes *classes, uint64_t size, bool mapped)
{
	(void)mapped;
	const uint64_t word = classes->word;
	if (size <= word)
		return word;
	if (size <= 8 * word)
		return round_up(size, 2 * word);
	if (size <= 128 * KIB)
		return round_quarter(size, word);
	// A page of its own, of whole slices.
	if (size <= 512 * KIB)
		return round_up(size, 64 * KIB);
	if (size < 8 * MIB)
		return round_up(size, 512 * KIB);
	return round_up(size, size < 32 * MIB ? MIB : 4 * MIB);
}

static uint64_t mimalloc3_round(const struct size_classes *classes, uint64_t size, bool mapped)
{
	const uint64_t word = classes->word;
	if (size <= 128 * KIB)
		return mimalloc_round(classes, size, mapped);
	if (size <= MIB)
		return round_quarter(size, word);
	if (size < 8 * MIB)
		return round_up(size, size < 2 * MIB ? 64 * KIB : 256 * KIB);
	return mimalloc_round(classes, size, mapped);
}

// ---- musl

#define MUSL_UNIT ((uint64_t)16)
#define MUSL_HEADER 4
#define MUSL_MAPPED ((uint64_t)131052)
// A class for which pages of their own are not even tried is not larger.
#define MUSL_SMALL (4 * KIB)

static uint64_t musl_pages(uint64_t size)
{
	return round_up(add_saturated(size, MUSL_HEADER + MUSL_UNIT), 4 * KIB);
}

static uint64_t musl_round(const struct size_classes *classes, uint64_t size, bool mapped)
{
	const uint64_t pages = musl_pages(size);
	if (size >= MUSL_MAPPED)
		return pages;
	const uint64_t slot = round_listed(classes, size + MUSL_HEADER);
	return mapped && slot > MUSL_SMALL && pages < slot ? pages : slot;
}

static void musl_list(struct size_classes *classes)
{
	// In units. Groups of slots and their headers fill powers of two.
	static const uint16_t units[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31, 36,
		42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255, 292, 340, 409, 511, 584, 682, 818,
		1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191};
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		classes->list[classes->count++] = units[i] * (uint32_t)MUSL_UNIT;
	classes->page = 4 * KIB;
}

// ---- which one

struct known {
	const char *allocator;
	const char *library; // beginning of its name
	// A symbol that a program has if it is linked with it, and that has no other name: then it
	// might be known by that one only.
	const char *symbol;
	uint64_t (*round)(const struct size_classes *classes, uint64_t size, bool mapped);
	void (*list)(struct size_classes *classes);
	// Blocks up to so many bytes follow each other from where so many bytes begin on; larger
	// ones are aligned to the last.
	uint64_t pooled, pool, alignment;
};

static const struct known known[] = {
	// opt.cache_oblivious: large ones begin anywhere in a page, for the sake of caches.
	{"jemalloc", "libjemalloc.so.2", "mallctl", jemalloc_round, NULL, 14 * KIB, 4 * KIB, 64},
	{"tcmalloc", "libtcmalloc", "tc_version", tcmalloc_round, tcmalloc_list, TCMALLOC_MAX,
		TCMALLOC_PAGE, TCMALLOC_PAGE},
	{"mimalloc", "libmimalloc.so.2", "mi_version", mimalloc_round, NULL, 128 * KIB, 4 * KIB,
		64 * KIB},
	{"mimalloc", "libmimalloc.so.3", "mi_version", mimalloc3_round, NULL, UINT64_MAX, 128, 1},
	{"musl", "ld-musl-", "__malloc_alloc_meta", musl_round, musl_list, 0, 0, MUSL_UNIT},
	{"musl", "libc.musl-", "__malloc_alloc_meta", musl_round, musl_list, 0, 0, MUSL_UNIT},
};
#define KNOWN_COUNT (sizeof known / sizeof *known)

static void classes_init(const struct known *of, unsigned word, struct size_classes *ret)
{
	*ret = (struct size_classes){
		.allocator = of->allocator,
		.word = word,
		.round = of->round,
		.pooled = of->pooled,
		.pool = of->pool,
		.alignment = of->alignment,
	};
	if (of->list != NULL)
		of->list(ret);
}

static const struct known *known_by_file(const char *name)
{
	// What finds errors keeps something of its own around every object.
	if (strstr(name, "_debug") != NULL || strstr(name, "-debug") != NULL)
		return NULL;
	// As Debian calls musl's; glibc's has a number behind it.
	if (strcmp(name, "libc.so") == 0)
		name = "ld-musl-";
	for (size_t i = 0; i < KNOWN_COUNT; i++)
		if (strncmp(name, known[i].library, strlen(known[i].library)) == 0)
			return &known[i];
	return NULL;
}

static const struct known *known_by_symbol(struct names *names)
{
	const char *symbols[KNOWN_COUNT];
	for (size_t i = 0; i < KNOWN_COUNT; i++)
		symbols[i] = known[i].symbol;
	const size_t found = names_program_match(names, symbols, KNOWN_COUNT);
	return found < KNOWN_COUNT ? &known[found] : NULL;
}

void size_classes_find(struct names *names, unsigned word, struct size_classes *ret)
{
	const struct modules *modules = names_modules(names);
	const struct known *found = NULL;
	*ret = (struct size_classes){.word = word};
	for (size_t i = 0; i < modules->count; i++) {
		const struct known *of = known_by_file(modules->list[i].name);
		// What was loaded beside a C library is there to replace its malloc.
		if (of != NULL && modules->list[i].loaded && (found == NULL || of < found))
			found = of;
	}
	if (found == NULL)
		found = known_by_symbol(names);
	if (found != NULL)
		classes_init(found, word, ret);
}

bool size_classes_init(const char *library, unsigned word, struct size_classes *ret)
{
	const struct known *found = known_by_file(library);
	if (found != NULL)
		classes_init(found, word, ret);
	return found != NULL;
}

const char *size_classes_allocator(const char *name)
{
	for (size_t i = 0; i < KNOWN_COUNT; i++)
		if (strcmp(name, known[i].allocator) == 0)
			return known[i].allocator;
	return NULL;
}

uint64_t size_class_round(const struct size_classes *classes, uint64_t size, bool mapped)
{
	return classes->allocator != NULL && size > 0 ? classes->round(classes, size, mapped)
						      : size;
}

bool size_may_be_mapped(const struct size_classes *classes, uint64_t size, uint64_t address)
{
	// Behind the header of a group, and as far as there is room: musl takes turns.
	const uint64_t before = address % (4 * KIB);
	return classes->round == musl_round && before >= MUSL_UNIT &&
	       size <= musl_pages(size) - MUSL_HEADER - before;
}

// Blocks of a class are aligned to this.
static uint64_t size_alignment(const struct size_classes *classes, uint64_t rounded)
{
	// mimalloc 2, src/segment.c, _mi_segment_page_start_from_slice: in later versions pools of
	// small ones begin so much later.
	const uint64_t pool =
		classes->round == mimalloc_round && rounded <= KIB ? 128 : classes->pool;
	// The greatest power of two that divides it.
	return rounded <= classes->pooled ? min_u64(rounded & -rounded, pool)
					  : max_u64(classes->alignment, 1);
}

bool size_may_begin(const struct size_classes *classes, uint64_t rounded, uint64_t address)
{
	return address % size_alignment(classes, rounded) == 0;
}

bool size_begins_pages(const struct size_classes *classes, uint64_t rounded)
{
	return size_alignment(classes, rounded) >= 4 * KIB;
}
