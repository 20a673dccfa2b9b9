// SPDX-License-Identifier: MIT
//
// What objects point at, noted while the heap is walked, when all of it is read anyway: whoever
// follows pointers need not read these objects again. Most point at no other one: texts, numbers,
// records. Of the others the places they point at are listed, as long as there is room.
//
// Memory: two bits for each unit of the heap, four bytes for each 64 units, and for each pointer.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A place in the heap: its slot (see heap.h), and what else is to be known of the pointer.
enum target_bits {
	TARGET_SLOT = (1 << 30) - 1,
	TARGET_LATE = 1 << 30, // into the last word of the unit
};
#define TARGET_LAST (UINT32_C(1) << 31) // of its object
// Of an object with more pointers none are listed.
#define TARGETS_MAX 64

struct targets {
	// A bit for each unit: the object in the chunk that begins there points at no other one.
	uint64_t *leaves; // owned
	// The same: what it points at is listed; owned.
	uint64_t *listed;
	uint32_t *first; // of each 64 units, the index of the first target; owned
	uint32_t *list;	 // owned
	size_t capacity;
	atomic_size_t taken;
};

// Of a heap with so many slots, of so many bytes at most (a power of two, its logarithm). False if
// memory runs out; then, too, *ret must be released.
bool targets_init(size_t slots, unsigned unit_bits, struct targets *ret);
void targets_deinit(struct targets *targets);
// Release all but leaves.
void targets_release(struct targets *targets);

// Adds targets, for one thread. Zero it to begin; where addresses do not go on upwards, cell.
struct target_writer {
	size_t cell;   // that has room, plus 1
	uint32_t *at;  // room for TARGETS_MAX more; NULL: there is none
	uint32_t *end; // of the room that it has taken
};

// Where the targets of the object at slot are to be written; NULL if there is no room.
uint32_t *targets_begin(struct targets *targets, struct target_writer *writer, size_t slot);
// So many were written; with none it is a leaf.
void targets_end(struct targets *targets, struct target_writer *writer, size_t slot, size_t count);

static inline bool targets_none(const struct targets *targets, size_t slot)
{
	return (targets->leaves[slot / 64] >> slot % 64 & 1) != 0;
}

// The targets of the object at slot, of which the last one has TARGET_LAST; NULL: not listed.
static inline const uint32_t *targets_of(const struct targets *targets, size_t slot)
{
	const uint64_t bit = UINT64_C(1) << slot % 64;
	if (targets->listed == NULL || (targets->listed[slot / 64] & bit) == 0)
		return NULL;
	const uint32_t *at = targets->list + targets->first[slot / 64];
	for (int before = __builtin_popcountll(targets->listed[slot / 64] & (bit - 1)); before > 0;)
		before -= (*at++ & TARGET_LAST) != 0;
	return at;
}
