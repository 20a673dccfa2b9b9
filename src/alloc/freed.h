// SPDX-License-Identifier: MIT
//
// Chunks of glibc's malloc that look as if they were in use, but wait on a free list for another
// use: in threads' caches and fastbins. They are found without a walk of the heaps: arenas by their
// bins, caches by the pointers that threads keep of them, which lie in thread-local storage: above
// the stack of a thread, in a mapping of its own, or, of a static program, where the heap begins.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "image/places.h"

struct freed {
	uint64_t *list; // addresses of the chunks, sorted; owned
	size_t count;
	bool all; // there are no others
};

// Find them, `most` at most. Without glibc's malloc there are none; in a dump that cannot be read
// at any address (image_info(image)->in_order) they are not looked for. *ret is the caller's, to be
// released with freed_deinit.
bool freed_find(const struct image *image, const struct places *places, size_t most,
	struct error *err, struct freed *ret);
void freed_deinit(struct freed *freed);
