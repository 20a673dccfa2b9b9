// SPDX-License-Identifier: MIT
//
// Walking the heaps of glibc's malloc, 2.12 and later.
#pragma once

#include "heap/heap.h"

// Fill ret but for the levels. On failure ret holds what heap_deinit must release.
bool glibc_walk(const struct image *image, const struct places *places,
	const struct heap_options *options, struct error *err, struct heap *ret);

// Make the levels of a heap that is complete.
bool heap_index(struct heap *heap, struct error *err);
