// SPDX-License-Identifier: MIT
#include "count/gather.h"

#include <stdlib.h>

#include "base/huge.h"

bool gather_init(struct gather *gather, size_t slots, struct error *err)
{
	gather->entries = huge_alloc(slots * sizeof *gather->entries);
	gather->slots = slots;
	gather->used = 0;
	return gather->entries != NULL || error_memory(err);
}

void gather_deinit(struct gather *gather)
{
	free(gather->entries);
	gather->entries = NULL;
}

static int rank_compare(const void *left, const void *right)
{
	const count_rank a = *(const count_rank *)left, b = *(const count_rank *)right;
	return a < b ? -1 : a > b;
}

// Enough to find the middle of any number of ranks closely.
#define SAMPLE 1023

// A rank below which about half of the table lies.
static count_rank gather_middle(const struct gather *gather)
{
	count_rank ranks[SAMPLE];
	size_t count = 0;
	const size_t step = gather->slots / SAMPLE + 1;
	for (size_t i = 0; i < gather->slots && count < SAMPLE; i += step)
		if (gather->entries[i].count != 0)
			ranks[count++] = gather->rank(gather->context, gather->entries[i].word);
	qsort(ranks, count, sizeof *ranks, rank_compare);
	return count > 0 ? ranks[count / 2] : 0;
}

static void low_raise(_Atomic count_rank *low, count_rank to)
{
	count_rank now = atomic_load(low);
	while (now < to && !atomic_compare_exchange_weak(low, &now, to))
		;
}

static size_t slot_after(const struct gather *gather, size_t at)
{
	return at + 1 < gather->slots ? at + 1 : 0;
}

static size_t gather_home(const struct gather *gather, uint64_t word)
{
	// Not the hash that is part of the rank: those of a window are next to each other.
	return (size_t)(hash_third(gather->hash, word) * (uint64_t)gather->slots >> 32);
}

// Take the entry out and close the gap: whatever was pushed past it by its presence moves up.
static void gather_remove(struct gather *gather, size_t gap)
{
	struct gather_entry *entries = gather->entries;
	for (size_t at = slot_after(gather, gap); entries[at].count != 0;
		at = slot_after(gather, at)) {
		const size_t home = gather_home(gather, entries[at].word);
		// Whether home is in (gap, at], around the end of the table.
		const bool stays = gap < at ? home > gap && home <= at : home > gap || home <= at;
		if (stays)
			continue;
		entries[gap] = entries[at];
		gap = at;
	}
	entries[gap].count = 0;
	gather->used--;
}

static void gather_narrow(struct gather *gather)
{
	const size_t enough = gather->used - gather->used / 4;
	// Another thread may have narrowed the window enough.
	for (count_rank low = atomic_load(gather->low);; low = atomic_load(gather->low)) {
		for (size_t i = 0; i < gather->slots; i++)
			while (gather->entries[i].count != 0 &&
				gather->rank(gather->context, gather->entries[i].word) < low)
				gather_remove(gather, i);
		if (gather->used <= enough)
			break;
		// Not yet: once more, above the middle, or past a rank that all words share.
		const count_rank middle = gather_middle(gather);
		low_raise(gather->low, middle > low ? middle : low + 1);
	}
}

void gather_add(struct gather *gather, uint64_t word, uint64_t times)
{
	size_t at = gather_home(gather, word);
	while (gather->entries[at].count != 0 && gather->entries[at].word != word)
		at = slot_after(gather, at);
	struct gather_entry *entry = &gather->entries[at];
	entry->count += times;
	if (entry->count != times)
		return;
	entry->word = word;
	// Three quarters: probes stay short.
	if (++gather->used > gather->slots / 4 * 3)
		gather_narrow(gather);
}

uint64_t gather_count(const struct gather *gather, uint64_t word)
{
	size_t at = gather_home(gather, word);
	while (gather->entries[at].count != 0 && gather->entries[at].word != word)
		at = slot_after(gather, at);
	return gather->entries[at].count;
}

static int entry_compare(const void *left, const void *right)
{
	const struct gather_entry *a = left, *b = right;
	return a->word < b->word ? -1 : a->word > b->word;
}

size_t gather_list(struct gather *gather)
{
	const count_rank low = atomic_load(gather->low);
	size_t count = 0;
	for (size_t i = 0; i < gather->slots; i++) {
		const struct gather_entry entry = gather->entries[i];
		if (entry.count != 0 && gather->rank(gather->context, entry.word) >= low)
			gather->entries[count++] = entry;
	}
	qsort(gather->entries, count, sizeof *gather->entries, entry_compare);
	return count;
}
