// SPDX-License-Identifier: MIT
//
// Who has the pointers to blocks that tell nothing themselves: objects of a type, blocks of a size,
// or a variable. All words of memory are compared with the addresses of the samples.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "types/grouping.h"

// Groups without a rule that are looked at; if they have less than one in so many of the bytes of
// all, none.
#define KEPT_MAX 256
#define KEPT_SHARE 64
// Words that are remembered. More come only where a value is a pointer by chance.
#define FOUND_MAX ((size_t)1 << 18)
#define FOUND_OF_ONE 16
#define FILTER_BITS 17
#define MOST 50
// A pointer into so many bytes at the beginning of a block is one to it: what begins with a header
// of its own, as strings often do, is pointed at behind that.
#define HEAD_SIZE 16
// Places in arrays differ.
#define OFFSET_ANY UINT64_MAX
#define BEGINNING ((size_t)OFFSET_MAX + 8)

enum keeper_kind { KEEPER_OBJECT, KEEPER_BLOCK, KEEPER_VARIABLE };

// Where a pointer is: in an object with a word that has a row, a block of a size, or a module.
struct keeper {
	enum keeper_kind kind;
	uint64_t what;	 // the word; the size; the address
	uint64_t offset; // in the object or the block; OFFSET_ANY: at several
};

struct found {
	uint32_t group;
	uint32_t sample;
	struct keeper keeper;
};

struct wanted {
	uint64_t address;
	uint32_t group, sample;
	uint32_t found; // times
};

struct search {
	struct groups *groups;
	struct wanted *list; // sorted by address; owned
	size_t count;
	uint64_t *filter;    // a bit for each hash of an address; owned
	struct found *found; // owned
	size_t found_count;
	pthread_mutex_t lock; // for what is found
};

// The same for all addresses in the head of a block.
static size_t filter_bit(uint64_t address)
{
	return (size_t)((address / HEAD_SIZE) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FILTER_BITS));
}

// The block that value points at the head of.
static struct wanted *wanted_find(const struct search *search, uint64_t value)
{
	size_t low = 0, high = search->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (search->list[middle].address <= value)
			low = middle + 1;
		else
			high = middle;
	}
	// The last one that is not behind it. The filter knows none that crosses a multiple.
	return low > 0 && value - search->list[low - 1].address < HEAD_SIZE ? &search->list[low - 1]
									    : NULL;
}

// What has the word at address; false: nothing that says more.
static bool keeper_at(const struct groups *groups, uint64_t address, struct keeper *ret)
{
	const struct heap *heap = groups->options->heap;
	const struct heap_region *region = heap_region_at(heap, address);
	unsigned char bytes[BEGINNING];
	if (region == NULL) {
		*ret = (struct keeper){KEEPER_VARIABLE, address, 0};
		return modules_find(groups->ranges.modules, address) != NULL;
	}
	const size_t slot = lookup_start(&groups->lookup, region_slot(region, address));
	if (!heap_is_used(heap, slot))
		return false;
	const uint64_t start = region_address(region, slot);
	const size_t end = region_end_slot(region);
	const size_t next = lookup_next(&groups->lookup, slot, end);
	const uint64_t size = next == end ? region->end + region->lead - start
					  : region_address(region, next) - start;
	const size_t got = image_read(
		groups->image, start, bytes, (size_t)min_u64(sizeof bytes, region->end - start));
	*ret = (struct keeper){KEEPER_BLOCK, size, address - start};
	if (groups_row_of(groups, bytes, got, &ret->what))
		ret->kind = KEEPER_OBJECT;
	return true;
}

static void search_note(struct search *search, struct wanted *wanted, uint64_t address)
{
	struct keeper keeper;
	if (!keeper_at(search->groups, address, &keeper))
		return;
	pthread_mutex_lock(&search->lock);
	if (wanted->found < FOUND_OF_ONE && search->found_count < FOUND_MAX) {
		wanted->found++;
		search->found[search->found_count++] =
			(struct found){wanted->group, wanted->sample, keeper};
	}
	pthread_mutex_unlock(&search->lock);
}

static void piece_search(
	void *context, unsigned thread, const struct view *view, const struct parts *parts)
{
	struct search *search = context;
	const struct image_info *info = image_info(search->groups->image);
	const unsigned word = info->word_size;
	const uint64_t first = search->list[0].address;
	const uint64_t length = search->list[search->count - 1].address - first + HEAD_SIZE;
	(void)thread;
	(void)parts;
	for (size_t at = 0; at + word <= view->size; at += word) {
		const uint64_t value = word_load(view->bytes + at, word, info->order);
		if (value - first >= length)
			continue;
		const size_t bit = filter_bit(value);
		if ((search->filter[bit / 64] >> bit % 64 & 1) == 0)
			continue;
		struct wanted *wanted = wanted_find(search, value);
		if (wanted != NULL)
			search_note(search, wanted, view->address + at);
	}
}

static int wanted_compare(const void *left, const void *right)
{
	const struct wanted *a = left, *b = right;
	return a->address < b->address ? -1 : a->address > b->address;
}

