// SPDX-License-Identifier: MIT
#include "report/stacks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "report/terminal.h"

// More frames are shown only if all are wanted.
#define FRAMES_SHOWN 12

// A table has no more columns of numbers than this.
#define CELLS_MAX 12

struct cell {
	char text[32];
};

// The columns of numbers that a table has, of one row or of its title (row: NULL).
struct line {
	struct cell cells[CELLS_MAX];
	unsigned widths[CELLS_MAX];
	size_t count;
};

static void __attribute__((format(printf, 4, 5)))
line_add(struct line *line, const char *title, unsigned width, const char *format, ...)
{
	struct cell *cell = &line->cells[line->count];
	line->widths[line->count++] = width;
	if (title != NULL) {
		snprintf(cell->text, sizeof cell->text, "%s", title);
		return;
	}
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(cell->text, sizeof cell->text, format, arguments);
	va_end(arguments);
}

static void line_add_size(struct line *line, const char *title, uint64_t bytes)
{
	line_add(line, title, 11, "%s", size_format(bytes).text);
}

// "1.5 s", "3.2 h"
static struct cell seconds_format(double seconds)
{
	struct cell ret;
	if (seconds < 1e-3)
		snprintf(ret.text, sizeof ret.text, "%.0f us", seconds * 1e6);
	else if (seconds < 1)
		snprintf(ret.text, sizeof ret.text, "%.0f ms", seconds * 1e3);
	else if (seconds < 120)
		snprintf(ret.text, sizeof ret.text, "%.1f s", seconds);
	else if (seconds < 7200)
		snprintf(ret.text, sizeof ret.text, "%.0f min", seconds / 60);
	else if (seconds < 48 * 3600)
		snprintf(ret.text, sizeof ret.text, "%.1f h", seconds / 3600);
	else
		snprintf(ret.text, sizeof ret.text, "%.1f days", seconds / 86400);
	return ret;
}

static struct cell signed_size(double bytes)
{
	struct cell ret;
	const double size = bytes < 0 ? -bytes : bytes;
	snprintf(ret.text, sizeof ret.text, "%c%s", bytes < 0 ? '-' : '+',
		size_format(size < 9e18 ? (uint64_t)size : (uint64_t)9e18).text);
	return ret;
}

static void line_add_growth(
	struct line *line, const struct report_stacks *stacks, const struct report_stack *row)
{
	const bool title = row == NULL;
	if (stacks->old != NULL) {
		line_add(line, title ? "+LIVE" : NULL, 12, "%s",
			title ? "" : signed_size((double)row->more_bytes).text);
		line_add(line, title ? "+BLOCKS" : NULL, 10, "%+" PRId64,
			title ? 0 : row->more_blocks);
	}
	if (stacks->growth) {
		line_add(line, title ? "GROWTH/H" : NULL, 12, "%s",
			title ? "" : signed_size(row->slope * 3600).text);
		line_add(line, title ? "STEADY" : NULL, 7, "%.0f %%",
			title ? 0 : 100 * row->monotony);
	}
}

