// SPDX-License-Identifier: MIT
//
// Walking the heaps of glibc's malloc, 2.12 and later.
#pragma once

#include "alloc/walker.h"

struct glibc;

// Find the regions, and add them to heap, which must live as long. On success *ret is the caller's,
// to be released with glibc_destroy.
bool glibc_find(const struct image *image, const struct places *places, struct heap *heap,
	struct error *err, struct glibc **ret);
// Set the bits of the regions, which have been laid out.
bool glibc_walk(struct glibc *glibc, const struct heap_options *options, struct error *err);
void glibc_destroy(struct glibc *glibc);
