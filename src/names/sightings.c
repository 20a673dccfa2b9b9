// SPDX-License-Identifier: MIT
#include "names/sightings.h"

#include <stdlib.h>
#include <string.h>

#include "base/guard.h"

// So much of the memory is looked through, evenly spread: what is frequent is there.
#define SAMPLE_MAX ((uint64_t)64 << 20)
#define BLOCK ((size_t)64 << 10)
// Different values: a table twice as large takes 4 MiB.
#define SLOTS ((size_t)1 << 17)
// Values near one that are compared with it, to each side.
#define NEAR_MAX 512
#define NEAR_DISTANCE ((uint64_t)256 << 10)
// Of them, those that are as often there, up to this factor.
#define ALIKE 4

struct sampler {
	const struct image *image;
	uint64_t start, end;
	unsigned word;
	enum byte_order order;
	struct sighting *slots; // SLOTS; owned
	size_t used;
};

static bool is_text(uint64_t word, unsigned size)
{
	for (unsigned i = 0; i < size; i++, word >>= 8)
		if ((word & 0xff) < ' ' || (word & 0xff) >= 0x7f)
			return false;
	return true;
}

static void sampler_add(struct sampler *sampler, uint64_t value, bool behind_text)
{
	size_t at = (size_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS;
	while (sampler->slots[at].count != 0 && sampler->slots[at].value != value)
		at = (at + 1) % SLOTS;
	struct sighting *slot = &sampler->slots[at];
	if (slot->count == 0) {
		// A table that is nearly full is slow; what is frequent is in it by now.
		if (sampler->used >= SLOTS / 4 * 3)
			return;
		sampler->used++;
		slot->value = value;
	}
	slot->count += slot->count < UINT32_MAX;
	slot->behind_text += behind_text && slot->behind_text < UINT32_MAX;
}

static void sampler_look(struct sampler *sampler, const unsigned char *bytes, size_t size)
{
	uint64_t before = 0;
	for (size_t i = 0; i + sampler->word <= size; i += sampler->word) {
		const uint64_t value = word_load(bytes + i, sampler->word, sampler->order);
		if (value - sampler->start < sampler->end - sampler->start)
			sampler_add(sampler, value, is_text(before, sampler->word));
		before = value;
	}
}

static bool span_counts(const struct span *span)
{
	return span->kind == KIND_HEAP || span->kind == KIND_ANON;
}

static bool memory_sample(struct sampler *sampler, const struct places *places)
{
	unsigned char *block AUTO_FREE = malloc(BLOCK);
	uint64_t all = 0, number = 0;
	if (block == NULL)
		return false;
	for (size_t i = 0; i < places->count; i++)
		if (span_counts(&places->spans[i]))
			all = add_saturated(all, places->spans[i].end - places->spans[i].start);
	const uint64_t stride = all / SAMPLE_MAX + 1;
	for (size_t i = 0; i < places->count; i++) {
		const struct span *span = &places->spans[i];
		uint64_t at = span->start;
		if (!span_counts(span))
			continue;
		// What a hostile dump says to be there need not be.
		while ((at = image_next(sampler->image, at)) < span->end) {
			const size_t size = image_read(
				sampler->image, at, block, (size_t)min_u64(BLOCK, span->end - at));
			if (size == 0)
				break;
			if (number++ % stride == 0)
				sampler_look(sampler, block, size);
			at += max_u64(size, 8);
		}
	}
	return true;
}

static int sighting_compare(const void *left, const void *right)
{
	const struct sighting *a = left, *b = right;
	return (a->value > b->value) - (a->value < b->value);
}

bool sightings_find(const struct image *image, const struct places *places, uint64_t start,
	uint64_t end, enum fitness (*fit)(const void *context, uint64_t address),
	const void *context, struct sightings *ret)
{
	struct sampler sampler = {
		.image = image,
		.start = start,
		.end = end,
		.word = image_info(image)->elf_class / 8,
		.order = image_info(image)->elf_order,
		.slots = calloc(SLOTS, sizeof *sampler.slots),
	};
	*ret = (struct sightings){0};
	if (sampler.slots == NULL || !memory_sample(&sampler, places)) {
		free(sampler.slots);
		return false;
	}
	size_t kept = 0;
	for (size_t i = 0; i < SLOTS; i++)
		if (sampler.slots[i].count > 0)
			sampler.slots[kept++] = sampler.slots[i];
	for (size_t i = 0; i < kept; i++)
		sampler.slots[i].fitness = fit(context, sampler.slots[i].value);
	qsort(sampler.slots, kept, sizeof *sampler.slots, sighting_compare);
	*ret = (struct sightings){sampler.slots, kept};
	return true;
}

void sightings_deinit(struct sightings *sightings)
{
	free(sightings->list);
	*sightings = (struct sightings){0};
}

bool sightings_are_chance(const struct sightings *sightings, uint64_t value, unsigned likelihood)
{
	const struct sighting *list = sightings->list;
	size_t low = 0, high = sightings->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (list[middle].value < value)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == sightings->count || list[low].value != value)
		return false;
	const struct sighting *own = &list[low];
	if (own->behind_text >= own->count - own->behind_text)
		return true;
	const size_t first = low > NEAR_MAX ? low - NEAR_MAX : 0;
	const size_t last = (size_t)min_u64(sightings->count, low + NEAR_MAX);
	uint64_t pointers = 0, chances = 0;
	for (size_t i = first; i < last; i++) {
		const struct sighting *other = &list[i];
		const uint64_t distance =
			other->value > value ? other->value - value : value - other->value;
		if (distance > NEAR_DISTANCE || other->count / ALIKE > own->count ||
			own->count / ALIKE > other->count)
			continue;
		pointers += other->fitness == FITNESS_POINTER;
		chances += other->fitness == FITNESS_CHANCE;
	}
	return chances * 2 >= pointers * likelihood;
}
