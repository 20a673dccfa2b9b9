// SPDX-License-Identifier: MIT
//
// The arenas of glibc's malloc, found by the bins they hold.
//
// Source: glibc, malloc/malloc.c, struct malloc_state: mutex, flags (2: not in one piece),
// have_fastchunks (2.27 to 2.42), fastbinsY (up to 2.42), top, last_remainder, bins[254],
// binmap[4], next, next_free (since 2.11 or not), attached_threads (since 2.23), system_mem,
// max_system_mem. A bin is a pair of pointers, the ends of a ring that runs through the chunks in
// it; both point at where a chunk would begin that had them for its links, two words before, if it
// is empty. Most of the 127 are. malloc/arena.c, struct heap_info: ar_ptr, prev, size,
// mprotect_size, pagesize (since 2.35) begin each heap of a further arena, which is aligned to its
// greatest size.
#pragma once

#include "alloc/chunks.h"

struct arena {
	uint64_t start;	 // address of the structure or, if no link to it was found, of top
	uint64_t bins;	 // address of the first one
	uint64_t end;	 // address of system_mem, or what is behind the binmap: no chunk is before
	uint64_t top;	 // address of the chunk; 0: none yet
	uint64_t next;	 // address of the next arena's structure
	uint64_t system; // bytes that it has from the system; 0: not known
	bool further;	 // not the main one
	bool in_one;	 // the main one has all its memory in one piece
};

struct arenas {
	struct arena *list; // owned
	size_t count, capacity;
	struct addresses heaps; // of further arenas: where they begin; sorted; owned
};

// Find all. *ret must be released with arenas_deinit, also after a failure, which is for want of
// memory.
bool arenas_find(const struct chains *chains, const struct places *places, struct arenas *ret);
void arenas_deinit(struct arenas *arenas);

// The heap_info at address, if there is one.
struct heap_info {
	uint64_t arena, previous, size;
};
bool heap_info_read(const struct chains *chains, uint64_t address, struct heap_info *ret);
