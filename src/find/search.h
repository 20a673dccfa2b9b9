// SPDX-License-Identifier: MIT
//
// Finding one text, or a few words, in memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A text to look for: two of its bytes, rare ones, are compared at all places at once.
struct search {
	const unsigned char *text;
	size_t length;
	bool ignore_case;     // of the letters A to Z
	size_t first, second; // indices of the two bytes
};

// text must live as long as search; length is at least 1.
void search_init(struct search *search, const char *text, size_t length, bool ignore_case);
// The first index from `from` on, and below `to`, at which bytes, `size` of them, have the text; to
// if there is none. Texts may overlap.
size_t search_find(const struct search *search, const unsigned char *bytes, size_t size,
	size_t from, size_t to);

// The first index, a multiple of word_size away from `from`, below `to`, at which bytes have one of
// count words (as they lie in memory); to, or more, if there is none. Whole words only.
size_t search_word(const uint64_t *words, size_t count, unsigned word_size,
	const unsigned char *bytes, size_t from, size_t to);
