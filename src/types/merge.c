// SPDX-License-Identifier: MIT
#include "types/merge.h"

#include <stdlib.h>

struct ranked {
	uint64_t value;
	uint32_t id;
};

static int ranked_compare(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	return a->value < b->value ? -1 : a->value > b->value;
}

// Sort the candidates by value. rank[id] becomes the place of each.
static bool candidates_rank(const struct candidates *candidates, struct survey_result *ret,
	uint32_t *rank, struct error *err)
{
	const uint32_t count = candidates->count;
	struct ranked *ranked = calloc((size_t)count + 1, sizeof *ranked);
	ret->list = calloc((size_t)count + 1, sizeof *ret->list);
	if (ranked == NULL || ret->list == NULL) {
		free(ranked);
		return error_memory(err);
	}
	for (uint32_t id = 0; id < count; id++)
		ranked[id] = (struct ranked){candidates->values[id], id};
	qsort(ranked, count, sizeof *ranked, ranked_compare);
	for (uint32_t i = 0; i < count; i++) {
		rank[ranked[i].id] = i;
		ret->list[i].value = ranked[i].value;
	}
	ret->count = count;
	free(ranked);
	return true;
}

static int fact_compare(const void *left, const void *right)
{
	const struct fact *a = left, *b = right;
	if (a->who != b->who)
		return a->who < b->who ? -1 : 1;
	return a->what < b->what ? -1 : a->what > b->what;
}

static bool facts_merge(struct hits *const *hits, unsigned threads, struct survey_result *ret,
	const uint32_t *rank, struct error *err)
{
	size_t count = 0;
	for (unsigned i = 0; i < threads; i++)
		count += hits[i]->facts.used;
	struct fact *list = calloc(count + 1, sizeof *list);
	if (list == NULL)
		return error_memory(err);
	count = 0;
	for (unsigned i = 0; i < threads; i++) {
		struct facts *facts = &hits[i]->facts;
		for (size_t k = 0; k < facts_slots(facts); k++) {
			const struct fact *fact = &facts->list[k];
			if (fact->count == 0)
				continue;
			const enum fact_type type = fact_type(fact);
			uint32_t other = fact_other(fact);
			if ((type == FACT_INNER || type == FACT_BEHIND) && other != NO_ID)
				other = rank[other];
			list[count++] = (struct fact){fact_who(rank[fact_id(fact)], type, other),
				fact->what, fact->count};
		}
		facts_deinit(facts);
	}
	qsort(list, count, sizeof *list, fact_compare);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (kept > 0 && fact_compare(&list[kept - 1], &list[i]) == 0)
			list[kept - 1].count += list[i].count;
		else
			list[kept++] = list[i];
	ret->facts = list;
	ret->fact_count = kept;
	for (size_t i = 0; i < kept; i++) {
		struct candidate *candidate = &ret->list[fact_id(&list[i])];
		if (candidate->fact_count++ == 0)
			candidate->first_fact = i;
		if (fact_type(&list[i]) == FACT_OPEN || fact_type(&list[i]) == FACT_INNER)
			candidate->chained += list[i].count;
	}
	for (uint32_t i = 0; i < ret->count; i++)
		ret->list[i].sites[SITE_HEAP] += ret->list[i].chained;
	return true;
}

static void tallies_merge(
	struct hits *const *hits, unsigned threads, uint32_t id, struct candidate *ret)
{
	for (unsigned i = 0; i < threads; i++) {
		const struct tally *tally = &hits[i]->tallies[id];
		for (size_t site = 0; site < SITE_COUNT; site++)
			ret->sites[site] += tally->sites[site];
		ret->freed += tally->freed;
		only_place_add(&ret->stack, tally->stack);
		only_place_add(&ret->module, tally->module);
		for (uint32_t k = 0; k < tally->examples.count; k++)
			example_add(&ret->examples, &tally->examples.list[k]);
		if (tally->openers.has_alone)
			opener_add_alone(&ret->openers, &tally->openers.alone);
		for (uint32_t k = 0; k < tally->openers.count; k++)
			opener_add(&ret->openers, &tally->openers.list[k]);
	}
}

bool hits_merge(struct hits *const *hits, unsigned threads, const struct candidates *candidates,
	struct error *err, struct survey_result *ret)
{
	uint32_t *rank = calloc((size_t)candidates->count + 1, sizeof *rank);
	bool ok = rank != NULL || error_memory(err);
	for (unsigned i = 0; i < threads; i++) {
		ret->words += hits[i]->words;
		ret->zeros += hits[i]->sifted.zeros;
		ret->texts += hits[i]->sifted.texts;
	}
	ok = ok && candidates_rank(candidates, ret, rank, err);
	for (uint32_t id = 0; ok && id < candidates->count; id++)
		tallies_merge(hits, threads, id, &ret->list[rank[id]]);
	ok = ok && facts_merge(hits, threads, ret, rank, err);
	free(rank);
	return ok;
}
