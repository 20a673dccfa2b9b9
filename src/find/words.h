// SPDX-License-Identifier: MIT
//
// Where words occur, and what is around them.
#pragma once

#include "count/count.h"
#include "find/layout.h"
#include "find/member.h"
#include "find/textcount.h"

// A part of the address space.
struct word_span {
	uint64_t start, end;
};

// More words than this are not looked for at once.
#define WORD_VALUES_MAX 64

struct word_query {
	const uint64_t *values;	       // any of these, as numbers
	size_t value_count;	       // 1 to WORD_VALUES_MAX
	const struct word_span *spans; // sorted, without overlaps
	size_t span_count;
	size_t first;			// addresses wanted
	const struct members *members;	// fitted; NULL: none
	bool around;			// the layout, of the words from..to around
	int64_t around_from, around_to; // in words; at most LAYOUT_FIELDS_MAX
};

// A field of all the places.
struct member_result {
	uint64_t values;	// that were read
	uint64_t skipped;	// that are not in saved memory
	struct count_row *rows; // of numbers; owned
	size_t row_count;
	struct texts texts; // of texts; ranked; owned
};

struct word_result {
	uint64_t count;
	uint64_t *span_counts; // for each span, and for what is in none; owned
	uint64_t *addresses;   // in order; owned
	size_t address_count;
	struct member_result *members; // owned
	size_t member_count;
	struct layout_field *fields; // owned
	size_t field_count;
	bool partial; // stopped before the end
};

// Find all places of the words. On success *ret is the caller's, to be released with
// word_result_deinit.
bool find_words(const struct word_query *query, const struct find_options *options,
	struct error *err, struct word_result *ret);
void word_result_deinit(struct word_result *result);

// Call emit with the address of each place, in order, one at a time.
bool find_each_word(const struct word_query *query, const struct find_options *options,
	void (*emit)(void *context, uint64_t address), void *context, struct error *err);
