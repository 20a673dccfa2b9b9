// SPDX-License-Identifier: MIT
//
// RFC 4180, with the line ends of this system.
#include <inttypes.h>
#include <stdlib.h>
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

// Each lost object has a row; the types have none then.
static bool csv_is_list(const struct report *report)
{
	const struct report_types *types = report->head->types;
	return types != NULL && types->leaks != NULL && types->leaks->listed;
}

// Bounds of lifetimes in the columns, as powers of two of microseconds: 1 us, 32 us, 1 ms, ...
#define LIFETIME_STEP 5
#define LIFETIME_STEPS 8

static void csv_begin_stacks(struct report *report)
{
	const struct report_stacks *stacks = report->head->stacks;
	static const char *const keys[] = {
		[REPORT_BY_STACK] = "hash,stack",
		[REPORT_BY_FUNCTION] = "inclusive_bytes,function,module,file",
		[REPORT_BY_MODULE] = "module",
		[REPORT_BY_SIZE] = "size",
	};
	fprintf(report->stream,
		"%s%slive_bytes,live_blocks,live_error,share,peak_bytes,peak_blocks,bytes,blocks,"
		"temporary,largest,mean_size,rate,first,last,age,age_most,",
		report->many ? "file," : "", stacks->old != NULL ? "more_bytes,more_blocks," : "");
	fputs("slope,monotony,growth_share,grows,lifetime,lifetime_median,lifetime_most,",
		report->stream);
	for (unsigned i = 0; i < LIFETIME_STEPS; i++)
		fprintf(report->stream, "lifetimes_%u,", i);
	fprintf(report->stream, "%s\n", keys[stacks->by]);
}
// All rows of --heap have the same columns.
#define CSV_HEAP                                                                                   \
	"row,allocator,kind,address,size,used_count,used_bytes,free_count,free_bytes,end_bytes,"   \
	"largest_free,free_pages,name,module,lost,holder,holder_module,offset"

static void csv_begin(struct report *report)
{
	const struct report_types *types = report->head->types;
	if (report->answers > 0 || csv_is_list(report))
		return;
	if (report->head->stacks != NULL)
		csv_begin_stacks(report);
	if (types != NULL && types->leaks != NULL)
		fprintf(report->stream,
			"%s%stype,kind,module,count,size,size_agreement,bytes,share,direct_count,"
			"direct_bytes,indirect_count,indirect_bytes,examples%s\n",
			report->many ? "file," : "",
			types->old != NULL ? "more_count,more_bytes," : "",
			types->recorded ? ",allocated_by" : "");
	else if (types != NULL)
		fprintf(report->stream,
			"%s%stype,kind,module,count,size,size_method,size_agreement,bytes,share,"
			"where,heap,anon,stack,data,secondary,embedded,freed,examples,place\n",
			report->many ? "file," : "",
			types->old != NULL ? "more_count,more_bytes," : "");
	else if (strcmp(report->head->mode, "words") == 0)
		fprintf(report->stream, "%svalue,count,kind,description\n",
			report->many ? "file," : "");
}

// The first column of every row, if there are several files.
static void csv_file(struct report *report)
{
	if (!report->many)
		return;
	csv_text(report->stream, report->head->input.path);
	putc(',', report->stream);
}

// A number in hex, empty if it is redacted.
static void csv_value(struct report *report, const struct report_word *row)
{
	const unsigned size = row->size != 0 ? row->size : report->head->scanned.word_size;
	if (!row->redacted)
		fprintf(report->stream, "0x%0*" PRIx64, 2 * (int)size, row->value);
}

static void csv_address(struct report *report, uint64_t address)
{
	fprintf(report->stream, "0x%0*" PRIx64, 2 * (int)report->head->scanned.word_size, address);
}

// Any bytes, escaped as between double quotes in C, and then quoted for CSV.
static void csv_bytes(struct report *report, const char *bytes, size_t size)
{
	char *escaped = malloc(4 * size + 1);
	if (escaped == NULL) {
		report->lost = true;
		return;
	}
	escape(escaped, 4 * size + 1, bytes, size, ESCAPE_TERMINAL);
	csv_text(report->stream, escaped);
	free(escaped);
}

