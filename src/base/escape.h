// SPDX-License-Identifier: MIT
//
// Makes bytes of unknown origin safe to show. The result is valid UTF-8 without control characters:
// what is not printable becomes \n, \t, \r, \e or \xNN (one for each byte), whatever the locale.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum escape_style {
	// Backslashes and quotes stay: for paths, symbols and messages.
	ESCAPE_TERMINAL,
	// Backslashes and double quotes get a backslash: for what stands between double quotes.
	ESCAPE_QUOTED,
};

// Write at most size bytes to target, a NUL included; a character that no longer fits whole is left
// out with all that follows. size must be at least 1. Four times length, and one, is always enough.
// Returns the length of the text written.
size_t escape(
	char *target, size_t size, const char *source, size_t length, enum escape_style style);

// The number of bytes (1 to 4) of the well-formed UTF-8 sequence (Unicode 15, table 3-7) that
// source begins with, or 0; also 0 for C0 and C1 control characters, DEL, and the characters that
// change the direction or the lines of a text (U+2028 to U+202E, U+2066 to U+2069).
size_t escape_printable(const unsigned char *source, size_t length);
