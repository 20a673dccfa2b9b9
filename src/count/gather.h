// SPDX-License-Identifier: MIT
//
// Exact counts of the words in a window of ranks, as many as fit: one table a thread. When the
// table is full the window is narrowed from below, for all threads, and what falls out is
// forgotten.
#pragma once

#include <stdatomic.h>

#include "count/count.h"
#include "count/hash.h"

// Where a word stands in the order in which words are counted exactly: first those of full cells.
// The upper half is the load of the word's cell, the lower half a hash that tells words of cells
// with equal loads apart.
typedef uint64_t count_rank;

struct gather_entry {
	uint64_t word;
	uint64_t count; // 0: free
};

struct gather {
	struct gather_entry *entries; // open addressing, linear probing; owned
	size_t slots, used;
	const struct hash *hash;
	// The rank of a word, for narrowing.
	count_rank (*rank)(const void *context, uint64_t word);
	const void *context;
	_Atomic count_rank *low; // the window's lower end, shared by all threads
};

bool gather_init(struct gather *gather, size_t slots, struct error *err);
void gather_deinit(struct gather *gather);
// Count a word that occurs `times` times. Its rank is in the window.
void gather_add(struct gather *gather, uint64_t word, uint64_t times);
// The count of a word; 0 if it is not in the table.
uint64_t gather_count(const struct gather *gather, uint64_t word);
// Forget what has fallen out of the window and sort by word; the table only holds a list then, of
// the length returned.
size_t gather_list(struct gather *gather);
