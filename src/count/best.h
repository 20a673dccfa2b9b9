// SPDX-License-Identifier: MIT
//
// The best N rows of those offered: more often is better, then the smaller value.
#pragma once

#include "count/count.h"

struct best {
	struct count_row *rows; // a binary heap, the worst at its root; owned
	size_t count, capacity;
	uint64_t min_count; // rows below are not taken
};

bool row_better(const struct count_row *a, const struct count_row *b);

bool best_init(struct best *best, size_t capacity, uint64_t min_count, struct error *err);
void best_deinit(struct best *best);
// No value may be offered twice.
void best_offer(struct best *best, struct count_row row);
// What a row must be better than to be taken.
struct count_row best_bar(const struct best *best);
// Put the rows in order, best first; nothing can be offered after that.
void best_sort(struct best *best);
