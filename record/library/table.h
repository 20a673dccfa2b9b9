// SPDX-License-Identifier: MIT
//
// Hash tables from a hash of 64 bits to an index. Two keys with the same hash count as the same:
// with a million entries that happens once in 40 million runs. Looked up without a lock; entries
// are only added, under the lock of the owner.
#pragma once

#include "base.h"

struct table_entry {
	uint64_t key;
	uint64_t value; // 0: no entry. Written last
};

struct table {
	uint64_t mask;
	struct table_entry entries[];
};

// A table with room for `slots` entries, a power of two; NULL if there is no memory.
struct table *table_create(uint64_t slots);

// Adds to *table, which holds `count` entries and becomes a larger one when it is half full. The
// old one stays, as others may be in it. False if there is no memory.
bool table_add(struct table **table, uint64_t count, uint64_t key, uint64_t value);

// 0 if there is none: there may be one all the same, which is being added.
static inline uint64_t table_find(struct table *const *table, uint64_t key)
{
	const struct table *in = LOAD_ACQUIRE(table);
	for (uint64_t i = key & in->mask;; i = (i + 1) & in->mask) {
		const uint64_t value = LOAD_ACQUIRE(&in->entries[i].value);
		if (LIKELY(value && in->entries[i].key == key) || !value)
			return value;
	}
}
