// SPDX-License-Identifier: MIT
//
// The most frequent of numbers that are found while going through memory, exactly: those that come
// again and again are counted in a small table, all others are listed and sorted in the end. What
// does not fit the memory is noticed, and is to be counted in another way.
#pragma once

#include <stdatomic.h>

#include "count/best.h"

#define VALUES_HOT_BITS 10

struct hot_value {
	uint64_t value;
	uint64_t count;
};

// One thread's share.
struct value_list {
	struct hot_value hot[1 << VALUES_HOT_BITS];
	size_t at, end; // the part of the common list that it fills
};

struct values {
	struct value_list *lists; // one for each thread; owned
	unsigned threads;
	uint64_t *list; // common to all; owned
	size_t capacity;
	atomic_size_t used; // more than capacity: numbers were lost
	struct best best;
	bool done; // all are counted
};

bool values_init(
	struct values *values, size_t top, uint64_t min_count, unsigned threads, struct error *err);
void values_deinit(struct values *values);
// Begin to count, with so many bytes of memory for all threads together.
bool values_begin(struct values *values, size_t memory, struct error *err);
// The pass is over: put together what the threads have counted, unless something was lost.
void values_end(struct values *values);
// The memory with which `count` numbers are never too many, in bytes.
uint64_t values_memory(uint64_t count, unsigned threads);

// Count a number so many times that is new or rare: in thread number `worker`, whose hot one it is
// not.
void values_put(struct values *values, unsigned worker, struct hot_value *hot, uint64_t value,
	uint64_t count);

// Count a number so many times, in thread number `worker`.
static inline void values_add(
	struct values *values, unsigned worker, uint64_t value, uint64_t count)
{
	struct value_list *list = &values->lists[worker];
	const uint64_t hash = value * UINT64_C(0x9e3779b97f4a7c15);
	struct hot_value *hot = &list->hot[hash >> (64 - VALUES_HOT_BITS)];
	if (hot->value == value)
		hot->count += count;
	else
		values_put(values, worker, hot, value, count);
}
