// SPDX-License-Identifier: MIT
//
// Rows for people and for scripts: "0xVALUE : COUNT  DESCRIPTION".
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"
#include "report/report.h"
#include "report/stacks.h"
#include "report/table.h"
#include "report/terminal.h"

// A line that is no row.
static void __attribute__((format(printf, 2, 3)))
text_line(struct report *report, const char *format, ...)
{
	char line[160];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(line, sizeof line, format, arguments);
	va_end(arguments);
	terminal_write_lines(report->stream, line, report->width);
}

static void text_heap_totals(struct report *report, const struct report_heap *heap)
{
	if (heap->unknown) {
		text_line(report, "not known: %s\n",
			heap->allocators[0] != '\0'
				? "interrupted before it was found out"
				: "no heap of an allocator that is known was found");
		return;
	}
	text_line(report, "%s: in use %" PRIu64 " blocks, %s; free %" PRIu64 " blocks, %s\n",
		heap->allocators, heap->used_count, size_format(heap->used_bytes).text,
		heap->free_count, size_format(heap->free_bytes).text);
	text_line(report,
		"of what is free: in caches %s; at the ends of heaps %s; in whole pages %s\n",
		size_format(heap->cached_bytes).text, size_format(heap->end_bytes).text,
		size_format(heap->free_pages).text);
	text_line(report, "the allocator's own: %s; not walked: %s\n",
		size_format(heap->own_bytes).text, size_format(heap->unwalked_bytes).text);
}

static void text_begin_table(struct report *report)
{
	table_begin(report);
	stacks_begin(report);
	if (report->head->heap != NULL)
		text_heap_totals(report, report->head->heap);
}

static void text_begin(struct report *report)
{
	if (!report->many) {
		text_begin_table(report);
		return;
	}
	const char *path = report->head->input.path;
	fputs(report->answers > 0 ? "\n" : "", report->stream);
	report_escaped(report, path, strlen(path), ESCAPE_TERMINAL);
	fputs(":\n", report->stream);
	text_begin_table(report);
}

// Returns the columns used.
static int text_value(struct report *report, const struct report_word *row)
{
	const int digits = 2 * (int)(row->size != 0 ? row->size : report->head->scanned.word_size);
	if (row->redacted)
		return fprintf(report->stream, "%*s", digits + 2, "-");
	return fprintf(report->stream, "0x%0*" PRIx64, digits, row->value);
}

// Text in the colour of its kind, cut to so many columns; 0: not cut.
static void text_colored(struct report *report, const char *kind, const char *text, size_t columns)
{
	const char *color = report->color && text[0] != '\0' ? terminal_color(kind) : "";
	fputs(color, report->stream);
	terminal_write_cut(report->stream, text, columns);
	fputs(color[0] != '\0' ? TERMINAL_PLAIN : "", report->stream);
}

// What is left of a terminal's line; 0: there is no end of it.
static size_t text_room(const struct report *report, size_t columns_used)
{
	// No less than the mark of a cut.
	return report->width == 0 ? 0 : max_u64(report->width, columns_used + 3) - columns_used;
}

// A description, in the columns that are left of a terminal's line.
static void text_description(
	struct report *report, const char *kind, const char *text, size_t columns_used)
{
	text_colored(report, kind, text, text_room(report, columns_used));
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
			text_line(report,
				"interrupted before it was known how many objects are in use and "
				"lost\n");
		else if (found->lost_known)
			text_line(report, "%" PRIu64 " object%s in use, %" PRIu64 " lost\n",
				found->count, found->count == 1 ? "" : "s", found->lost);
		return;
	}
	if (strcmp(report->head->mode, "strings") != 0) {
		text_quoted(report, found->text, found->text_size, 24);
		fprintf(report->stream, " : %" PRIu64 "\n", found->count);
	}
}

// Below this a text is worth more than the address of one.
#define TEXT_ROOM_MIN 16

