// SPDX-License-Identifier: MIT
#include "image/zeros.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

// The smallest page of all machines; others have multiples of it.
#define PAGE ((uint64_t)4096)

void zeros_init(struct zeros *zeros, size_t memory)
{
	*zeros = (struct zeros){.most = memory / sizeof *zeros->list};
	pthread_mutex_init(&zeros->lock, NULL);
}

void zeros_deinit(struct zeros *zeros)
{
	pthread_mutex_destroy(&zeros->lock);
	free(zeros->list);
	zeros->list = NULL;
}

static void zeros_add(struct zeros *zeros, const struct zero_run *run)
{
	if (zeros->count == zeros->capacity) {
		const size_t wanted = (size_t)min_u64(2 * zeros->capacity + 256, zeros->most);
		if (wanted == zeros->count)
			return;
		struct zero_run *grown = reallocarray(zeros->list, wanted, sizeof *grown);
		if (grown == NULL) {
			zeros->lost = true;
			return;
		}
		zeros->list = grown;
		zeros->capacity = wanted;
	}
	zeros->list[zeros->count++] = *run;
}

static bool is_zero(const unsigned char *bytes, size_t size)
{
	// Most have something soon.
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

void zeros_note(struct zeros *zeros, const struct image_chunk *chunk, const unsigned char *bytes)
{
	// The parts of pages at both ends, too: the next chunk may have the rest.
	struct zero_run runs[IMAGE_CHUNK_SIZE / PAGE + 2];
	size_t count = 0;
	if (chunk->zeros > 0)
		runs[count++] = (struct zero_run){
			chunk->address, add_saturated(chunk->address, chunk->zeros)};
	for (size_t at = 0, size; at < chunk->size; at += size) {
		const uint64_t address = chunk->address + at;
		size = (size_t)min_u64(PAGE - address % PAGE, chunk->size - at);
		if (!is_zero(bytes + at, size))
			continue;
		if (count > 0 && runs[count - 1].end == address)
			runs[count - 1].end += size;
		else
			runs[count++] = (struct zero_run){address, address + size};
	}
	if (count == 0)
		return;
	pthread_mutex_lock(&zeros->lock);
	for (size_t i = 0; i < count; i++)
		zeros_add(zeros, &runs[i]);
	pthread_mutex_unlock(&zeros->lock);
}

static int run_compare(const void *left, const void *right)
{
	const struct zero_run *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

// Join runs that touch, which are sorted. Damaged headers can have memory twice.
static size_t runs_join(struct zero_run *list, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		struct zero_run run = list[i];
		struct zero_run *last = kept > 0 ? &list[kept - 1] : NULL;
		if (last != NULL)
			run.start = max_u64(run.start, last->end);
		if (run.start >= run.end)
			continue;
		if (last != NULL && last->end == run.start)
			last->end = run.end;
		else
			list[kept++] = run;
	}
	return kept;
}

bool zeros_finish(struct zeros *zeros)
{
	if (zeros->count > 0)
		qsort(zeros->list, zeros->count, sizeof *zeros->list, run_compare);
	const size_t count = runs_join(zeros->list, zeros->count);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		struct zero_run run = zeros->list[i];
		run.start = add_saturated(run.start, PAGE - 1) & ~(PAGE - 1);
		run.end &= ~(PAGE - 1);
		if (run.start < run.end)
			zeros->list[kept++] = run;
	}
	zeros->count = kept;
	return !zeros->lost;
}
