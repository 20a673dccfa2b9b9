// SPDX-License-Identifier: MIT
#include "types/largest.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "types/owners.h"
#include "types/telling.h"

// What points at a block, what tells most first.
enum rank { RANK_DATA, RANK_OBJECT, RANK_STACK, RANK_MEMORY, RANK_REGISTER, RANK_NONE };

struct entry {
	uint64_t address;
	size_t index; // of the block
	bool lost;
	enum rank rank;
	uint64_t where; // address of the pointer; of a register, the index of its thread
	const struct root *root;
	uint64_t object, offset; // of an object that holds it
	struct telling telling, own;
};

struct finder {
	struct entry *list; // by address; owned
	size_t count;
	struct teller *tellers; // of each thread; owned
	pthread_mutex_t lock;
};

static int entry_compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	return a->address < b->address ? -1 : a->address > b->address;
}

static struct entry *finder_entry(const struct finder *finder, uint64_t address)
{
	const struct entry key = {.address = address};
	return bsearch(&key, finder->list, finder->count, sizeof key, entry_compare);
}

static bool finder_select(void *context, unsigned thread, const struct reach_object *object)
{
	struct finder *finder = context;
	struct entry *entry = finder_entry(finder, object->address);
	if (entry == NULL)
		return false;
	entry->lost = object->lost;
	entry->own = teller_look(&finder->tellers[thread], object->bytes, object->available);
	return true;
}

static enum rank rank_of(const struct reach_object *object, const struct root *root)
{
	if (object != NULL)
		return RANK_OBJECT;
	if (root == NULL)
		return RANK_REGISTER;
	return root->type == ROOT_MODULE  ? RANK_DATA
	       : root->type == ROOT_STACK ? RANK_STACK
					  : RANK_MEMORY;
}

static void finder_hold(void *context, unsigned thread, const struct reach_object *object,
	const struct root *root, uint64_t where, uint64_t target)
{
	struct finder *finder = context;
	struct entry *entry = finder_entry(finder, target);
	const enum rank rank = rank_of(object, root);
	if (entry == NULL)
		return;
	pthread_mutex_lock(&finder->lock);
	if (rank < entry->rank || (rank == entry->rank && where < entry->where)) {
		entry->rank = rank;
		entry->where = where;
		entry->root = root;
		if (object != NULL) {
			entry->object = object->address;
			entry->offset = where - object->address;
			entry->telling = teller_look(
				&finder->tellers[thread], object->bytes, object->available);
		}
	}
	pthread_mutex_unlock(&finder->lock);
}

static bool finder_init(struct finder *finder, const struct image *image, struct names *names,
	const struct usage_block *blocks, size_t count, unsigned threads)
{
	finder->list = calloc(count + 1, sizeof *finder->list);
	finder->tellers = calloc(threads, sizeof *finder->tellers);
	if (finder->list == NULL || finder->tellers == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		finder->list[i] =
			(struct entry){.address = blocks[i].address, .index = i, .rank = RANK_NONE};
	finder->count = count;
	qsort(finder->list, count, sizeof *finder->list, entry_compare);
	for (unsigned i = 0; i < threads; i++)
		teller_init(&finder->tellers[i], image, names);
	return true;
}

static bool block_tell_holder(const struct image *image, struct names *names, bool redact,
	const struct entry *entry, struct large_block *ret)
{
	enum type_kind kind;
	if (entry->rank == RANK_NONE)
		return true;
	if (entry->rank != RANK_OBJECT) {
		ret->holder = root_name(image, names, entry->root, entry->where, &ret->holder_kind,
			&ret->holder_module);
		ret->where = entry->rank == RANK_REGISTER ? 0 : entry->where;
		return ret->holder != NULL;
	}
	ret->offset_known = true;
	ret->offset = entry->offset;
	ret->where = entry->object;
	if (!telling_name(image, names, &entry->telling, redact, &kind, &ret->holder,
		    &ret->holder_module))
		return false;
	ret->holder_kind = type_kind_name(kind);
	return true;
}

static bool block_tell(const struct image *image, struct names *names, bool redact,
	const struct entry *entry, struct large_block *ret)
{
	enum type_kind kind;
	ret->lost = entry->lost;
	ret->holder_kind = ret->holder_module = "";
	if (!telling_name(image, names, &entry->own, redact, &kind, &ret->name, &ret->module))
		return false;
	ret->kind = type_kind_name(kind);
	return block_tell_holder(image, names, redact, entry, ret);
}

bool large_blocks_find(const struct image *image, struct names *names, struct reach *reach,
	const struct usage_block *blocks, size_t count, unsigned threads, bool redact,
	struct error *err, struct large_block **ret)
{
	struct finder finder = {.lock = PTHREAD_MUTEX_INITIALIZER};
	uint64_t selected, lost;
	*ret = calloc(count + 1, sizeof **ret);
	bool ok = (*ret != NULL && finder_init(&finder, image, names, blocks, count, threads)) ||
		  error_memory(err);
	ok = ok &&
	     reach_find_holders(reach, finder_select, finder_hold, &finder, err, &selected, &lost);
	for (size_t i = 0; ok && i < count; i++) {
		const struct entry *entry = &finder.list[i];
		struct large_block *block = &(*ret)[entry->index];
		block->address = blocks[entry->index].address;
		block->size = blocks[entry->index].size;
		ok = block_tell(image, names, redact, entry, block) || error_memory(err);
	}
	free(finder.list);
	free(finder.tellers);
	if (!ok) {
		large_blocks_free(*ret, count);
		*ret = NULL;
	}
	return ok;
}

void large_blocks_free(struct large_block *list, size_t count)
{
	for (size_t i = 0; list != NULL && i < count; i++) {
		free(list[i].name);
		free(list[i].holder);
	}
	free(list);
}