// The columns of a row, or their titles.
static struct line line_of(const struct report *report, const struct report_stacks *stacks,
	const struct report_stack *row)
{
	static const struct report_stack none;
	const bool title = row == NULL, sizes = stacks->by == REPORT_BY_SIZE;
	const struct report_allocated *values = title ? &none.allocated : &row->allocated;
	struct line line = {.count = 0};
	line_add(&line, title ? "#" : NULL, 3, "%zu", report->rows + 1);
	line_add_growth(&line, stacks, row);
	line_add_size(&line, title ? "LIVE" : NULL, values->live_bytes);
	if (!stacks->full)
		line_add(&line, title ? "+-95 %" : NULL, 7, "%.0f %%",
			title || values->live_bytes == 0
				? 0
				: 100 * row->error / (double)values->live_bytes);
	line_add(&line, title ? "BLOCKS" : NULL, 9, "%" PRIu64, values->live_blocks);
	if (sizes)
		return line;
	if (stacks->old == NULL && !stacks->growth)
		line_add_size(&line, title ? "AT PEAK" : NULL, values->peak_bytes);
	line_add_size(&line, title ? "ALLOCATED" : NULL, values->bytes);
	if (stacks->old == NULL && !stacks->growth)
		line_add(&line, title ? "TEMPORARY" : NULL, 9, "%" PRIu64, values->temporary);
	line_add_size(&line, title ? "MAX" : NULL, values->largest);
	if (stacks->logged)
		line_add(&line, title ? "LIFETIME" : NULL, 8, "%s",
			title ? "" : seconds_format(row->lifetime_median * 1e-6).text);
	else if (!stacks->full)
		line_add(&line, title ? "AGE" : NULL, 8, "%s",
			title || !row->age_known ? "-" : seconds_format(row->age).text);
	if (stacks->by == REPORT_BY_FUNCTION)
		line_add_size(&line, title ? "INCLUSIVE" : NULL, title ? 0 : row->inclusive);
	return line;
}

static int line_write(struct report *report, const struct line *line)
{
	int used = 0;
	for (size_t i = 0; i < line->count; i++)
		used += fprintf(report->stream, "%s%*s", i > 0 ? " " : "", (int)line->widths[i],
			line->cells[i].text);
	return used;
}

void stacks_begin(struct report *report)
{
	const struct report_stacks *stacks = report->head->stacks;
	static const char *const titles[] = {
		[REPORT_BY_STACK] = "",
		[REPORT_BY_FUNCTION] = "  FUNCTION",
		[REPORT_BY_MODULE] = "  MODULE",
		[REPORT_BY_SIZE] = "  SIZE",
	};
	if (stacks == NULL)
		return;
	const struct line line = line_of(report, stacks, NULL);
	line_write(report, &line);
	fprintf(report->stream, "%s\n", titles[stacks->by]);
}

// "main at main.c:9 (demo)"
static void frame_write(struct report *report, const struct report_frame *frame)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	if (stream == NULL) {
		report->lost = true;
		return;
	}
	fputs(frame->function, stream);
	if (frame->file[0] != '\0')
		fprintf(stream, " at %s:%d", frame->file, frame->line);
	if (frame->inlined)
		fputs(" (inlined)", stream);
	else if (frame->module[0] != '\0')
		fprintf(stream, " (%s)", frame->module);
	if (fclose(stream) == 0) {
		fputs("        ", report->stream);
		terminal_write_cut(report->stream, text,
			report->width == 0 ? 0 : max_u64(report->width, 8 + 20) - 8);
		putc('\n', report->stream);
	} else {
		report->lost = true;
	}
	free(text);
}

void stacks_row(struct report *report, const struct report_stack *row)
{
	const struct report_stacks *stacks = report->head->stacks;
	const struct line line = line_of(report, stacks, row);
	const int used = line_write(report, &line);
	const size_t room =
		report->width == 0 ? 0
				   : max_u64(report->width, (uint64_t)used + 22) - (size_t)used - 2;
	if (stacks->by == REPORT_BY_SIZE)
		fprintf(report->stream, "  %" PRIu64, row->size);
	if (row->name[0] != '\0') {
		fputs("  ", report->stream);
		terminal_write_cut(report->stream, row->name, room);
		if (row->module[0] != '\0' &&
			(room == 0 ||
				terminal_columns(row->name) + strlen(row->module) + 3 <= room))
			fprintf(report->stream, " (%s)", row->module);
	}
	if (stacks->old != NULL && (row->only_old || row->only_new))
		fprintf(report->stream, "  (%s)", row->only_old ? "gone" : "new");
	if (stacks->growth && row->grows)
		fputs("  grows", report->stream);
	putc('\n', report->stream);
	if (stacks->by != REPORT_BY_STACK)
		return;
	size_t shown = row->frame_count;
	if (!stacks->all && shown > FRAMES_SHOWN + 1)
		shown = FRAMES_SHOWN;
	for (size_t i = 0; i < shown; i++)
		frame_write(report, &row->frames[i]);
	if (row->frame_count > shown)
		fprintf(report->stream, "        ... %zu more; --all prints them\n",
			row->frame_count - shown);
	if (row->frame_count == 0)
		fputs("        (no stack)\n", report->stream);
}

