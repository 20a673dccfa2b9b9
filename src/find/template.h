// SPDX-License-Identifier: MIT
//
// What texts have in common that differ in numbers only. In a text's template a mark stands for
//   a run of digits
//   a UUID: 8, 4, 4, 4 and 12 hexadecimal digits with dashes
//   a date, YYYY-MM-DD from 1900 to 2099, and a time behind a T or a space: HH:MM:SS, with a
//   fraction and a zone
//   a word of 8 or more hexadecimal digits, of one case, not all decimal; behind 0x, of any number
//   16 or more hexadecimal digits in lower case, or decimal ones, also within a word
//   24 or more characters of base64, with = at the end, that change between upper case, lower case
//   and digits as random ones do
//   8 or more spaces
// A word is a run of letters and digits of ASCII.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A template has so many bytes at most; of longer texts, what comes first counts.
#define TEMPLATE_MAX ((size_t)512)
// The lengths of so many of its marks are known.
#define TEMPLATE_WIDTHS_MAX ((size_t)64)
// The length of a mark that is not the same in all texts, or is too long; and a bit beside it, that
// there are letters in one.
#define WIDTH_VARIES 0x7f
#define WIDTH_LETTERS 0x80

// Marks in templates: bytes that texts do not have.
enum mark { MARK_DIGITS = 1, MARK_HEX, MARK_UUID, MARK_DATE, MARK_BASE64, MARK_SPACES };

struct template
{
	unsigned char bytes[TEMPLATE_MAX];
	size_t size;
	size_t used;			     // bytes of the text that it stands for
	uint8_t widths[TEMPLATE_WIDTHS_MAX]; // of the first marks, in characters
	size_t width_count;
};

// The template of a text.
void template_make(const unsigned char *text, size_t size, struct template *ret);
// What is known of widths, and those of another text with this template.
void template_widen(uint8_t *widths, const uint8_t *others, size_t count);

// How a mark is shown: "#" for each digit if they are always as many, "<32 hex>", "<uuid>".
struct mark_shown {
	char text[32];
};
struct mark_shown mark_show(enum mark mark, uint8_t width);

// Of what stands before a place (backward: read from its end on) or behind it, how many bytes are
// shown, when a word with a number in it counts as one character, and `limit` of these are. Words
// stay whole, but one next to the place. more: there is more of it than these bytes.
size_t template_room(
	const unsigned char *text, size_t size, bool more, size_t limit, bool backward);
