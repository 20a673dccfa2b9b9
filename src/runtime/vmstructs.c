// SPDX-License-Identifier: MIT
#include "runtime/vmstructs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

// A table has no more entries, an entry is not larger, and no name is longer: each of the first has
// some 1,500 in JDK 25.
#define ENTRIES_MAX 16384
#define STRIDE_MAX 256
#define TEXT_SIZE 128

enum what { WHAT_FIELD, WHAT_STATIC, WHAT_SIZE, WHAT_CONSTANT };

struct vmstruct {
	uint64_t hash; // of what it is and its name
	uint64_t value;
};

// FNV-1a, 64 bits.
static uint64_t text_hash(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
	return (hash ^ 0xff) * 0x100000001b3u;
}

static uint64_t name_hash(enum what what, const char *type, const char *field)
{
	return text_hash(text_hash(0xcbf29ce484222325u + (uint64_t)what, type), field);
}

static bool entry_add(struct vmstructs *structs, uint64_t hash, uint64_t value)
{
	if (structs->count == structs->capacity) {
		const size_t capacity = structs->capacity * 2 + 1024;
		struct vmstruct *grown =
			reallocarray(structs->list, capacity, sizeof *structs->list);
		if (grown == NULL)
			return false;
		structs->list = grown;
		structs->capacity = capacity;
	}
	structs->list[structs->count++] = (struct vmstruct){hash, value};
	return true;
}

// One table: where it begins, how large its entries are, and where in them is what.
struct table {
	uint64_t start, stride;
	uint64_t places[6]; // in the order of the names asked for
};

static bool table_find(const struct exports *exports, struct reader *reader, const char *start,
	const char *prefix, const char *const *names, struct table *ret)
{
	char symbol[96];
	uint64_t address;
	if (!exports_find(exports, reader, start, NULL, &address))
		return false;
	ret->start = reader_word(reader, address);
	snprintf(symbol, sizeof symbol, "%sArrayStride", prefix);
	if (!exports_find(exports, reader, symbol, NULL, &address))
		return false;
	ret->stride = reader_word(reader, address);
	for (size_t i = 0; names[i] != NULL; i++) {
		snprintf(symbol, sizeof symbol, "%s%sOffset", prefix, names[i]);
		if (!exports_find(exports, reader, symbol, NULL, &address))
			return false;
		ret->places[i] = reader_word(reader, address);
		if (ret->places[i] >= STRIDE_MAX)
			return false;
	}
	return ret->start != 0 && ret->stride > 0 && ret->stride <= STRIDE_MAX;
}

static bool structs_read(
	const struct exports *exports, struct reader *reader, struct vmstructs *ret)
{
	static const char *const names[] = {
		"TypeName", "FieldName", "IsStatic", "Offset", "Address", NULL};
	struct table table;
	if (!table_find(
		    exports, reader, "gHotSpotVMStructs", "gHotSpotVMStructEntry", names, &table))
		return false;
	for (uint64_t i = 0; i < ENTRIES_MAX; i++) {
		char type[TEXT_SIZE], field[TEXT_SIZE];
		const uint64_t entry = table.start + i * table.stride;
		const uint64_t text = reader_word(reader, entry + table.places[0]);
		if (text == 0)
			return true;
		reader_text(reader, text, type, sizeof type);
		reader_text(
			reader, reader_word(reader, entry + table.places[1]), field, sizeof field);
		const bool is_static = reader_u32(reader, entry + table.places[2]) != 0;
		const uint64_t value = reader_word(reader, entry + table.places[is_static ? 4 : 3]);
		if (!entry_add(ret, name_hash(is_static ? WHAT_STATIC : WHAT_FIELD, type, field),
			    value))
			return false;
	}
	return true;
}

static bool types_read(const struct exports *exports, struct reader *reader, struct vmstructs *ret)
{
	static const char *const names[] = {"TypeName", "Size", NULL};
	struct table table;
	if (!table_find(exports, reader, "gHotSpotVMTypes", "gHotSpotVMTypeEntry", names, &table))
		return false;
	for (uint64_t i = 0; i < ENTRIES_MAX; i++) {
		char type[TEXT_SIZE];
		const uint64_t entry = table.start + i * table.stride;
		const uint64_t text = reader_word(reader, entry + table.places[0]);
		if (text == 0)
			return true;
		reader_text(reader, text, type, sizeof type);
		if (!entry_add(ret, name_hash(WHAT_SIZE, type, ""),
			    reader_word(reader, entry + table.places[1])))
			return false;
	}
	return true;
}

static bool constants_read(
	const struct exports *exports, struct reader *reader, bool is_long, struct vmstructs *ret)
{
	static const char *const names[] = {"Name", "Value", NULL};
	struct table table;
	if (!table_find(exports, reader,
		    is_long ? "gHotSpotVMLongConstants" : "gHotSpotVMIntConstants",
		    is_long ? "gHotSpotVMLongConstantEntry" : "gHotSpotVMIntConstantEntry", names,
		    &table))
		return false;
	for (uint64_t i = 0; i < ENTRIES_MAX; i++) {
		char name[TEXT_SIZE];
		const uint64_t entry = table.start + i * table.stride;
		const uint64_t text = reader_word(reader, entry + table.places[0]);
		if (text == 0)
			return true;
		reader_text(reader, text, name, sizeof name);
		const uint64_t value = is_long ? reader_word(reader, entry + table.places[1])
					       : reader_u32(reader, entry + table.places[1]);
		if (!entry_add(ret, name_hash(WHAT_CONSTANT, name, ""), value))
			return false;
	}
	return true;
}

static int entry_compare(const void *left, const void *right)
{
	const struct vmstruct *a = left, *b = right;
	return a->hash < b->hash ? -1 : a->hash > b->hash;
}

bool vmstructs_load(const struct exports *exports, struct reader *reader, struct vmstructs *ret)
{
	*ret = (struct vmstructs){0};
	if (!structs_read(exports, reader, ret) || !types_read(exports, reader, ret) ||
		!constants_read(exports, reader, false, ret) ||
		!constants_read(exports, reader, true, ret) || ret->count == 0)
		return false;
	qsort(ret->list, ret->count, sizeof *ret->list, entry_compare);
	return true;
}

void vmstructs_deinit(struct vmstructs *structs)
{
	free(structs->list);
	*structs = (struct vmstructs){0};
}

static bool entry_find(const struct vmstructs *structs, uint64_t hash, uint64_t *ret)
{
	const struct vmstruct wanted = {.hash = hash};
	const struct vmstruct *found = structs->count == 0
					       ? NULL
					       : bsearch(&wanted, structs->list, structs->count,
							 sizeof wanted, entry_compare);
	if (found != NULL)
		*ret = found->value;
	return found != NULL;
}

bool vm_field(const struct vmstructs *structs, const char *type, const char *field, uint64_t *ret)
{
	return entry_find(structs, name_hash(WHAT_FIELD, type, field), ret);
}

bool vm_static(const struct vmstructs *structs, const char *type, const char *field, uint64_t *ret)
{
	return entry_find(structs, name_hash(WHAT_STATIC, type, field), ret);
}

bool vm_size(const struct vmstructs *structs, const char *type, uint64_t *ret)
{
	return entry_find(structs, name_hash(WHAT_SIZE, type, ""), ret);
}

bool vm_constant(const struct vmstructs *structs, const char *name, uint64_t *ret)
{
	return entry_find(structs, name_hash(WHAT_CONSTANT, name, ""), ret);
}
