// SPDX-License-Identifier: MIT
#include "types/facts.h"

#include <stdlib.h>

#define SLOT_BITS_MIN 12

bool facts_init(struct facts *facts, const struct hash *hash, size_t memory, struct error *err)
{
	// A half of the memory: while the table grows there are two, of one and two parts.
	const size_t slots = memory / 2 / sizeof *facts->list;
	*facts = (struct facts){.shift = 64 - SLOT_BITS_MIN, .hash = *hash};
	facts->most = ((size_t)1 << (63 - __builtin_clzll(slots | 1))) / 4 * 3;
	facts->list = calloc(facts_slots(facts), sizeof *facts->list);
	return facts->list != NULL || error_memory(err);
}

void facts_deinit(struct facts *facts)
{
	free(facts->list);
	facts->list = NULL;
}

static struct fact *facts_place(const struct facts *facts, uint64_t who, uint64_t what)
{
	const size_t mask = facts_slots(facts) - 1;
	size_t at = facts_slot(facts, who, what);
	for (;; at = (at + 1) & mask) {
		struct fact *fact = &facts->list[at];
		if (fact->count == 0 || (fact->who == who && fact->what == what))
			return fact;
	}
}

static bool facts_grow(struct facts *facts)
{
	struct facts grown = *facts;
	grown.shift--;
	grown.list = calloc(facts_slots(&grown), sizeof *grown.list);
	if (grown.list == NULL)
		return false;
	for (size_t i = 0; i < facts_slots(facts); i++)
		if (facts->list[i].count != 0)
			*facts_place(&grown, facts->list[i].who, facts->list[i].what) =
				facts->list[i];
	free(facts->list);
	*facts = grown;
	return true;
}

bool facts_count_far(struct facts *facts, uint64_t who, uint64_t what, uint64_t times)
{
	struct fact *fact = facts_place(facts, who, what);
	if (fact->count == 0) {
		if (facts->used >= facts_slots(facts) / 4 * 3) {
			if (facts->used >= facts->most || !facts_grow(facts))
				return false;
			fact = facts_place(facts, who, what);
		}
		facts->used++;
		fact->who = who;
		fact->what = what;
	}
	fact->count += times;
	// The frequent ones move to where facts_count looks first. All entries between are in use,
	// so both will be found.
	struct fact *home = &facts->list[facts_slot(facts, who, what)];
	if (home->count < fact->count) {
		const struct fact moved = *home;
		*home = *fact;
		*fact = moved;
	}
	return true;
}
