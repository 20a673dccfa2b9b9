// SPDX-License-Identifier: MIT
#include "types/objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum site site_at(const struct places *places, uint64_t address)
{
	size_t index;
	if (!places_find(places, address, &index))
		return SITE_ANON;
	switch (places->list[index].type) {
	case PLACE_BREAK:
	case PLACE_ARENA:
	case PLACE_BLOCKS:
		return SITE_HEAP;
	case PLACE_MODULE:
		return SITE_DATA;
	case PLACE_ANON:
	case PLACE_STACK: // memory around the stack of a goroutine
		break;
	}
	return SITE_ANON;
}

static void type_free(struct type *type)
{
	free(type->name);
	free(type->module);
	free(type->place);
}

// Whether a row is of the runtime's own program: what points into it from its objects, and what its
// compiler has left.
static bool is_runtimes_own(const struct type *type, const struct runtime *runtime)
{
	return runtime->own != OWN_PROGRAM &&
	       (type->kind == TYPE_CLASS || type->kind == TYPE_STRUCT ||
		       type->kind == TYPE_UNNAMED) &&
	       strcmp(type->module, runtime->module->name) == 0;
}

// Take out the rows of a runtime's own program. ret is what they come to.
static void own_drop(struct types_result *result, const struct runtime *runtime, struct type *ret)
{
	size_t kept = 0;
	for (size_t i = 0; i < result->count; i++) {
		struct type *type = &result->list[i];
		if (!is_runtimes_own(type, runtime)) {
			result->list[kept++] = *type;
			continue;
		}
		if (type->kind != TYPE_UNNAMED) {
			result->named_count -= min_u64(result->named_count, type->count);
			result->named_bytes -= min_u64(result->named_bytes, type->bytes);
		}
		ret->count = add_saturated(ret->count, type->count);
		ret->bytes = add_saturated(ret->bytes, type->bytes);
		ret->bytes_known = true;
		for (enum site site = SITE_HEAP; site < SITE_COUNT; site++)
			ret->sites[site] = add_saturated(ret->sites[site], type->sites[site]);
		type_free(type);
	}
	result->count = kept;
}

// Take over name and module. Both can be NULL, for lack of memory.
static bool row_add(struct types_result *result, struct type row, struct error *err)
{
	if (row.name == NULL || row.module == NULL) {
		type_free(&row);
		return error_memory(err);
	}
	if (!types_add(result, &row, err))
		return false;
	result->named_count = add_saturated(result->named_count, row.count);
	result->named_bytes = add_saturated(result->named_bytes, row.bytes);
	return true;
}

static struct type object_row(
	const struct runtime *runtime, const struct runtime_type *type, const struct places *places)
{
	struct type row = {
		.kind = TYPE_OBJECT,
		.method = METHOD_OBJECT,
		.name = strdup(type->name),
		.module = strdup(runtime->name),
		.count = type->count,
		.size = type->size > 0 ? type->size : type->bytes / max_u64(type->count, 1),
		.agreement = type->size > 0 ? 1 : 0,
		.bytes = type->bytes,
		.bytes_known = true,
	};
	row.sites[type->example_count > 0 ? site_at(places, type->examples[0]) : SITE_ANON] =
		type->count;
	for (unsigned i = 0; i < type->example_count && i < EXAMPLES_MAX; i++)
		row.examples[row.example_count++] = type->examples[i];
	return row;
}

// Memory that is known to be the runtime's, and not more.
static struct type heap_row(const struct runtime *runtime)
{
	struct type row = {
		.kind = TYPE_OBJECT,
		.module = strdup(runtime->name),
		.count = 1,
		.bytes = runtime->heap_bytes,
		.bytes_known = true,
	};
	if (asprintf(&row.name, "(its heap 0x%" PRIx64 "-0x%" PRIx64 ": %s)", runtime->heap_start,
		    runtime->heap_end, runtime->doubt) < 0)
		row.name = NULL;
	row.sites[SITE_ANON] = 1;
	if (runtime->heap_start != 0)
		row.examples[row.example_count++] = runtime->heap_start;
	return row;
}

// Memory that is the runtime's and has no object: by what its blocks are larger than what is in
// them, or what is free.
static struct type rest_row(const struct runtime *runtime, const char *name, uint64_t bytes)
{
	struct type row = {
		.kind = TYPE_OBJECT,
		.name = strdup(name),
		.module = strdup(runtime->name),
		.count = 1,
		.bytes = bytes,
		.bytes_known = true,
	};
	row.sites[SITE_ANON] = 1;
	return row;
}

static bool runtime_add(struct types_result *result, const struct runtime *runtime,
	const struct places *places, struct error *err)
{
	struct type own = {.kind = TYPE_STRUCT};
	own_drop(result, runtime, &own);
	if (runtime->own == OWN_MEMORY && own.count > 0) {
		own.name = strdup("(of the virtual machine itself)");
		own.module = strdup(runtime->module->name);
		if (!row_add(result, own, err))
			return false;
	}
	if (runtime->doubt != NULL)
		return row_add(result, heap_row(runtime), err);
	for (size_t i = 0; i < runtime->type_count; i++)
		if (!row_add(result, object_row(runtime, &runtime->types[i], places), err))
			return false;
	return (runtime->round_bytes == 0 ||
		       row_add(result,
			       rest_row(runtime, "(rounded up to blocks)", runtime->round_bytes),
			       err)) &&
	       (runtime->free_bytes == 0 ||
		       row_add(result, rest_row(runtime, "(free)", runtime->free_bytes), err));
}

bool types_add_objects(struct types_result *result, const struct runtimes *runtimes,
	const struct places *places, struct error *err)
{
	for (size_t i = 0; i < runtimes->count; i++)
		if (!runtime_add(result, &runtimes->list[i], places, err))
			return false;
	result->partial = result->partial || runtimes->partial;
	return true;
}