// Texts of UTF-16 are marked as in C.
static const char *text_prefix(const struct report_text *row)
{
	return strncmp(row->encoding, "utf-16", 6) == 0 ? "u" : "";
}

static void text_count(const struct report_text *row, char *ret, size_t size)
{
	if (row->count_max > row->count)
		snprintf(ret, size, "%" PRIu64 "..%" PRIu64, row->count, row->count_max);
	else
		snprintf(ret, size, "%" PRIu64, row->count);
}

static void text_template(struct report *report, const struct report_text *row)
{
	char count[48], distinct[24];
	text_count(row, count, sizeof count);
	snprintf(distinct, sizeof distinct, "%s%" PRIu64, row->distinct > 2 ? "~" : "",
		row->distinct);
	const int used =
		fprintf(report->stream, "%9s  %9s  %9s  %s%s", count, size_format(row->total).text,
			distinct, row->cut_before ? "..." : "", text_prefix(row));
	const bool example = !row->template_is_text && row->bytes != NULL;
	// A terminal's line has room for both, or for the template.
	const size_t room = text_room(report, used > 0 ? (size_t)used + 2 : 0);
	text_quoted(report, row->bytes != NULL ? row->template : NULL, row->template_size,
		used > 0 ? (size_t)used + 2 : 0);
	if (row->cut_after)
		fputs("...", report->stream);
	const size_t taken = (size_t)(used > 0 ? used : 0) + row->template_size + 12;
	if (example && (room == 0 || room >= row->template_size + 2 * TEXT_ROOM_MIN)) {
		fputs("  e.g. ", report->stream);
		text_quoted(report, row->bytes, row->size, taken);
	}
	putc('\n', report->stream);
}

static void text_text(struct report *report, const struct report_text *row)
{
	const int digits = 2 * (int)report->head->scanned.word_size;
	char count[48], address[24] = "";
	if (row->template != NULL) {
		text_template(report, row);
		return;
	}
	text_count(row, count, sizeof count);
	if (report->width == 0 ||
		report->width >= 9 + 2 + 2 + (unsigned)digits + 2 + 8 + TEXT_ROOM_MIN)
		snprintf(address, sizeof address, "0x%0*" PRIx64 "  ", digits, row->address);
	const int used = fprintf(report->stream, "%9s  %s%s%s", count, address,
		row->cut_before ? "..." : "", text_prefix(row));
	text_quoted(report, row->bytes, row->size, used > 0 ? (size_t)used + 3 : 0);
	fputs(row->cut_after ? "...\n" : "\n", report->stream);
}

static void text_place(struct report *report, const struct report_place *row)
{
	const int used = fprintf(report->stream, "%9" PRIu64 "  ", row->count);
	text_description(report, "", row->place, used > 0 ? (size_t)used : 0);
	putc('\n', report->stream);
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
	char skipped[40] = "";
	if (member->skipped > 0)
		snprintf(skipped, sizeof skipped, ", %" PRIu64 " not saved", member->skipped);
	text_line(report, "%+" PRId64 ":%s  %" PRIu64 " values%s\n", member->offset, member->type,
		member->values, skipped);
}

// ---- the layout

// A row of it.
struct report_line {
	char offset[24], share[16], distinct[24];
	char *shown, *mostly; // owned
	const char *kind;
	bool behind;
};

