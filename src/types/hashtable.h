// SPDX-License-Identifier: MIT
//
// A hash table of records that are counted, which grows. Records are the caller's structures: plain
// bytes that begin with the count, a uint64_t, which is 0 in a slot that is free.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hashtable {
	size_t size;	      // bytes of a record
	unsigned char *slots; // owned
	size_t count;	      // records
	size_t capacity;      // slots
	bool lost;	      // memory ran out: not all records are there
	uint64_t (*hash)(const void *record);
	bool (*same)(const void *left, const void *right);
};

void hashtable_deinit(struct hashtable *table);

// Make sure that there is room for one more record. False if memory runs out.
bool hashtable_reserve(struct hashtable *table);

static inline void *hashtable_at(const struct hashtable *table, size_t slot)
{
	return table->slots + slot * table->size;
}

static inline bool hashtable_has(const struct hashtable *table, size_t slot)
{
	return *(const uint64_t *)hashtable_at(table, slot) != 0;
}

// The slot of a record, which is free if there is none that is the same. There must be room for
// one. Who fills it adds to count.
static inline void *hashtable_find(const struct hashtable *table, const void *record)
{
	size_t slot = (size_t)table->hash(record) & (table->capacity - 1);
	while (hashtable_has(table, slot) && !table->same(hashtable_at(table, slot), record))
		slot = (slot + 1) & (table->capacity - 1);
	return hashtable_at(table, slot);
}
