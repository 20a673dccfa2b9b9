// SPDX-License-Identifier: MIT
//
// What the walkers of allocators other than glibc's find: slabs of blocks of one size, which are
// in use; blocks that only seem to be, since they wait in a cache or a free list; memory that is
// the allocator's own.
//
// Memory: a bit for each block, and 32 bytes for each slab.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/addresses.h"
#include "alloc/heap.h"

// Blocks of one size, one behind the other.
struct slab {
	uint64_t start; // address of the first block: as the allocator hands it out
	uint64_t size;	// bytes of each, to the beginning of the next: what can be used
	size_t first;	// bit of the first block in slabs->used
	uint32_t count; // of blocks
	uint8_t allocator;
};

// What the allocator has for itself, or keeps for later: pointers in it hold nothing.
struct slab_range {
	uint64_t start, end;
	bool spare; // free pages; else its own structures, and what no block can use
};

struct slabs {
	struct slab *list; // owned
	size_t count, capacity;
	uint64_t *used; // owned
	size_t bits, bit_capacity;
	struct addresses waiting;  // blocks that are marked as in use, and are free
	struct addresses internal; // blocks that are in use by the allocator itself
	struct addresses moved;	   // where blocks in use begin that do so later in their place
	struct slab_range *ranges; // owned
	size_t range_count, range_capacity;
	bool found[HEAP_ALLOCATORS];	  // which there are
	uint8_t padding[HEAP_ALLOCATORS]; // bytes at the end of each block that are the allocator's
	uint64_t damaged,
		missing;     // bytes of blocks of which it cannot be said whether they are in use
	size_t lists_broken; // free lists that did not end as they should
	size_t caches;	     // of threads
};

static inline uint64_t slab_end(const struct slab *slab)
{
	return slab->start + slab->size * slab->count;
}

static inline bool slab_is_used(const struct slabs *slabs, const struct slab *slab, uint32_t index)
{
	const size_t bit = slab->first + index;
	return (slabs->used[bit / 64] >> bit % 64 & 1) != 0;
}

void slabs_deinit(struct slabs *slabs);
// Add a slab none of whose blocks is in use. False if memory slabs out.
bool slabs_add(struct slabs *slabs, enum heap_allocator allocator, uint64_t start, uint64_t size,
	uint32_t count);
// Blocks of the last slab are in use: one of them, or all.
void slabs_use(struct slabs *slabs, uint32_t index);
void slabs_use_all(struct slabs *slabs);
// A block of the last slab is not in use after all; false if that was known.
bool slabs_unuse(struct slabs *slabs, uint32_t index);
bool slabs_add_range(struct slabs *slabs, uint64_t start, uint64_t end, bool spare);

// Sort what was found. Of slabs that overlap the later ones by address are left out.
void slabs_sort(struct slabs *slabs);
// The block that holds address. Only when sorted. False if there is none.
bool slabs_find(const struct slabs *slabs, uint64_t address, size_t *slab, uint32_t *index);
// Whether any block lies from start to end. Only when sorted.
bool slabs_any(const struct slabs *slabs, uint64_t start, uint64_t end);