static void text_field(struct report *report, const struct report_field *row)
{
	const struct report_word *top = &row->top;
	struct report_line *lines =
		reallocarray(report->lines, report->line_count + 1, sizeof *lines);
	char value[32];
	if (lines == NULL) {
		report->lost = true;
		return;
	}
	report->lines = lines;
	struct report_line *line = &lines[report->line_count];
	*line = (struct report_line){
		.share = "-", .distinct = "many", .kind = top->kind, .behind = row->behind};
	snprintf(value, sizeof value, top->redacted ? "-" : "0x%" PRIx64, top->value);
	line->shown = strdup(row->values == 0	    ? "not saved"
			     : top->text[0] != '\0' ? top->text
						    : value);
	line->mostly = strdup(row->mostly);
	snprintf(line->offset, sizeof line->offset, "%+" PRId64, row->offset);
	if (row->values > 0) {
		// Rounded down, so that 100 % is all.
		const double percent = 100 * (double)top->count / (double)row->values;
		snprintf(line->share, sizeof line->share, "%u %%", (unsigned)percent);
	}
	if (row->distinct != UINT64_MAX)
		snprintf(line->distinct, sizeof line->distinct, "%" PRIu64, row->distinct);
	if (line->shown != NULL && line->mostly != NULL) {
		report->line_count++;
		return;
	}
	report->lost = true;
	free(line->shown);
	free(line->mostly);
}

// Columns of a layout; 0: it is not shown.
struct text_widths {
	unsigned offset, shown, share, distinct, mostly;
};

static unsigned width_of(unsigned width, const char *text)
{
	return (unsigned)max_u64(width, terminal_columns(text));
}

// What a narrow terminal can do without goes; of the rest, the texts are cut.
static void widths_fit(unsigned width, struct text_widths *widths)
{
	const unsigned fixed = widths->offset + 2 + 1 + widths->share;
	const unsigned least =
		(unsigned)(min_u64(widths->shown, 24) + 2 + min_u64(widths->mostly, 16));
	unsigned room = width > fixed ? width - fixed : 1;
	if (room < least + 1 + widths->distinct)
		widths->distinct = 0;
	else
		room -= 1 + widths->distinct;
	if (room < least) {
		widths->mostly = 0;
	} else {
		room -= 2;
		const uint64_t part =
			max_u64(room / 2, room > widths->shown ? room - widths->shown : 0);
		widths->mostly = (unsigned)min_u64(widths->mostly, part);
		room -= widths->mostly;
	}
	widths->shown = (unsigned)min_u64(widths->shown, room);
}

static struct text_widths widths_of(const struct report *report)
{
	struct text_widths ret = {7, 38, 6, 9, 6};
	if (report->width > 0)
		ret = (struct text_widths){6, 13, 5, 8, 6};
	for (size_t i = 0; i < report->line_count; i++) {
		const struct report_line *line = &report->lines[i];
		ret.offset = width_of(ret.offset, line->offset);
		ret.shown = width_of(ret.shown, line->shown);
		ret.share = width_of(ret.share, line->share);
		ret.distinct = width_of(ret.distinct, line->distinct);
		ret.mostly = width_of(ret.mostly, line->mostly);
	}
	if (report->width > 0)
		widths_fit(report->width, &ret);
	return ret;
}

static void line_write(
	struct report *report, const struct report_line *line, const struct text_widths *widths)
{
	FILE *stream = report->stream;
	const size_t shown = min_u64(terminal_columns(line->shown), widths->shown);
	fprintf(stream, "%*s  ", (int)widths->offset, line->offset);
	text_colored(report, line->kind, line->shown, widths->shown);
	fprintf(stream, "%*s", (int)(widths->shown - shown + 1 + widths->share), line->share);
	if (widths->distinct > 0)
		fprintf(stream, " %*s", (int)widths->distinct, line->distinct);
	if (widths->mostly > 0 && line->mostly[0] != '\0') {
		fputs("  ", stream);
		terminal_write_cut(stream, line->mostly, widths->mostly);
	}
	putc('\n', stream);
}

