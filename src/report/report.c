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

void report_begin(struct report *report, const struct report_head *head)
{
	report->head = head;
	report->rows = 0;
	report->writer->begin(report);
}

void report_word(struct report *report, const struct report_word *row)
{
	report->writer->word(report, row);
	report->rows++;
}

void report_type(struct report *report, const struct report_type *row)
{
	report->writer->type(report, row);
	report->rows++;
}

void report_end(struct report *report)
{
	report->writer->end(report);
	report->answers++;
}

bool report_flush(struct report *report, struct error *err)
{
	if (report->lost)
		return error_memory(err);
	errno = 0;
	if (fflush(report->stream) == 0 && !ferror(report->stream))
		return true;
	return error_set(err, "cannot write the output: %s",
		errno != 0 ? strerror(errno) : "an earlier write failed");
}
