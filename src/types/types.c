// SPDX-License-Identifier: MIT
#include "types/types.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "types/evidence.h"

// Pointers to what has no name are everywhere (texts, tables); rows are made of frequent ones only.
#define UNNAMED_MIN 64
#define STRUCT_MIN 2
// Where no chunk tells that there is an object, two that are near each other mean nothing.
#define ALONE_MIN 16

const char *type_kind_name(enum type_kind kind)
{
	static const char *const names[TYPE_KIND_COUNT] = {
		"class", "struct", "unnamed", "text", "none", "object"};
	return names[kind];
}

const char *type_method_name(enum type_method method)
{
	static const char *const names[METHOD_COUNT] = {
		"none", "chunk", "header", "distance", "object", "element"};
	return names[method];
}

const char *site_name(enum site site)
{
	static const char *const names[SITE_COUNT] = {"heap", "anon", "stack", "data"};
	return names[site];
}

struct builder {
	const struct image *image;
	struct names *names;
	struct evidence evidence;
	struct types_result *result;
	struct error *err;
};

static void type_deinit(struct type *type)
{
	free(type->name);
	free(type->module);
	free(type->place);
	free(type->allocated_by);
}

bool types_add(struct types_result *result, const struct type *row, struct error *err)
{
	struct type type = *row;
	if (result->count == result->capacity) {
		const size_t wanted = 2 * result->capacity + 256;
		struct type *grown = reallocarray(result->list, wanted, sizeof *grown);
		if (grown == NULL) {
			type_deinit(&type);
			return error_memory(err);
		}
		result->list = grown;
		result->capacity = wanted;
	}
	result->list[result->count++] = type;
	return true;
}

static struct type *type_add(
	struct builder *builder, enum type_kind kind, const char *name, const struct module *module)
{
	struct types_result *result = builder->result;
	struct type type = {.kind = kind,
		.name = strdup(name),
		.module = strdup(module != NULL ? module->name : "")};
	if (type.name == NULL || type.module == NULL) {
		type_deinit(&type);
		error_memory(builder->err);
		return NULL;
	}
	return types_add(result, &type, builder->err) ? &result->list[result->count - 1] : NULL;
}

// Objects with this word have a row.
static bool mark_add(struct builder *builder, uint64_t value)
{
	struct types_result *result = builder->result;
	if (result->mark_count == result->mark_capacity) {
		const size_t wanted = 2 * result->mark_capacity + 256;
		uint64_t *grown = reallocarray(result->marks, wanted, sizeof *grown);
		if (grown == NULL)
			return error_memory(builder->err);
		result->marks = grown;
		result->mark_capacity = wanted;
	}
	result->marks[result->mark_count++] = value;
	return true;
}

static int mark_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

// Where the hits of an entry are goes to the type.
static void type_take_sites(struct type *type, const struct entry *entry)
{
	const struct candidate *hits = entry->hits;
	memcpy(type->sites, hits->sites, sizeof type->sites);
	for (uint32_t i = 0; i < hits->examples.count; i++)
		type->examples[type->example_count++] = hits->examples.list[i].address;
	type->freed = hits->freed;
}

// Where the hits of a row are that is of one offset in blocks, or of what is in none.
static void type_take_row(struct type *type, const struct entry *entry, unsigned offset)
{
	const struct candidate *hits = entry->hits;
	type->freed = hits->freed;
	if (offset <= OFFSET_MAX) {
		type->sites[SITE_HEAP] = type->count;
		for (uint32_t i = 0; i < hits->openers.count; i++)
			if (hits->openers.list[i].offset == offset)
				type->examples[type->example_count++] =
					hits->openers.list[i].address;
		return;
	}
	// Those that lie inside of others are not in the row; where they are is not known apart.
	const uint64_t heap = hits->sites[SITE_HEAP] - hits->chained;
	type->sites[SITE_ANON] = min_u64(type->count, hits->sites[SITE_ANON]);
	type->sites[SITE_HEAP] = min_u64(type->count - type->sites[SITE_ANON], heap);
	if (hits->openers.has_alone)
		type->examples[type->example_count++] = hits->openers.alone.address;
}

// The one place that all objects are in, if it is a stack or the data of a module.
static bool type_find_place(
	const struct builder *builder, struct type *type, const struct candidate *hits)
{
	const uint64_t stack = type->sites[SITE_STACK], data = type->sites[SITE_DATA];
	if (stack == type->count && hits->stack != PLACES_MANY && hits->stack > 0) {
		type->place = strdup(names_span(builder->names, hits->stack - 1));
	} else if (data == type->count && hits->module != PLACES_MANY && hits->module > 0) {
		const struct module *module =
			&names_modules(builder->names)->list[hits->module - 1];
		if (asprintf(&type->place, "data of %s", module->name) < 0)
			type->place = NULL;
	} else {
		return true;
	}
	return type->place != NULL || error_memory(builder->err);
}

