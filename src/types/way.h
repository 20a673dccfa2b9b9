// SPDX-License-Identifier: MIT
//
// The steps of the way to an object, as rows: what repeats is one row, and of many rows the first
// and the last ones remain.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/holders.h"
#include "types/telling.h"

// So many steps in turn can repeat together: a list that goes by way of its nodes and their values
// has two.
#define WAY_PERIOD_MAX 4

struct way_step {
	struct telling telling;
	struct reach_step step;
};

struct way_row {
	// One, or those that repeat; none: steps of several kinds.
	struct way_step steps[WAY_PERIOD_MAX];
	unsigned period;
	uint64_t count; // of steps
};

struct way {
	struct teller *teller; // not owned
	size_t head, tail;     // rows that remain at either end
	// Rows so far; when there are many, the middle is left out. Owned.
	struct way_row *rows;
	size_t count, capacity;
	uint64_t left_out; // steps of rows that were left out, which were behind the head
	// The last steps, and for each distance how many of them in turn are as those so far
	// before.
	struct way_step last[WAY_PERIOD_MAX];
	uint64_t seen, same[WAY_PERIOD_MAX + 1];
};

// What the object of a step is.
struct telling way_look(struct teller *teller, const struct reach_step *step);

// most: rows that there may be. To be released with way_deinit.
void way_init(struct way *way, struct teller *teller, size_t most);
void way_deinit(struct way *way);
// Add the next step. False if memory ran out.
bool way_add(struct way *way, const struct reach_step *step);
// There are no more: way->rows are as they are to be shown.
bool way_finish(struct way *way);
