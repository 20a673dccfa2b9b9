// SPDX-License-Identifier: MIT
#include "types/hashtable.h"

#include <stdlib.h>
#include <string.h>

void hashtable_deinit(struct hashtable *table)
{
	free(table->slots);
	table->slots = NULL;
	table->count = table->capacity = 0;
}

bool hashtable_reserve(struct hashtable *table)
{
	struct hashtable grown = *table;
	if (2 * table->count < table->capacity)
		return true;
	grown.capacity = table->capacity == 0 ? 1024 : 2 * table->capacity;
	grown.slots = table->lost ? NULL : calloc(grown.capacity, table->size);
	if (grown.slots == NULL) {
		table->lost = true;
		return false;
	}
	for (size_t i = 0; i < table->capacity; i++)
		if (hashtable_has(table, i)) {
			const void *record = hashtable_at(table, i);
			memcpy(hashtable_find(&grown, record), record, table->size);
		}
	free(table->slots);
	*table = grown;
	return true;
}
