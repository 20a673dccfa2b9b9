// SPDX-License-Identifier: MIT
//
// Which types, at which offset, point at the objects of a type.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "graph/holders.h"
#include "image/image.h"
#include "names/names.h"

// What points at the objects, at one offset.
struct owner {
	char *name;	    // of its type, or of the place that it is; owned
	const char *kind;   // as type_kind_name, or "stack", "data", "memory", "register"
	const char *module; // "" if there is none
	uint64_t count;	    // pointers
	bool offset_known;  // false: at many, in an array, or it is no object
	uint64_t offset;
	uint64_t example; // address of an object, or of the pointer in a place; 0: none
};

struct owners {
	struct owner *list; // by count, descending; owned
	size_t count;
	uint64_t objects, lost; // of the type
};

struct owners_options {
	const uint64_t *values; // words that the objects of the type have at their beginning
	size_t value_count;
	bool within_known; // only words at this offset in an object count
	size_t within;	   // bytes, below 256
	unsigned threads;  // as for reach
	bool redact;	   // texts are not to be shown
};

// On success *ret is the caller's, to be released with owners_deinit.
bool owners_find(const struct image *image, struct names *names, struct reach *reach,
	const struct owners_options *options, struct error *err, struct owners *ret);
void owners_deinit(struct owners *owners);

// What a root is called, for the pointer at an address in it, with its kind and the module; root
// NULL: a register of the thread with the index `where`. The caller must free the result; NULL if
// memory ran out.
char *root_name(const struct image *image, struct names *names, const struct root *root,
	uint64_t where, const char **kind, const char **module);
