// SPDX-License-Identifier: MIT
#include "answer/joined.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stacks/table.h"

// So many functions of a stack are told, from the innermost on.
#define FUNCTIONS_TOLD 3

// How many objects of a type a stack allocated.
struct pair {
	const char *name, *module; // kept texts
	uint64_t size;		   // bytes, of what has no type and is grouped by it; else 0
	uint32_t stack;
	uint64_t count; // 0: empty
};

struct joined {
	struct recording *recording;
	struct texts *texts;
	struct frames *frames;
	struct pair *pairs; // by hash; owned
	size_t count, room;
};

bool joined_create(struct dump *dump, struct error *err, struct joined **ret)
{
	uint64_t address;
	*ret = NULL;
	if (image_info(dump->image)->in_order || !recording_find(dump->image, &address))
		return true;
	struct joined *joined = calloc(1, sizeof *joined);
	if (joined == NULL)
		return error_memory(err);
	struct error doubt = {0};
	joined->texts = texts_create();
	if (!recording_open(dump->image, address, &doubt, &joined->recording) ||
		!recording_load(joined->recording, names_modules(dump->names),
			dump->options->memory / 4, &doubt)) {
		diag_warn(dump->diag, "%s", doubt.text);
		joined_destroy(joined);
		return true;
	}
	joined->frames = joined->texts != NULL
				 ? frames_create(dump->names, joined->recording, joined->texts)
				 : NULL;
	if (joined->frames == NULL) {
		joined_destroy(joined);
		return error_memory(err);
	}
	*ret = joined;
	return true;
}

void joined_destroy(struct joined *joined)
{
	if (joined == NULL)
		return;
	frames_destroy(joined->frames);
	recording_destroy(joined->recording);
	texts_destroy(joined->texts);
	free(joined->pairs);
	free(joined);
}

// Texts that are kept are equal if their addresses are.
static struct pair *pair_slot(struct pair *pairs, size_t room, const struct pair *like)
{
	uint64_t hash = (uint64_t)(uintptr_t)like->name * 31 +
			(uint64_t)(uintptr_t)like->module * 17 + like->stack + (like->size << 32);
	hash = (hash ^ hash >> 29) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(hash >> 32) & (room - 1);
	while (pairs[at].count != 0 &&
		(pairs[at].name != like->name || pairs[at].module != like->module ||
			pairs[at].stack != like->stack || pairs[at].size != like->size))
		at = (at + 1) & (room - 1);
	return &pairs[at];
}

static bool pairs_grow(struct joined *joined)
{
	if (2 * joined->count < joined->room)
		return true;
	const size_t room = joined->room == 0 ? 1024 : 2 * joined->room;
	struct pair *pairs = calloc(room, sizeof *pairs);
	if (pairs == NULL)
		return false;
	for (size_t i = 0; i < joined->room; i++) {
		const struct pair *pair = &joined->pairs[i];
		if (pair->count != 0)
			*pair_slot(pairs, room, pair) = *pair;
	}
	free(joined->pairs);
	joined->pairs = pairs;
	joined->room = room;
	return true;
}

static uint64_t size_of(enum type_kind kind, uint64_t size)
{
	return kind == TYPE_PLAIN || kind == TYPE_TEXT ? size : 0;
}

bool joined_add(struct joined *joined, const struct lost_object *object)
{
	const struct pair like = {
		.name = texts_keep(joined->texts, object->name),
		.module = texts_keep(joined->texts, object->module),
		.size = size_of(object->kind, object->size),
		.stack = recording_block(joined->recording, object->address),
	};
	if (like.stack == 0)
		return true;
	if (like.name == NULL || like.module == NULL || !pairs_grow(joined))
		return false;
	struct pair *pair = pair_slot(joined->pairs, joined->room, &like);
	const uint64_t count = pair->count;
	joined->count += count == 0;
	*pair = like;
	pair->count = count + 1;
	return true;
}

// "make_node < parse < main"; the caller must free it. NULL: no memory.
static char *stack_text(struct joined *joined, uint32_t stack)
{
	struct stack_row row = {.stack = stack};
	char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);
	if (stream == NULL)
		return NULL;
	bool done = stack_row_frame(&row, joined->recording, joined->frames);
	for (size_t i = 0; i < row.frame_count && i < FUNCTIONS_TOLD; i++)
		fprintf(stream, "%s%s", i > 0 ? " < " : "", row.frames[i].function);
	free(row.frames);
	done = fclose(stream) == 0 && done;
	if (done)
		return text;
	free(text);
	return NULL;
}

// The one that allocated most; of several the first recorded.
static const struct pair *pair_best(const struct joined *joined, const struct type *type)
{
	const struct pair *best = NULL;
	for (size_t i = 0; i < joined->room; i++) {
		const struct pair *pair = &joined->pairs[i];
		if (pair->count == 0 || pair->size != size_of(type->kind, type->size) ||
			strcmp(pair->name, type->name) != 0 ||
			strcmp(pair->module, type->module) != 0)
			continue;
		if (best == NULL || pair->count > best->count ||
			(pair->count == best->count && pair->stack < best->stack))
			best = pair;
	}
	return best;
}

// Types beyond so many have no row that anybody reads; each costs a look at all pairs.
#define TYPES_TOLD 1000

bool joined_tell(struct joined *joined, struct types_result *types)
{
	types->recorded = true;
	for (size_t i = 0; i < types->count && i < TYPES_TOLD; i++) {
		const struct pair *best = pair_best(joined, &types->list[i]);
		if (best == NULL)
			continue;
		types->list[i].allocated_by = stack_text(joined, best->stack);
		if (types->list[i].allocated_by == NULL)
			return false;
	}
	return true;
}
