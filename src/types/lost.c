// SPDX-License-Identifier: MIT
#include "types/lost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "types/hashtable.h"
#include "types/telling.h"

// Objects are counted here first, by their telling words, to know which ones are worth a group.
#define CELL_BITS 18
#define CELLS ((size_t)1 << CELL_BITS)
// Cells that may have such words, and groups in all. Sizes alone are fewer: so many different ones
// take 128 GiB.
#define CELLS_MAX 32768
// If there are no more groups than this, the group of each object is remembered until it is known
// whether it is lost directly; else the objects are visited again.
#define QUICK_MAX UINT16_MAX
#define GROUPS_MAX 131072
// A text names the objects of a size if at least one in so many of those without a type has it.
#define TEXT_SHARE 16

// The objects of one size with one telling word.
struct group {
	uint64_t count; // first, as hashtable.h wants it
	uint64_t direct;
	uint64_t size; // of the chunk
	struct telling telling;
	uint16_t index;	  // while groups are quick: in the order in which they were found
	uint64_t example; // the lowest address
};

// Groups of one thread.
struct table {
	struct hashtable groups;
	size_t most;	  // groups that it may have
	bool full;	  // there are more
	uint64_t *direct; // while groups are quick: of each index; owned
};

struct gatherer {
	_Atomic uint32_t *cells; // owned
	uint32_t bar;		 // words of cells with less are not told apart
	struct table *tables;	 // of each thread; owned
	struct teller *tellers;	 // the same
	unsigned threads;
	bool coarse; // there are too many sizes to tell them apart
	// While groups are quick: the index of each lost object's group, and the thread that
	// visited each tile; owned.
	uint16_t *indices;
	uint8_t *visitors;
};

static uint64_t mix(uint64_t value)
{
	value ^= value >> 32;
	value *= UINT64_C(0xd6e8feb86659fd93);
	value ^= value >> 32;
	value *= UINT64_C(0xd6e8feb86659fd93);
	return value ^ value >> 32;
}

// The same in every run: with the sums in cells it decides what is told apart.
static uint64_t group_hash(uint64_t size, const struct telling *telling)
{
	return mix(mix(telling->word) + size * 256 + telling->offset);
}

static uint64_t group_hashed(const void *record)
{
	const struct group *group = record;
	return group_hash(group->size, &group->telling);
}

static bool group_same(const void *left, const void *right)
{
	const struct group *a = left, *b = right;
	return a->size == b->size && a->telling.word == b->telling.word &&
	       a->telling.offset == b->telling.offset && a->telling.kind == b->telling.kind;
}

// Returns the index of the group; 0 if there is no room.
static uint16_t table_add(struct table *table, const struct group *more)
{
	struct hashtable *groups = &table->groups;
	if (!hashtable_reserve(groups))
		return 0;
	struct group *group = hashtable_find(groups, more);
	if (group->count == 0) {
		if (groups->count == table->most) {
			table->full = true;
			return 0;
		}
		*group = *more;
		group->index = (uint16_t)groups->count++;
		return group->index;
	}
	group->count += more->count;
	group->direct += more->direct;
	group->example = min_u64(group->example, more->example);
	return group->index;
}

// ---- visits

static size_t object_cell(uint64_t size, const struct telling *telling)
{
	return (size_t)(group_hash(size, telling) >> (64 - CELL_BITS));
}

static void gatherer_weigh(void *context, unsigned thread, const struct reach_object *object)
{
	struct gatherer *gatherer = context;
	const struct telling telling =
		teller_look(&gatherer->tellers[thread], object->bytes, object->available);
	if (telling.kind != TELLING_NONE)
		atomic_fetch_add_explicit(&gatherer->cells[object_cell(object->size, &telling)], 1,
			memory_order_relaxed);
}

// Rounded up to five binary digits.
static uint64_t size_round(uint64_t size)
{
	const unsigned bits = 64 - (unsigned)__builtin_clzll(size | 1);
	const uint64_t step = bits > 5 ? UINT64_C(1) << (bits - 5) : 1;
	return (size + step - 1) & ~(step - 1);
}

