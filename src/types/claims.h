// SPDX-License-Identifier: MIT
//
// Blocks whose bytes are in a row already, by which the block itself does not tell its type: the
// objects of a managed language, and what belongs to them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "alloc/lookup.h"
#include "base/error.h"

struct claims {
	struct lookup lookup;
	_Atomic uint64_t *bits; // one for each slot of the heap; owned
};

// heap must live as long. *ret is the caller's, to be released with claims_deinit, also after a
// failure.
bool claims_init(const struct heap *heap, struct error *err, struct claims *ret);
void claims_deinit(struct claims *claims);
// The block that holds address, if there is one. Thread-safe.
void claims_add(struct claims *claims, uint64_t address);

static inline bool claims_have(const struct claims *claims, size_t slot)
{
	return (atomic_load_explicit(&claims->bits[slot / 64], memory_order_relaxed) >> slot % 64 &
		       1) != 0;
}
