// SPDX-License-Identifier: MIT
#include "types/evidence.h"

#include <stdlib.h>
#include <string.h>

#include "types/remains.h"

// How deep objects lie inside each other, at most.
#define DEPTH_MAX 8
// Fewer objects than this are not said to lie inside others because of where they are.
#define INSIDE_MIN 16

enum { RANK_NONE, RANK_UNNAMED, RANK_NEAR, RANK_SYMBOL, RANK_CLASS };

// ---- names

static unsigned entry_rank(const struct image *image, const struct entry *entry)
{
	if (entry->type != IDENTITY_CLASS && entry->module != NULL &&
		address_is_bin(image, entry->hits->value))
		return RANK_NONE;
	switch (entry->type) {
	case IDENTITY_CLASS:
		return RANK_CLASS;
	case IDENTITY_OBJECT:
	case IDENTITY_FUNCTION:
		return entry->offset == 0 ? RANK_SYMBOL : RANK_NEAR;
	case IDENTITY_CONSTRUCTION:
		return RANK_NONE;
	case IDENTITY_NONE:
		break;
	}
	return RANK_UNNAMED;
}

static bool entries_identify(struct evidence *evidence, const struct image *image,
	struct names *names, struct error *err)
{
	const struct survey_result *pass = evidence->pass;
	for (uint32_t i = 0; i < pass->count; i++) {
		struct entry *entry = &evidence->entries[i];
		const struct identity identity = names_identify(names, pass->list[i].value);
		*entry = (struct entry){
			.hits = &pass->list[i],
			.type = identity.type,
			.module = identity.module,
			.middle = identity.inside,
			.offset = identity.offset,
			.outer = NO_ID,
		};
		if (identity.name != NULL && (entry->name = strdup(identity.name)) == NULL)
			return error_memory(err);
		entry->rank = identity.inside ? RANK_NONE : entry_rank(image, entry);
	}
	return true;
}

// ---- which chunks belong to whom

static const struct fact *facts_of(const struct evidence *evidence, uint32_t id, size_t *count)
{
	const struct candidate *candidate = &evidence->pass->list[id];
	*count = candidate->fact_count;
	return &evidence->pass->facts[candidate->first_fact];
}

