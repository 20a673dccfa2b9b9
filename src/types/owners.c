// SPDX-License-Identifier: MIT
#include "types/owners.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "types/hashtable.h"
#include "types/telling.h"

// Offsets from here on are not told apart, nor those in objects without a type that are larger:
// they are arrays.
#define OFFSET_LARGEST 4096
#define PLAIN_SIZE_MAX 256
#define OFFSET_ANY UINT32_MAX
// Groups of one thread; what else there is becomes one.
#define HOLDS_MAX 65536

enum hold_kind { HOLD_OBJECT, HOLD_ROOT, HOLD_REGISTER };

// Pointers of one sort.
struct hold {
	uint64_t count; // first, as hashtable.h wants it
	enum hold_kind kind;
	uint32_t offset;
	struct telling telling; // of an object
	uint64_t what;		// size of an object without a type; address in data; place; thread
	const struct root *root;
	uint64_t example;
};

struct table {
	struct hashtable holds;
	struct teller teller;
};

struct gatherer {
	const struct owners_options *options;
	struct table *tables; // of each thread; owned
};

static bool hold_same(const void *left, const void *right)
{
	const struct hold *a = left, *b = right;
	return a->kind == b->kind && a->offset == b->offset && a->what == b->what &&
	       a->telling.word == b->telling.word && a->telling.offset == b->telling.offset &&
	       a->telling.kind == b->telling.kind;
}