static void csv_count(struct report *report, uint64_t count, uint64_t count_max)
{
	fprintf(report->stream, "%" PRIu64, count);
	if (count_max > count)
		fprintf(report->stream, "..%" PRIu64, count_max);
	putc(',', report->stream);
}

static void csv_word(struct report *report, const struct report_word *row)
{
	csv_file(report);
	if (report->member != NULL)
		fprintf(report->stream, "%" PRId64 ",%s,", report->member->offset,
			report->member->type);
	csv_value(report, row);
	putc(',', report->stream);
	csv_count(report, row->count, row->count_max);
	fprintf(report->stream, "%s,", row->kind);
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

// The rest of a row of lost objects.
static void csv_lost(FILE *stream, const struct report_type *row, bool recorded)
{
	fprintf(stream, "%.3f,%" PRIu64 ",%.5f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",",
		row->agreement, row->bytes, row->share, row->direct, row->direct_bytes,
		row->count - row->direct, row->bytes - row->direct_bytes);
	if (row->example_count > 0)
		fprintf(stream, "0x%" PRIx64, row->examples[0]);
	if (recorded) {
		putc(',', stream);
		csv_text(stream, row->allocated_by != NULL ? row->allocated_by : "");
	}
	putc('\n', stream);
}

static void csv_type(struct report *report, const struct report_type *row)
{
	FILE *stream = report->stream;
	if (csv_is_list(report))
		return;
	csv_file(report);
	if (report->head->types->old != NULL)
		fprintf(stream, "%" PRId64 ",%" PRId64 ",", row->more_count, row->more_bytes);
	csv_text(stream, row->name);
	fprintf(stream, ",%s,", row->kind);
	csv_text(stream, row->module);
	fprintf(stream, ",%" PRIu64 ",", row->count);
	csv_number(stream, row->size > 0, row->size);
	if (report->head->types->leaks != NULL) {
		csv_lost(stream, row, report->head->types->recorded);
		return;
	}
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
	putc(',', stream);
	csv_text(stream, row->place != NULL ? row->place : "");
	putc('\n', stream);
}

static void csv_found(struct report *report, const struct report_found *found)
{
	(void)found;
	(void)report;
}

static void csv_list(struct report *report, enum report_list list)
{
	static const char *const columns[] = {
		[REPORT_TEXTS] = ("count,address,length,cut_before,cut_after,text,encoding,bytes,"
				  "distinct,template"),
		[REPORT_PLACES] = "row,count,address,place",
		[REPORT_ADDRESSES] = "row,count,address,place",
		[REPORT_MEMBERS] = "offset,type,value,count,kind,description",
		[REPORT_LAYOUT] =
			"offset,value,count,values,skipped,distinct,kind,description,mostly",
		[REPORT_OWNERS] = "count,offset,name,kind,module,address",
		[REPORT_PATH] = "address,offset,name,kind,module,size,count",
		[REPORT_LOST] = "address,size,direct,type,kind,module",
		[REPORT_HEAPS] = CSV_HEAP,
		[REPORT_HISTOGRAM] = CSV_HEAP,
		[REPORT_SIZES] = CSV_HEAP,
		[REPORT_BLOCKS] = CSV_HEAP,
	};
	if (report->answers == 0 && !report->list)
		fprintf(report->stream, "%s%s\n", report->many ? "file," : "", columns[list]);
}

static void csv_text_row(struct report *report, const struct report_text *row)
{
	csv_file(report);
	if (report->member != NULL) {
		fprintf(report->stream, "%" PRId64 ",%s,,%" PRIu64 ",text,", report->member->offset,
			report->member->type, row->count);
	} else {
		csv_count(report, row->count, row->count_max);
		csv_address(report, row->address);
		fprintf(report->stream, ",%" PRIu64 ",%d,%d,", row->length, row->cut_before,
			row->cut_after);
	}
	if (row->bytes != NULL)
		csv_bytes(report, row->bytes, row->size);
	if (report->member == NULL) {
		fprintf(report->stream, ",%s,%" PRIu64 ",", row->encoding, row->total);
		if (row->template != NULL)
			fprintf(report->stream, "%" PRIu64, row->distinct);
		putc(',', report->stream);
		if (row->template != NULL && row->bytes != NULL)
			csv_bytes(report, row->template, row->template_size);
	}
	putc('\n', report->stream);
}

static void csv_place(struct report *report, const struct report_place *row)
{
	csv_file(report);
	fprintf(report->stream, "place,%" PRIu64 ",,", row->count);
	csv_text(report->stream, row->place);
	putc('\n', report->stream);
}

static void csv_address_row(struct report *report, const struct report_address *row)
{
	csv_file(report);
	fputs("address,,", report->stream);
	csv_address(report, row->address);
	putc(',', report->stream);
	csv_text(report->stream, row->place);
	putc('\n', report->stream);
}

static void csv_member(struct report *report, const struct report_member *member)
{
	(void)member;
	(void)report;
}

static void csv_field(struct report *report, const struct report_field *row)
{
	csv_file(report);
	fprintf(report->stream, "%" PRId64 ",", row->offset);
	csv_value(report, &row->top);
	putc(',', report->stream);
	csv_count(report, row->top.count, row->top.count_max);
	fprintf(report->stream, "%" PRIu64 ",%" PRIu64 ",", row->values, row->skipped);
	if (row->distinct != UINT64_MAX)
		fprintf(report->stream, "%" PRIu64, row->distinct);
	fprintf(report->stream, ",%s,", row->top.kind);
	csv_text(report->stream, row->top.text);
	putc(',', report->stream);
	csv_text(report->stream, row->mostly);
	putc('\n', report->stream);
}

static void csv_owner(struct report *report, const struct report_owner *row)
{
	FILE *stream = report->stream;
	const bool owners = report->open == REPORT_OWNERS;
	csv_file(report);
	if (owners)
		fprintf(stream, "%" PRIu64, row->count);
	else if (row->address != 0)
		csv_address(report, row->address);
	putc(',', stream);
	csv_number(stream, row->offset_known, row->offset);
	csv_text(stream, row->name);
	fprintf(stream, ",%s,", row->kind);
	csv_text(stream, row->module);
	putc(',', stream);
	if (!owners && row->size > 0)
		fprintf(stream, "%" PRIu64, row->size);
	else if (owners && row->address != 0)
		csv_address(report, row->address);
	if (!owners)
		fprintf(stream, ",%" PRIu64, row->count);
	putc('\n', stream);
}

static void csv_lost_object(struct report *report, const struct report_lost *row)
{
	csv_file(report);
	csv_address(report, row->address);
	fprintf(report->stream, ",%" PRIu64 ",%d,", row->size, row->direct);
	csv_text(report->stream, row->name);
	fprintf(report->stream, ",%s,", row->kind);
	csv_text(report->stream, row->module);
	putc('\n', report->stream);
}

// A measure that is not known is an empty field.
static void csv_real(FILE *stream, bool known, double number)
{
	if (known)
		fprintf(stream, "%.9g", number);
	putc(',', stream);
}

static void csv_lifetimes(FILE *stream, const struct report_stack *row)
{
	const bool known = row->lifetimes != NULL;
	csv_real(stream, known, row->lifetime * 1e-6);
	csv_real(stream, known, row->lifetime_median * 1e-6);
	csv_real(stream, known, row->lifetime_most * 1e-6);
	for (unsigned i = 0; i < LIFETIME_STEPS; i++) {
		const unsigned first = i == 0 ? 0 : 1 + LIFETIME_STEP * (i - 1);
		const unsigned end =
			i + 1 < LIFETIME_STEPS ? 1 + LIFETIME_STEP * i : REPORT_LIFETIMES;
		uint64_t count = 0;
		for (unsigned k = first; known && k < end; k++)
			count += row->lifetimes[k];
		csv_number(stream, known, count);
	}
}

// Functions from the outermost to the innermost, with semicolons between them.
static void csv_frames(struct report *report, const struct report_stack *row)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	if (stream == NULL) {
		report->lost = true;
		return;
	}
	for (size_t i = row->frame_count; i-- > 0;)
		fprintf(stream, "%s%s", row->frames[i].function, i > 0 ? ";" : "");
	if (fclose(stream) == 0)
		csv_text(report->stream, text);
	free(text);
}