// ---- sizes

struct sizes {
	uint64_t opened, bytes; // chunks, and what they take
	uint64_t size, most;	// the most frequent chunk, and how many there are
};

// The chunks that a candidate opens at an offset; OFFSET_DEEP: at any.
static struct sizes opens_measure(
	const struct evidence *evidence, const struct entry *entry, unsigned offset)
{
	const struct open *opens = &evidence->opens[entry->first_open];
	struct sizes ret = {0};
	uint64_t same = 0;
	for (size_t i = 0; i < entry->open_count; i++) {
		if (i > 0 && opens[i].size != opens[i - 1].size)
			same = 0;
		if (offset != OFFSET_DEEP && opens[i].offset != offset)
			continue;
		same += opens[i].count;
		ret.opened += opens[i].count;
		ret.bytes = add_saturated(ret.bytes, opens[i].count * opens[i].size);
		if (same > ret.most) {
			ret.most = same;
			ret.size = opens[i].size;
		}
	}
	return ret;
}

static double share_of(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

// Objects without a known chunk.
struct lone {
	uint64_t size, bytes; // of one; of all; 0: unknown
	bool arrays;	      // most are elements of arrays
};

static struct lone alone_measure(
	const struct size_classes *classes, const struct entry *entry, uint64_t alone)
{
	const bool header = entry_has_header(entry);
	struct lone ret = {.size = header ? entry->header : entry->distance.size};
	// What mostly lies inside other objects has the distances of these.
	const bool own = !header && classes->allocator != NULL && alone * 2 > entry->alone;
	const uint64_t elements = own ? min_u64(entry->arrays.elements, alone) : 0;
	ret.arrays = elements * 2 > alone;
	// Single objects have a distance that the allocator knows, or it was chance.
	if (own && !ret.arrays && !size_is_class(classes, ret.size))
		ret.size = 0;
	ret.bytes = (alone - elements) * size_class_round(classes, ret.size, false);
	if (elements > 0)
		ret.bytes = add_saturated(ret.bytes, entry->arrays.bytes);
	return ret;
}

// Fill in size and bytes from the chunks, the distances and the headers.
static void type_measure(struct type *type, const struct size_classes *classes,
	const struct entry *entry, const struct sizes *sizes)
{
	const uint64_t alone = entry->alone - min_u64(entry->alone, entry->inside);
	uint64_t seen = 0;
	type->bytes = sizes->bytes;
	type->bytes_known = sizes->opened > 0;
	if (sizes->opened > 0) {
		type->method = METHOD_CHUNK;
		type->size = sizes->size;
		type->agreement = share_of(sizes->most, sizes->opened);
		seen = sizes->opened;
	}
	if (entry->elements > sizes->opened && entry->element.size > 0) {
		type->method = METHOD_ELEMENT;
		type->size = entry->element.size;
		type->agreement = share_of(entry->element.agree, entry->element.seen);
		seen = entry->elements;
	}
	if (alone == 0)
		return;
	const bool header = entry_has_header(entry);
	const struct lone lone = alone_measure(classes, entry, alone);
	if (lone.size == 0)
		return;
	type->bytes_known = true;
	type->bytes = add_saturated(type->bytes, lone.bytes);
	if (alone <= seen)
		return;
	type->size = lone.size;
	type->method = header ? METHOD_HEADER : lone.arrays ? METHOD_ELEMENT : METHOD_DISTANCE;
	type->agreement = header ? share_of(entry->headers, entry->alone)
				 : share_of(entry->distance.agree, entry->distance.seen);
}

// ---- classes

static int class_compare(const void *left, const void *right)
{
	const struct entry *a = *(const struct entry *const *)left,
			   *b = *(const struct entry *const *)right;
	const int order = strcmp(a->name, b->name);
	if (order != 0)
		return order;
	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->hits < b->hits ? -1 : a->hits > b->hits;
}

static uint64_t entry_count(const struct entry *entry)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < SITE_COUNT; i++)
		sum += entry->hits->sites[i];
	return sum;
}