static int open_compare(const void *left, const void *right)
{
	const struct open *a = left, *b = right;
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

// Sort, add up what is alike, and tell the entries.
static void opens_settle(struct evidence *evidence)
{
	struct open *opens = evidence->opens;
	size_t kept = 0;
	qsort(opens, evidence->open_count, sizeof *opens, open_compare);
	for (size_t i = 0; i < evidence->open_count; i++)
		if (opens[i].count == 0)
			continue;
		else if (kept > 0 && open_compare(&opens[kept - 1], &opens[i]) == 0)
			opens[kept - 1].count += opens[i].count;
		else
			opens[kept++] = opens[i];
	evidence->open_count = kept;
	for (uint32_t i = 0; i < evidence->pass->count; i++)
		evidence->entries[i].open_count = 0;
	for (size_t i = 0; i < kept; i++) {
		struct entry *entry = &evidence->entries[opens[i].id];
		if (entry->open_count++ == 0)
			entry->first_open = i;
	}
}

// A chunk is that of its first candidate, unless that has no name and a later one has.
static bool fact_is_claim(const struct evidence *evidence, const struct fact *fact)
{
	const uint32_t other = fact_other(fact);
	return fact_type(fact) == FACT_INNER && other != NO_ID && other != fact_id(fact) &&
	       fact_offset(fact) <= OFFSET_MAX &&
	       evidence->entries[fact_id(fact)].rank > evidence->entries[other].rank &&
	       (evidence->entries[fact_id(fact)].rank >= RANK_SYMBOL ||
		       evidence->entries[other].rank == RANK_NONE) &&
	       evidence->entries[other].rank < RANK_SYMBOL;
}

struct claim {
	const struct fact *fact;
	unsigned rank;
};

static int claim_compare(const void *left, const void *right)
{
	const struct claim *a = left, *b = right;
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (a->fact->count != b->fact->count)
		return a->fact->count > b->fact->count ? -1 : 1;
	return a->fact < b->fact ? -1 : a->fact > b->fact;
}

// Move the chunks that a claim asks for, as far as they are still there.
static void claim_grant(struct evidence *evidence, const struct fact *fact)
{
	const struct entry *from = &evidence->entries[fact_other(fact)];
	uint64_t wanted = fact->count;
	for (size_t i = 0; i < from->open_count && wanted > 0; i++) {
		struct open *open = &evidence->opens[from->first_open + i];
		if (open->size != fact_size(fact) || open->count == 0)
			continue;
		const uint64_t moved = min_u64(open->count, wanted);
		open->count -= moved;
		wanted -= moved;
	}
	if (wanted < fact->count)
		evidence->opens[evidence->open_count++] = (struct open){
			fact_id(fact), fact_offset(fact), fact_size(fact), fact->count - wanted};
}

static bool opens_gather(struct evidence *evidence, struct error *err)
{
	const struct survey_result *pass = evidence->pass;
	size_t claims = 0, opens = 0;
	for (size_t i = 0; i < pass->fact_count; i++) {
		claims += fact_is_claim(evidence, &pass->facts[i]);
		opens += fact_type(&pass->facts[i]) == FACT_OPEN;
	}
	struct claim *list = calloc(claims + 1, sizeof *list);
	evidence->opens = calloc(opens + claims + 1, sizeof *evidence->opens);
	if (list == NULL || evidence->opens == NULL) {
		free(list);
		return error_memory(err);
	}
	claims = 0;
	for (size_t i = 0; i < pass->fact_count; i++) {
		const struct fact *fact = &pass->facts[i];
		if (fact_is_claim(evidence, fact))
			list[claims++] =
				(struct claim){fact, evidence->entries[fact_id(fact)].rank};
		if (fact_type(fact) == FACT_OPEN)
			evidence->opens[evidence->open_count++] = (struct open){
				fact_id(fact), fact_offset(fact), fact_size(fact), fact->count};
	}
	opens_settle(evidence);
	qsort(list, claims, sizeof *list, claim_compare);
	for (size_t i = 0; i < claims; i++)
		claim_grant(evidence, list[i].fact);
	opens_settle(evidence);
	free(list);
	return true;
}

// ---- objects in memory without known chunks

static void entry_look(struct evidence *evidence, uint32_t id)
{
	struct entry *entry = &evidence->entries[id];
	const struct candidate *hits = &evidence->pass->list[id];
	size_t count;
	const struct fact *facts = facts_of(evidence, id, &count);
	entry->alone = hits->sites[SITE_HEAP] + hits->sites[SITE_ANON] - hits->chained;
	entry->distance = distance_find(facts, count, 0);
	entry->element = distance_find(facts, count, NO_ID);
	entry->arrays = arrays_find(&evidence->pass->classes, facts, count, entry->distance.size);
	for (size_t i = 0; i < count; i++) {
		const struct fact *fact = &facts[i];
		if (fact_type(fact) == FACT_HEADER && fact->count > entry->headers) {
			entry->headers = fact->count;
			entry->header = fact_size(fact);
		}
		if (fact_type(fact) == FACT_INNER && fact_other(fact) == id)
			entry->elements += fact->count;
	}
}

bool entry_has_header(const struct entry *entry)
{
	return entry->headers >= INSIDE_MIN && entry->headers * 10 >= entry->alone * 9;
}

// The size of an object without a known chunk; 0: unknown.
static uint64_t entry_size(const struct entry *entry)
{
	return entry_has_header(entry) ? entry->header : entry->distance.size;
}

// Whether a place at a distance from a candidate is still inside the object that the candidate is
// in. Follows what is known so far of outer objects.
static bool entry_holds(const struct evidence *evidence, uint32_t id, uint64_t distance)
{
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		const struct entry *entry = &evidence->entries[id];
		if (entry->outer == NO_ID)
			return distance < entry_size(entry);
		distance += entry->outer_distance;
		id = entry->outer;
	}
	return false;
}

