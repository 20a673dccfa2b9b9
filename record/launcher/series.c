// SPDX-License-Identifier: MIT
#include "series.h"

#include <stdlib.h>
#include <string.h>

// When this many snapshots are there, every second one goes.
#define SNAPSHOTS_MOST 512

static const void *section_of(const struct record_header *header, uint64_t size, uint32_t kind,
	size_t entry, uint64_t *ret_count, uint32_t *ret_entry)
{
	for (uint32_t i = 0; i < header->section_count && i < RECORD_SECTIONS; i++) {
		const struct record_section section = header->sections[i];
		if (section.kind != kind || section.entry < entry || section.offset > size ||
			section.used > (size - section.offset) / section.entry)
			continue;
		*ret_count = section.used;
		*ret_entry = section.entry;
		return (const char *)header + section.offset;
	}
	*ret_count = 0;
	return NULL;
}

static void changes_add(
	struct record_point *live, uint64_t stacks, const struct record_thread *thread)
{
	if (!thread->used)
		return;
	for (size_t i = 0; i < RECORD_CHANGES; i++) {
		const struct record_change *change = &thread->changes[i];
		if (change->stack >= stacks)
			continue;
		live[change->stack].bytes += change->bytes - change->freed_bytes;
		live[change->stack].blocks += (uint64_t)change->blocks - change->freed_blocks;
	}
}

static void thin_out(struct series *series)
{
	size_t points = 0;
	for (size_t i = 0; i < series->count / 2; i++) {
		struct record_snapshot snapshot = series->snapshots[2 * i + 1];
		memmove(series->points + points, series->points + snapshot.first,
			snapshot.count * sizeof *series->points);
		snapshot.first = points;
		points += snapshot.count;
		series->snapshots[i] = snapshot;
	}
	series->count /= 2;
	series->point_count = points;
	series->interval *= 2;
}

static void *larger(void *array, size_t count, size_t size)
{
	array = realloc(array, count * size);
	if (!array)
		abort();
	return array;
}

void series_add(
	struct series *series, const struct record_header *header, uint64_t size, uint64_t resident)
{
	uint64_t count, threads;
	uint32_t entry, thread_entry;
	const struct record_stack *stacks =
		section_of(header, size, RECORD_STACKS, sizeof *stacks, &count, &entry);
	const char *thread = section_of(header, size, RECORD_THREADS, sizeof(struct record_thread),
		&threads, &thread_entry);
	if (!stacks || entry != sizeof *stacks)
		return;
	struct record_point *live = calloc(count, sizeof *live);
	if (!live)
		return;
	for (uint64_t i = 1; i < count; i++) {
		live[i].bytes = stacks[i].bytes - stacks[i].freed_bytes;
		live[i].blocks = stacks[i].blocks - stacks[i].freed_blocks;
	}
	for (uint64_t i = 0; thread && i < threads; i++)
		changes_add(live, count, (const struct record_thread *)(thread + i * thread_entry));
	if (series->count == SNAPSHOTS_MOST)
		thin_out(series);
	series->snapshots = larger(series->snapshots, series->count + 1, sizeof *series->snapshots);
	struct record_snapshot *snapshot = &series->snapshots[series->count++];
	*snapshot = (struct record_snapshot){
		.time = header->now, .resident = resident, .first = series->point_count};
	series->points =
		larger(series->points, series->point_count + count, sizeof *series->points);
	for (uint64_t i = 1; i < count; i++) {
		if ((int64_t)live[i].bytes < 0 || (!live[i].bytes && !live[i].blocks))
			continue;
		snapshot->live_bytes += live[i].bytes;
		snapshot->live_blocks += live[i].blocks;
		live[i].stack = (uint32_t)i;
		series->points[series->point_count++] = live[i];
	}
	snapshot->count = series->point_count - snapshot->first;
	free(live);
}

void series_deinit(struct series *series)
{
	free(series->snapshots);
	free(series->points);
}
