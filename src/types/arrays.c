// SPDX-License-Identifier: MIT
#include "types/arrays.h"

#include "base/bytes.h"
#include "types/runs.h"

// Runs must be longer than this on average to be arrays for their ends alone: musl's groups have up
// to 32 slots in a row.
#define OBJECTS_MIN 32
// So many must be seen: two may have begun and ended by chance as arrays do.
#define RUNS_MIN 8
// So much of the elements must speak for arrays, in percent.
#define SHARE 90

struct votes {
	uint64_t runs, arrays, singles; // objects, but for runs
};

static bool fact_is_counted(const struct fact *fact)
{
	return (fact_other(fact) & RUN_COUNTED) != 0;
}

// The bytes that the block of an array takes.
static uint64_t fact_round(const struct size_classes *classes, const struct fact *fact)
{
	const uint64_t elements = fact_size(fact) * fact_offset(fact);
	return size_class_round(classes, elements + (fact_is_counted(fact) ? classes->word : 0),
		(fact_other(fact) & RUN_MAPPED) != 0);
}

// A run whose size is one the allocator has, or nearly, tells nothing, nor does it matter.
static void votes_add(
	struct votes *votes, const struct size_classes *classes, const struct fact *fact)
{
	const uint64_t size = fact_size(fact) * fact_offset(fact);
	if ((fact_other(fact) & (RUN_COUNTED | RUN_EITHER)) != 0 ||
		(fact_round(classes, fact) - size) * 100 <= size)
		return;
	const uint64_t objects = fact_size(fact) * fact->count;
	votes->runs += fact->count;
	if ((fact_other(fact) & RUN_SINGLES) != 0)
		votes->singles += objects;
	else
		votes->arrays += objects;
}

static bool votes_are_for_arrays(const struct votes *votes)
{
	const uint64_t objects = votes->arrays + votes->singles;
	return votes->runs >= RUNS_MIN && objects > votes->runs * OBJECTS_MIN &&
	       votes->arrays * 100 >= objects * SHARE;
}

struct arrays arrays_find(
	const struct size_classes *classes, const struct fact *facts, size_t count, uint64_t size)
{
	struct arrays ret = {0};
	struct votes votes = {0};
	if (classes->allocator == NULL || size == 0)
		return ret;
	for (size_t i = 0; i < count; i++)
		if (fact_type(&facts[i]) == FACT_RUN && fact_offset(&facts[i]) == size)
			votes_add(&votes, classes, &facts[i]);
	const bool all = !size_is_class(classes, size) || votes_are_for_arrays(&votes);
	for (size_t i = 0; i < count; i++) {
		const struct fact *fact = &facts[i];
		if (fact_type(fact) != FACT_RUN || fact_offset(fact) != size ||
			(!all && !fact_is_counted(fact)))
			continue;
		ret.elements += fact_size(fact) * fact->count;
		ret.bytes = add_saturated(ret.bytes, fact_round(classes, fact) * fact->count);
	}
	return ret;
}
