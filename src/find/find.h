// SPDX-License-Identifier: MIT
//
// Looking closer: where a text or a word occurs, in which texts, with what around it; and which
// texts there are. All of it within a given amount of memory.
#pragma once

#include "find/textcount.h"

// A text is shown with at most so many bytes before and after it.
#define FIND_CONTEXT ((size_t)120)
// Longer texts are counted whole, but only so many bytes of them are kept.
#define FIND_TEXT_KEPT ((size_t)4096)
// The longest text that can be looked for.
#define FIND_TEXT_MAX ((size_t)128 * 1024)

// Find every place of a text in all saved bytes, in UTF-8, UTF-16 and Latin-1, and count the texts
// around it that differ. Places may overlap: "aa" is three times in "aaaa". length is from 1 to
// FIND_TEXT_MAX; there is no NUL in the text. options->fold: the case of letters does not matter.
// On success *ret is the caller's, to be released with text_result_deinit; ret->count is the number
// of places.
bool find_text(const char *text, size_t length, const struct find_options *options,
	struct error *err, struct text_result *ret);

// Memory where texts are not looked for, from start up to end.
struct find_gap {
	uint64_t start, end;
};

struct find_strings {
	uint64_t min_length;	     // in characters
	const struct find_gap *gaps; // sorted, without overlaps
	size_t gap_count;
};

// Count the runs of at least so many characters (chars.h). On success *ret is the caller's, as
// above.
bool find_strings(const struct find_strings *query, const struct find_options *options,
	struct error *err, struct text_result *ret);