// What could upset the numbers.
static void stacks_notes(FILE *stream, const struct report_stacks *stacks)
{
	if (stacks->damaged)
		fputs("note: the recording is damaged or cut: numbers are lower bounds\n", stream);
	if (stacks->blocks_lost > 0)
		fprintf(stream,
			"note: the recorder had no room for %" PRIu64
			" blocks, %s: they are not in "
			"LIVE\n",
			stacks->blocks_lost, size_format(stacks->bytes_lost).text);
	if (stacks->stacks_cut > 0)
		fprintf(stream, "note: %" PRIu64 " stacks are cut or incomplete\n",
			stacks->stacks_cut);
	if (stacks->unmatched > 0)
		fprintf(stream,
			"note: %" PRIu64 " frees in the log are of blocks that it does not have\n",
			stacks->unmatched);
	if (stacks->old != NULL && stacks->old->lower)
		fputs("note: the old recording is damaged: growth may be more or less\n", stream);
}

void stacks_end(struct report *report)
{
	const struct report_stacks *stacks = report->head->stacks;
	char *lines = NULL;
	size_t size;
	if (stacks == NULL)
		return;
	FILE *stream = report->width > 0 ? open_memstream(&lines, &size) : report->stream;
	if (stream == NULL) {
		report->lost = true;
		return;
	}
	fprintf(stream, "live: %s in %" PRIu64 " blocks",
		size_format(stacks->total.live_bytes).text, stacks->total.live_blocks);
	if (stacks->at_known)
		fprintf(stream, " after %s", seconds_format((double)stacks->at * 1e-9).text);
	if (!stacks->full)
		fprintf(stream, " (+- %s)", size_format((uint64_t)stacks->error).text);
	fprintf(stream, "; at the peak: %s", size_format(stacks->total.peak_bytes).text);
	if (stacks->peak_time > 0)
		fprintf(stream, ", after %s",
			seconds_format((double)stacks->peak_time * 1e-9).text);
	fprintf(stream, "; allocated: %s in %" PRIu64 " blocks, %" PRIu64 " of them temporary\n",
		size_format(stacks->total.bytes).text, stacks->total.blocks,
		stacks->total.temporary);
	static const char *const things[][2] = {[REPORT_BY_STACK] = {"stack", "stacks"},
		[REPORT_BY_FUNCTION] = {"function", "functions"},
		[REPORT_BY_MODULE] = {"module", "modules"},
		[REPORT_BY_SIZE] = {"size", "sizes"}};
	fprintf(stream, "recorded: %s", stacks->full ? "every block" : "samples");
	if (!stacks->full)
		fprintf(stream, ", one in %s: numbers are estimates",
			size_format(stacks->sample_mean).text);
	fprintf(stream, "; %s", seconds_format((double)stacks->duration * 1e-9).text);
	if (stacks->recordings > 1)
		fprintf(stream, "; %zu recordings", stacks->recordings);
	if (stacks->growth)
		fprintf(stream, "; %zu snapshots", stacks->snapshots);
	if (stacks->logged)
		fprintf(stream, "; log of %" PRIu64 " events", stacks->events);
	fprintf(stream, "      %" PRIu64 " %s, %zu shown\n", stacks->rows,
		things[stacks->by][stacks->rows != 1], report->rows);
	stacks_notes(stream, stacks);
	if (stream == report->stream)
		return;
	if (fclose(stream) == 0)
		terminal_write_lines(report->stream, lines, report->width);
	else
		report->lost = true;
	free(lines);
}