// The samples of the groups that have no rule. Returns what these groups come to, in bytes.
static uint64_t search_fill(struct search *search)
{
	const struct groups *groups = search->groups;
	uint64_t bytes = 0;
	size_t taken = 0;
	for (size_t i = 0; i < groups->ruling_count && taken < KEPT_MAX; i++) {
		const struct group *group = &groups->list[i];
		const uint32_t left = groups->rulings[i].left;
		if (left == 0)
			continue;
		taken++;
		bytes += group->count * group->size;
		for (unsigned k = 0; k < group->sample_count; k++) {
			if ((left >> k & 1) == 0)
				continue;
			const uint64_t address = group->samples[k].address;
			const size_t bit = filter_bit(address);
			search->filter[bit / 64] |= UINT64_C(1) << bit % 64;
			search->list[search->count++] = (struct wanted){address, (uint32_t)i, k, 0};
		}
	}
	if (search->count > 0)
		qsort(search->list, search->count, sizeof *search->list, wanted_compare);
	return bytes;
}

// ---- what was found

static int keeper_compare(const struct keeper *a, const struct keeper *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->what != b->what)
		return a->what < b->what ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static int found_compare(const void *left, const void *right)
{
	const struct found *a = left, *b = right;
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	const int order = keeper_compare(&a->keeper, &b->keeper);
	if (order != 0)
		return order;
	return a->sample < b->sample ? -1 : a->sample > b->sample;
}

static bool keeper_say(struct groups *groups, const struct keeper *keeper, struct ruling *ruling)
{
	struct rule *rule = &ruling->rules[ruling->count];
	const bool outside = keeper->kind == KEEPER_BLOCK;
	const struct identity identity =
		outside ? (struct identity){0} : names_identify(groups->names, keeper->what);
	char *name = NULL, place[32] = "";
	int length;
	if (!outside && identity.module == NULL)
		return true;
	if (keeper->offset != OFFSET_ANY)
		snprintf(place, sizeof place, " +%" PRIu64, keeper->offset);
	if (outside) {
		length = asprintf(&rule->text, "held by %" PRIu64 " bytes%s", keeper->what, place);
	} else if (identity.type == IDENTITY_CLASS) {
		length = asprintf(&rule->text, "held by %s%s", identity.name, place);
	} else {
		name = type_name_pointer(&identity, keeper->what, OFFSET_DEEP);
		const char *bare = name != NULL && strncmp(name, "-> ", 3) == 0 ? name + 3 : name;
		length = keeper->kind == KEEPER_VARIABLE
				 ? asprintf(&rule->text, "held by %s", bare)
				 : asprintf(&rule->text, "held by %s%s", name, place);
	}
	free(name);
	if (length < 0) {
		rule->text = NULL;
		return false;
	}
	ruling->count++;
	rule->module = strdup(identity.module != NULL ? identity.module->name : "");
	rule->kind = RULE_HOLDER;
	return rule->module != NULL;
}

// Whether what comes next is another keeper; at any offset: of another kind, or another what.
static bool keeper_ends(const struct keeper *keeper, const struct keeper *next, bool any)
{
	return any ? keeper->kind != next->kind || keeper->what != next->what
		   : keeper_compare(keeper, next) != 0;
}

// Of what was found of one group, sorted by keeper: the one that most samples have, and of these
// what has a name. False if there is none.
static bool keeper_choose(const struct groups *groups, const struct found *found, size_t count,
	bool any, struct keeper *ret)
{
	const unsigned all = (unsigned)__builtin_popcount(groups->rulings[found->group].left);
	unsigned most = 0;
	for (size_t first = 0, end; first < count; first = end) {
		const struct keeper *keeper = &found[first].keeper;
		uint32_t samples = 0;
		for (end = first; end < count && !keeper_ends(keeper, &found[end].keeper, any);
			end++)
			samples |= UINT32_C(1) << found[end].sample;
		const unsigned have = (unsigned)__builtin_popcount(samples);
		// One with a name is better.
		const unsigned weight = have + (keeper->kind == KEEPER_BLOCK ? 0 : SAMPLES);
		if (have * 100 < all * MOST || weight <= most)
			continue;
		most = weight;
		*ret = *keeper;
		if (any && keeper->kind != KEEPER_VARIABLE)
			ret->offset = OFFSET_ANY;
	}
	return most > 0;
}

static bool group_settle(struct groups *groups, const struct found *found, size_t count)
{
	struct keeper keeper;
	return (!keeper_choose(groups, found, count, false, &keeper) &&
		       !keeper_choose(groups, found, count, true, &keeper)) ||
	       keeper_say(groups, &keeper, &groups->rulings[found->group]);
}

static bool search_settle(struct search *search)
{
	bool ok = true;
	if (search->found_count > 0)
		qsort(search->found, search->found_count, sizeof *search->found, found_compare);
	for (size_t first = 0, end; ok && first < search->found_count; first = end) {
		for (end = first; end < search->found_count &&
				  search->found[end].group == search->found[first].group;)
			end++;
		ok = group_settle(search->groups, search->found + first, end - first);
	}
	return ok;
}

bool keepers_find(struct groups *groups, struct error *err)
{
	struct search search = {
		.groups = groups,
		.list = calloc(KEPT_MAX * SAMPLES, sizeof *search.list),
		.filter = calloc(((size_t)1 << FILTER_BITS) / 64, sizeof *search.filter),
		.found = calloc(FOUND_MAX, sizeof *search.found),
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	bool ok = (search.list != NULL && search.filter != NULL && search.found != NULL) ||
		  error_memory(err);
	const uint64_t bytes = ok ? search_fill(&search) : 0;
	if (ok && search.count > 0 && bytes >= groups->bytes / KEPT_SHARE)
		ok = groups_scan(groups, piece_search, &search, err) &&
		     (search_settle(&search) || error_memory(err));
	free(search.list);
	free(search.filter);
	free(search.found);
	return ok;
}
