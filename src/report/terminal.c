// SPDX-License-Identifier: MIT
#include "report/terminal.h"

#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

unsigned terminal_width(FILE *stream)
{
	struct winsize size;
	const int fd = fileno(stream);
	if (fd < 0 || !isatty(fd))
		return 0;
	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// The first byte behind so many characters.
static const char *skip(const char *text, size_t characters)
{
	while (characters > 0 && *text != '\0') {
		text++;
		while ((*text & 0xc0) == 0x80)
			text++;
		characters--;
	}
	return text;
}

size_t terminal_columns(const char *text)
{
	size_t columns = 0;
	for (; *text != '\0'; text++)
		columns += (*text & 0xc0) != 0x80;
	return columns;
}

void terminal_write_cut(FILE *stream, const char *text, size_t columns)
{
	const size_t length = terminal_columns(text);
	if (columns == 0 || length <= columns) {
		fputs(text, stream);
		return;
	}
	static const char mark[] = "...";
	const size_t kept = columns > 3 ? columns - 3 : 0;
	const size_t head = kept - kept / 2;
	fwrite(text, 1, (size_t)(skip(text, head) - text), stream);
	fputs(mark, stream);
	fputs(skip(text, length - kept / 2), stream);
}

// What is broken off is set in by two columns. A word that is longer than a line stays whole.
static void write_line(FILE *stream, const char *line, size_t length, size_t width)
{
	size_t column = 0;
	for (size_t at = 0; at < length;) {
		const size_t spaces = strspn(line + at, " ");
		const char *word = line + at + spaces;
		const size_t size = strcspn(word, " \n");
		size_t columns = 0;
		for (size_t i = 0; i < size; i++)
			columns += (word[i] & 0xc0) != 0x80;
		const bool breaks = column > 0 && column + spaces + columns > width;
		fprintf(stream, "%s%*s", breaks ? "\n" : "", (int)(breaks ? 2 : spaces), "");
		fwrite(word, 1, size, stream);
		column = (breaks ? 2 : column + spaces) + columns;
		at += spaces + size;
	}
	putc('\n', stream);
}

void terminal_write_lines(FILE *stream, const char *text, unsigned width)
{
	if (width == 0) {
		fputs(text, stream);
		return;
	}
	while (*text != '\0') {
		const size_t length = strcspn(text, "\n");
		write_line(stream, text, length, width);
		text += length + (text[length] != '\0');
	}
}

const char *terminal_color(const char *kind)
{
	static const struct {
		const char *kind, *color;
	} colors[] = {
		{"text", "\033[33m"},
		{"code", "\033[36m"},
		{"data", "\033[32m"},
		{"zero", "\033[2m"},
		// Of types: as the pointers to vtables and functions are that they are known by.
		{"class", "\033[32m"},
		{"struct", "\033[36m"},
		{"unnamed", "\033[36m"},
	};
	for (size_t i = 0; i < sizeof colors / sizeof *colors; i++)
		if (strcmp(colors[i].kind, kind) == 0)
			return colors[i].color;
	return "";
}