static void gatherer_take(void *context, unsigned thread, const struct reach_object *object)
{
	struct gatherer *gatherer = context;
	struct group group = {
		.size = object->size,
		.telling =
			teller_look(&gatherer->tellers[thread], object->bytes, object->available),
		.count = 1,
		.direct = object->direct,
		.example = object->address,
	};
	if (group.telling.kind != TELLING_NONE &&
		atomic_load_explicit(&gatherer->cells[object_cell(group.size, &group.telling)],
			memory_order_relaxed) < gatherer->bar)
		group.telling = (struct telling){0};
	if (gatherer->coarse)
		group.size = size_round(group.size);
	table_add(&gatherer->tables[thread], &group);
}

// The first visit: whether the object is lost directly is not known yet.
static void gatherer_take_quickly(void *context, unsigned thread, const struct reach_object *object)
{
	struct gatherer *gatherer = context;
	const struct group group = {
		.size = object->size,
		.telling =
			teller_look(&gatherer->tellers[thread], object->bytes, object->available),
		.count = 1,
		.example = object->address,
	};
	gatherer->indices[object->number] = table_add(&gatherer->tables[thread], &group);
	gatherer->visitors[object->tile] = (uint8_t)thread;
}

static void gatherer_note_direct(void *context, size_t tile, size_t number, bool direct)
{
	struct gatherer *gatherer = context;
	gatherer->tables[gatherer->visitors[tile]].direct[gatherer->indices[number]] += direct;
}

static size_t cells_above(const struct gatherer *gatherer, uint32_t bar)
{
	size_t count = 0;
	for (size_t i = 0; i < CELLS; i++)
		count += atomic_load_explicit(&gatherer->cells[i], memory_order_relaxed) >= bar;
	return count;
}

static bool gatherer_init(
	struct gatherer *gatherer, const struct image *image, struct names *names, unsigned threads)
{
	*gatherer = (struct gatherer){.threads = threads,
		.bar = 1,
		.cells = calloc(CELLS, sizeof *gatherer->cells),
		.tables = calloc(threads, sizeof *gatherer->tables),
		.tellers = calloc(threads, sizeof *gatherer->tellers)};
	for (unsigned i = 0; gatherer->tellers != NULL && i < threads; i++)
		teller_init(&gatherer->tellers[i], image, names);
	return gatherer->cells != NULL && gatherer->tables != NULL && gatherer->tellers != NULL;
}

static void gatherer_deinit(struct gatherer *gatherer)
{
	for (unsigned i = 0; gatherer->tables != NULL && i < gatherer->threads; i++) {
		hashtable_deinit(&gatherer->tables[i].groups);
		free(gatherer->tables[i].direct);
	}
	free(gatherer->indices);
	free(gatherer->visitors);
	free((void *)gatherer->cells);
	free(gatherer->tables);
	free(gatherer->tellers);
}

// Bring the groups of all threads into the first table. False: there are too many, or no memory.
static bool gatherer_merge(struct gatherer *gatherer)
{
	struct table *all = &gatherer->tables[0];
	for (unsigned i = 1; i < gatherer->threads; i++) {
		struct table *table = &gatherer->tables[i];
		for (size_t k = 0; k < table->groups.capacity; k++)
			if (hashtable_has(&table->groups, k))
				table_add(all, hashtable_at(&table->groups, k));
		all->full |= table->full;
		all->groups.lost |= table->groups.lost;
	}
	return !all->full && !all->groups.lost;
}

// Begin anew, with at most so many groups.
static void gatherer_clear(struct gatherer *gatherer, size_t most)
{
	for (unsigned i = 0; i < gatherer->threads; i++) {
		hashtable_deinit(&gatherer->tables[i].groups);
		free(gatherer->tables[i].direct);
		gatherer->tables[i] = (struct table){.groups = {.size = sizeof(struct group),
							     .hash = group_hashed,
							     .same = group_same},
			.most = most};
	}
}

