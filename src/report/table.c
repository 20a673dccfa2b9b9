// SPDX-License-Identifier: MIT
#include "report/table.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"

struct number_text {
	char text[32];
};

// "15.8 M"; small numbers as they are.
static struct number_text number_format(uint64_t number)
{
	static const char units[] = "KMGTPE";
	struct number_text ret;
	if (number < 100000) {
		snprintf(ret.text, sizeof ret.text, "%" PRIu64, number);
		return ret;
	}
	double scaled = (double)number / 1000;
	size_t step = 0;
	for (; scaled >= 999.95; step++)
		scaled /= 1000;
	snprintf(ret.text, sizeof ret.text, "%.1f %c", scaled, units[step]);
	return ret;
}

void table_begin(struct report *report)
{
	const struct report_types *types = report->head->types;
	if (types == NULL)
		return;
	if (types->old != NULL)
		fprintf(report->stream, "%3s %10s %12s %10s %11s  %-*s  %-*s  %s\n", "#", "+COUNT",
			"+BYTES", "COUNT", "BYTES", (int)types->name_width, "TYPE",
			(int)types->module_width, "MODULE", "WHERE");
	else if (types->leaks != NULL)
		fprintf(report->stream, "%3s %10s %10s %7s %11s %6s  %-*s  %-*s  %s\n", "#",
			"COUNT", "DIRECT", "SIZE", "BYTES", "%", (int)types->name_width, "TYPE",
			(int)types->module_width, "MODULE", "EXAMPLE");
	else
		fprintf(report->stream, "%3s %10s %7s %11s %6s  %-*s  %-*s  %-*s  %s\n", "#",
			"COUNT", "SIZE", "BYTES", "%", (int)types->name_width, "TYPE",
			(int)types->module_width, "MODULE", (int)types->where_width, "WHERE",
			"EXAMPLE");
}

// A number with its sign.
static struct number_text signed_size(int64_t bytes)
{
	struct number_text ret;
	const uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
	snprintf(ret.text, sizeof ret.text, "%c%s", bytes < 0 ? '-' : '+', size_format(size).text);
	return ret;
}

static void table_diff(struct report *report, const struct report_type *row)
{
	const struct report_types *types = report->head->types;
	fprintf(report->stream, "%3zu %+10" PRId64 " %12s %10" PRIu64 " %11s  %-*s  %-*s  %s%s\n",
		report->rows + 1, row->more_count, signed_size(row->more_bytes).text, row->count,
		row->bytes_known ? size_format(row->bytes).text : "-", (int)types->name_width,
		row->name, (int)types->module_width, row->module,
		row->place != NULL ? row->place : row->where,
		row->only_old	? "  (gone)"
		: row->only_new ? "  (new)"
				: "");
}

// Below this agreement a size is marked.
#define AGREEMENT_MIN 0.9

void table_type(struct report *report, const struct report_type *row)
{
	const struct report_types *types = report->head->types;
	char size[32] = "-", share[16] = "-", example[24] = "-";
	if (types->old != NULL) {
		table_diff(report, row);
		return;
	}
	if (row->size > 0)
		snprintf(size, sizeof size, "%s%" PRIu64, row->agreement < AGREEMENT_MIN ? "~" : "",
			row->size);
	if (row->bytes_known)
		snprintf(share, sizeof share, "%.1f", 100 * row->share);
	if (row->example_count > 0)
		snprintf(example, sizeof example, "0x%" PRIx64, row->examples[0]);
	if (types->leaks != NULL) {
		fprintf(report->stream,
			"%3zu %10" PRIu64 " %10" PRIu64 " %7s %11s %6s  %-*s  %-*s  %s\n",
			report->rows + 1, row->count, row->direct, size,
			size_format(row->bytes).text, share, (int)types->name_width, row->name,
			(int)types->module_width, row->module, example);
		return;
	}
	fprintf(report->stream, "%3zu %10" PRIu64 " %7s %11s %6s  %-*s  %-*s  %-*s  %s\n",
		report->rows + 1, row->count, size,
		row->bytes_known ? size_format(row->bytes).text : "-", share,
		(int)types->name_width, row->name, (int)types->module_width, row->module,
		(int)types->where_width, row->place != NULL ? row->place : row->where, example);
}

static void table_text(FILE *stream, const char *text)
{
	char escaped[4 * 4096];
	escape(escaped, sizeof escaped, text, strlen(text), ESCAPE_TERMINAL);
	fputs(escaped, stream);
}

// The files without which there are no names.
static void table_missing(struct report *report)
{
	const struct report_head *head = report->head;
	const char *before = "note: files are missing, their types may have no names: ";
	for (size_t i = 0; i < head->module_count; i++) {
		const struct report_module *module = &head->modules[i];
		if (module->path[0] == '\0' || (strcmp(module->state, "missing") != 0 &&
						       strcmp(module->state, "mismatch") != 0))
			continue;
		fputs(before, report->stream);
		table_text(report->stream, module->path);
		before = ", ";
	}
	if (before[0] == ',')
		putc('\n', report->stream);
}

