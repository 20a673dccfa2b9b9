// SPDX-License-Identifier: MIT
#include "find/values.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// A thread takes so many places of the list at once.
#define BLOCK ((size_t)1024)
// Below this many numbers insertion is faster than distribution.
#define SMALL 32

bool values_init(
	struct values *values, size_t top, uint64_t min_count, unsigned threads, struct error *err)
{
	*values = (struct values){.threads = threads};
	values->lists = calloc(threads, sizeof *values->lists);
	if (values->lists == NULL)
		return error_memory(err);
	return best_init(&values->best, top, min_count, err);
}

void values_deinit(struct values *values)
{
	free(values->lists);
	free(values->list);
	best_deinit(&values->best);
}

uint64_t values_memory(uint64_t count, unsigned threads)
{
	const uint64_t places = add_saturated(count, threads * BLOCK);
	return places > UINT64_MAX / sizeof(uint64_t) ? UINT64_MAX : places * sizeof(uint64_t);
}

bool values_begin(struct values *values, size_t memory, struct error *err)
{
	memset(values->lists, 0, values->threads * sizeof *values->lists);
	values->capacity = max_u64(memory / sizeof *values->list, values->threads * BLOCK);
	atomic_store(&values->used, 0);
	// Pages that are not used take no memory.
	values->list = malloc(values->capacity * sizeof *values->list);
	return values->list != NULL || error_memory(err);
}

static bool values_full(const struct values *values)
{
	return atomic_load_explicit(&values->used, memory_order_relaxed) > values->capacity;
}

// List a number once.
static void values_list(struct values *values, struct value_list *list, uint64_t value)
{
	if (list->at == list->end) {
		if (values_full(values))
			return;
		list->at = atomic_fetch_add(&values->used, BLOCK);
		list->end = list->at + BLOCK;
		if (list->end > values->capacity) {
			// The count stays too high: nothing of the list is of use.
			list->end = list->at;
			return;
		}
	}
	values->list[list->at++] = value;
}

void values_put(struct values *values, unsigned worker, struct hot_value *hot, uint64_t value,
	uint64_t count)
{
	// What has come again stays, unless that would have to be listed more often.
	if (hot->count <= 1 || count > hot->count) {
		const struct hot_value old = *hot;
		*hot = (struct hot_value){value, count};
		value = old.value;
		count = old.count;
	}
	for (; count > 0 && !values_full(values); count--)
		values_list(values, &values->lists[worker], value);
}

// ---- sorting in place, by one byte after the other ("American flag sort", McIlroy, Bostic and
// McIlroy, 1993)

static void sort_small(uint64_t *list, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		const uint64_t value = list[i];
		size_t at = i;
		for (; at > 0 && list[at - 1] > value; at--)
			list[at] = list[at - 1];
		list[at] = value;
	}
}

