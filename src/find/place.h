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
// The bytes of a field of the place at this index; NULL if they are not in memory.
const unsigned char *place_member(
	const struct sweep_window *window, size_t place, const struct member *member);
// The text in such a field: printable characters, FIND_CONTEXT bytes at most.
struct text place_text(const struct sweep_window *window, const unsigned char *bytes,
	const struct text_pass *pass);

// Count the values or texts of one field with the engine of count/: for so many that they do not
// fit the memory.
bool member_count_values(const struct place_search *search, const struct member *member,
	const struct find_options *options, uint64_t values, struct error *err,
	struct member_result *ret);
bool member_count_texts(const struct place_search *search, const struct member *member,
	const struct find_options *options, struct error *err, struct member_result *ret);
