// SPDX-License-Identifier: MIT
//
// The filter that chooses words by kind, compared with the rules for one word (names/kinds.h).
//
//   filter [CASES [SEED]]
//
// Prints the seed, and what went wrong; exit status 1 then.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "names/filter.h"

#define SPANS_MAX 40
#define WORDS 2000

static uint64_t random_state;

// splitmix64
static uint64_t random_next(void)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t random_below(uint64_t limit)
{
	return random_next() % limit;
}

// A number of any magnitude.
static uint64_t random_size(void)
{
	return random_next() >> (20 + random_below(44));
}

static size_t make_spans(struct span *spans, unsigned word_size)
{
	const uint64_t mask = word_size == 8 ? UINT64_MAX : UINT32_MAX;
	const size_t wanted = random_below(SPANS_MAX);
	uint64_t at = (random_below(3) == 0 ? 0 : random_next() >> random_below(60)) & mask;
	size_t count = 0;
	for (; count < wanted; count++) {
		uint64_t gap = random_size() & mask >> 8, size = (random_size() & mask >> 8) + 1;
		if (random_below(2) == 0) {
			gap &= ~UINT64_C(4095);
			size = (size | 4095) + 1;
		}
		uint64_t start, end;
		if (__builtin_add_overflow(at, gap, &start) ||
			__builtin_add_overflow(start, size, &end))
			break;
		spans[count] = (struct span){start, end, (enum kind)(KIND_CODE + random_below(5))};
		at = end;
	}
	return count;
}

static uint64_t make_text(void)
{
	static const char *const pieces[] = {"a", " ", "~", "\xc3\xa4", "\xe2\x82\xac",
		"\xf0\x9f\x98\x80", "\x7f", "\xc3", "\x80"};
	char bytes[16] = {0};
	size_t length = 0;
	const size_t wanted = random_below(9);
	while (length < wanted) {
		const char *piece = pieces[random_below(random_below(3) == 0 ? 9 : 6)];
		memcpy(bytes + length, piece, strlen(piece));
		length += strlen(piece);
	}
	uint64_t word;
	memset(bytes + wanted, 0, sizeof bytes - wanted);
	memcpy(&word, bytes, sizeof word);
	return word;
}

static uint64_t make_word(const struct span *spans, size_t count)
{
	const struct span *span = count > 0 ? &spans[random_below(count)] : NULL;
	switch (random_below(8)) {
	case 0:
		return 0;
	case 1:
		return random_next() >> random_below(64);
	case 2:
		return span != NULL ? span->start + random_below(8192) - 4096 : 5;
	case 3:
		return span != NULL ? span->end + random_below(8) - 4 : 7;
	case 4:
		return span != NULL ? span->start + random_below(span->end - span->start) : 9;
	case 5:
		return 0 - random_below(100000);
	case 6:
		return random_below(70000);
	default:
		return make_text();
	}
}

static bool occurs(const struct pointers *pointers, uint64_t address)
{
	(void)pointers;
	return address % 16 == 0;
}

static bool run_case(void)
{
	struct span spans[SPANS_MAX];
	const unsigned size = random_below(2) == 0 ? 4 : 8;
	const struct kinds kinds = {
		.word_size = size,
		.order = random_below(2) == 0 ? ORDER_LITTLE : ORDER_BIG,
		.address_mask = random_below(4) == 0 ? UINT64_MAX >> 8 : UINT64_MAX,
		.spans = spans,
		.span_count = make_spans(spans, size),
		.occurs = random_below(2) == 0 ? occurs : NULL,
	};
	kind_set wanted = (kind_set)random_below((uint64_t)1 << KIND_COUNT);
	if (random_below(3) == 0)
		wanted &= KINDS_ADDRESS;
	if (random_below(3) == 0)
		wanted = (kind_set)1 << KIND_TEXT;
	struct error err;
	struct kind_filter *filter;
	enum cpu_level level;
	if (!cpu_choose(random_below(2) == 0 ? "portable" : NULL, &err, &level) ||
		!kind_filter_create(&kinds, wanted, level, &err, &filter))
		return false;
	static char words[WORDS * 8], expected[WORDS * 8];
	size_t count = 0;
	for (size_t i = 0; i < WORDS; i++) {
		uint64_t word = make_word(spans, kinds.span_count);
		if (random_below(8) == 0)
			word |= random_next() << 56;
		// As it lies in memory: sometimes the value, sometimes its bytes are what was
		// meant.
		word_store(words + i * size, word, size,
			random_below(2) == 0 ? kinds.order : ORDER_NATIVE);
		const uint64_t value = word_load(words + i * size, size, kinds.order);
		if ((wanted >> kinds_of(&kinds, value) & 1) != 0)
			memcpy(expected + count++ * size, words + i * size, size);
	}
	const size_t got = kind_filter_select(filter, words, WORDS);
	kind_filter_destroy(filter);
	return got == count && memcmp(words, expected, count * size) == 0;
}

int main(int argc, char **argv)
{
	const unsigned long cases = argc > 1 ? strtoul(argv[1], NULL, 10) : 3000;
	const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
	printf("seed %" PRIu64 "\n", seed);
	for (unsigned long i = 0; i < cases; i++) {
		random_state = seed + i;
		if (!run_case()) {
			printf("wrong: filter 1 %" PRIu64 "\n", seed + i);
			return 1;
		}
	}
	return 0;
}
