// SPDX-License-Identifier: MIT
#include "alloc/addresses.h"

#include <stdlib.h>

bool addresses_add(struct addresses *addresses, uint64_t address)
{
	if (addresses->count == addresses->capacity) {
		const size_t wanted = 2 * addresses->capacity + 16;
		uint64_t *list = reallocarray(addresses->list, wanted, sizeof *list);
		if (list == NULL)
			return false;
		addresses->list = list;
		addresses->capacity = wanted;
	}
	addresses->list[addresses->count++] = address;
	return true;
}

static int address_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

void addresses_sort(struct addresses *addresses)
{
	if (addresses->count > 0)
		qsort(addresses->list, addresses->count, sizeof *addresses->list, address_compare);
}

void addresses_unite(struct addresses *addresses)
{
	size_t kept = 0;
	for (size_t i = 0; i < addresses->count; i++)
		if (kept == 0 || addresses->list[kept - 1] != addresses->list[i])
			addresses->list[kept++] = addresses->list[i];
	addresses->count = kept;
}

bool addresses_have(const struct addresses *addresses, uint64_t address)
{
	return addresses->count > 0 && bsearch(&address, addresses->list, addresses->count,
					       sizeof address, address_compare) != NULL;
}
