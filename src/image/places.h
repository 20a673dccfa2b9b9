// SPDX-License-Identifier: MIT
//
// What lies where in the address space of a dead process: mapped files, the heap, stacks, the rest.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/module.h"

// What a word is; of the places below, only those that are addresses.
enum kind {
	KIND_ZERO,
	KIND_NUMBER, // a small or medium integer
	KIND_TEXT,   // printable characters in memory order
	KIND_CODE,   // into an executable part of a mapped file
	KIND_DATA,   // into another part of a mapped file
	KIND_HEAP,   // into the heap or what looks like an arena of malloc
	KIND_STACK,  // into a thread's stack
	KIND_ANON,   // into other memory
	KIND_OTHER,
	KIND_COUNT
};

// A part of the address space.
struct span {
	uint64_t start, end;
	enum kind kind; // KIND_CODE, DATA, HEAP, STACK or ANON
};

enum place_type {
	PLACE_MODULE, // a mapped file
	PLACE_BREAK,  // the heap that grows with brk(2)
	PLACE_ARENA,  // a heap of one of malloc's further arenas
	PLACE_BLOCKS, // large blocks that malloc has mapped
	PLACE_STACK,
	PLACE_ANON,
};

struct place {
	enum place_type type;
	uint64_t base;	 // address that offsets are counted from
	uint32_t module; // index, if the type is PLACE_MODULE
	int64_t thread;	 // id, if the type is PLACE_STACK
};

struct places {
	struct span *spans; // sorted, without overlaps; owned
	struct place *list; // one for each span; owned
	size_t count, capacity;
};

// Find out from the modules, the segments of image, the threads' stack pointers, and from what
// glibc's malloc leaves in memory. *ret is the caller's, to be released with places_deinit.
bool places_init(const struct image *image, const struct modules *modules, struct error *err,
	struct places *ret);
void places_deinit(struct places *places);

// Add up the bytes that the dump has of each kind of place.
void places_measure(
	const struct places *places, const struct image *image, uint64_t ret[static KIND_COUNT]);

// The index of the place that holds address; false if there is none.
bool places_find(const struct places *places, uint64_t address, size_t *ret);