static void csv_stack(struct report *report, const struct report_stack *row)
{
	FILE *stream = report->stream;
	const struct report_stacks *stacks = report->head->stacks;
	const struct report_allocated *values = &row->allocated;
	const double seconds = (double)stacks->duration * 1e-9;
	csv_file(report);
	if (stacks->old != NULL)
		fprintf(stream, "%" PRId64 ",%" PRId64 ",", row->more_bytes, row->more_blocks);
	fprintf(stream, "%" PRIu64 ",%" PRIu64 ",", values->live_bytes, values->live_blocks);
	csv_real(stream, !stacks->full, row->error);
	fprintf(stream, "%.5f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",",
		row->share, values->peak_bytes, values->peak_blocks, values->bytes, values->blocks,
		values->temporary);
	csv_number(stream, values->largest > 0, values->largest);
	csv_real(stream, values->blocks > 0,
		values->blocks > 0 ? (double)values->bytes / (double)values->blocks : 0);
	csv_real(stream, seconds > 0, seconds > 0 ? (double)values->bytes / seconds : 0);
	csv_real(stream, row->first > 0, (double)row->first * 1e-9);
	csv_real(stream, row->last > 0, (double)row->last * 1e-9);
	csv_real(stream, row->age_known, row->age);
	csv_real(stream, row->age_known, row->age_most);
	csv_real(stream, stacks->growth, row->slope);
	csv_real(stream, stacks->growth, row->monotony);
	csv_real(stream, stacks->growth, row->growth_share);
	csv_number(stream, stacks->growth, row->grows);
	csv_lifetimes(stream, row);
	if (stacks->by == REPORT_BY_STACK) {
		fprintf(stream, "0x%016" PRIx64 ",", row->hash);
		csv_frames(report, row);
	} else if (stacks->by == REPORT_BY_SIZE) {
		fprintf(stream, "%" PRIu64, row->size);
	} else {
		if (stacks->by == REPORT_BY_FUNCTION)
			fprintf(stream, "%" PRIu64 ",", row->inclusive);
		csv_text(stream, row->name);
	}
	if (stacks->by == REPORT_BY_FUNCTION) {
		putc(',', stream);
		csv_text(stream, row->module);
		putc(',', stream);
		csv_text(stream, row->file);
	}
	putc('\n', stream);
}