// Gather all groups while the pointers in lost objects are looked at. False: there are too many, or
// there is no memory for it.
static bool gatherer_run_quickly(
	struct gatherer *gatherer, struct reach *reach, bool *linked, struct error *err)
{
	const size_t count = reach_lost_count(reach);
	gatherer_clear(gatherer, QUICK_MAX);
	// Not more than the bits of the heap take, or a little.
	if (count > reach_quick_max(reach) || gatherer->threads > UINT8_MAX)
		return false;
	gatherer->indices = calloc(count + 1, sizeof *gatherer->indices);
	gatherer->visitors = calloc(reach_tiles(reach) + 1, sizeof *gatherer->visitors);
	for (unsigned i = 0; i < gatherer->threads; i++) {
		gatherer->tables[i].direct = calloc(QUICK_MAX + 1, sizeof(uint64_t));
		if (gatherer->tables[i].direct == NULL)
			return false;
	}
	if (gatherer->indices == NULL || gatherer->visitors == NULL)
		return false;
	*linked = reach_link_lost(reach, gatherer_take_quickly, gatherer, err);
	if (!*linked)
		return false;
	reach_each_lost(reach, gatherer_note_direct, gatherer);
	for (unsigned i = 0; i < gatherer->threads; i++) {
		const struct table *table = &gatherer->tables[i];
		for (size_t k = 0; k < table->groups.capacity; k++) {
			struct group *group = hashtable_at(&table->groups, k);
			if (group->count != 0)
				group->direct = table->direct[group->index];
		}
	}
	return gatherer_merge(gatherer);
}

// Gather the groups, rare words left out until the rest fits.
static bool gatherer_run(struct gatherer *gatherer, struct reach *reach, struct error *err)
{
	bool linked = false;
	if (gatherer_run_quickly(gatherer, reach, &linked, err))
		return true;
	free(gatherer->indices);
	gatherer->indices = NULL;
	if (err->text[0] != '\0' ||
		!(linked ? reach_visit_lost(reach, gatherer_weigh, gatherer, err)
			 : reach_link_lost(reach, gatherer_weigh, gatherer, err)))
		return false;
	while (cells_above(gatherer, gatherer->bar) > CELLS_MAX)
		gatherer->bar *= 2;
	for (;;) {
		gatherer_clear(gatherer, GROUPS_MAX);
		if (!reach_visit_lost(reach, gatherer_take, gatherer, err))
			return false;
		if (gatherer_merge(gatherer))
			return true;
		if (gatherer->tables[0].groups.lost)
			return error_memory(err);
		gatherer->coarse = cells_above(gatherer, gatherer->bar) == 0;
		gatherer->bar *= 4;
	}
}

// ---- groups -> types

// A group and what it is called.
struct named_group {
	enum type_kind kind;
	char *name; // owned
	const char *module;
	const struct group *group;
};

struct named_groups {
	struct named_group *list; // owned
	size_t count;
};

static bool is_typed(const struct group *group)
{
	return group->telling.kind > TELLING_TEXT;
}

static int group_compare(const void *left, const void *right)
{
	const struct group *a = left, *b = right;
	if (a->size != b->size)
		return a->size < b->size ? -1 : 1;
	if (a->telling.kind != b->telling.kind)
		return a->telling.kind < b->telling.kind ? -1 : 1;
	if (a->telling.word != b->telling.word)
		return a->telling.word < b->telling.word ? -1 : 1;
	return a->telling.offset < b->telling.offset ? -1 : a->telling.offset > b->telling.offset;
}

static void group_join(struct group *group, struct group *other)
{
	group->count += other->count;
	group->direct += other->direct;
	group->example = min_u64(group->example, other->example);
	other->count = 0;
}

