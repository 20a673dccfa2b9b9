// SPDX-License-Identifier: MIT
#include "image/leftout.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

// A stretch of addresses that the dump lacks; it must not be in any other one.
static bool outs_add(struct left_outs *outs, const char *name, uint64_t bytes, uint32_t flags)
{
	if (bytes == 0)
		return true;
	if (outs->count == outs->capacity) {
		const size_t wanted = 2 * outs->capacity + 16;
		struct left_out *grown = reallocarray(outs->list, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		outs->list = grown;
		outs->capacity = wanted;
	}
	const uint64_t writable = (flags & PF_W) != 0 ? bytes : 0;
	outs->list[outs->count++] = (struct left_out){name, bytes, writable};
	outs->bytes += bytes;
	outs->writable += writable;
	return true;
}

// The files that were mapped from start to end, and what is between them. next: the first one that
// may lie there.
static bool outs_add_range(struct left_outs *outs, const struct image_process *process,
	uint64_t start, uint64_t end, uint32_t flags, size_t *next)
{
	while (*next < process->mapping_count && process->mappings[*next].end <= start)
		++*next;
	for (size_t i = *next; i < process->mapping_count && process->mappings[i].start < end;
		i++) {
		const struct image_mapping *mapping = &process->mappings[i];
		const uint64_t from = max_u64(mapping->start, start),
			       to = min_u64(mapping->end, end);
		if (from >= to)
			continue;
		if (!outs_add(outs, NULL, from - start, flags) ||
			!outs_add(outs, mapping->path, to - from, flags))
			return false;
		start = to;
	}
	return outs_add(outs, NULL, end - start, flags);
}

// What files have below limit that no segment has; done: all below it is dealt with.
static bool outs_add_files(struct left_outs *outs, const struct image_process *process,
	uint64_t done, uint64_t limit, size_t *next)
{
	while (*next < process->mapping_count && process->mappings[*next].end <= done)
		++*next;
	for (size_t i = *next; i < process->mapping_count && process->mappings[i].start < limit;
		i++) {
		const struct image_mapping *mapping = &process->mappings[i];
		const uint64_t from = max_u64(mapping->start, done);
		const uint64_t to = min_u64(mapping->end, limit);
		if (from >= to)
			continue;
		// Whether it could be written to is not known: program text is most of it.
		if (!outs_add(outs, mapping->path, to - from, 0))
			return false;
		done = to;
	}
	return true;
}

static bool outs_walk(const struct image *image, struct left_outs *outs)
{
	const struct image_info *info = image_info(image);
	const struct image_process *process = &info->process;
	uint64_t done = 0;
	size_t next = 0;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t end = add_saturated(segment->address, segment->size);
		const uint64_t saved = add_saturated(segment->address, segment->saved);
		const uint64_t from = max_u64(saved, done);
		if (!outs_add_files(outs, process, done, segment->address, &next))
			return false;
		if (from < end && (segment->flags & (PF_R | PF_W | PF_X)) == 0)
			outs->reserved += end - from;
		else if (from < end &&
			 !outs_add_range(outs, process, from, end, segment->flags, &next))
			return false;
		done = max_u64(done, end);
	}
	return outs_add_files(outs, process, done, UINT64_MAX, &next);
}

static int name_compare(const void *left, const void *right)
{
	const struct left_out *a = left, *b = right;
	if (a->name == NULL || b->name == NULL)
		return (a->name != NULL) - (b->name != NULL);
	return strcmp(a->name, b->name);
}

static int bytes_compare(const void *left, const void *right)
{
	const struct left_out *a = left, *b = right;
	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return name_compare(left, right);
}

static void outs_join(struct left_outs *outs)
{
	size_t kept = 0;
	if (outs->count == 0)
		return;
	qsort(outs->list, outs->count, sizeof *outs->list, name_compare);
	for (size_t i = 0; i < outs->count; i++) {
		struct left_out *last = kept > 0 ? &outs->list[kept - 1] : NULL;
		if (last == NULL || name_compare(last, &outs->list[i]) != 0) {
			outs->list[kept++] = outs->list[i];
			continue;
		}
		last->bytes += outs->list[i].bytes;
		last->writable += outs->list[i].writable;
	}
	outs->count = kept;
	qsort(outs->list, outs->count, sizeof *outs->list, bytes_compare);
}

bool left_outs_find(const struct image *image, struct error *err, struct left_outs *ret)
{
	*ret = (struct left_outs){0};
	if (!outs_walk(image, ret)) {
		left_outs_deinit(ret);
		return error_memory(err);
	}
	outs_join(ret);
	return true;
}

void left_outs_deinit(struct left_outs *outs)
{
	free(outs->list);
	*outs = (struct left_outs){0};
}
