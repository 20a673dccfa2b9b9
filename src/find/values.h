// SPDX-License-Identifier: MIT
//
// The most frequent of numbers that are found while going through memory, exact in a bounded amount
// of memory: those whose rank, a hash, is in a window are counted, and the window is narrowed when
// they become too many; the next pass counts the rest.
#pragma once

#include "count/best.h"
#include "count/gather.h"

struct values {
	struct hash hash;
	struct gather *tables; // one for each thread; owned
	uint64_t *zeros;       // how often each thread has seen 0; owned
	unsigned threads;
	_Atomic count_rank low;
	count_rank high;
	struct best best;
	bool done; // all are counted
};

bool values_init(
	struct values *values, size_t top, uint64_t min_count, unsigned threads, struct error *err);
void values_deinit(struct values *values);
// Begin a pass, with so many bytes of memory for all threads together.
bool values_begin(struct values *values, size_t memory, struct error *err);
// Count a value, in thread number `worker`.
static inline bool values_add(
	struct values *values, unsigned worker, uint64_t value, struct error *err);
// The pass is over: put together what the threads have counted. The next pass, unless done, counts
// what is left.
void values_end(struct values *values);
// About how many passes are still needed.
unsigned values_left(const struct values *values);

static inline count_rank values_rank(const struct hash *hash, uint64_t value)
{
	return hash_word(hash, value) >> 1;
}

static inline bool values_add(
	struct values *values, unsigned worker, uint64_t value, struct error *err)
{
	if (value == 0) {
		values->zeros[worker]++;
		return true;
	}
	const count_rank rank = values_rank(&values->hash, value);
	if (rank < atomic_load_explicit(&values->low, memory_order_relaxed) || rank >= values->high)
		return true;
	return gather_add(&values->tables[worker], value, err);
}
