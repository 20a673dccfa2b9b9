// SPDX-License-Identifier: MIT
#include "count/wide.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"

// Pages of this size spare most misses of the TLB.
#define HUGE_PAGE ((size_t)2 << 20)
#define CELLS_MIN 4096

bool wide_init(struct wide *wide, size_t wanted, struct error *err)
{
	const size_t count = max_u64(wanted, CELLS_MIN);
	const size_t size = (count + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	wide->cells = aligned_alloc(HUGE_PAGE, size);
	if (wide->cells == NULL)
		return error_memory(err);
	wide->count = count;
	// Not the last one if it is not full: all of it would count as used.
	(void)madvise((void *)wide->cells, count / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
	memset((void *)wide->cells, 0, count);
	return true;
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
