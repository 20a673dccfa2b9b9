// SPDX-License-Identifier: MIT
//
// One pass over a stream: intervals, and whether they already are the exact answer.
#pragma once

#include "count/count.h"

struct once {
	struct count_result result;
	bool exact;	   // the rows are what exact counting would give
	uint64_t bar;	   // the count of the last row; 0: there are fewer rows than wanted
	uint64_t unlisted; // how many words no row counts
};

// Count all words in one pass, of one thread, and list the best `rows` of them, which may be more
// than options->top. On success ret->result is the caller's.
bool once_count(const struct count_source *source, const struct count_options *options, size_t rows,
	struct error *err, struct once *ret);
