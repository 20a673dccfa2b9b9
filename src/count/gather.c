// SPDX-License-Identifier: MIT
#include "count/gather.h"

#include <stdlib.h>

bool gather_init(struct gather *gather, size_t slots, struct error *err)
{
	gather->entries = calloc(slots, sizeof *gather->entries);
	gather->slots = slots;
	gather->used = 0;
	return gather->entries != NULL || error_memory(err);
}

void gather_deinit(struct gather *gather)
{
	free(gather->entries);
	gather->entries = NULL;
}

// The entry of a word, or the free one where it belongs.
static struct gather_entry *gather_find(
	struct gather_entry *entries, size_t slots, const struct hash *hash, uint64_t word)
{
	// Not the hash that is part of the rank: those of a window are next to each other.
	const uint64_t hashed = hash_third(hash, word);
	size_t at = (size_t)(hashed * slots >> 32);
	while (entries[at].count != 0 && entries[at].word != word)
		at = at + 1 < slots ? at + 1 : 0;
	return &entries[at];
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

static bool gather_narrow(struct gather *gather, struct error *err)
{
	const struct gather old = *gather;
	const size_t full = old.used;
	if (!gather_init(gather, old.slots, err)) {
		*gather = old;
		return false;
	}
	// Another thread may have narrowed the window enough.
	for (count_rank low = atomic_load(old.low);; low = atomic_load(old.low)) {
		for (size_t i = 0; i < old.slots; i++) {
			const struct gather_entry *entry = &old.entries[i];
			if (entry->count == 0 || gather->rank(gather->context, entry->word) < low)
				continue;
			*gather_find(gather->entries, gather->slots, gather->hash, entry->word) =
				*entry;
			gather->used++;
		}
		if (gather->used <= full - full / 4)
			break;
		// Not yet: once more, above the middle, or past a rank that all words share.
		const count_rank middle = gather_middle(gather);
		low_raise(old.low, middle > low ? middle : low + 1);
		for (size_t i = 0; i < gather->slots; i++)
			gather->entries[i].count = 0;
		gather->used = 0;
	}
	free(old.entries);
	return true;
}

bool gather_add(struct gather *gather, uint64_t word, struct error *err)
{
	struct gather_entry *entry =
		gather_find(gather->entries, gather->slots, gather->hash, word);
	if (entry->count++ != 0)
		return true;
	entry->word = word;
	// Three quarters: probes stay short.
	if (++gather->used <= gather->slots / 4 * 3)
		return true;
	return gather_narrow(gather, err);
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
