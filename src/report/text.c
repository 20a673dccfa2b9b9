// SPDX-License-Identifier: MIT
//
// Rows for people and for scripts: "0xVALUE : COUNT  DESCRIPTION".
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "report/report.h"
#include "report/table.h"
#include "report/terminal.h"

static void text_begin(struct report *report)
{
	if (!report->many) {
		table_begin(report);
		return;
	}
	const char *path = report->head->input.path;
	char escaped[4 * 4096];
	escape(escaped, sizeof escaped, path, strlen(path), ESCAPE_TERMINAL);
	fprintf(report->stream, "%s%s:\n", report->answers > 0 ? "\n" : "", escaped);
	table_begin(report);
}

// A description, in the columns that are left of a terminal's line, in the colour of its kind.
static void text_description(
	struct report *report, const char *kind, const char *text, size_t columns_used)
{
	const char *color = report->color ? terminal_color(kind) : "";
	size_t columns = 0;
	if (report->width > 0)
		columns = report->width > columns_used + 8 ? report->width - columns_used : 8;
	fputs(color, report->stream);
	terminal_write_cut(report->stream, text, columns);
	fputs(color[0] != '\0' ? TERMINAL_PLAIN : "", report->stream);
}

static void text_word(struct report *report, const struct report_word *row)
{
	int used = fprintf(report->stream, "0x%0*" PRIx64 " : %" PRIu64,
		2 * (int)report->head->scanned.word_size, row->value, row->count);
	if (row->count_max > row->count)
		used += fprintf(report->stream, "..%" PRIu64, row->count_max);
	if (row->text[0] != '\0') {
		used += fprintf(report->stream, "  ");
		text_description(report, row->kind, row->text, used > 0 ? (size_t)used : 0);
	}
	putc('\n', report->stream);
}

static void text_end(struct report *report)
{
	table_end(report);
}

const struct report_writer report_text = {text_begin, text_word, table_type, text_end};
