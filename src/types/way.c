// SPDX-License-Identifier: MIT
#include "types/way.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

// Fewer repeated steps are shown: their addresses are worth more than a short answer.
#define REPEATS_MIN 8

void way_init(struct way *way, struct teller *teller, size_t most)
{
	// What is asked for is at the end.
	*way = (struct way){.teller = teller, .tail = most - most / 2, .head = most / 2};
}

void way_deinit(struct way *way)
{
	free(way->rows);
	way->rows = NULL;
}

// Leave out the middle; so many rows at the end remain.
static void way_cut(struct way *way, size_t tail)
{
	const size_t end = way->count - tail;
	for (size_t i = way->head; i < end; i++)
		way->left_out += way->rows[i].count;
	memmove(way->rows + way->head, way->rows + end, tail * sizeof *way->rows);
	way->count = way->head + tail;
}

static bool way_add_row(struct way *way, const struct way_row *row)
{
	// Those at the end may be folded yet.
	const size_t tail = way->tail + REPEATS_MIN;
	if (way->count == way->capacity && way->count >= 2 * (way->head + tail))
		way_cut(way, tail);
	if (way->count == way->capacity) {
		const size_t wanted = 2 * way->capacity + 16;
		struct way_row *grown = reallocarray(way->rows, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		way->rows = grown;
		way->capacity = wanted;
	}
	way->rows[way->count++] = *row;
	return true;
}

static bool step_same(const struct way_step *a, const struct way_step *b)
{
	return a->telling.word == b->telling.word && a->telling.offset == b->telling.offset &&
	       a->telling.kind == b->telling.kind && a->step.size == b->step.size &&
	       a->step.offset == b->step.offset && !a->step.last && !b->step.last;
}

// The last row is of repeated steps, as this one is.
static bool way_goes_on(struct way *way)
{
	struct way_row *row = way->count > 0 ? &way->rows[way->count - 1] : NULL;
	if (row == NULL || row->count == 1 || way->same[row->period] == 0)
		return false;
	row->count++;
	return true;
}

// Make one row of the last ones, if there are enough that repeat what was before.
static void way_fold(struct way *way)
{
	for (unsigned period = 1; period <= WAY_PERIOD_MAX; period++) {
		if (way->same[period] < REPEATS_MIN || way->count < REPEATS_MIN)
			continue;
		struct way_row *row = &way->rows[way->count - REPEATS_MIN];
		way->count -= REPEATS_MIN - 1;
		for (unsigned i = 1; i < period; i++)
			row->steps[i] = row[i].steps[0];
		row->period = period;
		row->count = REPEATS_MIN;
		return;
	}
}

struct telling way_look(struct teller *teller, const struct reach_step *step)
{
	unsigned char bytes[TELLING_SIZE];
	const size_t size = image_read(
		teller->image, step->address, bytes, (size_t)min_u64(sizeof bytes, step->size));
	return teller_look(teller, bytes, size);
}

bool way_add(struct way *way, const struct reach_step *step)
{
	struct way_row row = {.period = 1, .count = 1};
	row.steps[0] = (struct way_step){way_look(way->teller, step), *step};
	for (unsigned period = 1; period <= WAY_PERIOD_MAX; period++) {
		const struct way_step *before =
			&way->last[(way->seen + WAY_PERIOD_MAX - period) % WAY_PERIOD_MAX];
		const bool same = way->seen >= period && step_same(before, &row.steps[0]);
		way->same[period] = same ? way->same[period] + 1 : 0;
	}
	way->last[way->seen++ % WAY_PERIOD_MAX] = row.steps[0];
	if (way_goes_on(way))
		return true;
	if (!way_add_row(way, &row))
		return false;
	way_fold(way);
	return true;
}

bool way_finish(struct way *way)
{
	if (way->left_out == 0 && way->count <= way->head + way->tail)
		return true;
	way_cut(way, min_u64(way->tail, way->count - way->head));
	const struct way_row more = {.count = way->left_out};
	if (!way_add_row(way, &more))
		return false;
	struct way_row *gap = &way->rows[way->head];
	memmove(gap + 1, gap, (way->count - 1 - way->head) * sizeof *gap);
	*gap = more;
	return true;
}
