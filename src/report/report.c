// SPDX-License-Identifier: MIT
#include "report/report.h"

#include <errno.h>
#include <string.h>

#include "report/terminal.h"

bool report_init(struct report *report, FILE *stream, enum report_format format, bool many,
	bool color, struct error *err)
{
	static const struct report_writer *const writers[] = {
		[REPORT_TEXT] = &writer_text,
		[REPORT_CSV] = &writer_csv,
		[REPORT_GDB] = &writer_gdb,
		[REPORT_FOLDED] = &writer_folded,
		[REPORT_PPROF] = &writer_pprof,
		[REPORT_SPEEDSCOPE] = &writer_speedscope,
#if HAVE_JANSSON
		[REPORT_JSON] = &writer_json,
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

// A row more.
static void report_step(struct report *report)
{
	report->rows++;
	report_look(report);
}

void report_escaped(struct report *report, const char *bytes, size_t size, enum escape_style style)
{
	// In pieces that do not cut a character.
	for (size_t done = 0; done < size;) {
		char escaped[4 * 1024 + 1];
		size_t piece = size - done;
		if (piece > 1024)
			for (piece = 1024; piece > 1021 && (bytes[done + piece] & 0xc0) == 0x80;)
				piece--;
		escape(escaped, sizeof escaped, bytes + done, piece, style);
		fputs(escaped, report->stream);
		done += piece;
	}
}

void report_begin(struct report *report, const struct report_head *head)
{
	report->head = head;
	report->rows = 0;
	report->list = false;
	report->member = NULL;
	report->writer->begin(report);
	report_look(report);
}

void report_word(struct report *report, const struct report_word *row)
{
	if (report->failure != 0)
		return;
	report->writer->word(report, row);
	report_step(report);
}

void report_type(struct report *report, const struct report_type *row)
{
	report->writer->type(report, row);
	report->rows++;
}

void report_found(struct report *report, const struct report_found *found)
{
	report->writer->found(report, found);
}

void report_list(struct report *report, enum report_list list)
{
	report->writer->list(report, list);
	report->list = true;
	report->open = list;
	report->member = NULL;
	report->rows = 0;
}

void report_text(struct report *report, const struct report_text *row)
{
	report->writer->text(report, row);
	report_step(report);
}

void report_place(struct report *report, const struct report_place *row)
{
	report->writer->place(report, row);
	report_step(report);
}

void report_address(struct report *report, const struct report_address *row)
{
	report->writer->address(report, row);
	report_step(report);
}

void report_member(struct report *report, const struct report_member *member)
{
	report->writer->member(report, member);
	report->member = member;
	report->rows = 0;
}

void report_field(struct report *report, const struct report_field *row)
{
	report->writer->field(report, row);
	report_step(report);
}

void report_owner(struct report *report, const struct report_owner *row)
{
	report->writer->owner(report, row);
	report_step(report);
}

void report_lost(struct report *report, const struct report_lost *row)
{
	report->writer->lost(report, row);
	report_step(report);
}

void report_stack(struct report *report, const struct report_stack *row)
{
	if (report->failure != 0)
		return;
	report->writer->stack(report, row);
	report_step(report);
}

uint64_t report_measure_of(const struct report_stacks *stacks, const struct report_stack *row)
{
	const struct report_allocated *allocated = &row->allocated;
	switch (stacks->measure) {
	case REPORT_LIVE:
		return allocated->live_bytes;
	case REPORT_LIVE_BLOCKS:
		return allocated->live_blocks;
	case REPORT_PEAK:
		return allocated->peak_bytes;
	case REPORT_ALLOCATED:
		return allocated->bytes;
	case REPORT_TEMPORARY:
		return allocated->temporary;
	case REPORT_LARGEST:
		return allocated->largest;
	}
	return 0;
}

void report_heap(struct report *report, const struct report_heap_row *row)
{
	report->writer->heap(report, row);
	report_step(report);
}

void report_block(struct report *report, const struct report_block *row)
{
	report->writer->block(report, row);
	report_step(report);
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
