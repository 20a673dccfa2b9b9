// SPDX-License-Identifier: MIT
#include "count/best.h"

#include <stdlib.h>

bool row_better(const struct count_row *a, const struct count_row *b)
{
	return a->count != b->count ? a->count > b->count : a->value < b->value;
}

bool best_init(struct best *best, size_t capacity, uint64_t min_count, struct error *err)
{
	*best = (struct best){.capacity = capacity, .min_count = min_count};
	best->rows = calloc(capacity, sizeof *best->rows);
	return best->rows != NULL || error_memory(err);
}

void best_deinit(struct best *best)
{
	free(best->rows);
	best->rows = NULL;
}

static void best_sift_up(struct best *best, size_t at)
{
	struct count_row *rows = best->rows, row = rows[at];
	for (; at > 0 && row_better(&rows[(at - 1) / 2], &row); at = (at - 1) / 2)
		rows[at] = rows[(at - 1) / 2];
	rows[at] = row;
}

static void best_sift_down(struct best *best)
{
	struct count_row *rows = best->rows, row = rows[0];
	size_t at = 0;
	for (size_t child = 1; child < best->count; child = 2 * at + 1) {
		if (child + 1 < best->count && row_better(&rows[child], &rows[child + 1]))
			child++;
		if (!row_better(&row, &rows[child]))
			break;
		rows[at] = rows[child];
		at = child;
	}
	rows[at] = row;
}

void best_offer(struct best *best, struct count_row row)
{
	if (row.count < best->min_count)
		return;
	if (best->count < best->capacity) {
		best->rows[best->count] = row;
		best_sift_up(best, best->count++);
	} else if (row_better(&row, &best->rows[0])) {
		best->rows[0] = row;
		best_sift_down(best);
	}
}

struct count_row best_bar(const struct best *best)
{
	if (best->count == best->capacity)
		return best->rows[0];
	return (struct count_row){
		.count = best->min_count, .count_max = best->min_count, .value = UINT64_MAX};
}

// Not qsort, which may take as much memory again.
void best_sort(struct best *best)
{
	const size_t count = best->count;
	while (best->count > 1) {
		const struct count_row worst = best->rows[0];
		best->rows[0] = best->rows[--best->count];
		best_sift_down(best);
		best->rows[best->count] = worst;
	}
	best->count = count;
}