static void table_doubt(const struct report_types *types, FILE *stream)
{
	if (types->old == NULL || types->old->doubt == NULL)
		return;
	fputs("note: on the old side files are missing, their types may have no names: ", stream);
	table_text(stream, types->old->doubt);
	putc('\n', stream);
}

// What was lost, of how much.
static void table_leaks(struct report *report, const struct report_types *types)
{
	const struct report_leaks *leaks = types->leaks;
	FILE *stream = report->stream;
	const uint64_t indirect = leaks->lost_count - leaks->direct_count;
	if (leaks->lost_unknown) {
		fputs("lost: not known: interrupted before it was found out", stream);
		if (!leaks->used_unknown)
			fprintf(stream, "      in use: %s objects, %s",
				number_format(leaks->used_count).text,
				size_format(leaks->used_bytes).text);
		putc('\n', stream);
		return;
	}
	fprintf(stream, "lost: %s object%s, %s", number_format(leaks->lost_count).text,
		leaks->lost_count == 1 ? "" : "s", size_format(leaks->lost_bytes).text);
	if (leaks->lost_count > 0)
		fprintf(stream, " (directly %s, %s; indirectly %s, %s)",
			number_format(leaks->direct_count).text,
			size_format(leaks->direct_bytes).text, number_format(indirect).text,
			size_format(leaks->lost_bytes - leaks->direct_bytes).text);
	fprintf(stream, "      %" PRIu64 " type%s, %zu shown\n", types->types,
		types->types == 1 ? "" : "s", report->rows);
	fprintf(stream, "in use: %s objects, %s; free: %s; not walked: %s\n",
		number_format(leaks->used_count).text, size_format(leaks->used_bytes).text,
		size_format(leaks->free_bytes).text, size_format(leaks->unwalked_bytes).text);
	if (leaks->breaks > 0)
		fprintf(stream,
			"note: the heap is damaged in %" PRIu64 " place%s, the first at 0x%" PRIx64
			": what was overwritten may hold pointers, and what is not walked is "
			"missing here\n",
			leaks->breaks, leaks->breaks == 1 ? "" : "s", leaks->break_address);
	if (types->lower || leaks->unread_bytes > 0)
		fputs("note: memory is missing: objects that only it points at seem to be lost\n",
			stream);
	if (report->head->input.live)
		fprintf(stream,
			"note: the process went on meanwhile%s: what is lost now and is still lost "
			"later is a leak\n",
			report->head->input.stopped_threads > 0
				? ""
				: ", and its registers are not known");
	if (types->old != NULL && types->old->lower)
		fputs("note: the old dump is cut: growth may be more or less\n", stream);
	table_missing(report);
	table_doubt(types, stream);
}

void table_end(struct report *report)
{
	const struct report_types *types = report->head->types;
	if (types == NULL)
		return;
	FILE *stream = report->stream;
	if (types->leaks != NULL) {
		table_leaks(report, types);
		return;
	}
	fprintf(stream, "named: %s objects, %s", number_format(types->named_count).text,
		size_format(types->named_bytes).text);
	if (types->heap_bytes > 0)
		fprintf(stream, " (%.0f %% of heap-like memory)",
			100 * (double)types->named_bytes / (double)types->heap_bytes);
	fprintf(stream, "      %" PRIu64 " type%s, %zu shown      not objects: 0 x %s",
		types->types, types->types == 1 ? "" : "s", report->rows,
		number_format(types->zeros).text);
	if (types->size_count > 0)
		fprintf(stream, ", 0x%" PRIx64 " x %s", types->sizes[0].value,
			number_format(types->sizes[0].count).text);
	fprintf(stream, ", text %s words\n", number_format(types->texts).text);
	if (types->lower)
		fputs("note: the dump is cut: counts and bytes are lower bounds\n", stream);
	if (types->old != NULL && types->old->lower)
		fputs("note: the old dump is cut: its counts are lower bounds, growth may be "
		      "less\n",
			stream);
	table_missing(report);
	table_doubt(types, stream);
	if (!types->walked && types->types > 0)
		fputs("note: the allocator is not glibc's: deleted objects that it left as they "
		      "were count too\n",
			stream);
	if (types->walked && !types->lists_known)
		fputs("note: what is left of deleted objects in small chunks that malloc keeps for "
		      "reuse counts too\n",
			stream);
	if (types->left_out > 0)
		fprintf(stream,
			"note: types of less than %" PRIu64
			" objects may be missing: they do not fit --memory\n",
			types->left_out);
}
