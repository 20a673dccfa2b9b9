// SPDX-License-Identifier: MIT
//
// What a character of a text is, in each encoding:
//   bytes   printable ASCII and tabs; well-formed UTF-8 that can be shown (escape_printable); and
//           letters of Latin-1 (0xc0 to 0xff, but for 0xd7 and 0xf7) that are no UTF-8, between a
//           letter of ASCII and printable ASCII or NUL
//   UTF-16  units at even addresses: printable ASCII and tabs, U+00A0 to U+017F, Greek (U+0386 to
//           U+03CE), Cyrillic (U+0400 to U+045F), dashes and quotation marks (U+2010 to U+201F),
//           the euro sign. Others occur by chance wherever there are numbers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// How a text lies in memory. The first three are told apart while texts are looked for.
enum encoding { ENCODING_BYTES, ENCODING_UTF16LE, ENCODING_UTF16BE, ENCODING_LATIN1 };
// "utf-8", "utf-16le", ...: as in JSON.
const char *encoding_name(enum encoding encoding);

// The size of the character of a text that begins at this index, of `size` bytes in all; 0: none.
size_t chars_at(const unsigned char *bytes, size_t index, size_t size);
// The size of the one that ends there.
size_t chars_before(const unsigned char *bytes, size_t index, size_t size);
// Whether a character, of the size that chars_at says, is one of Latin-1.
static inline bool chars_is_latin1(const unsigned char *bytes, size_t index, size_t char_size)
{
	return char_size == 1 && bytes[index] >= 0x80;
}

// A unit of UTF-16 at this index.
static inline uint16_t unit_at(const unsigned char *bytes, size_t index, enum encoding encoding)
{
	const unsigned high = bytes[encoding == ENCODING_UTF16BE ? index : index + 1];
	const unsigned low = bytes[encoding == ENCODING_UTF16BE ? index + 1 : index];
	return (uint16_t)(high << 8 | low);
}
// Whether it is a character of a text, and one of which a text has as many as others at most:
// arrays of bytes that are all 1 are none.
bool unit_is_text(uint16_t unit);
static inline bool unit_is_accented(uint16_t unit)
{
	return unit >= 0xa0 && unit <= 0x17f;
}

// Write a character below U+10000 as UTF-8; returns its size, 3 at most.
size_t utf8_write(uint16_t code, unsigned char ret[static 3]);

// A bit for each of 64 bytes: is it part of a character of a text? *starts: does one begin there?
// *latin1: one of Latin-1? `size` is that of all bytes, of which 64 from index on can be loaded.
uint64_t chars_mask(
	const unsigned char *bytes, size_t index, size_t size, uint64_t *starts, uint64_t *latin1);
// A bit for each of 32 units from index on: may it be one of a text? None is left out.
uint32_t units_mask(const unsigned char *bytes, size_t index, enum encoding encoding);
