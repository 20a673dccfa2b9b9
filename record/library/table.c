// SPDX-License-Identifier: MIT
#include "table.h"

#include "memory.h"

struct table *table_create(uint64_t slots)
{
	struct table *table = memory_private(sizeof *table + slots * sizeof *table->entries);
	if (table)
		table->mask = slots - 1;
	return table;
}

static void insert(struct table *table, uint64_t key, uint64_t value)
{
	uint64_t i = key & table->mask;
	while (table->entries[i].value)
		i = (i + 1) & table->mask;
	table->entries[i].key = key;
	STORE_RELEASE(&table->entries[i].value, value);
}

bool table_add(struct table **table, uint64_t count, uint64_t key, uint64_t value)
{
	struct table *old = *table;
	if (count * 2 > old->mask) {
		struct table *larger = table_create((old->mask + 1) * 4);
		if (!larger)
			return false;
		for (uint64_t i = 0; i <= old->mask; i++)
			if (old->entries[i].value)
				insert(larger, old->entries[i].key, old->entries[i].value);
		STORE_RELEASE(table, larger);
	}
	insert(*table, key, value);
	return true;
}
