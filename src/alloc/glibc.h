// SPDX-License-Identifier: MIT
//
// Walking the heaps of glibc's malloc, 2.12 and later.
#pragma once

#include "alloc/heap.h"

// Fill ret. On failure ret holds what heap_deinit must release.
bool glibc_walk(const struct image *image, const struct places *places,
	const struct heap_options *options, struct error *err, struct heap *ret);

// Add a range to a list of the heap. False if memory runs out.
bool heap_add_range(
	struct heap_range **list, size_t *count, size_t *capacity, uint64_t start, uint64_t end);
