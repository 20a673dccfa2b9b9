// SPDX-License-Identifier: MIT
#include "types/saved.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#if HAVE_JANSSON
#include <jansson.h>
#endif

bool saved_is(const char *path)
{
	struct stat status;
	if (stat(path, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return false;
	int first;
	do
		first = getc(file);
	while (first == ' ' || first == '\t' || first == '\r' || first == '\n');
	fclose(file);
	return first == '{';
}

void saved_deinit(struct saved *saved)
{
	types_result_deinit(&saved->result);
	free(saved->path);
	free(saved->missing);
	*saved = (struct saved){0};
}

#if HAVE_JANSSON

// A member that is a number; 0 if it is none.
static uint64_t member_number(const json_t *object, const char *name)
{
	const json_int_t value = json_integer_value(json_object_get(object, name));
	return value > 0 ? (uint64_t)value : 0;
}

static const char *member_text(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));
	return text != NULL ? text : "";
}

static enum type_kind kind_of(const char *name)
{
	for (enum type_kind kind = TYPE_CLASS; kind < TYPE_KIND_COUNT; kind++)
		if (strcmp(type_kind_name(kind), name) == 0)
			return kind;
	return TYPE_UNNAMED;
}

static bool type_load(const json_t *object, struct type *ret)
{
	const json_t *sites = json_object_get(object, "sites");
	*ret = (struct type){
		.kind = kind_of(member_text(object, "kind")),
		.name = strdup(member_text(object, "name")),
		.module = strdup(member_text(object, "module")),
		.count = member_number(object, "count"),
		.size = member_number(object, "size"),
		.bytes = member_number(object, "bytes"),
		.bytes_known = json_is_integer(json_object_get(object, "bytes")),
	};
	for (enum site site = SITE_HEAP; site < SITE_COUNT; site++)
		ret->sites[site] = member_number(sites, site_name(site));
	return ret->name != NULL && ret->module != NULL;
}

static bool list_load(const json_t *array, struct error *err, struct types_result *ret)
{
	ret->list = calloc(json_array_size(array) + 1, sizeof *ret->list);
	if (ret->list == NULL)
		return error_memory(err);
	for (size_t i = 0; i < json_array_size(array); i++)
		if (!type_load(json_array_get(array, i), &ret->list[ret->count++]))
			return error_memory(err);
	return true;
}

// The paths of modules whose file was not there, or was another one.
static bool missing_load(const json_t *modules, struct error *err, char **ret)
{
	for (size_t i = 0; i < json_array_size(modules); i++) {
		const json_t *module = json_array_get(modules, i);
		const char *state = member_text(module, "state");
		if (strcmp(state, "missing") != 0 && strcmp(state, "mismatch") != 0)
			continue;
		char *longer = NULL;
		if (asprintf(&longer, "%s%s%s", *ret != NULL ? *ret : "", *ret != NULL ? ", " : "",
			    member_text(module, "path")) < 0)
			return error_memory(err);
		free(*ret);
		*ret = longer;
	}
	return true;
}

static bool result_load(const json_t *root, const char *path, const char *mode, struct error *err,
	struct saved *ret)
{
	const json_t *types = json_object_get(root, "types");
	const json_t *totals = json_object_get(root, "totals");
	if (strcmp(member_text(root, "mode"), mode) != 0 || !json_is_array(types) ||
		member_number(root, "schema") != 1)
		return error_set(err,
			"%s: is JSON, but not what --%s -ojson of this version writes", path, mode);
	ret->types = member_number(totals, "types");
	ret->result.heap_bytes = member_number(totals, "heap_bytes");
	ret->result.lower = json_is_true(json_object_get(totals, "lower_bounds"));
	ret->path = strdup(member_text(json_object_get(root, "input"), "path"));
	if (ret->path == NULL)
		return error_memory(err);
	return list_load(types, err, &ret->result) &&
	       missing_load(json_object_get(root, "modules"), err, &ret->missing);
}

bool saved_load(const char *path, const char *mode, struct error *err, struct saved *ret)
{
	*ret = (struct saved){0};
	FILE *file = fopen(path, "re");
	if (file == NULL)
		return error_set(err, "%s: %s", path, strerror(errno));
	json_error_t wrong;
	json_t *root = json_loadf(file, JSON_DISABLE_EOF_CHECK, &wrong);
	fclose(file);
	if (root == NULL)
		return error_set(err, "%s: is no JSON, line %d: %s", path, wrong.line, wrong.text);
	const bool ok = result_load(root, path, mode, err, ret);
	json_decref(root);
	if (!ok)
		saved_deinit(ret);
	return ok;
}

#else

bool saved_load(const char *path, const char *mode, struct error *err, struct saved *ret)
{
	(void)mode;
	*ret = (struct saved){0};
	return error_set(err, "%s: this topleak was built without the library jansson", path);
}

#endif
