// SPDX-License-Identifier: MIT
//
// Commands for gdb, which read from a pipe carry on after one that fails.
#include <inttypes.h>

#include "report/report.h"

static void gdb_begin(struct report *report)
{
	fputs("set pagination off\n", report->stream);
}

static void gdb_word(struct report *report, const struct report_word *row)
{
	const int digits = 2 * (int)report->head->scanned.word_size;
	fprintf(report->stream, "p %" PRIu64 "\n", row->count);
	if (row->redacted || report->member)
		return;
	fprintf(report->stream, "x 0x%0*" PRIx64 "\ninfo symbol 0x%0*" PRIx64 "\n", digits,
		row->value, digits, row->value);
}

static void gdb_found(struct report *report, const struct report_found *found)
{
	fprintf(report->stream, "p %" PRIu64 "\n", found->count);
	if (found->word != NULL && !found->word->redacted)
		fprintf(report->stream, "info symbol 0x%0*" PRIx64 "\n",
			2 * (int)report->head->scanned.word_size, found->word->value);
}

static void gdb_list(struct report *report, enum report_list list)
{
	(void)report;
	(void)list;
}

static void gdb_text(struct report *report, const struct report_text *row)
{
	fprintf(report->stream, "p %" PRIu64 "\n", row->count);
	if (row->bytes != NULL)
		fprintf(report->stream, "x/s 0x%" PRIx64 "\n", row->address);
}

static void gdb_place(struct report *report, const struct report_place *row)
{
	(void)report;
	(void)row;
}

// C has no type of a given size in a program without debug info: gdb's x has letters for them.
static void gdb_examine(struct report *report, const struct report_member *member, uint64_t address)
{
	static const char letters[] = {[1] = 'b', [2] = 'h', [4] = 'w', [8] = 'g'};
	if (member->size == 0)
		fprintf(report->stream, "x/s 0x%" PRIx64 "\n", address);
	else
		fprintf(report->stream, "x/1%c%c 0x%" PRIx64 "\n",
			member->is_float    ? 'f'
			: member->is_signed ? 'd'
					    : 'x',
			letters[member->size], address);
}

static void gdb_address(struct report *report, const struct report_address *row)
{
	const struct report_scanned *scanned = &report->head->scanned;
	if (row->member_count == 0)
		fprintf(report->stream, "x/1%c%c 0x%" PRIx64 "\n", 'a',
			scanned->word_size == 8 ? 'g' : 'w', row->address);
	for (size_t i = 0; i < row->member_count; i++)
		gdb_examine(
			report, &row->members[i], row->address + (uint64_t)row->members[i].offset);
}

static void gdb_member(struct report *report, const struct report_member *member)
{
	(void)report;
	(void)member;
}

static void gdb_field(struct report *report, const struct report_field *row)
{
	(void)report;
	(void)row;
}

// Not asked for: the options exclude it.
static void gdb_type(struct report *report, const struct report_type *row)
{
	(void)report;
	(void)row;
}

static void gdb_owner(struct report *report, const struct report_owner *row)
{
	(void)row;
	(void)report;
}

static void gdb_lost(struct report *report, const struct report_lost *row)
{
	(void)row;
	(void)report;
}

static void gdb_heap(struct report *report, const struct report_heap_row *row)
{
	(void)row;
	(void)report;
}

static void gdb_block(struct report *report, const struct report_block *row)
{
	(void)row;
	(void)report;
}

static void gdb_end(struct report *report)
{
	(void)report;
}

const struct report_writer writer_gdb = {
	.begin = gdb_begin,
	.word = gdb_word,
	.type = gdb_type,
	.found = gdb_found,
	.list = gdb_list,
	.text = gdb_text,
	.place = gdb_place,
	.address = gdb_address,
	.member = gdb_member,
	.field = gdb_field,
	.owner = gdb_owner,
	.lost = gdb_lost,
	.heap = gdb_heap,
	.block = gdb_block,
	.end = gdb_end,
};
