// SPDX-License-Identifier: MIT
#include "report/terminal.h"

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

const char *terminal_color(const char *kind)
{
	static const struct {
		const char *kind, *color;
	} colors[] = {
		{"text", "\033[33m"},
		{"code", "\033[36m"},
		{"data", "\033[32m"},
		{"zero", "\033[2m"},
	};
	for (size_t i = 0; i < sizeof colors / sizeof *colors; i++)
		if (strcmp(colors[i].kind, kind) == 0)
			return colors[i].color;
	return "";
}