// Of objects without a type only those texts remain that many of a size have; the others become one
// group. groups are of one size, those without a word first.
static void groups_simplify(struct group *groups, size_t count)
{
	uint64_t all = 0;
	struct group *plain = NULL;
	size_t texts = 0;
	for (; texts < count && !is_typed(&groups[texts]); texts++)
		all += groups[texts].count;
	for (size_t i = 0; i < texts; i++) {
		struct group *group = &groups[i];
		const bool text = group->telling.kind == TELLING_TEXT;
		if (text && group->count >= 2 && group->count >= all / TEXT_SHARE)
			continue;
		group->telling = (struct telling){0};
		if (plain == NULL)
			plain = group;
		else
			group_join(plain, group);
	}
}

static bool kind_has_sizes(enum type_kind kind)
{
	return kind == TYPE_TEXT || kind == TYPE_PLAIN;
}

static int part_compare(const void *left, const void *right)
{
	const struct named_group *a = left, *b = right;
	if (a->kind != b->kind)
		return (int)a->kind - (int)b->kind;
	int order = strcmp(a->name, b->name);
	if (order == 0)
		order = strcmp(a->module, b->module);
	return order != 0 ? order : group_compare(a->group, b->group);
}

static bool part_same(const struct named_group *a, const struct named_group *b)
{
	return a->kind == b->kind && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->module, b->module) == 0 &&
	       (!kind_has_sizes(a->kind) || a->group->size == b->group->size);
}

// The row of parts that have one name.
static bool type_make(const struct named_group *parts, size_t count, struct type *ret)
{
	uint64_t same = 0, most = 0;
	*ret = (struct type){.kind = parts[0].kind,
		.method = METHOD_CHUNK,
		.name = strdup(parts[0].name),
		.module = strdup(parts[0].module),
		.bytes_known = true,
		.example_count = 1,
		.examples = {UINT64_MAX}};
	for (size_t i = 0; i < count; i++) {
		const struct group *group = parts[i].group;
		if (i > 0 && group->size != parts[i - 1].group->size)
			same = 0;
		same += group->count;
		if (same > most) {
			most = same;
			ret->size = group->size;
		}
		ret->count += group->count;
		ret->bytes += group->count * group->size;
		ret->direct += group->direct;
		ret->direct_bytes += group->direct * group->size;
		ret->examples[0] = min_u64(ret->examples[0], group->example);
	}
	ret->sites[SITE_HEAP] = ret->count;
	ret->agreement = ret->count > 0 ? (double)most / (double)ret->count : 0;
	return ret->name != NULL && ret->module != NULL;
}

static bool part_make(const struct image *image, struct names *names, bool redact,
	const struct group *group, struct named_group *ret)
{
	*ret = (struct named_group){.group = group};
	return telling_name(
		image, names, &group->telling, redact, &ret->kind, &ret->name, &ret->module);
}

