// SPDX-License-Identifier: MIT
//
// Rows for people and for scripts: "0xVALUE : COUNT  DESCRIPTION".
#include <inttypes.h>
#include <string.h>

#include "base/escape.h"
#include "report/report.h"

static void text_begin(struct report *report)
{
	if (!report->many)
		return;
	const char *path = report->head->input.path;
	char escaped[4 * 4096];
	escape(escaped, sizeof escaped, path, strlen(path), ESCAPE_TERMINAL);
	fprintf(report->stream, "%s%s:\n", report->answers > 0 ? "\n" : "", escaped);
}

static void text_word(struct report *report, const struct report_word *row)
{
	fprintf(report->stream, "0x%0*" PRIx64 " : %" PRIu64,
		2 * (int)report->head->scanned.word_size, row->value, row->count);
	if (row->count_max > row->count)
		fprintf(report->stream, "..%" PRIu64, row->count_max);
	if (row->text[0] != '\0')
		fprintf(report->stream, "  %s", row->text);
	putc('\n', report->stream);
}

static void text_end(struct report *report)
{
	(void)report;
}

const struct report_writer report_text = {text_begin, text_word, text_end};
