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
	fprintf(report->stream, "p %" PRIu64 "\nx 0x%0*" PRIx64 "\ninfo symbol 0x%0*" PRIx64 "\n",
		row->count, digits, row->value, digits, row->value);
}

// Not asked for: the options exclude it.
static void gdb_type(struct report *report, const struct report_type *row)
{
	(void)report;
	(void)row;
}

static void gdb_end(struct report *report)
{
	(void)report;
}

const struct report_writer report_gdb = {gdb_begin, gdb_word, gdb_type, gdb_end};
