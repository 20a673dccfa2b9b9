// SPDX-License-Identifier: MIT
#include "types/saved.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "types/sizeclass.h"

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
	free(saved->modules);
#if HAVE_JANSSON
	json_decref(saved->json);
#endif
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

// NULL if there is none.
static const char *member_text_or_none(const json_t *object, const char *name)
{
	return json_string_value(json_object_get(object, name));
}

static bool member_is_true(const json_t *object, const char *name)
{
	return json_is_true(json_object_get(object, name));
}

// "0x...", as all 64-bit values are.
static uint64_t value_address(const json_t *value)
{
	const char *text = json_string_value(value);
	return text != NULL ? strtoull(text, NULL, 16) : 0;
}

static uint64_t member_address(const json_t *object, const char *name)
{
	return value_address(json_object_get(object, name));
}

static enum type_method method_of(const char *name)
{
	for (enum type_method method = METHOD_NONE; method < METHOD_COUNT; method++)
		if (strcmp(type_method_name(method), name) == 0)
			return method;
	return METHOD_NONE;
}

static enum type_kind kind_of(const char *name)
{
	for (enum type_kind kind = TYPE_CLASS; kind < TYPE_KIND_COUNT; kind++)
		if (strcmp(type_kind_name(kind), name) == 0)
			return kind;
	return TYPE_UNNAMED;
}

