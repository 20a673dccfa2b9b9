// SPDX-License-Identifier: MIT
//
// Where a process can have its first pointers: all memory that is neither heap nor dead.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/addresses.h"
#include "alloc/heap.h"
#include "base/error.h"
#include "image/image.h"
#include "image/module.h"
#include "image/places.h"

enum root_type {
	ROOT_STACK,  // of a thread, from its stack pointer on, the red zone included
	ROOT_MODULE, // writable data of a program or a library, or a writable file
	ROOT_MEMORY, // other memory: thread-local storage, mappings that are no heap
	ROOT_HEAP,   // in the heap, but not in chunks that could be walked
};

// A part of memory that the dump has.
struct root {
	uint64_t start, end; // multiples of the word size
	enum root_type type;
	size_t place; // index
};

struct roots {
	struct root *list; // sorted by address, without overlaps; owned
	size_t count, capacity;
};

// *ret is the caller's, to be released with roots_deinit.
bool roots_init(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, struct error *err, struct roots *ret);
void roots_deinit(struct roots *roots);

// Bytes of anonymous memory that is neither the allocator's nor a stack, without what is reserved
// only: other allocators may have objects there.
uint64_t roots_foreign(
	const struct image *image, const struct heap *heap, const struct roots *roots);
// Whether the dump lacks what a process must have: the data of the main program, if it has any and
// is known, or all stacks.
bool roots_lack(const struct image *image, const struct modules *modules,
	const struct places *places, const struct roots *roots);

// Words that a live process has in its roots, and that may point into its heap. Read them before
// the heap is walked, of which the regions must be known: a process that puts an object at the head
// of a list meanwhile leaves no way to the rest in what is read afterwards, since the walk has not
// seen the new head. At most 1 Mi words are kept, and roots of more than 64 MiB left out. False if
// memory ran out. *ret must be zeroed; its list is the caller's to free, also after a failure.
bool roots_read_early(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, struct addresses *ret);
