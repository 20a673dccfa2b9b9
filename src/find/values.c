// SPDX-License-Identifier: MIT
#include "find/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static count_rank rank(const void *context, uint64_t word)
{
	return values_rank(context, word);
}

bool values_init(
	struct values *values, size_t top, uint64_t min_count, unsigned threads, struct error *err)
{
	*values = (struct values){.threads = threads, .high = UINT64_MAX};
	if (getrandom(&values->hash, sizeof values->hash, 0) != sizeof values->hash)
		return error_set(err, "no random numbers: %s", strerror(errno));
	values->hash.factor |= 1;
	values->hash.second |= 1;
	values->hash.third |= 1;
	values->tables = calloc(threads, sizeof *values->tables);
	values->zeros = calloc(threads, sizeof *values->zeros);
	if (values->tables == NULL || values->zeros == NULL)
		return error_memory(err);
	return best_init(&values->best, top, min_count, err);
}

void values_deinit(struct values *values)
{
	for (unsigned i = 0; values->tables != NULL && i < values->threads; i++)
		gather_deinit(&values->tables[i]);
	free(values->tables);
	free(values->zeros);
	best_deinit(&values->best);
}

bool values_begin(struct values *values, size_t memory, struct error *err)
{
	// Twice: for the copy while a table is narrowed.
	const size_t fit = memory / (2 * sizeof(struct gather_entry)) / values->threads;
	atomic_store(&values->low, 0);
	for (unsigned i = 0; i < values->threads; i++) {
		values->tables[i] = (struct gather){
			.hash = &values->hash,
			.rank = rank,
			.context = &values->hash,
			.low = &values->low,
		};
		if (!gather_init(&values->tables[i], max_u64(1024, fit), err))
			return false;
	}
	return true;
}

// Offer the values that the threads have counted, each with the sum of its counts.
static void values_collect(struct values *values, const size_t *lengths, size_t *at)
{
	for (;;) {
		struct count_row row = {.value = UINT64_MAX};
		bool more = false;
		for (unsigned i = 0; i < values->threads; i++)
			if (at[i] < lengths[i]) {
				row.value =
					min_u64(row.value, values->tables[i].entries[at[i]].word);
				more = true;
			}
		if (!more)
			return;
		for (unsigned i = 0; i < values->threads; i++)
			if (at[i] < lengths[i] &&
				values->tables[i].entries[at[i]].word == row.value)
				row.count += values->tables[i].entries[at[i]++].count;
		row.count_max = row.count;
		best_offer(&values->best, row);
	}
}

void values_end(struct values *values)
{
	size_t lengths[values->threads], at[values->threads];
	struct count_row zero = {0};
	for (unsigned i = 0; i < values->threads; i++) {
		lengths[i] = gather_list(&values->tables[i]);
		at[i] = 0;
		zero.count += values->zeros[i];
		zero.count_max = zero.count;
		values->zeros[i] = 0;
	}
	values_collect(values, lengths, at);
	for (unsigned i = 0; i < values->threads; i++)
		gather_deinit(&values->tables[i]);
	// Zeros are all counted in the first pass.
	if (values->high == UINT64_MAX && zero.count > 0)
		best_offer(&values->best, zero);
	values->high = atomic_load(&values->low);
	values->done = values->high == 0;
}

unsigned values_left(const struct values *values)
{
	const uint64_t all = UINT64_MAX / 2, counted = all - values->high;
	if (values->done)
		return 0;
	return counted < all / 1000 ? 1000 : (unsigned)(values->high / counted + 1);
}