static void sort_by_byte(uint64_t *list, size_t count, unsigned shift)
{
	size_t begin[257] = {0}, at[256];
	if (count <= SMALL) {
		sort_small(list, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		begin[(list[i] >> shift & 0xff) + 1]++;
	for (size_t b = 0; b < 256; b++) {
		begin[b + 1] += begin[b];
		at[b] = begin[b];
	}
	for (size_t b = 0; b < 256; b++)
		while (at[b] < begin[b + 1]) {
			const uint64_t value = list[at[b]];
			const size_t home = value >> shift & 0xff;
			// Where it belongs there is one that does not, or it itself.
			list[at[b]] = list[at[home]];
			list[at[home]++] = value;
		}
	for (size_t b = 0; shift > 0 && b < 256; b++)
		if (begin[b + 1] - begin[b] > 1)
			sort_by_byte(list + begin[b], begin[b + 1] - begin[b], shift - 8);
}

static int hot_compare(const void *left, const void *right)
{
	const struct hot_value *a = left, *b = right;
	if ((a->count == 0) != (b->count == 0))
		return a->count == 0 ? 1 : -1;
	return a->value < b->value ? -1 : a->value > b->value;
}

// ---- putting together

// A part of the list, and the hot numbers of one thread.
struct cursor {
	uint64_t *list;
	size_t at, count;
	struct hot_value *hots;
	size_t hot;
	pthread_t thread;
};

static void *cursor_sort(void *argument)
{
	struct cursor *cursor = argument;
	sort_by_byte(cursor->list, cursor->count, 56);
	qsort(cursor->hots, 1 << VALUES_HOT_BITS, sizeof *cursor->hots, hot_compare);
	return NULL;
}

// Sort all parts, each in a thread of its own.
static void cursors_sort(struct cursor *cursors, unsigned count)
{
	unsigned started = 1;
	while (started < count &&
		pthread_create(&cursors[started].thread, NULL, cursor_sort, &cursors[started]) == 0)
		started++;
	cursor_sort(&cursors[0]);
	for (unsigned i = started; i < count; i++)
		cursor_sort(&cursors[i]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(cursors[i].thread, NULL);
}

static bool cursor_has_hot(const struct cursor *cursor)
{
	return cursor->hot < 1 << VALUES_HOT_BITS && cursor->hots[cursor->hot].count > 0;
}

// The least number that is left; false if there is none.
static bool cursor_least(const struct cursor *cursor, uint64_t *ret)
{
	const bool listed = cursor->at < cursor->count;
	const bool hot = cursor_has_hot(cursor);
	*ret = UINT64_MAX;
	if (listed)
		*ret = cursor->list[cursor->at];
	if (hot)
		*ret = min_u64(*ret, cursor->hots[cursor->hot].value);
	return listed || hot;
}

// Step over a number; returns how often it is there.
static uint64_t cursor_count(struct cursor *cursor, uint64_t value)
{
	uint64_t count = 0;
	for (; cursor->at < cursor->count && cursor->list[cursor->at] == value; cursor->at++)
		count++;
	if (cursor_has_hot(cursor) && cursor->hots[cursor->hot].value == value)
		count += cursor->hots[cursor->hot++].count;
	return count;
}

static void values_collect(struct values *values, struct cursor *cursors)
{
	for (;;) {
		struct count_row row = {.value = UINT64_MAX};
		bool more = false;
		for (unsigned i = 0; i < values->threads; i++) {
			uint64_t least;
			if (!cursor_least(&cursors[i], &least))
				continue;
			row.value = min_u64(row.value, least);
			more = true;
		}
		if (!more)
			return;
		for (unsigned i = 0; i < values->threads; i++)
			row.count += cursor_count(&cursors[i], row.value);
		row.count_max = row.count;
		best_offer(&values->best, row);
	}
}

static int list_compare(const void *left, const void *right)
{
	const struct value_list *a = *(struct value_list *const *)left;
	const struct value_list *b = *(struct value_list *const *)right;
	return a->at > b->at ? -1 : a->at < b->at;
}

// Close the gaps that are left in the threads' last blocks with what is last in the list. Returns
// the length.
static size_t values_compact(struct values *values)
{
	const struct value_list *lists[values->threads];
	size_t count = atomic_load(&values->used);
	for (unsigned i = 0; i < values->threads; i++)
		lists[i] = &values->lists[i];
	// From the end on: then nothing behind a gap is one.
	qsort(lists, values->threads, sizeof(const struct value_list *), list_compare);
	for (unsigned i = 0; i < values->threads; i++) {
		const size_t gap = lists[i]->end - lists[i]->at;
		const size_t behind = count - lists[i]->end, moved = min_u64(gap, behind);
		if (gap == 0)
			continue;
		memcpy(values->list + lists[i]->at, values->list + count - moved,
			moved * sizeof *values->list);
		count -= gap;
	}
	return count;
}

void values_end(struct values *values)
{
	if (!values_full(values)) {
		struct cursor cursors[values->threads];
		const size_t count = values_compact(values), part = count / values->threads;
		for (unsigned i = 0; i < values->threads; i++)
			cursors[i] = (struct cursor){
				.list = values->list + i * part,
				.count = i + 1 < values->threads ? part : count - i * part,
				.hots = values->lists[i].hot,
			};
		cursors_sort(cursors, values->threads);
		values_collect(values, cursors);
		values->done = true;
	}
	free(values->list);
	values->list = NULL;
}