static bool parts_name(const struct image *image, struct names *names, bool redact,
	const struct group *groups, size_t count, struct named_groups *ret)
{
	ret->list = calloc(count + 1, sizeof *ret->list);
	if (ret->list == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		if (groups[i].count > 0 &&
			!part_make(image, names, redact, &groups[i], &ret->list[ret->count++]))
			return false;
	qsort(ret->list, ret->count, sizeof *ret->list, part_compare);
	return true;
}

static bool parts_report(const struct named_groups *parts, struct types_result *ret)
{
	ret->list = calloc(parts->count + 1, sizeof *ret->list);
	if (ret->list == NULL)
		return false;
	for (size_t first = 0, end; first < parts->count; first = end) {
		for (end = first + 1;
			end < parts->count && part_same(&parts->list[end], &parts->list[first]);)
			end++;
		struct type *type = &ret->list[ret->count++];
		if (!type_make(parts->list + first, end - first, type))
			return false;
		ret->named_count += type->count;
		ret->named_bytes += type->bytes;
	}
	return true;
}

// Bring the groups to the beginning of the table, sorted, and return them; it is one no more.
static struct group *table_sort(struct hashtable *table)
{
	struct group *groups = (struct group *)(void *)table->slots;
	const size_t count = table->count;
	size_t kept = 0;
	for (size_t i = 0; i < table->capacity; i++)
		if (hashtable_has(table, i))
			groups[kept++] = groups[i];
	if (count > 0)
		qsort(groups, count, sizeof *groups, group_compare);
	for (size_t first = 0, end; first < count; first = end) {
		for (end = first + 1; end < count && groups[end].size == groups[first].size;)
			end++;
		groups_simplify(groups + first, end - first);
	}
	return groups;
}

bool lost_find(const struct image *image, struct names *names, struct reach *reach,
	const struct lost_options *options, struct error *err, struct types_result *ret)
{
	struct gatherer gatherer;
	struct named_groups parts = {0};
	*ret = (struct types_result){0};
	bool ok = gatherer_init(&gatherer, image, names, options->threads) || error_memory(err);
	ok = ok && gatherer_run(&gatherer, reach, err);
	if (ok) {
		struct hashtable *table = &gatherer.tables[0].groups;
		const struct group *groups = table_sort(table);
		ok = (parts_name(image, names, options->redact, groups, table->count, &parts) &&
			     parts_report(&parts, ret)) ||
		     error_memory(err);
	}
	for (size_t i = 0; i < parts.count; i++)
		free(parts.list[i].name);
	free(parts.list);
	gatherer_deinit(&gatherer);
	if (!ok)
		types_result_deinit(ret);
	return ok;
}

// ---- one by one

// Names that were looked up lately.
#define LISTED_NAMES 256

struct lister {
	const struct image *image;
	struct names *names;
	bool redact, lost; // lost: memory ran out
	struct teller *teller;
	lost_tell *tell;
	void *context;
	struct {
		struct telling telling;
		char *name; // owned; NULL: none yet
		const char *module;
		enum type_kind kind;
	} cache[LISTED_NAMES];
};

static void lister_visit(void *context, unsigned thread, const struct reach_object *object)
{
	(void)thread;
	struct lister *lister = context;
	const struct telling telling =
		teller_look(lister->teller, object->bytes, object->available);
	const size_t at = (size_t)(group_hash(0, &telling) % LISTED_NAMES);
	if (lister->cache[at].name == NULL || lister->cache[at].telling.word != telling.word ||
		lister->cache[at].telling.offset != telling.offset ||
		lister->cache[at].telling.kind != telling.kind) {
		free(lister->cache[at].name);
		lister->cache[at].name = NULL;
		lister->cache[at].telling = telling;
		if (!telling_name(lister->image, lister->names, &telling, lister->redact,
			    &lister->cache[at].kind, &lister->cache[at].name,
			    &lister->cache[at].module)) {
			lister->cache[at].name = NULL;
			lister->lost = true;
			return;
		}
	}
	const struct lost_object listed = {object->address, object->size, object->direct,
		lister->cache[at].name, lister->cache[at].module, lister->cache[at].kind};
	lister->tell(lister->context, &listed);
}

bool lost_list(const struct image *image, struct names *names, struct reach *reach, bool redact,
	lost_tell *tell, void *context, struct error *err)
{
	struct lister *lister = calloc(1, sizeof *lister);
	struct teller *teller = calloc(1, sizeof *teller);
	bool ok = (lister != NULL && teller != NULL) || error_memory(err);
	if (ok) {
		teller_init(teller, image, names);
		lister->image = image;
		lister->names = names;
		lister->redact = redact;
		lister->teller = teller;
		lister->tell = tell;
		lister->context = context;
		ok = reach_list_lost(reach, lister_visit, lister, err) &&
		     (!lister->lost || error_memory(err));
	}
	for (size_t i = 0; lister != NULL && i < LISTED_NAMES; i++)
		free(lister->cache[i].name);
	free(lister);
	free(teller);
	return ok;
}
