// SPDX-License-Identifier: MIT
#include "count/wide.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/huge.h"

#define CELLS_MIN 4096

bool wide_init(struct wide *wide, size_t wanted, struct error *err)
{
	const size_t count = max_u64(wanted, CELLS_MIN);
	wide->cells = huge_alloc(count);
	wide->count = count;
	return wide->cells != NULL || error_memory(err);
}

void wide_deinit(struct wide *wide)
{
	free((void *)wide->cells);
	wide->cells = NULL;
	wide->count = 0;
}

void wide_measure(struct wide *wide)
{
	// Four histograms: equal loads one after the other would wait for each other.
	uint64_t levels[4][WIDE_FULL + 1];
	memset(levels, 0, sizeof levels);
	for (size_t i = 0; i < wide->count; i++)
		levels[i % 4][atomic_load_explicit(&wide->cells[i], memory_order_relaxed)]++;
	for (size_t i = 0; i <= WIDE_FULL; i++)
		wide->levels[i] = levels[0][i] + levels[1][i] + levels[2][i] + levels[3][i];
}
