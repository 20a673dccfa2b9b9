// SPDX-License-Identifier: MIT
//
// The free lists whose chunks look as if they were in use: threads' caches (tcache) and fastbins.
//
// Sources: glibc, malloc/malloc.c, struct tcache_perthread_struct (2.26 and later) and
// malloc_state.fastbinsY (up to 2.42). A thread's cache is a chunk in use with
//   2.26 to 2.29   char counts[64]; entries[64]
//   2.30 to 2.41   uint16_t counts[64]; entries[64]
//   2.42 and later uint16_t num_slots[76]; entries[76], the room that is left in each list
// An entry points at the object of the first chunk, whose first word leads to the object of the
// next. The 64 lists have chunks of the least size and each more multiple of the alignment; the
// further ones have all from a power of two on. A fastbin points at the chunk itself. Since 2.32
// links in chunks are XORed with their own address >> 12 (PROTECT_PTR).
#pragma once

#include "alloc/arena.h"
#include "alloc/chunks.h"

// Sizes of the chunk that holds a thread's cache: 32 bit, 2.26, to 64 bit, 2.42 and a unit more.
#define CACHE_SIZE_MIN ((uint64_t)0x148)
#define CACHE_SIZE_MAX ((uint64_t)0x310)
// With the word of the next chunk that an object may use.
#define CACHE_BYTES_MAX (CACHE_SIZE_MAX + 8)

// Whether a chunk of size bytes may be a thread's cache that is not empty. A word more than that is
// read.
bool cache_is_likely(const struct chains *chains, const unsigned char *chunk, uint64_t size);

enum list_kind { LIST_CACHE, LIST_FAST };

// The chunks that lists may be made of.
struct lists_heap {
	const struct chains *chains;
	void *context;
	// Whether a chunk that looks as if it were in use, and was not taken, begins at address;
	// its size.
	bool (*in_use)(void *context, uint64_t address, uint64_t *size);
	// A chunk on a list; once for each place in a list that it has. False: no more are wanted.
	bool (*take)(void *context, uint64_t address, uint64_t size, enum list_kind kind);
};

struct lists_result {
	size_t caches; // of threads, that hold chunks
	size_t broken; // lists that did not end as they should
};

// Follow the free lists: those of caches that turn out to be caches, and of the arenas' fastbins.
struct lists_result lists_follow(
	const struct lists_heap *of, const struct addresses *caches, const struct arenas *arenas);

// Take off the bits of chunks on free lists, and tally them.
void lists_clear(const struct chains *chains, const struct addresses *caches,
	const struct arenas *arenas, struct heap *heap);
