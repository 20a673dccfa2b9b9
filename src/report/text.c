// SPDX-License-Identifier: MIT
//
// Rows for people and for scripts: "0xVALUE : COUNT  DESCRIPTION".
#include <inttypes.h>
#include <stdlib.h>
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
	fputs(report->answers > 0 ? "\n" : "", report->stream);
	report_escaped(report, path, strlen(path), ESCAPE_TERMINAL);
	fputs(":\n", report->stream);
	table_begin(report);
}

// Returns the columns used.
static int text_value(struct report *report, const struct report_word *row)
{
	const int digits = 2 * (int)(row->size != 0 ? row->size : report->head->scanned.word_size);
	if (row->redacted)
		return fprintf(report->stream, "%*s", digits + 2, "-");
	return fprintf(report->stream, "0x%0*" PRIx64, digits, row->value);
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
	int used = text_value(report, row);
	used += fprintf(report->stream, " : %" PRIu64, row->count);
	if (row->count_max > row->count)
		used += fprintf(report->stream, "..%" PRIu64, row->count_max);
	if (row->text[0] != '\0') {
		used += fprintf(report->stream, "  ");
		text_description(report, row->kind, row->text, used > 0 ? (size_t)used : 0);
	}
	putc('\n', report->stream);
}

// Any bytes in double quotes, in the columns that are left of a terminal's line. NULL: they were
// left out.
static void text_quoted(struct report *report, const char *bytes, size_t size, size_t columns_used)
{
	if (bytes == NULL) {
		fputs("(redacted)", report->stream);
		return;
	}
	char *quoted = malloc(4 * size + 1);
	if (quoted == NULL) {
		report->lost = true;
		return;
	}
	escape(quoted, 4 * size + 1, bytes, size, ESCAPE_QUOTED);
	putc('"', report->stream);
	text_description(report, "text", quoted, columns_used + 2);
	putc('"', report->stream);
	free(quoted);
}

static void text_found(struct report *report, const struct report_found *found)
{
	if (found->word != NULL) {
		struct report_word word = *found->word;
		word.count = word.count_max = found->count;
		if (!found->unknown)
			text_word(report, &word);
		if (found->unknown)
			fputs("interrupted before it was known how many objects are in use and "
			      "lost\n",
				report->stream);
		else if (found->lost_known)
			fprintf(report->stream, "%" PRIu64 " object%s in use, %" PRIu64 " lost\n",
				found->count, found->count == 1 ? "" : "s", found->lost);
		return;
	}
	if (strcmp(report->head->mode, "strings") != 0) {
		text_quoted(report, found->text, found->text_size, 24);
		fprintf(report->stream, " : %" PRIu64 "\n", found->count);
	}
}

static void text_list(struct report *report, enum report_list list)
{
	(void)list;
	(void)report;
}

static void text_text(struct report *report, const struct report_text *row)
{
	char count[48];
	if (row->count_max > row->count)
		snprintf(count, sizeof count, "%" PRIu64 "..%" PRIu64, row->count, row->count_max);
	else
		snprintf(count, sizeof count, "%" PRIu64, row->count);
	const int used = fprintf(report->stream, "%9s  0x%0*" PRIx64 "  %s", count,
		2 * (int)report->head->scanned.word_size, row->address,
		row->cut_before ? "..." : "");
	text_quoted(report, row->bytes, row->size, used > 0 ? (size_t)used + 3 : 0);
	fputs(row->cut_after ? "...\n" : "\n", report->stream);
}

static void text_place(struct report *report, const struct report_place *row)
{
	fprintf(report->stream, "%9" PRIu64 "  %s\n", row->count, row->place);
}

static void text_address(struct report *report, const struct report_address *row)
{
	const int used = fprintf(report->stream, "0x%0*" PRIx64,
		2 * (int)report->head->scanned.word_size, row->address);
	if (row->place[0] != '\0') {
		fputs("  ", report->stream);
		text_description(report, "", row->place, used > 0 ? (size_t)used + 2 : 0);
	}
	putc('\n', report->stream);
}

static void text_member(struct report *report, const struct report_member *member)
{
	fprintf(report->stream, "%+" PRId64 ":%s  %" PRIu64 " values", member->offset, member->type,
		member->values);
	if (member->skipped > 0)
		fprintf(report->stream, ", %" PRIu64 " not saved", member->skipped);
	putc('\n', report->stream);
}

static void text_field(struct report *report, const struct report_field *row)
{
	const struct report_word *top = &row->top;
	char value[32], share[16] = "-", distinct[24] = "many";
	if (report->rows == 0)
		fprintf(report->stream, "%7s  %-38s %6s %9s  %s\n", "offset", "most frequent",
			"share", "distinct", "mostly");
	snprintf(value, sizeof value, top->redacted ? "-" : "0x%" PRIx64, top->value);
	const char *shown = row->values == 0	   ? "not saved"
			    : top->text[0] != '\0' ? top->text
						   : value;
	if (row->values > 0) {
		// Rounded down, so that 100 % is all.
		const double percent = 100 * (double)top->count / (double)row->values;
		snprintf(share, sizeof share, "%u %%", (unsigned)percent);
	}
	if (row->distinct != UINT64_MAX)
		snprintf(distinct, sizeof distinct, "%" PRIu64, row->distinct);
	fprintf(report->stream, "%+7" PRId64 "  %-38s %6s %9s  %s\n", row->offset, shown, share,
		distinct, row->mostly);
}

static void text_owner(struct report *report, const struct report_owner *row)
{
	const int digits = 2 * (int)report->head->scanned.word_size;
	char offset[24] = "-", address[24] = "-";
	if (row->offset_known)
		snprintf(offset, sizeof offset, "+%" PRIu64, row->offset);
	if (row->address != 0)
		snprintf(address, sizeof address, "0x%0*" PRIx64, digits, row->address);
	if (report->open == REPORT_OWNERS) {
		if (report->rows == 0)
			fprintf(report->stream, "%9s  %-*s  %7s  %s\n", "pointers", digits + 2,
				"example", "offset", "of");
		fprintf(report->stream, "%9" PRIu64 "  %-*s  %7s  %s", row->count, digits + 2,
			address, offset, row->name);
	} else {
		fprintf(report->stream, "%-*s  %7s  %s", digits + 2, address, offset, row->name);
	}
	if (row->module[0] != '\0')
		fprintf(report->stream, " (%s)", row->module);
	if (row->size > 0)
		fprintf(report->stream, ", %" PRIu64 " bytes", row->size);
	putc('\n', report->stream);
}

static void text_end(struct report *report)
{
	table_end(report);
}

const struct report_writer writer_text = {
	.begin = text_begin,
	.word = text_word,
	.type = table_type,
	.found = text_found,
	.list = text_list,
	.text = text_text,
	.place = text_place,
	.address = text_address,
	.member = text_member,
	.field = text_field,
	.owner = text_owner,
	.end = text_end,
};
