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
	const struct report_types *types = report->head->types;
	if (report->answers > 0)
		return;
	if (types != NULL)
		fprintf(report->stream,
			"%s%stype,kind,module,count,size,size_method,size_agreement,bytes,share,"
			"where,heap,anon,stack,data,secondary,embedded,freed,examples\n",
			report->many ? "file," : "",
			types->old != NULL ? "more_count,more_bytes," : "");
	else
		fprintf(report->stream, "%svalue,count,kind,description\n",
			report->many ? "file," : "");
}

static void csv_file(struct report *report)
{
	if (!report->many)
		return;
	csv_text(report->stream, report->head->input.path);
	putc(',', report->stream);
}

static void csv_word(struct report *report, const struct report_word *row)
{
	csv_file(report);
	fprintf(report->stream, "0x%0*" PRIx64 ",%" PRIu64,
		2 * (int)report->head->scanned.word_size, row->value, row->count);
	if (row->count_max > row->count)
		fprintf(report->stream, "..%" PRIu64, row->count_max);
	fprintf(report->stream, ",%s,", row->kind);
	csv_text(report->stream, row->text);
	putc('\n', report->stream);
}

// A number that is not known is an empty field.
static void csv_number(FILE *stream, bool known, uint64_t number)
{
	if (known)
		fprintf(stream, "%" PRIu64, number);
	putc(',', stream);
}

static void csv_type(struct report *report, const struct report_type *row)
{
	FILE *stream = report->stream;
	csv_file(report);
	if (report->head->types->old != NULL)
		fprintf(stream, "%" PRId64 ",%" PRId64 ",", row->more_count, row->more_bytes);
	csv_text(stream, row->name);
	fprintf(stream, ",%s,", row->kind);
	csv_text(stream, row->module);
	fprintf(stream, ",%" PRIu64 ",", row->count);
	csv_number(stream, row->size > 0, row->size);
	if (row->method != NULL)
		fprintf(stream, "%s,%.3f,", row->method, row->agreement);
	else
		fputs(",,", stream);
	csv_number(stream, row->bytes_known, row->bytes);
	fprintf(stream, "%.5f,%s,", row->share, row->where);
	for (size_t i = 0; i < REPORT_SITES; i++)
		fprintf(stream, "%" PRIu64 ",", row->sites[i]);
	fprintf(stream, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", row->secondary, row->embedded,
		row->freed);
	for (unsigned i = 0; i < row->example_count; i++)
		fprintf(stream, "%s0x%" PRIx64, i > 0 ? ";" : "", row->examples[i]);
	putc('\n', stream);
}

static void csv_end(struct report *report)
{
	(void)report;
}

const struct report_writer report_csv = {csv_begin, csv_word, csv_type, csv_end};
