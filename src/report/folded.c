// SPDX-License-Identifier: MIT
//
// A line for each stack: functions from the outermost to the innermost, with semicolons between
// them, and a number. What flamegraph.pl, inferno and speedscope read.
#include <inttypes.h>

#include "report/report.h"

static void folded_begin(struct report *report)
{
	(void)report;
}

static void folded_text(FILE *stream, const char *text)
{
	for (; *text != '\0'; text++)
		putc(*text == ';' ? ':' : *text, stream);
}

static void folded_stack(struct report *report, const struct report_stack *row)
{
	FILE *stream = report->stream;
	const uint64_t number = report_measure_of(report->head->stacks, row);
	if (number == 0)
		return;
	for (size_t i = row->frame_count; i-- > 0;) {
		folded_text(stream, row->frames[i].function);
		if (i > 0)
			putc(';', stream);
	}
	if (report->head->stacks->by == REPORT_BY_SIZE)
		fprintf(stream, "%" PRIu64 " bytes", row->size);
	else if (row->frame_count == 0)
		folded_text(stream, row->name[0] != '\0' ? row->name : "(no stack)");
	fprintf(stream, " %" PRIu64 "\n", number);
}

static void folded_end(struct report *report)
{
	(void)report;
}

const struct report_writer writer_folded = {
	.begin = folded_begin,
	.stack = folded_stack,
	.end = folded_end,
};
