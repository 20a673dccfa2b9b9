// SPDX-License-Identifier: MIT
//
// What some blocks are, and what holds each.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/usage.h"
#include "base/error.h"
#include "graph/holders.h"
#include "image/image.h"
#include "names/names.h"
#include "types/types.h"

struct large_block {
	uint64_t address, size; // bytes that it costs
	char *name;		// of its type; owned
	const char *kind;	// as type_kind_name
	const char *module;	// "" if there is none
	bool lost;		// nothing reaches it
	// What points at it, what tells most if there are several: data of a program or library, an
	// object, a stack, other memory, a register. NULL: nothing does.
	char *holder;		   // owned
	const char *holder_kind;   // as struct owner has it
	const char *holder_module; // "" if there is none
	bool offset_known;
	uint64_t offset; // in the object that holds it, of the pointer
	uint64_t where;	 // address of the object, or of the pointer in a place; 0: none
};

// Find it out for count blocks in use. The caller must free *ret with large_blocks_free.
bool large_blocks_find(const struct image *image, struct names *names, struct reach *reach,
	const struct usage_block *blocks, size_t count, unsigned threads, bool redact,
	struct error *err, struct large_block **ret);
void large_blocks_free(struct large_block *list, size_t count);