static void csv_heap(struct report *report, const struct report_heap_row *row)
{
	FILE *stream = report->stream;
	const bool heap = report->open == REPORT_HEAPS;
	csv_file(report);
	fprintf(stream, "%s,%s,%s,",
		heap			       ? "heap"
		: report->open == REPORT_SIZES ? "size"
					       : "up_to",
		heap ? row->allocator : "", heap ? row->kind : "");
	if (heap)
		csv_address(report, row->address);
	putc(',', stream);
	csv_number(stream, !heap, row->most);
	fprintf(stream, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", row->used_count,
		row->used_bytes, row->free_count, row->free_bytes);
	csv_number(stream, heap, row->end_bytes);
	csv_number(stream, heap, row->largest_free);
	csv_number(stream, heap, row->free_pages);
	fputs(",,,,,\n", stream);
}

static void csv_block(struct report *report, const struct report_block *row)
{
	FILE *stream = report->stream;
	csv_file(report);
	fprintf(stream, "block,,%s,", row->kind);
	csv_address(report, row->address);
	fprintf(stream, ",%" PRIu64 ",,,,,,,,", row->size);
	csv_text(stream, row->name);
	putc(',', stream);
	csv_text(stream, row->module);
	fprintf(stream, ",%d,", row->lost);
	csv_text(stream, row->holder != NULL ? row->holder : "");
	putc(',', stream);
	csv_text(stream, row->holder_module);
	putc(',', stream);
	if (row->offset_known)
		fprintf(stream, "%" PRIu64, row->offset);
	putc('\n', stream);
}

static void csv_end(struct report *report)
{
	(void)report;
}

const struct report_writer writer_csv = {
	.begin = csv_begin,
	.word = csv_word,
	.type = csv_type,
	.found = csv_found,
	.list = csv_list,
	.text = csv_text_row,
	.place = csv_place,
	.address = csv_address_row,
	.member = csv_member,
	.field = csv_field,
	.owner = csv_owner,
	.lost = csv_lost_object,
	.stack = csv_stack,
	.heap = csv_heap,
	.block = csv_block,
	.end = csv_end,
};
