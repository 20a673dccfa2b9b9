// SPDX-License-Identifier: MIT
//
// Where all bytes of a dump's memory are. Every address counts once; the parts add up to the whole.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "image/image.h"
#include "image/leftout.h"
#include "image/module.h"
#include "image/places.h"
#include "image/zeros.h"

enum account_part {
	// What was touched.
	ACCOUNT_NAMED,	   // blocks in use that have a name, and objects in other memory
	ACCOUNT_UNNAMED,   // other blocks in use
	ACCOUNT_FREE,	   // free blocks
	ACCOUNT_ALLOCATOR, // the allocator's own structures
	ACCOUNT_UNWALKED,  // of a heap, but no block that is known: damaged, or of others
	ACCOUNT_STACKS,
	ACCOUNT_DATA,  // writable data of programs and libraries
	ACCOUNT_FILES, // other mappings of files
	ACCOUNT_ANON,  // memory of no known allocator
	// What was not, or is not there.
	ACCOUNT_ZEROS,	  // whole pages of zeros, and holes of the file, wherever they are
	ACCOUNT_RESERVED, // that the process could not even read
	ACCOUNT_LEFT_OUT, // when the dump was written
	ACCOUNT_MISSING,  // of a file that is cut
	ACCOUNT_PARTS,
	ACCOUNT_UNTOUCHED = ACCOUNT_ZEROS
};

struct account {
	uint64_t parts[ACCOUNT_PARTS]; // bytes
	uint64_t bytes;		       // the sum of all parts
	uint64_t touched;	       // of those before ACCOUNT_UNTOUCHED
	uint64_t objects; // touched bytes of heaps and anonymous memory, whatever has them
	struct left_outs left_outs;
};

// "blocks_named", "blocks_unnamed", ...
const char *account_part_name(enum account_part part);
// The same for people.
const char *account_part_text(enum account_part part);

// heap: the map of blocks, NULL if there is none. All blocks in use count as without a name; see
// account_name. False if memory ran out. *ret is the caller's, to be released with account_deinit.
bool account_init(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, const struct zeros *zeros,
	struct account *ret);
void account_deinit(struct account *account);
// Objects and blocks with a name take so many bytes: of blocks in use, or else of other memory.
void account_name(struct account *account, uint64_t bytes);
