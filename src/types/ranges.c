// SPDX-License-Identifier: MIT
#include "types/ranges.h"

#include <stdlib.h>
#include <string.h>

// A map of this many bits stays in the first-level cache.
#define MAP_BITS_MAX ((uint64_t)1 << 17)

static bool range_counts(const struct modules *modules, const struct module_range *range)
{
	return modules->list[range->module].state != MODULE_DATA;
}

// A gap that is narrower costs more as a comparison for each word than as false matches.
#define GAP_MIN ((uint64_t)16 << 20)

static uint64_t gap_before(const struct stretch *stretch)
{
	return stretch->start - (stretch[-1].start + stretch[-1].length);
}

// Make one of a stretch and the one before it.
static void stretches_join(struct stretch *stretches, size_t *count, size_t at)
{
	stretches[at - 1].length =
		stretches[at].start + stretches[at].length - stretches[at - 1].start;
	(*count)--;
	memmove(&stretches[at], &stretches[at + 1], (*count - at) * sizeof *stretches);
}

// Put all into one stretch that is nearer to each other than GAP_MIN, or than the widest gaps.
static void ranges_gather(struct ranges *ranges)
{
	const struct modules *modules = ranges->modules;
	// One more than there may be, then the two that are nearest become one.
	struct stretch all[STRETCHES_MAX + 1] = {0};
	size_t count = 0;
	for (size_t i = 0; i < modules->range_count; i++) {
		const struct module_range *range = &modules->ranges[i];
		if (!range_counts(modules, range))
			continue;
		all[count++] = (struct stretch){
			.start = range->start, .length = range->end - range->start};
		size_t best = count - 1;
		for (size_t k = 1; k < count; k++)
			if (best == 0 || gap_before(&all[k]) < gap_before(&all[best]))
				best = k;
		if (best > 0 && (count > STRETCHES_MAX || gap_before(&all[best]) < GAP_MIN))
			stretches_join(all, &count, best);
	}
	memcpy(ranges->stretches, all, sizeof ranges->stretches);
	ranges->count = count;
}

static bool stretch_draw(struct stretch *stretch, const struct modules *modules, struct error *err)
{
	stretch->shift = 12;
	while (stretch->length >> stretch->shift >= MAP_BITS_MAX)
		stretch->shift++;
	const uint64_t bits = (stretch->length >> stretch->shift) + 1;
	stretch->map = calloc((size_t)(bits / 64 + 1), sizeof *stretch->map);
	if (stretch->map == NULL)
		return error_memory(err);
	for (size_t i = 0; i < modules->range_count; i++) {
		const struct module_range *range = &modules->ranges[i];
		if (!range_counts(modules, range) || range->start < stretch->start ||
			range->end - stretch->start > stretch->length)
			continue;
		const uint64_t last = (range->end - 1 - stretch->start) >> stretch->shift;
		uint64_t bit = (range->start - stretch->start) >> stretch->shift;
		for (; bit <= last; bit++)
			stretch->map[bit / 64] |= UINT64_C(1) << (bit % 64);
	}
	return true;
}

bool ranges_init(struct ranges *ranges, const struct modules *modules, struct error *err)
{
	*ranges = (struct ranges){.modules = modules};
	ranges_gather(ranges);
	for (size_t i = 0; i < ranges->count; i++)
		if (!stretch_draw(&ranges->stretches[i], modules, err)) {
			ranges_deinit(ranges);
			return false;
		}
	return true;
}

void ranges_deinit(struct ranges *ranges)
{
	for (size_t i = 0; i < ranges->count; i++)
		free(ranges->stretches[i].map);
	ranges->count = 0;
}

bool ranges_have(const struct ranges *ranges, uint64_t value)
{
	for (size_t i = 0; i < ranges->count; i++) {
		const struct stretch *stretch = &ranges->stretches[i];
		const uint64_t inside = value - stretch->start;
		if (inside >= stretch->length)
			continue;
		const uint64_t bit = inside >> stretch->shift;
		return (stretch->map[bit / 64] >> (bit % 64) & 1) != 0;
	}
	return false;
}