// What the hits of a candidate mostly lie inside of. Entries are looked at in the order of their
// distances, so that what is outer is known before what is inner.
static void entry_find_outer(struct evidence *evidence, uint32_t id)
{
	struct entry *entry = &evidence->entries[id];
	size_t count;
	const struct fact *facts = facts_of(evidence, id, &count);
	const struct fact *best = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct fact *fact = &facts[i];
		if (fact_type(fact) != FACT_BEHIND || fact_other(fact) == id ||
			(best != NULL && best->count >= fact->count))
			continue;
		best = fact;
	}
	if (best == NULL || best->count * 2 < entry->alone)
		return;
	const struct entry *outer = &evidence->entries[fact_other(best)];
	// Most objects of the outer type have one.
	if (best->count * 2 < outer->alone)
		return;
	entry->outer = fact_other(best);
	entry->outer_distance = fact_size(best);
}

static void entry_count_inside(struct evidence *evidence, uint32_t id)
{
	struct entry *entry = &evidence->entries[id];
	size_t count;
	const struct fact *facts = facts_of(evidence, id, &count);
	for (size_t i = 0; i < count; i++) {
		const struct fact *fact = &facts[i];
		if (fact_type(fact) != FACT_BEHIND || fact_other(fact) == id)
			continue;
		const struct entry *outer = &evidence->entries[fact_other(fact)];
		// A neighbour that is near by chance comes in all distances.
		if (fact->count >= INSIDE_MIN &&
			fact->count * 4 >= min_u64(outer->alone, entry->alone) &&
			entry_holds(evidence, fact_other(fact), fact_size(fact)))
			entry->inside += fact->count;
	}
}

// Two fields of a struct each lie behind the other: the second one behind the first one at once,
// the first one of the next object behind the second one farther away. So of what goes round the
// farthest step is none. If two are as far, objects of two types alternate.
static void entry_cut_round(struct evidence *evidence, uint32_t id)
{
	struct entry *entries = evidence->entries;
	uint32_t at = entries[id].outer, farthest = id;
	bool alike = false;
	for (unsigned depth = 0; depth < DEPTH_MAX && at != NO_ID && at != id; depth++) {
		const uint64_t distance = entries[at].outer_distance;
		alike = distance == entries[farthest].outer_distance;
		if (distance > entries[farthest].outer_distance)
			farthest = at;
		at = entries[at].outer;
	}
	if (at != id)
		return;
	if (alike)
		entries[entries[farthest].outer].outer = NO_ID;
	entries[farthest].outer = NO_ID;
}

// A chain of outer objects that leads to one that is too small is none.
static void entries_cut_chains(struct evidence *evidence)
{
	for (uint32_t i = 0; i < evidence->pass->count; i++)
		if (evidence->entries[i].outer != NO_ID)
			entry_cut_round(evidence, i);
	for (uint32_t i = 0; i < evidence->pass->count; i++) {
		struct entry *entry = &evidence->entries[i];
		if (entry->outer != NO_ID &&
			!entry_holds(evidence, entry->outer, entry->outer_distance))
			entry->outer = NO_ID;
	}
}

bool evidence_init(struct evidence *evidence, const struct image *image,
	const struct survey_result *pass, struct names *names, struct error *err)
{
	*evidence = (struct evidence){.pass = pass};
	evidence->entries = calloc((size_t)pass->count + 1, sizeof *evidence->entries);
	if (evidence->entries == NULL)
		return error_memory(err);
	if (!entries_identify(evidence, image, names, err) || !opens_gather(evidence, err)) {
		evidence_deinit(evidence);
		return false;
	}
	for (uint32_t i = 0; i < pass->count; i++)
		entry_look(evidence, i);
	for (uint32_t i = 0; i < pass->count; i++)
		entry_find_outer(evidence, i);
	entries_cut_chains(evidence);
	for (uint32_t i = 0; i < pass->count; i++)
		entry_count_inside(evidence, i);
	return true;
}

void evidence_deinit(struct evidence *evidence)
{
	for (uint32_t i = 0; evidence->entries != NULL && i < evidence->pass->count; i++)
		free(evidence->entries[i].name);
	free(evidence->entries);
	free(evidence->opens);
	*evidence = (struct evidence){0};
}
