// SPDX-License-Identifier: MIT
//
// RFC 4180, with the line ends of this system.
#include <inttypes.h>
#include <string.h>

#include "report/report.h"

// Quote a field that needs it.
static void csv_text(FILE *stream, const char *text)
{
	if (text[strcspn(text, ",\"\r\n ")] == '\0') {
		fputs(text, stream);
		return;
	}

	putc('"', stream);
	for (; *text != '\0'; text++) {
		if (*text == '"')
			putc('"', stream);
		putc(*text, stream);
	}
	putc('"', stream);
}

static void csv_begin(struct report *report)
{
	if (report->answers == 0)
		fprintf(report->stream, "%svalue,count,kind,description\n",
			report->many ? "file," : "");
}

static void csv_word(struct report *report, const struct report_word *row)
{
	if (report->many) {
		csv_text(report->stream, report->head->input.path);
		putc(',', report->stream);
	}
	fprintf(report->stream, "0x%0*" PRIx64 ",%" PRIu64,
		2 * (int)report->head->scanned.word_size, row->value, row->count);
	if (row->count_max > row->count)
		fprintf(report->stream, "..%" PRIu64, row->count_max);
	fprintf(report->stream, ",%s,", row->kind);
	csv_text(report->stream, row->text);
	putc('\n', report->stream);
}

static void csv_end(struct report *report)
{
	(void)report;
}

const struct report_writer report_csv = {csv_begin, csv_word, csv_end};