// The vtables of one class. The one without an offset to top counts; where there are several, the
// others serve while objects are made and destroyed. Only if there is none, another stands for it.
static bool class_report(struct builder *builder, const struct entry *const *group, size_t count)
{
	const struct entry *primary = NULL;
	uint64_t secondary = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t hits = entry_count(group[i]);
		if (primary == NULL ||
			(group[i]->offset == primary->offset && hits > entry_count(primary)))
			primary = group[i];
	}
	for (size_t i = 0; i < count; i++)
		if (group[i]->offset != primary->offset)
			secondary = add_saturated(secondary, entry_count(group[i]));
	if (entry_count(primary) == 0)
		return true;
	struct type *type = type_add(builder, TYPE_CLASS, primary->name, primary->module);
	if (type == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!mark_add(builder, group[i]->hits->value))
			return false;
	const struct sizes sizes = opens_measure(&builder->evidence, primary, OFFSET_DEEP);
	type->count = entry_count(primary);
	type->secondary = secondary;
	// The elements of an array lie beside each other.
	const uint64_t own = add_saturated(sizes.opened, primary->elements);
	type->embedded =
		primary->hits->chained - min_u64(primary->hits->chained, own) + primary->inside;
	type_take_sites(type, primary);
	type_measure(type, &builder->evidence.pass->classes, primary, &sizes);
	return type_find_place(builder, type, primary->hits);
}

static bool classes_report(struct builder *builder)
{
	const uint32_t all = builder->evidence.pass->count;
	const struct entry **list = calloc((size_t)all + 1, sizeof *list);
	bool ok = true;
	size_t count = 0;
	if (list == NULL)
		return error_memory(builder->err);
	for (uint32_t i = 0; i < all; i++)
		if (builder->evidence.entries[i].type == IDENTITY_CLASS)
			list[count++] = &builder->evidence.entries[i];
	qsort(list, count, sizeof *list, class_compare);
	for (size_t first = 0, end; ok && first < count; first = end) {
		for (end = first + 1; end < count && list[end]->module == list[first]->module &&
				      strcmp(list[end]->name, list[first]->name) == 0;)
			end++;
		ok = class_report(builder, list + first, end - first);
	}
	free(list);
	return ok;
}

// ---- C structs

char *type_name_pointer(const struct identity *identity, uint64_t value, unsigned offset)
{
	char *name = NULL, inside[32] = "", at[16] = "";
	const bool named = identity->type != IDENTITY_NONE;
	if (identity->module == NULL) {
		if (offset > 0 && offset <= OFFSET_MAX)
			snprintf(at, sizeof at, " @+%u", offset);
		return asprintf(&name,
			       "-> not mapped, 0x%" PRIx64 " (a library that was unloaded?)%s",
			       value, at) < 0
			       ? NULL
			       : name;
	}
	if (!named)
		snprintf(inside, sizeof inside, "+0x%" PRIx64, value - identity->module->bias);
	else if (identity->offset != 0)
		snprintf(inside, sizeof inside, "+%" PRIu64, identity->offset);
	if (offset <= OFFSET_MAX)
		snprintf(at, sizeof at, " @+%u", offset);
	// An object of which nothing is known but its first word: a class without a name, most
	// likely.
	const bool plain = !named && offset == 0;
	if (asprintf(&name, "%s%s%s%s", plain ? "" : "-> ",
		    named ? identity->name : identity->module->name, inside, plain ? "" : at) < 0)
		return NULL;
	return name;
}

static char *struct_name(const struct entry *entry, unsigned offset)
{
	const struct identity identity = {.type = entry->type,
		.module = entry->module,
		.name = entry->name,
		.offset = entry->offset};
	return type_name_pointer(&identity, entry->hits->value, offset);
}

static bool struct_add(struct builder *builder, const struct entry *entry, unsigned offset,
	const struct sizes *sizes, uint64_t count)
{
	const bool named = entry->type != IDENTITY_NONE;
	const uint64_t least = !named ? UNNAMED_MIN : sizes->opened > 0 ? STRUCT_MIN : ALONE_MIN;
	if (count < least)
		return true;
	char *name = struct_name(entry, offset);
	if (name == NULL)
		return error_memory(builder->err);
	struct type *type =
		type_add(builder, named ? TYPE_STRUCT : TYPE_UNNAMED, name, entry->module);
	free(name);
	if (type == NULL || !mark_add(builder, entry->hits->value))
		return false;
	type->count = count;
	type_take_row(type, entry, offset);
	type_measure(type, &builder->evidence.pass->classes, entry, sizes);
	return true;
}

// One row for each offset at which a pointer stands in chunks, and one for where that is not known.
static bool struct_report(struct builder *builder, const struct entry *entry)
{
	const unsigned word = image_info(builder->image)->word_size;
	const uint64_t alone = entry->alone - min_u64(entry->alone, entry->inside);
	struct entry part = *entry;
	unsigned best = OFFSET_DEEP;
	uint64_t most = 0;
	part.alone = part.inside = 0;
	for (unsigned offset = 0; entry->open_count > 0 && offset <= OFFSET_MAX; offset += word) {
		const struct sizes sizes = opens_measure(&builder->evidence, entry, offset);
		if (sizes.opened > most) {
			most = sizes.opened;
			best = offset;
		}
	}
	for (unsigned offset = 0; entry->open_count > 0 && offset <= OFFSET_MAX; offset += word) {
		const struct sizes sizes = opens_measure(&builder->evidence, entry, offset);
		// Arrays are told by the most frequent offset; several in a row, or a struct just
		// has the pointer twice.
		const bool array = offset == best && entry->elements >= 2 * sizes.opened;
		part.elements = array ? entry->elements : 0;
		if (sizes.opened > 0 &&
			!struct_add(builder, &part, offset, &sizes, sizes.opened + part.elements))
			return false;
	}
	const struct sizes none = {0};
	part = *entry;
	part.elements = 0;
	return alone == 0 || struct_add(builder, &part, OFFSET_DEEP, &none, alone);
}

