// SPDX-License-Identifier: MIT
//
// One pass over the memory that gathers what there is to know of every word that points into a
// program or a library: how often, where, in which objects of the heap, at which distances.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/error.h"
#include "image/image.h"
#include "names/places.h"
#include "types/facts.h"

enum site { SITE_HEAP, SITE_ANON, SITE_STACK, SITE_DATA, SITE_COUNT };

#define EXAMPLES_MAX 3

struct candidate {
	uint64_t value;
	uint64_t sites[SITE_COUNT];	 // hits by where they are
	uint64_t chained;		 // of those in the heap, in chunks that were recognized
	uint64_t freed;			 // in free chunks; not in sites
	uint64_t examples[EXAMPLES_MAX]; // addresses of the first hits, those in the heap first
	unsigned example_count;
	size_t first_fact, fact_count;
};

struct pass_result {
	struct candidate *list; // sorted by value; the facts' ids are indices; owned
	uint32_t count;
	struct fact *facts; // sorted; owned
	size_t fact_count;
	uint64_t words, zeros;
	uint64_t bar; // rarer candidates were left out for lack of memory; 0: none
	unsigned passes, threads;
	bool partial;
};

struct pass_options {
	size_t memory; // bytes
	unsigned threads;
	enum cpu_level level;	// that the processor has
	const atomic_int *stop; // not zero: end soon, with what was found so far
};

// On success *ret is the caller's, to be released with pass_result_deinit.
bool pass_run(const struct image *image, const struct modules *modules, const struct places *places,
	const struct pass_options *options, struct error *err, struct pass_result *ret);
void pass_result_deinit(struct pass_result *result);
