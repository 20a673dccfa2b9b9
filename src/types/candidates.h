// SPDX-License-Identifier: MIT
//
// The values that were seen, each with a small number. All threads share one table.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "count/hash.h"

struct candidate_slot {
	_Atomic uint64_t value; // 0: free
	uint32_t id;
};

struct candidates {
	struct candidate_slot *slots; // owned
	unsigned shift;
	uint64_t *values; // of each id; owned
	uint32_t count, most;
	struct hash hash;
	pthread_mutex_t lock; // to add one
	// Only those are admitted whose cell has at least this load; 0: all.
	uint64_t bar;
	const uint32_t *cells; // CANDIDATE_CELLS
};

#define CANDIDATE_CELL_BITS 18
#define CANDIDATE_CELLS ((size_t)1 << CANDIDATE_CELL_BITS)

// For at most most candidates.
bool candidates_init(
	struct candidates *candidates, const struct hash *hash, uint32_t most, struct error *err);
void candidates_deinit(struct candidates *candidates);

static inline size_t candidate_cell(const struct hash *hash, uint64_t value)
{
	return (size_t)(hash_word(hash, value) >> (64 - CANDIDATE_CELL_BITS));
}

// Add a value that candidates_find did not find. False if there is no room.
bool candidates_add(struct candidates *candidates, uint64_t value, uint32_t *ret);

// The number of a value, which is not 0. False if it is not in the table.
static inline bool candidates_find(
	const struct candidates *candidates, uint64_t value, uint32_t *ret)
{
	const size_t mask = ((size_t)1 << (64 - candidates->shift)) - 1;
	size_t at = (size_t)(hash_word(&candidates->hash, value) >> candidates->shift);
	for (;; at = (at + 1) & mask) {
		const struct candidate_slot *slot = &candidates->slots[at];
		const uint64_t there = atomic_load_explicit(&slot->value, memory_order_acquire);
		if (there == value) {
			*ret = slot->id;
			return true;
		}
		if (there == 0)
			return false;
	}
}
