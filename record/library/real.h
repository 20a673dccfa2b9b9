// SPDX-License-Identifier: MIT
//
// The allocators that the hooks stand before.
#pragma once

#include "base.h"

struct allocator {
	void *(*malloc)(size_t size);
	void (*free)(void *block);
	void *(*calloc)(size_t count, size_t size);
	void *(*realloc)(void *block, size_t size);
	void *(*memalign)(size_t alignment, size_t size); // any of memalign, aligned_alloc
	int (*posix_memalign)(void **ret, size_t alignment, size_t size);
	size_t (*usable)(void *block);
};

// What malloc and the like would be without the library; malloc is NULL until it is known.
extern struct allocator real;
// real is glibc's or musl's, whose blocks are all at multiples of 16.
extern bool real_is_libc;

// Looks them up. Allocations that this makes itself are served by real_early.
void real_find(void);

// Finds the functions with these names, or leaves those alone that there are none of.
void real_find_prefixed(const char *prefix, struct allocator *ret);

// Memory for what allocates before real is known: each block begins at a page, so that free() looks
// closer. It is never freed.
void *real_early(size_t size);
bool real_is_early(const void *block);
// Bytes from an early block to the end of all of them.
size_t real_early_room(const void *block);

// The function of this name that comes after the library's own; NULL if there is none.
void *real_function(const char *name);
