// SPDX-License-Identifier: MIT
//
// What the allocators of a dead process had handed out: each block of memory in use, found by
// walking the heaps. No symbol is needed: an allocator's structures are recognized by their
// consistency. Each allocator has a file of its own; all fill the same structure.
//
// A block begins at the address that the allocator returned. It ends where the next one begins, but
// for what the allocator keeps between them.
//
// Memory: two bits for each unit of a region, and what targets.h says.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/targets.h"
#include "base/cpu.h"
#include "base/error.h"
#include "image/image.h"
#include "image/places.h"

enum heap_allocator {
	HEAP_UNKNOWN, // none that is known
	HEAP_GLIBC,
	HEAP_JEMALLOC,
	HEAP_TCMALLOC,
	HEAP_MIMALLOC,
	HEAP_MUSL,
	HEAP_GO,
	HEAP_PYMALLOC,
	HEAP_ALLOCATORS
};

// "glibc", "jemalloc", ...; "unknown".
const char *heap_allocator_name(enum heap_allocator allocator);
// The one that is called so; HEAP_UNKNOWN if none is, or name is NULL.
enum heap_allocator heap_allocator_named(const char *name);

enum heap_region_kind {
	HEAP_MAIN,   // grows with brk(2), or was mapped when that failed
	HEAP_ARENA,  // a heap of a further arena
	HEAP_MAPPED, // chunks that were mapped one by one
	HEAP_SLABS,  // blocks of one size behind each other, of another size in the next stretch
};

// A stretch of addresses in which block follows block, but for breaks and what others put there.
struct heap_region {
	enum heap_allocator allocator;
	enum heap_region_kind kind;
	uint64_t start, end; // addresses; the first block begins at start
	size_t slot;	     // bit of start in heap->cells
	uint8_t unit_bits;   // blocks begin at multiples of 1 << unit_bits bytes from start
	uint8_t slack;	     // bytes before the next block that are the allocator's; at most a unit
	uint64_t lead;	     // bytes before the first block that are the allocator's
};

// The bits of 64 units, the lowest one first.
struct heap_cell {
	uint64_t starts; // a block begins there, whether in use or not, or memory that is none
	uint64_t used;	 // a block in use begins there
};

// A stretch of addresses.
struct heap_range {
	uint64_t start, end;
};

// Where a chain of chunks broke: the memory from address to resumed is not known.
struct heap_break {
	uint64_t chunk;	  // the last one that was sound; address, if there was none
	uint64_t address; // where the next one should be; what is there is not sound
	uint64_t resumed; // where a sound chunk follows, or the region ends
};

struct heap_tally {
	uint64_t count; // of chunks
	uint64_t bytes; // with their headers
};

// Of all breaks, so many are kept.
#define HEAP_BREAKS_MAX 1024

struct heap {
	enum heap_allocator allocator; // that has most of what is in use; HEAP_UNKNOWN: none
	unsigned word;		       // bytes
	unsigned unit_bits;	       // the most that a region has
	struct heap_region *regions;   // sorted by start, disjoint; owned
	size_t region_count, region_capacity;
	// Bits for each unit of each region; owned. Blocks on free lists of any kind are not in
	// use. Regions begin at multiples of 64, with a block.
	struct heap_cell *cells;
	size_t slot_count;
	struct targets targets; // of the same slots
	// What lies in regions but is no chunk: broken, foreign, or missing. Sorted; owned.
	struct heap_range *gaps;
	size_t gap_count, gap_capacity;
	// The allocator's own structures outside of regions: what points from them at chunks does
	// not hold these. Sorted; owned.
	struct heap_range *internals;
	size_t internal_count, internal_capacity;

	// Of a live process: what was above the tops of arenas when these were read. What is in use
	// there was made since. Sorted by arena; owned.
	struct heap_range *young;
	size_t young_count, young_capacity;