// Whether a text is as those that were written: valid UTF-8, which the library has seen to, without
// control characters. NULL is.
static bool text_is_plain(const char *text)
{
	const unsigned char *at = (const unsigned char *)(text != NULL ? text : "");
	for (; *at != '\0'; at++)
		if (*at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
			return false;
	return true;
}

// What can be missing or null must not be anything else.
static bool member_is_count_or_none(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	return value == NULL || json_is_null(value) ||
	       (json_is_integer(value) && json_integer_value(value) >= 0);
}

static bool member_is_text_or_none(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	return value == NULL || json_is_null(value) ||
	       (json_is_string(value) && text_is_plain(json_string_value(value)));
}

static bool members_are_counts_or_none(const json_t *object, const char *const *names)
{
	for (; *names != NULL; names++)
		if (!member_is_count_or_none(object, *names))
			return false;
	return true;
}

// Of lost objects: those that are lost directly are some of all, of which these members tell.
static bool direct_is_part(const json_t *object, const char *count, const char *bytes)
{
	return json_is_integer(json_object_get(object, count)) &&
	       json_is_integer(json_object_get(object, bytes)) &&
	       member_number(object, "direct_count") <= member_number(object, count) &&
	       member_number(object, "direct_bytes") <= member_number(object, bytes);
}

// Whether a row has what types are matched by and compared in; what is wrong there would be growth.
static bool type_is_whole(const json_t *type, bool lost)
{
	static const char *const numbers[] = {"count", "size", "bytes", "secondary", "embedded",
		"freed", "direct_count", "direct_bytes", NULL};
	const char *kind = member_text(type, "kind");
	return json_is_string(json_object_get(type, "name")) &&
	       member_is_text_or_none(type, "name") && member_is_text_or_none(type, "module") &&
	       member_is_text_or_none(type, "place") &&
	       strcmp(type_kind_name(kind_of(kind)), kind) == 0 &&
	       json_is_integer(json_object_get(type, "count")) &&
	       members_are_counts_or_none(type, numbers) &&
	       (!lost || direct_is_part(type, "count", "bytes"));
}

static bool types_are_whole(const json_t *types, bool lost)
{
	for (size_t i = 0; i < json_array_size(types); i++)
		if (!type_is_whole(json_array_get(types, i), lost))
			return false;
	return json_is_array(types);
}

// What the lines below the rows say of all.
static bool totals_are_whole(const json_t *totals, bool lost)
{
	static const char *const numbers[] = {"named_count", "named_bytes", "heap_bytes", "zeros",
		"texts", "left_out", "lost_count", "lost_bytes", "direct_count", "direct_bytes",
		"used_count", "used_bytes", "free_count", "free_bytes", "unwalked_bytes", "breaks",
		"arenas_lost", "unread_bytes", "foreign_bytes", "left_out_bytes", NULL};
	return json_is_object(totals) && json_is_integer(json_object_get(totals, "types")) &&
	       member_is_count_or_none(totals, "types") &&
	       members_are_counts_or_none(totals, numbers) &&
	       (!lost || direct_is_part(totals, "lost_count", "lost_bytes"));
}

static bool modules_are_whole(const json_t *modules)
{
	for (size_t i = 0; i < json_array_size(modules); i++) {
		const json_t *module = json_array_get(modules, i);
		if (!json_is_string(json_object_get(module, "path")) ||
			!json_is_string(json_object_get(module, "state")))
			return false;
	}
	return true;
}

static bool type_load(const json_t *object, struct type *ret)
{
	const json_t *sites = json_object_get(object, "sites");
	const json_t *examples = json_object_get(object, "examples");
	const char *place = member_text_or_none(object, "place");
	*ret = (struct type){
		.kind = kind_of(member_text(object, "kind")),
		.name = strdup(member_text(object, "name")),
		.module = strdup(member_text(object, "module")),
		.count = member_number(object, "count"),
		.size = member_number(object, "size"),
		.bytes = member_number(object, "bytes"),
		.bytes_known = json_is_integer(json_object_get(object, "bytes")),
		.method = method_of(member_text(object, "size_method")),
		.agreement = json_number_value(json_object_get(object, "size_agreement")),
		.place = place != NULL ? strdup(place) : NULL,
		.secondary = member_number(object, "secondary"),
		.embedded = member_number(object, "embedded"),
		.freed = member_number(object, "freed"),
		.direct = member_number(object, "direct_count"),
		.direct_bytes = member_number(object, "direct_bytes"),
	};
	for (size_t i = 0; i < json_array_size(examples) && i < EXAMPLES_MAX; i++)
		ret->examples[ret->example_count++] = value_address(json_array_get(examples, i));
	for (enum site site = SITE_HEAP; site < SITE_COUNT; site++)
		ret->sites[site] = member_number(sites, site_name(site));
	return ret->name != NULL && ret->module != NULL && (place == NULL || ret->place != NULL);
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
	size_t size = 0;
	FILE *list = open_memstream(ret, &size);
	if (list == NULL)
		return error_memory(err);
	bool any = false;
	for (size_t i = 0; i < json_array_size(modules); i++) {
		const json_t *module = json_array_get(modules, i);
		const char *state = member_text(module, "state");
		if (strcmp(state, "missing") != 0 && strcmp(state, "mismatch") != 0)
			continue;
		fprintf(list, "%s%s", any ? ", " : "", member_text(module, "path"));
		any = true;
	}
	if (fclose(list) != 0)
		return error_memory(err);
	if (!any) {
		free(*ret);
		*ret = NULL;
	}
	return true;
}

static bool modules_load(const json_t *modules, struct error *err, struct saved *ret)
{
	const size_t count = json_array_size(modules);
	ret->modules = calloc(count + 1, sizeof *ret->modules);
	if (ret->modules == NULL)
		return error_memory(err);
	for (size_t i = 0; i < count; i++) {
		const json_t *module = json_array_get(modules, i);
		ret->modules[ret->module_count++] = (struct saved_module){
			.path = member_text(module, "path"),
			.state = member_text(module, "state"),
			.file = member_text_or_none(module, "file"),
			.build_id = member_text_or_none(module, "build_id"),
			.file_build_id = member_text_or_none(module, "file_build_id"),
			.start = member_address(module, "start"),
			.end = member_address(module, "end"),
			.bias = member_address(module, "bias"),
			.is_main = member_is_true(module, "main"),
		};
	}
	return true;
}

static void totals_load(const json_t *totals, struct types_result *ret)
{
	const json_t *sizes = json_object_get(totals, "malloc_sizes");
	ret->named_count = member_number(totals, "named_count");
	ret->named_bytes = member_number(totals, "named_bytes");
	ret->heap_bytes = member_number(totals, "heap_bytes");
	ret->zeros = member_number(totals, "zeros");
	ret->texts = member_number(totals, "texts");
	ret->left_out = member_number(totals, "left_out");
	ret->walked = member_is_true(totals, "free_known");
	ret->lists_known = member_is_true(totals, "lists_known");
	ret->size_classes = size_classes_allocator(member_text(totals, "size_classes"));
	ret->lower = member_is_true(totals, "lower_bounds");
	for (size_t i = 0; i < json_array_size(sizes) && i < SIZE_FIELDS_MAX; i++) {
		const json_t *size = json_array_get(sizes, i);
		ret->fields[ret->field_count++] = (struct size_field){
			member_address(size, "value"), member_number(size, "count")};
	}
}

static void leaks_load(const json_t *totals, struct saved *ret)
{
	ret->leaks = (struct saved_leaks){
		.direct_count = member_number(totals, "direct_count"),
		.direct_bytes = member_number(totals, "direct_bytes"),
		.used_count = member_number(totals, "used_count"),
		.used_bytes = member_number(totals, "used_bytes"),
		.free_count = member_number(totals, "free_count"),
		.free_bytes = member_number(totals, "free_bytes"),
		.arenas_lost = member_number(totals, "arenas_lost"),
		.left_out_bytes = member_number(totals, "left_out_bytes"),
		.unwalked_bytes = member_number(totals, "unwalked_bytes"),
		.breaks = member_number(totals, "breaks"),
		.break_address = member_address(totals, "break_address"),
		.unread_bytes = member_number(totals, "unread_bytes"),
		.foreign_bytes = member_number(totals, "foreign_bytes"),
		.roots_missing = member_is_true(totals, "roots_missing"),
		.exact = member_is_true(totals, "exact_pointers"),
		.allocator = heap_allocator_named(member_text(totals, "allocator")),
	};
	ret->result.named_count = member_number(totals, "lost_count");
	ret->result.named_bytes = member_number(totals, "lost_bytes");
	ret->result.heap_bytes = ret->leaks.used_bytes;
}

static void input_load(const json_t *input, struct saved *ret)
{
	ret->byte_order = strcmp(member_text(input, "byte_order"), "big") == 0 ? "big" : "little";
	ret->machine = member_text_or_none(input, "machine");
	ret->command = member_text_or_none(input, "command");
	ret->signal = member_text_or_none(input, "signal");
	ret->elf_class = member_number(input, "class") == 32 ? 32 : 64;
	ret->threads = (unsigned)min_u64(member_number(input, "threads"), INT32_MAX);
	ret->signal_number = (int)min_u64(member_number(input, "signal_number"), INT32_MAX);
	ret->pid = json_is_integer(json_object_get(input, "pid"))
			   ? (int64_t)member_number(input, "pid")
			   : -1;
}

static void scanned_load(const json_t *scanned, const json_t *memory, struct saved *ret)
{
	ret->segments = member_number(scanned, "segments");
	ret->bytes_saved = member_number(scanned, "bytes_saved");
	ret->bytes_not_saved = member_number(scanned, "bytes_not_saved");
	ret->bytes_missing = member_number(scanned, "bytes_missing");
	ret->words = member_number(scanned, "words");
	ret->word_size = (unsigned)min_u64(member_number(scanned, "word_size"), 8);
	ret->result.partial = member_is_true(scanned, "partial");
	ret->heap = member_number(memory, "heap");
	ret->anon = member_number(memory, "anon");
	ret->stacks = member_number(memory, "stacks");
	ret->files = member_number(memory, "files");
}

static bool result_load(const json_t *root, const char *path, const char *mode, struct error *err,
	struct saved *ret)
{
	const json_t *types = json_object_get(root, "types");
	const json_t *totals = json_object_get(root, "totals");
	const bool lost = strcmp(mode, "leaks") == 0;
	if (strcmp(member_text(root, "mode"), mode) != 0 || member_number(root, "schema") != 1 ||
		!types_are_whole(types, lost) || !totals_are_whole(totals, lost) ||
		!modules_are_whole(json_object_get(root, "modules")))
		return error_set(err,
			"%s: is JSON, but not what --%s -ojson of this version writes", path, mode);
	ret->types = member_number(totals, "types");
	totals_load(totals, &ret->result);
	if (lost)
		leaks_load(totals, ret);
	input_load(json_object_get(root, "input"), ret);
	scanned_load(json_object_get(root, "scanned"), json_object_get(root, "memory"), ret);
	ret->path = strdup(member_text(json_object_get(root, "input"), "path"));
	if (ret->path == NULL)
		return error_memory(err);
	return list_load(types, err, &ret->result) &&
	       missing_load(json_object_get(root, "modules"), err, &ret->missing) &&
	       modules_load(json_object_get(root, "modules"), err, ret);
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
	ret->json = root;
	const bool ok = result_load(root, path, mode, err, ret);
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
