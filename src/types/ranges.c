// SPDX-License-Identifier: MIT
#include "types/ranges.h"

#include <stdlib.h>

// A map of this many bits stays in the first-level cache.
#define MAP_BITS_MAX ((uint64_t)1 << 17)

static bool range_counts(const struct modules *modules, const struct module_range *range)
{
	return modules->list[range->module].state != MODULE_DATA;
}

// Put all that is nearer to each other than the STRETCHES_MAX - 1 widest gaps into one stretch.
static void ranges_gather(struct ranges *ranges)
{
	const struct modules *modules = ranges->modules;
	for (size_t i = 0; i < modules->range_count; i++) {
		const struct module_range *range = &modules->ranges[i];
		if (!range_counts(modules, range))
			continue;
		// One more than there may be, then the two that are nearest become one.
		struct stretch all[STRETCHES_MAX + 1];
		memcpy(all, ranges->stretches, sizeof ranges->stretches);
		all[ranges->count++] = (struct stretch){
			.start = range->start, .length = range->end - range->start};
		if (ranges->count > STRETCHES_MAX) {
			size_t best = 1;
			uint64_t least = UINT64_MAX;
			for (size_t k = 1; k < ranges->count; k++) {
				const uint64_t gap =
					all[k].start - (all[k - 1].start + all[k - 1].length);
				if (gap < least) {
					least = gap;
					best = k;
				}
			}
			all[best - 1].length =
				all[best].start + all[best].length - all[best - 1].start;
			for (size_t k = best; k + 1 < ranges->count; k++)
				all[k] = all[k + 1];
			ranges->count--;
		}
		memcpy(ranges->stretches, all, sizeof ranges->stretches);
	}
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

// The loop for one word size and byte order: no branch depends on what the words are. Without a
// stretch start is 0 and length is 0.
#define MARK(type, swap)                                                                           \
	do {                                                                                       \
		const type *word = words;                                                          \
		for (size_t i = 0; i < count; i++) {                                               \
			const uint64_t value = swap(word[i]);                                      \
			const uint64_t match = (value - first.start < first.length) |              \
					       (value - second.start < second.length) |            \
					       (value - third.start < third.length);               \
			ret[i / 64] |= match << (i % 64);                                          \
			zeros += value == 0;                                                       \
		}                                                                                  \
	} while (0)

#define PLAIN(value) (value)

size_t ranges_mark(const struct ranges *ranges, const void *words, size_t count, unsigned word_size,
	enum byte_order order, uint64_t *ret)
{
	const struct stretch first = ranges->stretches[0], second = ranges->stretches[1],
			     third = ranges->stretches[2];
	size_t zeros = 0;
	memset(ret, 0, MARKS_WORDS(count) * sizeof *ret);
	if (word_size == 8 && order == ORDER_NATIVE)
		MARK(uint64_t, PLAIN);
	else if (word_size == 8)
		MARK(uint64_t, __builtin_bswap64);
	else if (order == ORDER_NATIVE)
		MARK(uint32_t, PLAIN);
	else
		MARK(uint32_t, __builtin_bswap32);
	return zeros;
}

ranges_mark_function *ranges_mark_for(enum cpu_level level)
{
#ifdef __x86_64__
	if (level == CPU_AVX2)
		return ranges_mark_avx2;
#endif
	(void)level;
	return ranges_mark;
}