	struct heap_tally in_use; // with mapped
	struct heap_tally mapped; // chunks that were mapped one by one
	// Not in use: in bins, or the rest at the end of a heap; in fastbins; in threads' caches.
	struct heap_tally binned, fast, cached;
	uint64_t overhead; // bytes of the allocator's own: of arenas, and between regions' chunks
	uint64_t foreign;  // bytes between chunks that are not the allocator's
	uint64_t outside;  // bytes of what grows with brk(2), before the first chunk or behind the
			   // last
	uint64_t broken;   // bytes between a break and where the chain goes on
	uint64_t missing;  // bytes that the dump does not have
	struct heap_break *breaks; // sorted by address; the first HEAP_BREAKS_MAX; owned
	size_t break_count;	   // of all
	size_t arenas;		   // in use whose structures were found
	size_t arenas_lost;	   // of these, whose heap was not found
	size_t caches;		   // of threads, that hold chunks
	size_t lists_broken;	   // free lists that did not end as they should
	// What the allocator says that it has from the system, without mapped chunks: bytes; 0 if
	// that was not found. In a sound heap: in_use - mapped + binned + fast + cached + overhead
	// + foreign.
	uint64_t claimed;
	bool partial; // interrupted
};

// Is told how far the work is; functions may be NULL. add is called by several threads at once.
struct heap_watch {
	void *context;
	void (*begin)(void *context, uint64_t bytes); // a pass over so many bytes
	void (*add)(void *context, uint64_t bytes);   // so many bytes more
};

struct heap_options {
	unsigned threads;	// at least 1
	bool targets;		// note what objects point at
	enum cpu_level level;	// that the processor has
	const atomic_int *stop; // not zero: give up
	struct heap_watch watch;
	// Of a live process: called once the tops of the arenas, regions and internals are known,
	// before the first chunk is looked at. False if memory ran out. NULL: not wanted.
	bool (*begin)(void *context, const struct heap *heap);
	void *context;
};

// Walk the heaps of image, of which places says what lies where. If the allocator is not known,
// there are no regions; that is no error. Fails if memory runs out, and for dumps that cannot be
// read at any address (image_info(image)->in_order). *ret is the caller's, to be released with
// heap_deinit.
bool heap_walk(const struct image *image, const struct places *places,
	const struct heap_options *options, struct error *err, struct heap *ret);
void heap_deinit(struct heap *heap);

// The index of the first region that ends behind address; region_count if there is none.
size_t heap_region_behind(const struct heap *heap, uint64_t address);
// The region that holds address; NULL if there is none.
const struct heap_region *heap_region_at(const struct heap *heap, uint64_t address);
// The same. hint: the index of a region that is tried first, becomes that of the one found.
const struct heap_region *heap_region_near(const struct heap *heap, uint64_t address, size_t *hint);

// The block in use whose header begins at address: that is what registers have in the place of the
// block while glibc's malloc hands it out. 0 if there is none.
uint64_t heap_block_behind(const struct heap *heap, uint64_t address);

static inline bool heap_is_used(const struct heap *heap, size_t slot)
{
	return (heap->cells[slot / 64].used >> slot % 64 & 1) != 0;
}

// A block begins at a slot, or what is none.
static inline void heap_mark_start(struct heap *heap, size_t slot)
{
	heap->cells[slot / 64].starts |= (uint64_t)1 << slot % 64;
}

static inline void heap_mark_used(struct heap *heap, size_t slot)
{
	heap->cells[slot / 64].starts |= (uint64_t)1 << slot % 64;
	heap->cells[slot / 64].used |= (uint64_t)1 << slot % 64;
}

static inline size_t region_slot(const struct heap_region *region, uint64_t address)
{
	return region->slot + (size_t)((address - region->start) >> region->unit_bits);
}

// Whether address is in what a unit has for the allocator, if a block begins behind it.
static inline bool region_in_slack(const struct heap_region *region, uint64_t address)
{
	const uint64_t unit = (uint64_t)1 << region->unit_bits;
	return ((address - region->start) & (unit - 1)) >= unit - region->slack;
}

// The address of a slot of the region.
static inline uint64_t region_address(const struct heap_region *region, size_t slot)
{
	return region->start + ((uint64_t)(slot - region->slot) << region->unit_bits);
}

// The slot behind the region.
static inline size_t region_end_slot(const struct heap_region *region)
{
	const uint64_t unit = (uint64_t)1 << region->unit_bits;
	return region->slot +
	       (size_t)((region->end - region->start + unit - 1) >> region->unit_bits);
}
