// SPDX-License-Identifier: MIT
//
// What a terminal needs that a file does not: colours, and lines that fit.
#pragma once

#include <stddef.h>
#include <stdio.h>

// The columns of the terminal that stream is; 0 if it is none.
unsigned terminal_width(FILE *stream);

// The number of columns that valid UTF-8 takes, a character each.
size_t terminal_columns(const char *text);

// Write text, cut in the middle if it has more columns than this; 0: there is no limit.
void terminal_write_cut(FILE *stream, const char *text, size_t columns);

// Write lines of text, each ended by a newline, broken between words where they have more columns
// than width; 0: there is no limit.
void terminal_write_lines(FILE *stream, const char *text, unsigned width);

// The escape sequence of a kind's colour, or "" for none; it ends with TERMINAL_PLAIN.
const char *terminal_color(const char *kind);
#define TERMINAL_PLAIN "\033[0m"