static bool structs_report(struct builder *builder)
{
	for (uint32_t i = 0; i < builder->evidence.pass->count; i++) {
		const struct entry *entry = &builder->evidence.entries[i];
		if (entry->type != IDENTITY_CLASS && entry->type != IDENTITY_CONSTRUCTION &&
			!entry->middle && entry->rank > 0 && !struct_report(builder, entry))
			return false;
	}
	return true;
}

// ---- the whole

static void result_total(struct types_result *result, const struct survey_result *pass)
{
	result->words = pass->words;
	result->zeros = pass->zeros;
	result->texts = pass->texts;
	memcpy(result->fields, pass->fields, sizeof result->fields);
	result->field_count = pass->field_count;
	result->left_out = pass->bar;
	result->passes = pass->passes;
	result->threads = pass->threads;
	result->partial = pass->partial;
	result->size_classes = pass->classes.allocator;
	result->lists_known = pass->lists_known;
	result->walked = pass->walked;
	result->packed = pass->packed;
	for (size_t i = 0; i < result->count; i++) {
		const struct type *type = &result->list[i];
		if (type->kind == TYPE_UNNAMED)
			continue;
		result->named_count = add_saturated(result->named_count, type->count);
		result->named_bytes = add_saturated(result->named_bytes, type->bytes);
	}
}

bool types_find(const struct image *image, struct names *names, const struct survey_result *pass,
	struct error *err, struct types_result *ret)
{
	const struct image_info *info = image_info(image);
	struct builder builder = {.image = image, .names = names, .result = ret, .err = err};
	*ret = (struct types_result){0};
	ret->lower = info->bytes_present < info->bytes_saved || info->headers_missing > 0;
	bool ok = evidence_init(&builder.evidence, image, pass, names, err);
	if (ok) {
		ok = classes_report(&builder) && structs_report(&builder);
		evidence_deinit(&builder.evidence);
		if (ret->mark_count > 0)
			qsort(ret->marks, ret->mark_count, sizeof *ret->marks, mark_compare);
	}
	if (ok)
		result_total(ret, pass);
	else
		types_result_deinit(ret);
	return ok;
}

uint64_t types_bytes(const struct types_result *result)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < result->count; i++)
		sum = add_saturated(sum, result->list[i].bytes);
	return sum;
}

void types_result_deinit(struct types_result *result)
{
	for (size_t i = 0; i < result->count; i++)
		type_deinit(&result->list[i]);
	free(result->list);
	free(result->marks);
	*result = (struct types_result){0};
}

static int by_name(const struct type *a, const struct type *b)
{
	const int order = strcmp(a->name, b->name);
	return order != 0 ? order : strcmp(a->module, b->module);
}

static int by_number(uint64_t a, uint64_t b)
{
	return a > b ? -1 : a < b;
}

static int compare_bytes(const void *left, const void *right)
{
	const struct type *a = left, *b = right;
	int order = by_number(a->bytes, b->bytes);
	if (order == 0)
		order = by_number(a->count, b->count);
	return order != 0 ? order : by_name(a, b);
}

static int compare_count(const void *left, const void *right)
{
	const struct type *a = left, *b = right;
	const int order = by_number(a->count, b->count);
	return order != 0 ? order : compare_bytes(left, right);
}

static int compare_size(const void *left, const void *right)
{
	const struct type *a = left, *b = right;
	const int order = by_number(a->size, b->size);
	return order != 0 ? order : compare_bytes(left, right);
}

static int compare_name(const void *left, const void *right)
{
	const int order = by_name(left, right);
	return order != 0 ? order : compare_bytes(left, right);
}

void types_sort(struct types_result *result, enum type_sort sort)
{
	static int (*const compare[])(const void *, const void *) = {
		[SORT_BYTES] = compare_bytes,
		[SORT_COUNT] = compare_count,
		[SORT_SIZE] = compare_size,
		[SORT_NAME] = compare_name,
	};
	if (result->count > 0)
		qsort(result->list, result->count, sizeof *result->list, compare[sort]);
}
