// SPDX-License-Identifier: MIT
#include "types/candidates.h"

#include <stdlib.h>

bool candidates_init(
	struct candidates *candidates, const struct hash *hash, uint32_t most, struct error *err)
{
	unsigned bits = 10;
	while ((uint64_t)1 << bits < 2 * (uint64_t)most)
		bits++;
	*candidates = (struct candidates){.hash = *hash, .shift = 64 - bits, .most = most};
	candidates->slots = calloc((size_t)1 << bits, sizeof *candidates->slots);
	candidates->values = calloc(most, sizeof *candidates->values);
	if (candidates->slots == NULL || candidates->values == NULL ||
		pthread_mutex_init(&candidates->lock, NULL) != 0) {
		free(candidates->slots);
		free(candidates->values);
		candidates->slots = NULL;
		return error_memory(err);
	}
	return true;
}

void candidates_deinit(struct candidates *candidates)
{
	if (candidates->slots == NULL)
		return;
	pthread_mutex_destroy(&candidates->lock);
	free(candidates->slots);
	free(candidates->values);
	candidates->slots = NULL;
}

bool candidates_add(struct candidates *candidates, uint64_t value, uint32_t *ret)
{
	bool ok = true;
	pthread_mutex_lock(&candidates->lock);
	// Another thread may have been faster.
	if (!candidates_find(candidates, value, ret)) {
		ok = candidates->count < candidates->most;
		if (ok) {
			const size_t mask = ((size_t)1 << (64 - candidates->shift)) - 1;
			size_t at =
				(size_t)(hash_word(&candidates->hash, value) >> candidates->shift);
			while (atomic_load_explicit(
				       &candidates->slots[at].value, memory_order_relaxed) != 0)
				at = (at + 1) & mask;
			*ret = candidates->count++;
			candidates->values[*ret] = value;
			candidates->slots[at].id = *ret;
			atomic_store_explicit(
				&candidates->slots[at].value, value, memory_order_release);
		}
	}
	pthread_mutex_unlock(&candidates->lock);
	return ok;
}
