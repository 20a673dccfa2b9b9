// SPDX-License-Identifier: MIT
//
// Finer cells: tens of millions of one byte each, shared by all threads. They tell a word that
// occurs fifty times from noise. They lie in memory, not in a cache, so words come in batches whose
// cells are fetched in advance.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

// A cell that holds this many, or more.
#define WIDE_FULL UINT8_MAX

struct wide {
	_Atomic uint8_t *cells; // owned; NULL: none
	size_t count;
	uint64_t levels[WIDE_FULL + 1]; // how many cells hold so many; filled by wide_measure
};

// wanted: how many cells.
bool wide_init(struct wide *wide, size_t wanted, struct error *err);
void wide_deinit(struct wide *wide);
void wide_measure(struct wide *wide);

static inline _Atomic uint8_t *wide_cell(const struct wide *wide, uint64_t hash)
{
	return &wide->cells[(hash >> 32) * wide->count >> 32];
}

static inline unsigned wide_load(const struct wide *wide, uint64_t hash)
{
	return atomic_load_explicit(wide_cell(wide, hash), memory_order_relaxed);
}

// Add one. False if the cell is full. alone: no other thread is at it.
static inline bool wide_add(struct wide *wide, uint64_t hash, bool alone)
{
	_Atomic uint8_t *cell = wide_cell(wide, hash);
	uint8_t load = atomic_load_explicit(cell, memory_order_relaxed);
	if (alone) {
		if (load == WIDE_FULL)
			return false;
		atomic_store_explicit(cell, (uint8_t)(load + 1), memory_order_relaxed);
		return true;
	}
	while (load != WIDE_FULL)
		if (atomic_compare_exchange_weak_explicit(cell, &load, (uint8_t)(load + 1),
			    memory_order_relaxed, memory_order_relaxed))
			return true;
	return false;
}