// Write the rows of the layout, which are all there now.
static void lines_flush(struct report *report)
{
	const struct text_widths widths = widths_of(report);
	const struct report_line title = {.offset = "offset",
		.share = "share",
		.distinct = "distinct",
		.shown = (char *)"most frequent",
		.mostly = (char *)"mostly",
		.kind = ""};
	if (report->line_count > 0)
		line_write(report, &title, &widths);
	for (size_t i = 0; i < report->line_count; i++) {
		struct report_line *line = &report->lines[i];
		if (line->behind && i > 0 && !line[-1].behind)
			fprintf(report->stream, "%*s  -- end of the malloc chunk --\n",
				(int)widths.offset, "");
		line_write(report, line, &widths);
	}
	for (size_t i = 0; i < report->line_count; i++) {
		free(report->lines[i].shown);
		free(report->lines[i].mostly);
	}
	free(report->lines);
	report->lines = NULL;
	report->line_count = 0;
}

static void text_list(struct report *report, enum report_list list)
{
	(void)list;
	lines_flush(report);
}

// ---- owners, and ways

// With less room for names, a column goes.
#define OWNER_ROOM_MIN 24

// The name, and what else fits the columns that are left.
static void owner_name(struct report *report, const struct report_owner *row, size_t used)
{
	const size_t room = text_room(report, used);
	char size[40] = "";
	if (row->size > 0)
		snprintf(size, sizeof size, ", %" PRIu64 " bytes", row->size);
	const size_t module = row->module[0] != '\0' ? terminal_columns(row->module) + 3 : 0;
	const size_t name = terminal_columns(row->name);
	const bool whole = room == 0 || name + module + strlen(size) <= room;
	if (!whole && room < min_u64(name, OWNER_ROOM_MIN) + strlen(size))
		size[0] = '\0';
	text_colored(report, row->kind, row->name, whole ? 0 : room - strlen(size));
	if (module > 0 && whole)
		fprintf(report->stream, " (%s)", row->module);
	fprintf(report->stream, "%s\n", size);
}

// Steps of a way that have no rows of their own.
static void text_steps(struct report *report, const struct report_owner *row, bool narrow)
{
	const int indent = narrow ? 0 : 2 * (int)report->head->scanned.word_size + 2 + 2 + 7 + 2;
	const int used = fprintf(report->stream, "%*s... %" PRIu64 " more", indent, "", row->count);
	char text[32] = "";
	if (row->name[0] != '\0') {
		if (row->offset_known)
			snprintf(text, sizeof text, " +%" PRIu64, row->offset);
		fputs(": ", report->stream);
		const size_t room = text_room(report, used > 0 ? (size_t)used + 2 : 0);
		text_colored(report, "", row->name,
			room == 0 ? 0 : max_u64(room, strlen(text) + 3) - strlen(text));
	}
	fprintf(report->stream, "%s\n", text);
}

static void text_owner(struct report *report, const struct report_owner *row)
{
	const int digits = 2 * (int)report->head->scanned.word_size;
	char offset[24] = "-", address[24] = "-";
	int used = 0;
	if (row->offset_known)
		snprintf(offset, sizeof offset, "+%" PRIu64, row->offset);
	if (row->address != 0)
		snprintf(address, sizeof address, "0x%0*" PRIx64, digits, row->address);
	const bool owners = report->open == REPORT_OWNERS;
	const unsigned all = (owners ? 9 + 2 : 0) + (unsigned)digits + 2 + 2 + 7 + 2;
	const bool narrow = report->width > 0 && report->width < all + OWNER_ROOM_MIN;
	if (!owners && row->count > 1) {
		text_steps(report, row, narrow);
		return;
	}
	if (owners && report->rows == 0) {
		fprintf(report->stream, "%9s  ", "pointers");
		if (!narrow)
			fprintf(report->stream, "%-*s  ", digits + 2, "example");
		fprintf(report->stream, "%7s  %s\n", "offset", "of");
	}
	if (owners)
		used += fprintf(report->stream, "%9" PRIu64 "  ", row->count);
	if (!owners || !narrow)
		used += fprintf(report->stream, "%-*s  ", digits + 2, address);
	if (owners || !narrow)
		used += fprintf(report->stream, "%7s  ", offset);
	owner_name(report, row, used > 0 ? (size_t)used : 0);
}

