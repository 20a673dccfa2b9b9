// SPDX-License-Identifier: MIT
//
// One pass over the memory that gathers what there is to know of every word that points into a
// program or a library: how often, where, in which objects of the heap, at which distances.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "base/cpu.h"
#include "base/error.h"
#include "image/image.h"
#include "image/places.h"
#include "image/zeros.h"
#include "types/hits.h"
#include "types/sizeclass.h"

struct candidate {
	uint64_t value;
	uint64_t sites[SITE_COUNT]; // hits by where they are
	uint64_t chained;	    // of those in the heap, in blocks
	uint64_t freed;		    // in free blocks; not in sites
	only_place stack, module;   // that all hits in stacks and in modules' data are in
	struct examples examples;   // those where there are no objects come last
	struct openers openers;
	size_t first_fact, fact_count;
};

// A value that the size fields of malloc's chunks have, with flags, and how many have it.
struct size_field {
	uint64_t value, count;
};

#define SIZE_FIELDS_MAX 8

struct survey_result {
	struct size_classes classes; // of the allocator, as in the options
	bool walked;		     // blocks are known
	uint64_t packed;	     // as in struct types_result
	bool lists_known;	     // and all that look as if in use, but wait on a free list
	struct candidate *list;	     // sorted by value; the facts' ids are indices; owned
	uint32_t count;
	struct fact *facts; // sorted; owned
	size_t fact_count;
	uint64_t words, zeros, texts;
	struct size_field fields[SIZE_FIELDS_MAX]; // of malloc's chunks, the most frequent ones
	size_t field_count;
	uint64_t bar; // rarer candidates were left out for lack of memory; 0: none
	unsigned passes, threads;
	bool partial;
};

// Is told how far the work is; functions may be NULL. add is called by several threads at once.
struct survey_watch {
	void *context;
	void (*begin)(void *context, uint64_t bytes); // a pass over so many bytes
	void (*add)(void *context, uint64_t bytes);   // so many bytes more
};

struct survey_options {
	size_t memory; // bytes
	unsigned threads;
	enum cpu_level level;		    // that the processor has
	const atomic_int *stop;		    // not zero: end soon, with what was found so far
	const struct size_classes *classes; // of the allocator, if it is not glibc's
	const struct heap *heap;	    // the map of blocks; without regions if none is known
	struct zeros *zeros; // notes the memory that was never touched; NULL: not wanted
	const struct pointers *pointers; // which addresses in modules count; NULL: all
	struct survey_watch watch;
};

// On success *ret is the caller's, to be released with survey_result_deinit.
bool survey_run(const struct image *image, const struct modules *modules,
	const struct places *places, const struct survey_options *options, struct error *err,
	struct survey_result *ret);
void survey_result_deinit(struct survey_result *result);
