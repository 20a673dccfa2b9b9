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

// Find every place of a text in all saved bytes, and count the runs of printable characters around
// it that differ. Places may overlap: "aa" is three times in "aaaa". length is from 1 to
// FIND_TEXT_MAX; there is no NUL in the text. options->fold: the case of letters does not matter.
// On success *ret is the caller's, to be released with text_result_deinit; ret->count is the number
// of places.
bool find_text(const char *text, size_t length, const struct find_options *options,
	struct error *err, struct text_result *ret);

// Count the runs of at least min_length printable ASCII characters and tabs, as strings(1) finds
// them. On success *ret is the caller's, as above.
bool find_strings(uint64_t min_length, const struct find_options *options, struct error *err,
	struct text_result *ret);
