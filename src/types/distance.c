// SPDX-License-Identifier: MIT
#include "types/distance.h"

// So many of the most frequent distances are tried, with their greatest common divisors.
#define TRIED 8
// Of the distances this share must be multiples of the size, in percent.
#define SHARE 90
// Allocators align to this at most.
#define ALIGNMENT_MAX 16

static uint64_t divisor(uint64_t a, uint64_t b)
{
	while (b != 0) {
		const uint64_t rest = a % b;
		a = b;
		b = rest;
	}
	return a;
}

static uint64_t multiples(const struct fact *facts, size_t count, uint64_t size)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < count; i++)
		if (size > 0 && fact_size(&facts[i]) % size == 0)
			sum += facts[i].count;
	return sum;
}

static size_t most_frequent(const struct fact *facts, size_t count, const struct fact *ret[TRIED])
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		size_t at = found < TRIED ? found++ : TRIED - 1;
		if (at == TRIED - 1 && ret[at] != NULL && ret[at]->count >= facts[i].count)
			continue;
		for (; at > 0 && ret[at - 1]->count < facts[i].count; at--)
			ret[at] = ret[at - 1];
		ret[at] = &facts[i];
	}
	return found;
}

struct distance distance_find(const struct fact *facts, size_t count, uint32_t other)
{
	struct distance best = {0};
	while (count > 0 && (fact_type(facts) != FACT_DISTANCE || fact_other(facts) != other)) {
		facts++;
		count--;
	}
	while (count > 0 && (fact_type(&facts[count - 1]) != FACT_DISTANCE ||
				    fact_other(&facts[count - 1]) != other))
		count--;
	if (count == 0)
		return best;
	const uint64_t seen = multiples(facts, count, 1);
	const struct fact *frequent[TRIED] = {NULL};
	const size_t tried = most_frequent(facts, count, frequent);
	// The largest that most distances are multiples of. A small one that is not itself a
	// distance is but the alignment of the heap.
	for (size_t i = 0; i < tried; i++)
		for (size_t k = 0; k <= i; k++) {
			const uint64_t size =
				divisor(fact_size(frequent[i]), fact_size(frequent[k]));
			const uint64_t agree = multiples(facts, count, size);
			if (size > best.size && agree * 100 >= seen * SHARE &&
				(size > ALIGNMENT_MAX || size == fact_size(frequent[i]) ||
					size == fact_size(frequent[k])))
				best = (struct distance){size, agree, seen};
		}
	// Or what is most frequent.
	if (best.size == 0)
		best = (struct distance){fact_size(frequent[0]),
			multiples(facts, count, fact_size(frequent[0])), seen};
	return best;
}
