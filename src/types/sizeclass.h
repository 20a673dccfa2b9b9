// SPDX-License-Identifier: MIT
//
// What allocators other than glibc's make of a size: each has blocks of certain sizes only, its
// size classes, and a block of the next greater one is what an object takes.
//
// Sources:
// - jemalloc 4 and later, jemalloc(3), "Size classes", and include/jemalloc/internal/sc.h of 5.3:
// 8,
//   then multiples of the quantum of 16, then four classes for each doubling, without an end.
// - gperftools' tcmalloc, src/common.cc of 2.10, AlignmentForSize and SizeMap::Init: an eighth of
//   the size is wasted at most; sizes of which as many fit a span share a class; above 256 KiB
//   whole pages of 8 KiB. Builds with other pages, and what TCMALLOC_TRANSFER_NUM_OBJ changes, are
//   not told apart.
// - mimalloc 2, src/page-queue.c of 2.0.9, mi_bin: words up to 8, two at a time, then four classes
//   for each doubling; above 128 KiB src/os.c, _mi_os_good_alloc_size, and src/segment.c,
//   mi_segments_page_alloc: whole slices of 64 KiB, or 512 KiB where it is more than that.
//   mimalloc 3, as 3.0.1 does it: the classes go on up to 1 MiB, larger blocks are as
//   _mi_os_good_alloc_size says, and all begin at multiples of 128 at most. Linked statically, it
//   is taken for mimalloc 2.
// - musl 1.2.1 and later, src/malloc/mallocng of 1.2.3, malloc.c and meta.h: multiples of 16, four
//   for each doubling, near 2^n / 7, 6, 5, 4; four bytes of each are a header; from 131052 bytes on
//   whole pages, below that too if it saves memory, but for many blocks of a size. The first few of
//   a size may be larger.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "names/names.h"

#define SIZE_CLASSES_MAX 128

struct size_classes {
	const char *allocator; // "jemalloc", "tcmalloc", "mimalloc", "musl"; NULL: none is known
	unsigned word;	       // bytes
	uint64_t (*round)(const struct size_classes *classes, uint64_t size, bool mapped);
	uint64_t page;			  // larger ones are multiples of it
	uint64_t pooled, pool, alignment; // where blocks may begin, see sizeclass.c
	uint32_t list[SIZE_CLASSES_MAX];
	size_t count;
};

// The classes of the allocator whose library a process with words of so many bytes had loaded, or
// whose symbols its program has. Without one, ret->allocator is NULL.
void size_classes_find(struct names *names, unsigned word, struct size_classes *ret);
// Those of the allocator in a library with this name; false if none is known by it.
bool size_classes_init(const char *library, unsigned word, struct size_classes *ret);
// The allocator of this name, as struct size_classes has it; NULL if none is called so.
const char *size_classes_allocator(const char *name);

// The bytes that an object of size bytes takes; size itself if no allocator is known. mapped: it
// may have pages of its own.
uint64_t size_class_round(const struct size_classes *classes, uint64_t size, bool mapped);
// Whether an object of size bytes at address may have pages of its own that are no class.
bool size_may_be_mapped(const struct size_classes *classes, uint64_t size, uint64_t address);

// Whether a block of a class, rounded up, may begin at address.
bool size_may_begin(const struct size_classes *classes, uint64_t rounded, uint64_t address);
// Whether all blocks of a class begin where a page does.
bool size_begins_pages(const struct size_classes *classes, uint64_t rounded);

static inline bool size_is_class(const struct size_classes *classes, uint64_t size)
{
	return size_class_round(classes, size, false) == size;
}
