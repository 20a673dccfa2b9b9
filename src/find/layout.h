// SPDX-License-Identifier: MIT
//
// What the words around a place hold, over many places, in one pass and little memory: for each
// offset a table of its frequent values, whose counts are exact or bounded, bounds for all others,
// the distinct values up to a limit, and a sample of places.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define LAYOUT_FIELDS_MAX 256
// Distinct values are counted up to here.
#define LAYOUT_DISTINCT_MAX 1000
// Values that one in so many places has are found and counted exactly.
#define LAYOUT_SHARE 256
// More threads than these do not help, and cost memory.
#define LAYOUT_THREADS_MAX 16
// Places whose words are kept: those with the lowest hashes of their addresses.
#define LAYOUT_SAMPLE 256

// One thread's share.
struct layout;

// *ret is the caller's, to be released with layout_destroy.
bool layout_create(size_t fields, struct error *err, struct layout **ret);
void layout_destroy(struct layout *layout);
size_t layout_memory(size_t fields);

// The words around a place.
struct layout_place {
	uint64_t address;
	const uint64_t *words;
	const bool *present; // words[i] is in saved memory; NULL: all are
};
// Add the same words for `count` places.
void layout_add(struct layout *layout, const struct layout_place *place, uint64_t count);

// One offset, all places together.
struct layout_field {
	uint64_t values, skipped;
	// The most frequent value, or one of many that are all rare: then count_max is more than
	// count, and no value occurs more often than that.
	uint64_t value, count, count_max;
	uint64_t distinct; // UINT64_MAX: more than LAYOUT_DISTINCT_MAX
	// The values in the sample; sample_count of them; owned.
	uint64_t *sample;
	size_t sample_count;
};

// Put together what the threads have seen. fields, as many as layout_create was told, must be
// zeroed; they are the caller's afterwards, to be released with layout_field_deinit, also on an
// error. *again: some are exact only after a second pass; the layouts are ready for it, and
// layout_finish_again takes its result.
bool layout_finish(struct layout *const *layouts, unsigned threads, struct error *err,
	struct layout_field *fields, bool *again);
void layout_finish_again(
	struct layout *const *layouts, unsigned threads, struct layout_field *fields);
void layout_field_deinit(struct layout_field *field);
