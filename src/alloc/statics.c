// SPDX-License-Identifier: MIT
#include "alloc/statics.h"

struct search {
	const struct walker_input *input;
	struct pages pages;
	statics_found *found;
	void *context;
	uint64_t start, end; // of the last place a word pointed into
	bool wanted;	     // and whether that is no module's
};

static bool points_outside(struct search *search, uint64_t value)
{
	const struct places *places = search->input->places;
	size_t place;
	if (value - search->start < search->end - search->start)
		return search->wanted;
	if (!places_find(places, value, &place))
		return false;
	search->start = places->spans[place].start;
	search->end = places->spans[place].end;
	search->wanted = places->list[place].type != PLACE_MODULE;
	return search->wanted;
}

static bool data_search(void *context, uint64_t start, uint64_t end)
{
	struct search *search = context;
	const unsigned word = search->pages.word;
	for (uint64_t at = (start + word - 1) & ~(uint64_t)(word - 1);
		at < end && end - at >= word;) {
		const unsigned char *bytes;
		const size_t size =
			(size_t)min_u64(pages_some(&search->pages, at, &bytes), end - at) &
			~(size_t)(word - 1);
		if (size == 0 || walker_stopped(search->input))
			return true;
		for (size_t i = 0; i < size; i += word) {
			const uint64_t value = pages_load(&search->pages, bytes + i);
			if (value >= 0x1000 && points_outside(search, value) &&
				!search->found(search->context, at + i, value))
				return false;
		}
		at += size;
	}
	return true;
}

bool statics_each(
	const struct walker_input *input, uint32_t module, statics_found *found, void *context)
{
	const struct places *places = input->places;
	struct search search = {.input = input, .found = found, .context = context};
	bool ok = pages_init(&search.pages, input->image, 65536);
	for (size_t i = 0; ok && i < places->count; i++)
		if (places->list[i].type == PLACE_MODULE &&
			(module == UINT32_MAX || places->list[i].module == module))
			ok = pages_each_data(input->image, places->spans[i].start,
				places->spans[i].end, data_search, &search);
	pages_deinit(&search.pages);
	return ok;
}