static uint64_t hold_hash(const void *record)
{
	const struct hold *hold = record;
	const uint64_t hash =
		(hold->telling.word + hold->what) * UINT64_C(0x9e3779b97f4a7c15) ^ hold->offset;
	return hash * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

static void holds_add(struct hashtable *holds, struct hold more)
{
	if (!hashtable_reserve(holds))
		return;
	struct hold *slot = hashtable_find(holds, &more);
	if (slot->count == 0 && holds->count >= HOLDS_MAX) {
		more.telling = (struct telling){0};
		more.offset = OFFSET_ANY;
		more.what = 0;
		more.kind = HOLD_OBJECT;
		slot = hashtable_find(holds, &more);
	}
	if (slot->count == 0) {
		holds->count++;
		*slot = more;
		return;
	}
	slot->count += more.count;
	slot->example = min_u64(slot->example, more.example);
}

// ---- gathering

static bool gatherer_wants(const struct gatherer *gatherer, const struct kinds *kinds,
	const struct reach_object *object, size_t at)
{
	const uint64_t word = word_load(object->bytes + at, kinds->word_size, kinds->order);
	for (size_t i = 0; i < gatherer->options->value_count; i++)
		if (word == gatherer->options->values[i])
			return true;
	return false;
}

static bool gatherer_select(void *context, unsigned thread, const struct reach_object *object)
{
	const struct gatherer *gatherer = context;
	const struct kinds *kinds = &gatherer->tables[thread].teller.kinds;
	const size_t size = object->available < TELLING_SIZE ? object->available : TELLING_SIZE;
	const size_t within = gatherer->options->within;
	if (gatherer->options->within_known)
		return within + kinds->word_size <= object->available &&
		       gatherer_wants(gatherer, kinds, object, within);
	for (size_t at = 0; at + kinds->word_size <= size; at += kinds->word_size)
		if (gatherer_wants(gatherer, kinds, object, at))
			return true;
	return false;
}

static void gatherer_hold(void *context, unsigned thread, const struct reach_object *object,
	const struct root *root, uint64_t where, uint64_t target)
{
	const struct gatherer *gatherer = context;
	struct table *table = &gatherer->tables[thread];
	struct hold hold = {.offset = OFFSET_ANY, .count = 1, .example = where, .root = root};
	(void)target;
	if (object != NULL) {
		const uint64_t offset = where - object->address;
		hold.kind = HOLD_OBJECT;
		hold.example = object->address;
		hold.telling = teller_look(&table->teller, object->bytes, object->available);
		if (hold.telling.kind <= TELLING_TEXT) {
			hold.telling = (struct telling){0};
			hold.what = object->size <= PLAIN_SIZE_MAX ? object->size : 0;
		}
		if (offset < OFFSET_LARGEST &&
			(hold.telling.kind != TELLING_NONE || hold.what != 0))
			hold.offset = (uint32_t)offset;
	} else if (root != NULL) {
		hold.kind = HOLD_ROOT;
		hold.what = root->type == ROOT_MODULE ? where : root->place;
	} else {
		hold.kind = HOLD_REGISTER;
		hold.what = where;
		hold.example = 0;
	}
	holds_add(&table->holds, hold);
}

// ---- holds -> owners

char *root_name(const struct image *image, struct names *names, const struct root *root,
	uint64_t where, const char **kind, const char **module)
{
	char *name = NULL;
	*module = "";
	if (root == NULL) {
		const struct image_process *process = &image_info(image)->process;
		*kind = "register";
		if (asprintf(&name, "a register of thread %" PRId64, process->threads[where].id) <
			0)
			return NULL;
		return name;
	}
	const struct place *place = &names_places(names)->list[root->place];
	switch (root->type) {
	case ROOT_MODULE:
		*kind = "data";
		*module = names_modules(names)->list[place->module].name;
		const struct identity identity = names_identify(names, where);
		if (identity.type == IDENTITY_OBJECT) {
			if (identity.offset == 0)
				return strdup(identity.name);
			if (asprintf(&name, "%s+%" PRIu64, identity.name, identity.offset) < 0)
				return NULL;
			return name;
		}
		if (asprintf(&name, "%s+0x%" PRIx64, *module, where - place->base) < 0)
			return NULL;
		return name;
	case ROOT_STACK:
		*kind = "stack";
		if (asprintf(&name, "stack of thread %" PRId64, place->thread) < 0)
			return NULL;
		return name;
	case ROOT_MEMORY:
	case ROOT_HEAP:
		*kind = "memory";
		return strdup(
			root->type == ROOT_MEMORY ? "other memory" : "heap outside of objects");
	}
	return NULL;
}

// The offset of data in their symbol goes from the name to where it belongs.
static void owner_part(struct names *names, uint64_t where, struct owner *owner)
{
	const struct identity identity = names_identify(names, where);
	if (identity.type != IDENTITY_OBJECT)
		return;
	char *plus = identity.offset != 0 ? strrchr(owner->name, '+') : NULL;
	if (plus != NULL)
		*plus = '\0';
	owner->offset_known = true;
	owner->offset = identity.offset;
}

static bool owner_make(const struct image *image, struct names *names, bool redact,
	const struct hold *hold, struct owner *ret)
{
	*ret = (struct owner){
		.count = hold->count,
		.example = hold->example,
		.offset_known = hold->offset != OFFSET_ANY,
		.offset = hold->offset != OFFSET_ANY ? hold->offset : 0,
		.module = "",
	};
	if (hold->kind != HOLD_OBJECT) {
		const uint64_t where = hold->kind == HOLD_REGISTER ? hold->what : hold->example;
		ret->name = root_name(image, names, hold->root, where, &ret->kind, &ret->module);
		if (ret->name != NULL && strcmp(ret->kind, "data") == 0)
			owner_part(names, where, ret);
		return ret->name != NULL;
	}
	enum type_kind kind;
	if (!telling_name(image, names, &hold->telling, redact, &kind, &ret->name, &ret->module))
		return false;
	ret->kind = type_kind_name(kind);
	if (hold->telling.kind != TELLING_NONE)
		return true;
	free(ret->name);
	ret->name = NULL;
	if (hold->what == 0)
		ret->name = strdup("(no type), arrays");
	else if (asprintf(&ret->name, "(no type), %" PRIu64 " bytes", hold->what) < 0)
		ret->name = NULL;
	return ret->name != NULL;
}

static int owner_by_name(const void *left, const void *right)
{
	const struct owner *a = left, *b = right;
	int order = strcmp(a->kind, b->kind);
	if (order == 0)
		order = strcmp(a->name, b->name);
	if (order == 0)
		order = strcmp(a->module, b->module);
	if (order != 0)
		return order;
	return a->example < b->example ? -1 : a->example > b->example;
}

// Pointers in one symbol's data become one owner.
static void owners_join(struct owners *owners)
{
	size_t kept = 0;
	qsort(owners->list, owners->count, sizeof *owners->list, owner_by_name);
	for (size_t i = 0; i < owners->count; i++) {
		struct owner *owner = &owners->list[i];
		struct owner *last = kept > 0 ? &owners->list[kept - 1] : NULL;
		if (last == NULL || strcmp(owner->kind, "data") != 0 ||
			strcmp(last->kind, "data") != 0 || strcmp(owner->name, last->name) != 0 ||
			strcmp(owner->module, last->module) != 0) {
			owners->list[kept++] = *owner;
			continue;
		}
		last->count += owner->count;
		last->offset_known = false;
		last->offset = 0;
		last->example = min_u64(last->example, owner->example);
		free(owner->name);
	}
	owners->count = kept;
}

static int owner_compare(const void *left, const void *right)
{
	const struct owner *a = left, *b = right;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	const int order = strcmp(a->name, b->name);
	if (order != 0)
		return order;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->example < b->example ? -1 : a->example > b->example;
}

static bool owners_make(const struct image *image, struct names *names, bool redact,
	const struct hashtable *holds, struct owners *ret)
{
	ret->list = calloc(holds->count + 1, sizeof *ret->list);
	if (ret->list == NULL)
		return false;
	for (size_t i = 0; i < holds->capacity; i++)
		if (hashtable_has(holds, i) &&
			!owner_make(image, names, redact, hashtable_at(holds, i),
				&ret->list[ret->count++]))
			return false;
	owners_join(ret);
	qsort(ret->list, ret->count, sizeof *ret->list, owner_compare);
	return true;
}

static bool tables_merge(struct gatherer *gatherer)
{
	struct hashtable *all = &gatherer->tables[0].holds;
	for (unsigned i = 1; i < gatherer->options->threads; i++) {
		const struct hashtable *holds = &gatherer->tables[i].holds;
		for (size_t k = 0; k < holds->capacity; k++)
			if (hashtable_has(holds, k))
				holds_add(all, *(const struct hold *)hashtable_at(holds, k));
		all->lost |= holds->lost;
	}
	return !all->lost;
}

bool owners_find(const struct image *image, struct names *names, struct reach *reach,
	const struct owners_options *options, struct error *err, struct owners *ret)
{
	struct gatherer gatherer = {.options = options};
	*ret = (struct owners){0};
	gatherer.tables = calloc(options->threads, sizeof *gatherer.tables);
	if (gatherer.tables == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < options->threads; i++) {
		gatherer.tables[i].holds = (struct hashtable){
			.size = sizeof(struct hold), .hash = hold_hash, .same = hold_same};
		teller_init(&gatherer.tables[i].teller, image, names);
	}
	bool ok = reach_find_holders(
		reach, gatherer_select, gatherer_hold, &gatherer, err, &ret->objects, &ret->lost);
	ok = ok && ((tables_merge(&gatherer) && owners_make(image, names, options->redact,
							&gatherer.tables[0].holds, ret)) ||
			   error_memory(err));
	for (unsigned i = 0; i < options->threads; i++)
		hashtable_deinit(&gatherer.tables[i].holds);
	free(gatherer.tables);
	if (!ok)
		owners_deinit(ret);
	return ok;
}

void owners_deinit(struct owners *owners)
{
	for (size_t i = 0; i < owners->count; i++)
		free(owners->list[i].name);
	free(owners->list);
	*owners = (struct owners){0};
}
