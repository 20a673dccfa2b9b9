// SPDX-License-Identifier: MIT
#include "stacks/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

void stack_table_init(struct stack_table *table, enum stack_by by, struct texts *texts)
{
	*table = (struct stack_table){.by = by, .texts = texts};
}

void stack_table_deinit(struct stack_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		free(table->rows[i].frames);
		free(table->rows[i].lives.list);
		free(table->rows[i].series);
	}
	free(table->rows);
	free(table->index);
	free(table->times);
	*table = (struct stack_table){0};
}

// ---- rows by their keys

static uint64_t mix(uint64_t number)
{
	number = (number ^ number >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return number ^ number >> 29;
}

static bool index_grow(struct stack_table *table)
{
	if (2 * table->count < table->room)
		return true;
	const size_t room = table->room == 0 ? 1024 : 2 * table->room;
	uint32_t *index = calloc(room, sizeof *index);
	if (index == NULL)
		return false;
	for (size_t i = 0; i < table->count; i++) {
		size_t at = (size_t)mix(table->rows[i].key) & (room - 1);
		while (index[at] != 0)
			at = (at + 1) & (room - 1);
		index[at] = (uint32_t)i + 1;
	}
	free(table->index);
	table->index = index;
	table->room = room;
	return true;
}

static bool row_matches(
	const struct stack_row *row, uint64_t key, const char *name, const char *module)
{
	return row->key == key && row->name == name && row->module == module;
}

// The row with a key, made if there is none; NULL: no memory. Texts are kept ones.
static struct stack_row *row_find(
	struct stack_table *table, uint64_t key, const char *name, const char *module)
{
	if (!index_grow(table))
		return NULL;
	size_t at = (size_t)mix(key) & (table->room - 1);
	for (; table->index[at] != 0; at = (at + 1) & (table->room - 1))
		if (row_matches(&table->rows[table->index[at] - 1], key, name, module))
			return &table->rows[table->index[at] - 1];
	if (table->count == table->capacity) {
		const size_t wanted = 2 * table->capacity + 64;
		struct stack_row *grown = reallocarray(table->rows, wanted, sizeof *grown);
		if (grown == NULL)
			return NULL;
		table->rows = grown;
		table->capacity = wanted;
	}
	struct stack_row *row = &table->rows[table->count++];
	*row = (struct stack_row){.key = key, .name = name, .module = module};
	table->index[at] = (uint32_t)table->count;
	return row;
}

static struct stack_row *row_of_texts(
	struct stack_table *table, const char *name, const char *module)
{
	return row_find(
		table, (uint64_t)(uintptr_t)name * 31 + (uint64_t)(uintptr_t)module, name, module);
}

// ---- adding

static bool lives_add(struct stack_lives *to, const struct stack_lives *more)
{
	if (more->list == NULL)
		return true;
	if (to->list == NULL)
		to->list = calloc(STACK_LIVES, sizeof *to->list);
	if (to->list == NULL)
		return false;
	for (unsigned i = 0; i < STACK_LIVES; i++)
		to->list[i] += more->list[i];
	to->count += more->count;
	to->sum = add_saturated(to->sum, more->sum);
	to->most = max_u64(to->most, more->most);
	return true;
}

bool stack_row_frame(
	struct stack_row *row, const struct recording *recording, struct frames *frames)
{
	uint64_t addresses[STACK_DEPTH_MAX];
	if (row->framed)
		return true;
	row->framed = true;
	const size_t depth = recording_frames(recording, row->stack, addresses);
	for (size_t i = 0; i < depth; i++) {
		const struct stack_frame *found;
		const size_t count = frames_find(frames, addresses[i], &found);
		if (count == 0)
			return false;
		struct stack_frame *grown =
			reallocarray(row->frames, row->frame_count + count, sizeof *grown);
		if (grown == NULL)
			return false;
		row->frames = grown;
		memcpy(grown + row->frame_count, found, count * sizeof *grown);
		row->frame_count += count;
	}
	return true;
}

// The row that a stack's values belong to.
static struct stack_row *row_of_stack(struct stack_table *table, const struct recording *recording,
	uint32_t stack, struct frames *frames, bool eager)
{
	if (table->by == STACK_BY_STACK) {
		struct stack_row *row =
			row_find(table, recording->stacks[stack].identity, NULL, NULL);
		if (row == NULL || row->framed)
			return row;
		row->stack = stack;
		if (!eager)
			return row;
		const bool told = stack_row_frame(row, recording, frames);
		// The modules will be gone.
		for (size_t i = 0; i < row->frame_count; i++)
			row->frames[i].of = NULL;
		return told ? row : NULL;
	}
	uint64_t addresses[STACK_DEPTH_MAX];
	const struct stack_frame *found;
	if (recording_frames(recording, stack, addresses) == 0) {
		const char *none = texts_keep(table->texts, "(no stack)");
		return none != NULL ? row_of_texts(table, none, NULL) : NULL;
	}
	if (frames_find(frames, addresses[0], &found) == 0)
		return NULL;
	if (table->by == STACK_BY_MODULE) {
		const char *name = found->module[0] != '\0'
					   ? found->module
					   : texts_keep(table->texts, "(no module)");
		return name != NULL ? row_of_texts(table, name, NULL) : NULL;
	}
	struct stack_row *row = row_of_texts(table, found->function, found->module);
	if (row != NULL && row->file == NULL)
		row->file = found->file;
	return row;
}

// All functions of a stack have what it has, once.
static bool stack_include(struct stack_table *table, const struct recording *recording,
	uint32_t stack, struct frames *frames)
{
	uint64_t addresses[STACK_DEPTH_MAX];
	const struct stack_values *values = &recording->stacks[stack].values;
	const size_t depth = recording_frames(recording, stack, addresses);
	table->marks++;
	for (size_t i = 0; i < depth; i++) {
		const struct stack_frame *found;
		const size_t count = frames_find(frames, addresses[i], &found);
		if (count == 0)
			return false;
		for (size_t k = 0; k < count; k++) {
			struct stack_row *row =
				row_of_texts(table, found[k].function, found[k].module);
			if (row == NULL)
				return false;
			if (row->file == NULL)
				row->file = found[k].file;
			if (row->mark != table->marks)
				row->inclusive = add_saturated(row->inclusive, values->live_bytes);
			row->mark = table->marks;
		}
	}
	return true;
}

static void row_add(struct stack_row *row, const struct stack_values *values, bool old)
{
	stack_values_add(old ? &row->old : &row->values, values);
	if (old)
		row->is_old = true;
	else
		row->is_new = true;
}

bool stack_table_add(struct stack_table *table, const struct recording *recording,
	const struct log *log, struct frames *frames, bool old, bool eager)
{
	stack_values_add(old ? &table->old_total : &table->total, &recording->total);
	for (size_t i = 0; table->by == STACK_BY_SIZE && i < recording->size_count; i++) {
		struct stack_row *row = row_find(table, recording->sizes[i].size, NULL, NULL);
		if (row == NULL)
			return false;
		row->size = recording->sizes[i].size;
		row_add(row, &recording->sizes[i].values, old);
	}
	for (uint32_t i = 1; table->by != STACK_BY_SIZE && i < recording->stack_count; i++) {
		const struct stack_values *values = &recording->stacks[i].values;
		if (values->blocks == 0 && values->live_blocks == 0 && values->peak_blocks == 0 &&
			values->live_bytes == 0)
			continue;
		struct stack_row *row = row_of_stack(table, recording, i, frames, eager);
		if (row == NULL)
			return false;
		row_add(row, values, old);
		if (!old && log != NULL && !lives_add(&row->lives, &log->lives[i]))
			return false;
		if (!old && table->by == STACK_BY_FUNCTION &&
			!stack_include(table, recording, i, frames))
			return false;
	}
	return true;
}

// ---- growth

// Of more snapshots these are chosen, evenly.
#define MOMENTS_MAX 64

static bool moments_begin(struct stack_table *table, size_t count)
{
	if (table->times == NULL)
		table->times = calloc(count, sizeof *table->times);
	table->time_count = count;
	return table->times != NULL;
}

static bool series_add(struct stack_table *table, const struct recording *recording, uint32_t stack,
	size_t index, double bytes)
{
	struct stack_row *row = row_find(table, recording->stacks[stack].identity, NULL, NULL);
	if (row == NULL)
		return false;
	if (row->series == NULL)
		row->series = calloc(table->time_count, sizeof *row->series);
	if (row->series == NULL)
		return false;
	if (!row->framed && row->stack == 0)
		row->stack = stack;
	row->series[index] += bytes;
	return true;
}

bool stack_table_add_moment(struct stack_table *table, const struct recording *recording,
	size_t index, size_t count, double seconds)
{
	if (!moments_begin(table, count))
		return false;
	table->times[index] = seconds;
	for (uint32_t i = 1; i < recording->stack_count; i++) {
		const uint64_t bytes = recording->stacks[i].values.live_bytes;
		if (bytes > 0 && !series_add(table, recording, i, index, (double)bytes))
			return false;
	}
	return true;
}

bool stack_table_add_series(struct stack_table *table, const struct recording *recording)
{
	const size_t snapshots = recording->snapshot_count;
	const size_t kept = snapshots < MOMENTS_MAX ? snapshots : MOMENTS_MAX;
	if (!moments_begin(table, kept + 1))
		return false;
	for (size_t i = 0; i < kept; i++) {
		const struct stack_snapshot *snapshot = &recording->snapshots[i * snapshots / kept];
		table->times[i] = (double)snapshot->time * 1e-9;
		for (uint64_t k = 0; k < snapshot->count; k++) {
			const struct stack_point *point = &recording->points[snapshot->first + k];
			if (point->stack != 0 && !series_add(table, recording, point->stack, i,
							 (double)point->bytes))
				return false;
		}
	}
	return stack_table_add_moment(
		table, recording, kept, kept + 1, (double)recording->duration * 1e-9);
}

// The slope of the line that has the least squares of distances.
static double slope_of(const double *times, const double *values, size_t count)
{
	double time = 0, value = 0, above = 0, below = 0;
	for (size_t i = 0; i < count; i++) {
		time += times[i] / (double)count;
		value += values[i] / (double)count;
	}
	for (size_t i = 0; i < count; i++) {
		above += (times[i] - time) * (values[i] - value);
		below += (times[i] - time) * (times[i] - time);
	}
	return below > 0 ? above / below : 0;
}

// A stack grows if it does so by most steps, and in the later half of the time at least half as
// fast as in all of it: a cache that has filled does not. The manual has the rule.
#define MONOTONY_MIN 0.5
#define LATE_MIN 0.5

static void growth_decide(const struct stack_table *table, struct stack_row *row)
{
	const size_t count = table->time_count, half = count / 2;
	struct stack_growth *growth = &row->growth;
	int steps = 0;
	if (row->series == NULL || count < 3)
		return;
	for (size_t i = 1; i < count; i++)
		steps += (row->series[i] > row->series[i - 1]) -
			 (row->series[i] < row->series[i - 1]);
	growth->slope = slope_of(table->times, row->series, count);
	growth->late = slope_of(table->times + half, row->series + half, count - half);
	growth->monotony = (double)steps / (double)(count - 1);
	growth->grows = growth->slope > 0 && growth->monotony >= MONOTONY_MIN &&
			growth->late >= LATE_MIN * growth->slope;
}

void stack_table_grow(struct stack_table *table)
{
	double sum = 0;
	for (size_t i = 0; i < table->count; i++) {
		growth_decide(table, &table->rows[i]);
		sum += table->rows[i].growth.grows ? table->rows[i].growth.slope : 0;
	}
	for (size_t i = 0; i < table->count && sum > 0; i++)
		if (table->rows[i].growth.grows)
			table->rows[i].growth.share = table->rows[i].growth.slope / sum;
}

// ---- order

struct order {
	enum stack_sort sort;
	bool diff;
};

static int compare(uint64_t x, uint64_t y)
{
	return (x < y) - (x > y);
}

static int compare_more(const struct stack_row *x, const struct stack_row *y)
{
	const int64_t a = (int64_t)(x->values.live_bytes - x->old.live_bytes);
	const int64_t b = (int64_t)(y->values.live_bytes - y->old.live_bytes);
	return (a < b) - (a > b);
}

static int compare_growth(const struct stack_growth *x, const struct stack_growth *y)
{
	if (x->grows != y->grows)
		return x->grows ? -1 : 1;
	const double a = x->slope * x->monotony, b = y->slope * y->monotony;
	return (a < b) - (a > b);
}

// What is the same in every run decides in the end.
static int compare_names(const struct stack_row *x, const struct stack_row *y)
{
	if (x->name == NULL || y->name == NULL)
		return compare(y->key, x->key);
	const int order = strcmp(x->name, y->name);
	if (order != 0 || x->module == NULL || y->module == NULL)
		return order;
	return strcmp(x->module, y->module);
}

static int row_compare(const void *a, const void *b, void *context)
{
	const struct stack_row *x = a, *y = b;
	const struct order *order = context;
	const struct stack_values *v = &x->values, *w = &y->values;
	int ret = 0;
	switch (order->sort) {
	case STACK_SORT_LIVE:
		ret = order->diff ? compare_more(x, y) : 0;
		break;
	case STACK_SORT_BLOCKS:
		ret = compare(v->live_blocks, w->live_blocks);
		break;
	case STACK_SORT_LARGEST:
		ret = x->size != y->size ? compare(x->size, y->size)
					 : compare(v->largest, w->largest);
		break;
	case STACK_SORT_NAME:
		ret = compare_names(x, y);
		break;
	case STACK_SORT_PEAK:
		ret = compare(v->peak_bytes, w->peak_bytes);
		break;
	case STACK_SORT_ALLOCATED:
		ret = compare(v->bytes, w->bytes);
		break;
	case STACK_SORT_TEMPORARY:
		ret = compare(v->temporary, w->temporary);
		break;
	case STACK_SORT_GROWTH:
		ret = compare_growth(&x->growth, &y->growth);
		break;
	}
	ret = ret != 0 ? ret : compare(v->live_bytes, w->live_bytes);
	ret = ret != 0 ? ret : compare(x->inclusive, y->inclusive);
	ret = ret != 0 ? ret : compare(v->bytes, w->bytes);
	return ret != 0 ? ret : compare_names(x, y);
}

void stack_table_sort(struct stack_table *table, enum stack_sort sort, bool diff)
{
	struct order order = {sort, diff};
	if (table->count > 0)
		qsort_r(table->rows, table->count, sizeof *table->rows, row_compare, &order);
	free(table->index);
	table->index = NULL;
	table->room = 0;
}