static void text_lost(struct report *report, const struct report_lost *row)
{
	const int digits = 2 * (int)report->head->scanned.word_size;
	char size[24];
	snprintf(size, sizeof size, "%" PRIu64, row->size);
	if (report->rows == 0)
		fprintf(report->stream, "\n%-*s  %9s  %s\n", digits + 2, "lost", "bytes", "of");
	const int used =
		fprintf(report->stream, "0x%0*" PRIx64 "  %9s  ", digits, row->address, size);
	const struct report_owner shown = {
		.name = row->name, .kind = row->kind, .module = row->module};
	owner_name(report, &shown, used > 0 ? (size_t)used : 0);
}

// ---- what the allocator has

static void text_heap(struct report *report, const struct report_heap_row *row)
{
	char size[48];
	if (report->open == REPORT_HEAPS) {
		if (report->rows == 0)
			text_line(report, "\n%11s %10s %11s %11s %11s %11s  %s\n", "IN USE",
				"BLOCKS", "FREE", "AT THE END", "LARGEST", "FREE PAGES", "HEAP");
		char address[32] = "";
		if (strcmp(row->kind, "main") == 0 || strcmp(row->kind, "arena") == 0)
			snprintf(address, sizeof address, " 0x%" PRIx64, row->address);
		text_line(report, "%11s %10" PRIu64 " %11s %11s %11s %11s  %s %s%s\n",
			size_format(row->used_bytes).text, row->used_count,
			size_format(row->free_bytes).text, size_format(row->end_bytes).text,
			size_format(row->largest_free).text, size_format(row->free_pages).text,
			row->allocator, row->kind, address);
		return;
	}
	if (report->rows == 0)
		text_line(report, "\n%17s %10s %11s %10s %11s\n",
			report->open == REPORT_SIZES ? "BLOCKS OF" : "BLOCKS UP TO", "IN USE",
			"BYTES", "FREE", "BYTES");
	if (report->open == REPORT_SIZES && row->least < row->most)
		snprintf(size, sizeof size, "%" PRIu64 "..%" PRIu64, row->least, row->most);
	else
		snprintf(size, sizeof size, "%" PRIu64, row->most);
	text_line(report, "%17s %10" PRIu64 " %11s %10" PRIu64 " %11s\n", size, row->used_count,
		size_format(row->used_bytes).text, row->free_count,
		size_format(row->free_bytes).text);
}

static void text_block(struct report *report, const struct report_block *row)
{
	const int digits = 2 * (int)report->head->scanned.word_size;
	if (report->rows == 0)
		text_line(report, "\n%11s  %-*s  %s\n", "LARGEST", digits + 2, "ADDRESS",
			"TYPE, AND WHAT HOLDS IT");
	int used = fprintf(report->stream, "%11s  ", size_format(row->size).text);
	used += fprintf(report->stream, "0x%0*" PRIx64 "  ", digits, row->address);
	char *line = NULL;
	size_t size = 0;
	FILE *stream = open_memstream(&line, &size);
	if (stream == NULL) {
		report->lost = true;
		return;
	}
	fprintf(stream, "%s <- %s%s", row->name,
		row->holder != NULL ? row->holder
		: row->lost	    ? "nothing: lost"
				    : "?",
		row->lost && row->holder != NULL ? " (lost)" : "");
	if (row->offset_known)
		fprintf(stream, " +%" PRIu64, row->offset);
	if (fclose(stream) == 0)
		text_description(report, row->kind, line, used > 0 ? (size_t)used : 0);
	else
		report->lost = true;
	free(line);
	putc('\n', report->stream);
}

static void text_end(struct report *report)
{
	lines_flush(report);
	table_end(report);
	stacks_end(report);
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
	.lost = text_lost,
	.stack = stacks_row,
	.heap = text_heap,
	.block = text_block,
	.end = text_end,
};
