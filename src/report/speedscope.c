// SPDX-License-Identifier: MIT
//
// speedscope's own format: https://www.speedscope.app/file-format-schema.json
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "report/report.h"

// A frame that was named in a sample; its number is its index.
struct scope_frame {
	char *text; // its JSON; owned
};

struct scope_file {
	struct scope_frame *frames;
	size_t count, capacity;
	uint32_t *table; // numbers + 1 by hash
	size_t room;
	uint64_t *weights;
	size_t weight_count, weight_capacity;
	uint64_t sum;
};

static uint64_t text_hash(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

// Texts have no control characters.
static void scope_text(FILE *stream, const char *text)
{
	putc('"', stream);
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', stream);
		putc(*text, stream);
	}
	putc('"', stream);
}

static char *frame_text(const struct report_frame *frame)
{
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	if (stream == NULL)
		return NULL;
	fputs("{\"name\":", stream);
	scope_text(stream, frame->function);
	if (frame->file[0] != '\0') {
		fputs(",\"file\":", stream);
		scope_text(stream, frame->file);
	} else if (frame->module[0] != '\0') {
		fputs(",\"file\":", stream);
		scope_text(stream, frame->module);
	}
	if (frame->file[0] != '\0' && frame->line > 0)
		fprintf(stream, ",\"line\":%d", frame->line);
	putc('}', stream);
	if (fclose(stream) == 0)
		return text;
	free(text);
	return NULL;
}

static bool table_grow(struct scope_file *file)
{
	if (2 * file->count < file->room)
		return true;
	const size_t room = file->room == 0 ? 1024 : 2 * file->room;
	uint32_t *table = calloc(room, sizeof *table);
	if (table == NULL)
		return false;
	for (size_t i = 0; i < file->count; i++) {
		size_t at = (size_t)text_hash(file->frames[i].text) & (room - 1);
		while (table[at] != 0)
			at = (at + 1) & (room - 1);
		table[at] = (uint32_t)i + 1;
	}
	free(file->table);
	file->table = table;
	file->room = room;
	return true;
}

// The number of a frame; takes text over. UINT32_MAX: no memory.
static uint32_t frame_number(struct scope_file *file, char *text)
{
	if (text == NULL || !table_grow(file)) {
		free(text);
		return UINT32_MAX;
	}
	size_t at = (size_t)text_hash(text) & (file->room - 1);
	for (; file->table[at] != 0; at = (at + 1) & (file->room - 1))
		if (strcmp(file->frames[file->table[at] - 1].text, text) == 0) {
			free(text);
			return file->table[at] - 1;
		}
	if (file->count == file->capacity) {
		const size_t wanted = 2 * file->capacity + 256;
		struct scope_frame *grown = reallocarray(file->frames, wanted, sizeof *grown);
		if (grown == NULL) {
			free(text);
			return UINT32_MAX;
		}
		file->frames = grown;
		file->capacity = wanted;
	}
	file->frames[file->count++].text = text;
	file->table[at] = (uint32_t)file->count;
	return (uint32_t)file->count - 1;
}

static void scope_begin(struct report *report)
{
	const struct report_stacks *stacks = report->head->stacks;
	const bool blocks =
		stacks->measure == REPORT_LIVE_BLOCKS || stacks->measure == REPORT_TEMPORARY;
	report->context = calloc(1, sizeof(struct scope_file));
	report->lost = report->lost || report->context == NULL;
	fprintf(report->stream,
		"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		"\"exporter\":\"topleak %s\",\"activeProfileIndex\":0,\"profiles\":[{\"type\":"
		"\"sampled\",\"name\":\"allocations\",\"unit\":\"%s\",\"startValue\":0,\"samples\":"
		"[",
		report->head->version, blocks ? "none" : "bytes");
}

static bool weight_add(struct scope_file *file, uint64_t weight)
{
	if (file->weight_count == file->weight_capacity) {
		const size_t wanted = 2 * file->weight_capacity + 256;
		uint64_t *grown = reallocarray(file->weights, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		file->weights = grown;
		file->weight_capacity = wanted;
	}
	file->weights[file->weight_count++] = weight;
	file->sum = add_saturated(file->sum, weight);
	return true;
}

static void scope_stack(struct report *report, const struct report_stack *row)
{
	struct scope_file *file = report->context;
	const uint64_t weight = report_measure_of(report->head->stacks, row);
	if (file == NULL || weight == 0)
		return;
	// Rows that are no stacks are frames of their own.
	char size[40];
	snprintf(size, sizeof size, "%" PRIu64 " bytes", row->size);
	const bool by_size = report->head->stacks->by == REPORT_BY_SIZE;
	const struct report_frame single = {
		.function = by_size		   ? size
			    : row->name[0] != '\0' ? row->name
						   : "(no stack)",
		.file = "",
		.module = "",
	};
	const struct report_frame *frames = row->frame_count > 0 ? row->frames : &single;
	fputs(file->weight_count > 0 ? ",[" : "[", report->stream);
	for (size_t i = row->frame_count > 0 ? row->frame_count : 1; i-- > 0;) {
		const uint32_t number = frame_number(file, frame_text(&frames[i]));
		report->lost = report->lost || number == UINT32_MAX;
		fprintf(report->stream, "%" PRIu32 "%s", number, i > 0 ? "," : "");
	}
	putc(']', report->stream);
	report->lost = report->lost || !weight_add(file, weight);
}

static void scope_end(struct report *report)
{
	struct scope_file *file = report->context;
	if (file == NULL)
		return;
	fputs("],\"weights\":[", report->stream);
	for (size_t i = 0; i < file->weight_count; i++)
		fprintf(report->stream, "%s%" PRIu64, i > 0 ? "," : "", file->weights[i]);
	fprintf(report->stream, "],\"endValue\":%" PRIu64 "}],\"shared\":{\"frames\":[", file->sum);
	for (size_t i = 0; i < file->count; i++) {
		fprintf(report->stream, "%s%s", i > 0 ? "," : "", file->frames[i].text);
		free(file->frames[i].text);
	}
	fputs("]}}\n", report->stream);
	free(file->frames);
	free(file->table);
	free(file->weights);
	free(file);
	report->context = NULL;
}

const struct report_writer writer_speedscope = {
	.begin = scope_begin,
	.stack = scope_stack,
	.end = scope_end,
};
