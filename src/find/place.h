// SPDX-License-Identifier: MIT
//
// Places of words in the windows of a sweep, and the fields at them.
#pragma once

#include "find/sweep.h"
#include "find/words.h"

struct place_search {
	uint64_t native[WORD_VALUES_MAX]; // as they are loaded from memory
	size_t count;
	unsigned word_size;
	enum byte_order order;
	bool zero;	      // 0 is one of them
	size_t before, after; // bytes that windows must have around places
};

void place_search_init(
	struct place_search *search, const struct word_query *query, const struct image *image);
// The first place of the window from index `from` on; window->to or more if there is none.
size_t place_find(
	const struct place_search *search, const struct sweep_window *window, size_t from);
// The number at an offset from the place at this index; false if it is not in memory.
bool place_load(const struct place_search *search, const struct sweep_window *window, size_t place,
	int64_t offset, unsigned size, uint64_t *ret);
// The text there: printable characters, FIND_CONTEXT bytes at most.
bool place_text(const struct sweep_window *window, size_t place, int64_t offset,
	const struct text_pass *pass, struct text *ret);

// Count the values or texts of one field with the engine of count/: for so many that they do not
// fit the memory.
bool member_count_values(const struct place_search *search, const struct member *member,
	const struct find_options *options, uint64_t values, struct error *err,
	struct member_result *ret);
bool member_count_texts(const struct place_search *search, const struct member *member,
	const struct find_options *options, struct error *err, struct member_result *ret);
