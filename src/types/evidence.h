// SPDX-License-Identifier: MIT
//
// What the facts say of each candidate: what it is, which objects it opens, what lies inside
// others.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "names/names.h"
#include "types/arrays.h"
#include "types/distance.h"
#include "types/survey.h"

// Objects in chunks whose first candidate, at this offset, is this one.
struct open {
	uint32_t id;
	unsigned offset;
	uint64_t size; // of the chunk
	uint64_t count;
};

struct entry {
	const struct candidate *hits;
	enum identity_type type;
	char *name;		     // owned
	const struct module *module; // NULL: none, it may have been unloaded
	bool middle;		     // of something that no object points into the middle of
	uint64_t offset;	     // of the vtable pointer in the object, or in the symbol
	// How much it tells of an object: the greatest names it.
	unsigned rank; // 0: it names nothing
	size_t first_open, open_count;
	uint64_t elements;	  // chained hits behind others of the same value
	struct distance element;  // between chained hits in one chunk
	uint64_t alone;		  // hits in the heap or anonymous memory outside known chunks
	struct distance distance; // between these
	struct arrays arrays;	  // of these
	uint64_t header, headers; // most frequent size in the word before these, and how often
	uint32_t outer;		  // what they mostly lie inside of; NO_ID: nothing
	uint64_t outer_distance;
	uint64_t inside; // how many do
};

struct evidence {
	const struct survey_result *pass;
	struct entry *entries; // one for each candidate; owned
	struct open *opens;    // sorted by id, size, offset; owned
	size_t open_count;
};

// pass must live as long.
bool evidence_init(struct evidence *evidence, const struct image *image,
	const struct survey_result *pass, struct names *names, struct error *err);
void evidence_deinit(struct evidence *evidence);

// Whether the words before objects without a known chunk agree that they are headers of malloc.
bool entry_has_header(const struct entry *entry);
