// SPDX-License-Identifier: MIT
#include "report/report.h"

#include <errno.h>
#include <string.h>

#include "report/terminal.h"

bool report_init(struct report *report, FILE *stream, enum report_format format, bool many,
	bool color, struct error *err)
{
	static const struct report_writer *const writers[] = {
		[REPORT_TEXT] = &report_text,
		[REPORT_CSV] = &report_csv,
		[REPORT_GDB] = &report_gdb,
#if HAVE_JANSSON
		[REPORT_JSON] = &report_json,
#else
		[REPORT_JSON] = NULL,
#endif
	};
	*report = (struct report){
		.stream = stream,
		.writer = writers[format],
		.many = many,
		.color = color,
		.width = terminal_width(stream),
	};
	if (report->writer == NULL)
		return error_usage(
			err, "--output json: this topleak was built without the library jansson");
	return true;
}

// Remember why writing failed; later calls may change errno.
static void report_look(struct report *report)
{
	if (report->failure == 0 && ferror(report->stream))
		report->failure = errno;
}

void report_begin(struct report *report, const struct report_head *head)
{
	report->head = head;
	report->rows = 0;
	report->writer->begin(report);
	report_look(report);
}

void report_word(struct report *report, const struct report_word *row)
{
	if (report->failure != 0)
		return;
	report->writer->word(report, row);
	report->rows++;
	report_look(report);
}

void report_end(struct report *report)
{
	report->writer->end(report);
	report->answers++;
	report_look(report);
}

bool report_flush(struct report *report, struct error *err)
{
	if (report->lost)
		return error_memory(err);
	if (fflush(report->stream) == 0 && !ferror(report->stream))
		return true;
	report_look(report);
	return error_set(err, "cannot write the output: %s", strerror(report->failure));
}
