// SPDX-License-Identifier: MIT
//
// What the allocators of a dead process have: how much is in use and free, in which heap, in blocks
// of which sizes, and which blocks are the largest. Sizes are what blocks cost, with what the
// allocator keeps for each.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "image/image.h"

// A heap of an arena; or all blocks of an allocator that were mapped one by one, or all its slabs.
struct usage_heap {
	enum heap_allocator allocator;
	enum heap_region_kind kind;
	uint64_t address; // of the first block
	uint64_t regions; // that are added up here
	struct heap_tally used, free;
	uint64_t end_bytes;    // free at the end, which a heap that grows keeps
	uint64_t largest_free; // stretch of free blocks, bytes
	uint64_t free_pages;   // bytes of whole pages that are free, and were touched
};

// Blocks of a size, or of sizes close to each other.
struct usage_size {
	uint64_t least, most; // bytes
	struct heap_tally used, free;
};

struct usage_block {
	uint64_t address, size;
};

struct usage {
	struct usage_heap *heaps; // by bytes in use and free, descending; owned
	size_t heap_count, heap_capacity;
	struct usage_size *sizes; // by bytes in use, descending; those of no block left out; owned
	size_t size_count;
	struct usage_block *blocks; // in use, the largest first; owned
	size_t block_count, block_most;
	bool partial; // it was stopped
};

// largest: so many of the largest blocks are kept. False if memory ran out. *ret is the caller's,
// to be released with usage_deinit.
bool usage_init(const struct image *image, const struct heap *heap, size_t largest,
	const atomic_int *stop, struct usage *ret);
void usage_deinit(struct usage *usage);
