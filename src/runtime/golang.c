// SPDX-License-Identifier: MIT
//
// Go 1.18 to 1.24, stripped or not. The heap is spans of objects of one size, which do not say what
// they are; values of interface types do, for their type stands before the pointer to them. From
// the objects that are known so, types go on to all that they point at. What is not reached remains
// an object of its size.
//
// Layouts: src/runtime/{runtime2,mheap,symtab,type,iface,map,slice,chan}.go and
// src/internal/abi/{type, map_swiss}.go, src/internal/runtime/maps/{map,table}.go,
// src/debug/buildinfo/buildinfo.go of Go 1.19.8, 1.22 and 1.24.
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "runtime/internal.h"

#define GO_PAGE UINT64_C(8192)
// Of 64-bit processes: heapArenaBytes.
#define ARENA_SIZE (UINT64_C(64) << 20)
#define SPANS_MAX (UINT64_C(1) << 24)
#define OBJECTS_MAX (UINT32_C(1) << 30)
// Types of a program, and what is looked at of one: fields, elements of arrays, structs in structs.
#define TYPES_MAX ((size_t)1 << 18)
#define SLOTS_MAX 512
#define ARRAY_MAX 64
#define DEPTH_MAX 16
// No program has more variables, in bytes.
#define DATA_MAX ((uint64_t)256 << 20)
#define TEXT_SIZE 512
#define SEARCH_SIZE ((uint64_t)64 << 20)

// abi.Kind
enum {
	KIND_ARRAY = 17,
	KIND_CHAN = 18,
	KIND_FUNC = 19,
	KIND_INTERFACE = 20,
	KIND_MAP = 21,
	KIND_POINTER = 22,
	KIND_SLICE = 23,
	KIND_STRING = 24,
	KIND_STRUCT = 25,
	KIND_UNSAFE = 26,
	KIND_MASK = 31,
	KIND_DIRECT = 32, // a pointer is the value of an interface itself
};

// abi.Type, and what follows it.
enum { TYPE_SIZE = 0, TYPE_FLAGS = 20, TYPE_KIND = 23, TYPE_NAME = 40, TYPE_MORE = 48 };
enum { FLAG_STAR = 2 };

struct span_info {
	uint64_t start, size; // size: of an object
	uint64_t bits;	      // address of allocBits
	uint64_t large;	      // type of the one object; 0: not known
	uint64_t pages;	      // of GO_PAGE bytes
	uint32_t count, free_index;
	uint32_t first; // index of its first object
	uint8_t class;	// spanClass: twice the size class, and 1 if there are no pointers
	uint8_t header; // bytes before each object that say its type
};

// Where in an mspan what is, by version.
struct span_layout {
	unsigned minor; // the first that has it
	uint16_t free_index, count, bits, class, state, size, large;
	bool narrow; // free_index and count have 16 bits
};

static const struct span_layout span_layouts[] = {
	{18, 48, 56, 72, 98, 99, 104, 0, false},
	{21, 48, 56, 72, 106, 107, 112, 0, false},
	{22, 48, 50, 64, 98, 99, 104, 152, true},
};

// What an object is of its type.
enum form { FORM_VALUE, FORM_ARRAY, FORM_STRING, FORM_MAP, FORM_TABLE, FORM_CHAN, FORM_CLOSURE };

// A word of a type that leads to another object.
struct slot {
	uint32_t offset;
	uint8_t kind;  // KIND_...
	uint64_t type; // address of the type that it is
};

struct gotype {
	uint64_t address, size;
	struct slot *slots; // owned
	uint32_t slot_count;
	uint8_t kind; // with KIND_DIRECT
	bool is_empty_interface;
};

// A type and a form; objects have its index, 0 is none.
struct ref {
	uint64_t type; // address
	enum form form;
	uint32_t row; // of the runtime's types
};

struct go {
	unsigned minor;
	uint64_t types, types_end;
	uint64_t module_start, module_end;
	struct image_segment data[4]; // address and size of data and variables
	struct span_info *spans;      // sorted by start; owned
	size_t span_count;
	uint32_t object_count;
	uint64_t heap_start, heap_end;
	uint32_t *pages; // of the heap: 1 + index of the span, 0: none; owned
	uint64_t stack_bytes, stack_count, stack_first; // of spans that are goroutines' stacks
	uint64_t free_bytes;
};

// Of a word that may begin an interface, its type.
struct known_word {
	uint64_t word, type;
};

#define WORDS_KNOWN 4096
// Bytes that are read at once of an object; most are smaller.
#define NEAR_SIZE 1024

// While types are given to objects, by one thread.
struct typing {
	struct worker *worker;
	struct reader *reader;
	const struct go *go;
	uint32_t *objects; // ref of each; owned
	uint32_t *waiting; // objects whose pointers are to be followed; owned
	size_t waiting_count, waiting_capacity;
	struct gotype *types; // owned
	size_t type_count, type_capacity;
	uint32_t *type_slots; // hash table of 1 + index; owned
	size_t slot_count;
	struct ref *refs; // owned
	size_t ref_count, ref_capacity;
	struct known_word words[WORDS_KNOWN];
	unsigned char bytes[NEAR_SIZE]; // of the object that is looked at
	uint64_t bytes_start;
	size_t bytes_size;
	bool lost;
};

// ---- types

static void type_name(
	const struct go *go, struct reader *reader, uint64_t type, char *name, size_t size)
{
	const uint32_t offset = reader_u32(reader, type + TYPE_NAME);
	uint64_t at = go->types + offset;
	uint64_t length = 0;
	name[0] = '\0';
	if (offset == 0 || offset >= go->types_end - go->types)
		return;
	at++;
	for (unsigned shift = 0; shift < 28; shift += 7, at++) {
		const uint8_t byte = reader_u8(reader, at);
		length |= (uint64_t)(byte & 127) << shift;
		if ((byte & 128) == 0) {
			at++;
			break;
		}
	}
	if ((reader_u8(reader, type + TYPE_FLAGS) & FLAG_STAR) != 0 && length > 0) {
		at++;
		length--;
	}
	const size_t kept = (size_t)min_u64(length, size - 1);
	if (reader_get(reader, at, name, kept))
		name[kept] = '\0';
	else
		name[0] = '\0';
}

static bool is_type(const struct go *go, uint64_t type)
{
	return type >= go->types && type < go->types_end && go->types_end - type >= TYPE_MORE &&
	       type % 8 == 0;
}

static void slot_add(
	struct gotype *type, struct slot *slots, uint64_t offset, unsigned kind, uint64_t of)
{
	if (type->slot_count < SLOTS_MAX && offset < UINT32_MAX)
		slots[type->slot_count++] = (struct slot){(uint32_t)offset, (uint8_t)kind, of};
}

// Note the words of a type that lead on, at an offset in another one.
static void slots_find(const struct typing *typing, struct gotype *ret, struct slot *slots,
	uint64_t type, uint64_t offset, unsigned depth)
{
	struct reader *reader = typing->reader;
	if (!is_type(typing->go, type) || depth > DEPTH_MAX || ret->slot_count == SLOTS_MAX)
		return;
	const unsigned kind = reader_u8(reader, type + TYPE_KIND) & KIND_MASK;
	if (kind == KIND_STRUCT) {
		const uint64_t fields = reader_word(reader, type + 56);
		const uint64_t count = reader_word(reader, type + 64);
		for (uint64_t i = 0; i < count && i < SLOTS_MAX; i++) {
			const uint64_t at = reader_word(reader, fields + 24 * i + 16);
			// Until 1.18 the lowest bit said whether the field is embedded.
			slots_find(typing, ret, slots, reader_word(reader, fields + 24 * i + 8),
				offset + (typing->go->minor < 19 ? at >> 1 : at), depth + 1);
		}
	} else if (kind == KIND_ARRAY) {
		const uint64_t of = reader_word(reader, type + TYPE_MORE);
		const uint64_t count = reader_word(reader, type + 64);
		const uint64_t size = reader_word(reader, of);
		for (uint64_t i = 0; i < count && i < ARRAY_MAX; i++)
			slots_find(typing, ret, slots, of, offset + i * size, depth + 1);
	} else if (kind >= KIND_CHAN && kind <= KIND_STRING)
		slot_add(ret, slots, offset, kind, type);
}

static size_t type_slot(const struct typing *typing, uint64_t address)
{
	size_t slot = (size_t)(address * 0x9e3779b97f4a7c15u >> 20) & (typing->slot_count - 1);
	while (typing->type_slots[slot] != 0 &&
		typing->types[typing->type_slots[slot] - 1].address != address)
		slot = (slot + 1) & (typing->slot_count - 1);
	return slot;
}

// What is known of a type; NULL: it is none, or memory ran out. Until the next call.
static const struct gotype *type_get(struct typing *typing, uint64_t address)
{
	if (!is_type(typing->go, address) || typing->lost)
		return NULL;
	const size_t slot = type_slot(typing, address);
	if (typing->type_slots[slot] != 0)
		return &typing->types[typing->type_slots[slot] - 1];
	if (typing->type_count == typing->type_capacity)
		return NULL; // TYPES_MAX
	struct slot slots[SLOTS_MAX];
	struct reader *reader = typing->reader;
	struct gotype *type = &typing->types[typing->type_count];
	*type = (struct gotype){.address = address, .size = reader_word(reader, address)};
	type->kind = reader_u8(reader, address + TYPE_KIND);
	if ((type->kind & KIND_MASK) == KIND_INTERFACE)
		type->is_empty_interface = reader_word(reader, address + 64) == 0;
	slots_find(typing, type, slots, address, 0, 0);
	if (type->slot_count > 0) {
		type->slots = malloc(type->slot_count * sizeof *slots);
		if (type->slots == NULL) {
			typing->lost = true;
			return NULL;
		}
		memcpy(type->slots, slots, type->slot_count * sizeof *slots);
	}
	typing->type_slots[slot] = (uint32_t)++typing->type_count;
	return type;
}

// ---- what objects are

static void ref_name(const struct go *go, struct reader *reader, uint64_t type, enum form form,
	char *name, size_t size)
{
	char text[TEXT_SIZE];
	type_name(go, reader, type, text, sizeof text);
	if (text[0] == '\0')
		snprintf(text, sizeof text, "type at 0x%" PRIx64, type);
	snprintf(name, size,
		form == FORM_ARRAY    ? "[]%s"
		: form == FORM_TABLE  ? "%s (table)"
		: form == FORM_STRING ? "string"
				      : "%s",
		text);
}

// The index of a type and a form.
static uint32_t ref_get(struct typing *typing, uint64_t type, enum form form)
{
	char name[TEXT_SIZE + 16];
	// Types are aligned to 8: the form fits below. What is the same for all types has none.
	const uint64_t of = form == FORM_STRING ? typing->go->types : type;
	const uint64_t key = of | (uint64_t)form;
	struct runtime_scan *scan = typing->worker->scan;
	uint32_t row = scan_type(scan, key);
	if (row == NO_TYPE) {
		ref_name(typing->go, typing->reader, of, form, name, sizeof name);
		row = scan_type_add(scan, key, name);
	}
	if (row == NO_TYPE) {
		typing->lost = true;
		return 0;
	}
	if (row >= typing->ref_capacity) {
		const size_t capacity = (size_t)row * 2 + 1024;
		struct ref *grown = reallocarray(typing->refs, capacity, sizeof *grown);
		if (grown == NULL) {
			typing->lost = true;
			return 0;
		}
		typing->refs = grown;
		typing->ref_capacity = capacity;
	}
	typing->refs[row] = (struct ref){of, form, row};
	return row + 1;
}

static const struct span_info *span_at(struct typing *typing, uint64_t address)
{
	const struct go *go = typing->go;
	if (address < go->heap_start || address >= go->heap_end)
		return NULL;
	const uint32_t known = go->pages[(address - go->heap_start) / GO_PAGE];
	const struct span_info *span = known > 0 ? &go->spans[known - 1] : NULL;
	return span != NULL && address - span->start < span->count * span->size ? span : NULL;
}

// A word of the object that is looked at.
static uint64_t near_word(struct typing *typing, uint64_t address)
{
	uint64_t skipped = address - typing->bytes_start;
	if (address < typing->bytes_start || typing->bytes_size < 8 ||
		skipped > typing->bytes_size - 8) {
		typing->bytes_start = address;
		typing->bytes_size =
			image_read(typing->worker->scan->image, address, typing->bytes, NEAR_SIZE);
		skipped = 0;
		if (typing->bytes_size < 8)
			return 0;
	}
	return word_load(typing->bytes + skipped, 8, ORDER_LITTLE);
}

static bool waiting_add(struct typing *typing, uint32_t object)
{
	if (typing->waiting_count == typing->waiting_capacity) {
		const size_t capacity = typing->waiting_capacity * 2 + 4096;
		uint32_t *grown = reallocarray(typing->waiting, capacity, sizeof *grown);
		if (grown == NULL) {
			typing->lost = true;
			return false;
		}
		typing->waiting = grown;
		typing->waiting_capacity = capacity;
	}
	typing->waiting[typing->waiting_count++] = object;
	return true;
}

// The object that pointer is the beginning of is of this type; what was said first, counts.
static void object_type(struct typing *typing, uint64_t pointer, uint64_t type, enum form form)
{
	const struct span_info *span = span_at(typing, pointer);
	if (span == NULL || typing->lost)
		return;
	const uint64_t skipped = pointer - span->start;
	const uint32_t index = (uint32_t)(skipped / span->size);
	if (skipped % span->size != span->header || typing->objects[span->first + index] != 0)
		return;
	if (form == FORM_VALUE || form == FORM_ARRAY || form == FORM_TABLE) {
		const struct gotype *known = type_get(typing, type);
		if (known == NULL || known->size == 0 || known->size > span->size - span->header)
			return;
		// A pointer can be that of the first element of an array.
		if (form == FORM_VALUE && known->size * 2 <= span->size - span->header &&
			span->size > 16)
			form = FORM_ARRAY;
	}
	const uint32_t ref = ref_get(typing, type, form);
	typing->objects[span->first + index] = ref;
	if (form != FORM_STRING && form != FORM_CLOSURE && (span->class & 1) == 0)
		waiting_add(typing, span->first + index);
}

// The type that an interface's first word tells: it is that of a type, or of an itab, which begins
// with the interface's type and the value's. 0: neither.
static uint64_t word_type(const struct typing *typing, uint64_t word)
{
	const struct go *go = typing->go;
	struct reader *reader = typing->reader;
	const uint64_t inter = reader_word(reader, word);
	const uint64_t type = reader_word(reader, word + 8);
	if (is_type(go, inter) && is_type(go, type) &&
		(reader_u8(reader, inter + TYPE_KIND) & KIND_MASK) == KIND_INTERFACE)
		return type;
	const unsigned kind = reader_u8(reader, word + TYPE_KIND) & KIND_MASK;
	const uint32_t name = reader_u32(reader, word + TYPE_NAME);
	return is_type(go, word) && kind > 0 && kind <= KIND_UNSAFE && name > 0 &&
			       name < go->types_end - go->types
		       ? word
		       : 0;
}

static uint64_t dynamic_type(struct typing *typing, uint64_t word)
{
	if (word % 8 != 0 || word < typing->go->module_start || word >= typing->go->module_end)
		return 0;
	struct known_word *known = &typing->words[(word / 8) % WORDS_KNOWN];
	if (known->word != word)
		*known = (struct known_word){word, word_type(typing, word)};
	return known->type;
}

static void slot_follow(struct typing *typing, const struct slot *slot, uint64_t at);

// What a pointer-shaped value leads to.
static void value_follow(struct typing *typing, unsigned kind, uint64_t type, uint64_t value)
{
	struct reader *reader = typing->reader;
	if (value < typing->go->heap_start || value >= typing->go->heap_end)
		return;
	if (kind == KIND_POINTER)
		object_type(typing, value, reader_word(reader, type + TYPE_MORE), FORM_VALUE);
	else if (kind == KIND_MAP)
		object_type(typing, value, type, FORM_MAP);
	else if (kind == KIND_CHAN)
		object_type(typing, value, type, FORM_CHAN);
	else if (kind == KIND_FUNC)
		object_type(typing, value, type, FORM_CLOSURE);
}

// An interface: what says the type, and the value or a pointer to it.
static void interface_follow(struct typing *typing, uint64_t word, uint64_t value)
{
	const uint64_t type = dynamic_type(typing, word);
	const struct gotype *known = type != 0 ? type_get(typing, type) : NULL;
	if (known == NULL)
		return;
	if ((known->kind & KIND_DIRECT) == 0)
		object_type(typing, value, type, FORM_VALUE);
	else if (known->slot_count > 0)
		// A pointer, or a struct or array of one.
		value_follow(typing, known->slots[0].kind, known->slots[0].type, value);
}

static void slot_follow(struct typing *typing, const struct slot *slot, uint64_t at)
{
	const uint64_t value = near_word(typing, at);
	if (slot->kind == KIND_INTERFACE) {
		if (value != 0)
			interface_follow(typing, value, near_word(typing, at + 8));
	} else if (slot->kind == KIND_STRING)
		object_type(typing, value, slot->type, FORM_STRING);
	else if (slot->kind == KIND_SLICE)
		object_type(typing, value, reader_word(typing->reader, slot->type + TYPE_MORE),
			FORM_ARRAY);
	else
		value_follow(typing, slot->kind, slot->type, value);
}

static void slots_follow(struct typing *typing, uint64_t type, uint64_t at)
{
	const struct gotype *known = type_get(typing, type);
	const uint32_t count = known != NULL ? known->slot_count : 0;
	const struct slot *slots = known != NULL ? known->slots : NULL;
	for (uint32_t i = 0; i < count; i++)
		slot_follow(typing, &slots[i], at + slots[i].offset);
}

// hmap until 1.23: the buckets at 16, older ones at 24. Since 1.24: one group, or a list of tables
// (internal/runtime/maps: Map.dirPtr, dirLen, table.groups).
static void map_follow(struct typing *typing, uint64_t type, uint64_t at)
{
	struct reader *reader = typing->reader;
	const uint64_t table = reader_word(reader, type + 64); // of buckets, or of groups
	const uint64_t first = near_word(typing, at + 16);
	if (typing->go->minor < 24) {
		object_type(typing, first, table, FORM_TABLE);
		object_type(typing, near_word(typing, at + 24), table, FORM_TABLE);
		return;
	}
	const uint64_t count = near_word(typing, at + 24);
	if (count == 0)
		object_type(typing, first, table, FORM_TABLE);
	for (uint64_t i = 0; i < count && i < SPANS_MAX; i++) {
		const uint64_t entry = reader_word(reader, first + 8 * i);
		if (entry == 0)
			break;
		object_type(typing, reader_word(reader, entry + 16), table, FORM_TABLE);
	}
}

static void object_follow(struct typing *typing, const struct span_info *span, uint32_t index)
{
	const uint64_t start = span->start + index * span->size + span->header;
	const uint64_t size = span->size - span->header;
	const struct ref ref = typing->refs[typing->objects[span->first + index] - 1];
	const struct gotype *known = type_get(typing, ref.type);
	if (known == NULL)
		return;
	const uint64_t step = known->size;
	if (ref.form == FORM_MAP) {
		map_follow(typing, ref.type, start);
		return;
	}
	if (ref.form == FORM_VALUE) {
		slots_follow(typing, ref.type, start);
		return;
	}
	if ((ref.form != FORM_ARRAY && ref.form != FORM_TABLE) || step == 0 ||
		(known->slot_count == 0 && ref.form != FORM_TABLE))
		return;
	for (uint64_t at = 0; at < size && size - at >= step; at += step) {
		slots_follow(typing, ref.type, start + at);
		// A bucket ends with a pointer to one more.
		if (ref.form == FORM_TABLE && typing->go->minor < 24 && step >= 8)
			object_type(typing, near_word(typing, start + at + step - 8), ref.type,
				FORM_TABLE);
	}
}

// ---- the walk

static bool is_allocated(
	struct reader *reader, const struct span_info *span, uint32_t index, uint8_t *bits)
{
	if (index < span->free_index)
		return true;
	if (index % 8 == 0 || index == span->free_index)
		*bits = reader_u8(reader, span->bits + index / 8);
	return (*bits >> index % 8 & 1) != 0;
}

// Interfaces, wherever they are, in memory from start to end.
static void interfaces_find(struct typing *typing, uint64_t start, uint64_t end)
{
	const struct go *go = typing->go;
	struct worker *worker = typing->worker;
	while (start < end && end - start >= 16 && !scan_stopped(worker->scan)) {
		if (!worker_load(worker, start, end)) {
			start = (image_next(worker->scan->image, start) + 7) & ~UINT64_C(7);
			continue;
		}
		const uint64_t last = min_u64(end, worker->start + worker->size);
		if (last - start < 16)
			return;
		for (; last - start >= 16; start += 8) {
			const unsigned char *words = worker->bytes + (start - worker->start);
			const uint64_t word = word_load(words, 8, ORDER_LITTLE);
			const uint64_t value = word_load(words + 8, 8, ORDER_LITTLE);
			if (word >= go->module_start && word < go->module_end &&
				value >= go->heap_start && value < go->heap_end)
				interface_follow(typing, word, value);
		}
	}
}

// Since 1.22 what is larger than 512 bytes has its type before it, and alone in its span, in the
// span.
static void headers_find(struct typing *typing)
{
	const struct go *go = typing->go;
	for (size_t i = 0; i < go->span_count; i++) {
		const struct span_info *span = &go->spans[i];
		uint8_t bits = 0;
		if (span->large != 0) {
			object_type(typing, span->start, span->large, FORM_VALUE);
			continue;
		}
		for (uint32_t k = 0; span->header > 0 && k < span->count; k++)
			if (is_allocated(typing->reader, span, k, &bits)) {
				const uint64_t at = span->start + k * span->size;
				object_type(typing, at + span->header,
					reader_word(typing->reader, at), FORM_VALUE);
			}
	}
}

static const struct span_info *span_of(const struct go *go, uint32_t object)
{
	size_t low = 0, high = go->span_count;
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;
		if (go->spans[middle].first <= object)
			low = middle;
		else
			high = middle;
	}
	return &go->spans[low];
}

static void objects_count(struct typing *typing)
{
	const struct go *go = typing->go;
	struct worker *worker = typing->worker;
	for (size_t i = 0; i < go->span_count && !typing->lost; i++) {
		const struct span_info *span = &go->spans[i];
		char name[64];
		uint8_t bits = 0;
		snprintf(name, sizeof name, "(%" PRIu64 " bytes%s, of no known type)", span->size,
			(span->class & 1) != 0 ? " without pointers" : "");
		const uint32_t rest =
			scan_type_add(worker->scan, span->size << 1 | (span->class & 1), name);
		for (uint32_t k = 0; k < span->count; k++) {
			const uint64_t at = span->start + k * span->size;
			const uint32_t ref = typing->objects[span->first + k];
			if (!is_allocated(typing->reader, span, k, &bits))
				worker->free_bytes += span->size;
			else
				worker_found(worker, ref != 0 ? typing->refs[ref - 1].row : rest,
					at, span->size);
		}
	}
}

static void stacks_count(struct worker *worker)
{
	const struct go *go = worker->scan->state;
	const uint32_t type = scan_type_add(worker->scan, 1, "(stacks of goroutines)");
	if (go->stack_count == 0)
		return;
	worker_found(worker, type, go->stack_first, go->stack_bytes);
	worker_correct(worker, type, (int64_t)(go->stack_count - 1), 0);
}

static bool typing_init(struct typing *typing, struct worker *worker)
{
	const struct go *go = worker->scan->state;
	memset(typing, 0, sizeof *typing);
	typing->worker = worker;
	typing->reader = &worker->reader;
	typing->go = go;
	typing->objects = calloc((size_t)go->object_count + 1, sizeof *typing->objects);
	typing->type_capacity = TYPES_MAX;
	typing->slot_count = 4 * TYPES_MAX;
	// Of these only what is used is touched.
	typing->types = calloc(typing->type_capacity, sizeof *typing->types);
	typing->type_slots = calloc(typing->slot_count, sizeof *typing->type_slots);
	return typing->objects != NULL && typing->types != NULL && typing->type_slots != NULL;
}

static void typing_deinit(struct typing *typing)
{
	for (size_t i = 0; i < typing->type_count; i++)
		free(typing->types[i].slots);
	free(typing->types);
	free(typing->type_slots);
	free(typing->objects);
	free(typing->waiting);
	free(typing->refs);
}

static void go_walk(struct worker *worker, const struct piece *piece)
{
	const struct go *go = worker->scan->state;
	struct typing typing;
	(void)piece; // there is one
	bool ok = typing_init(&typing, worker);
	if (ok) {
		headers_find(&typing);
		for (size_t i = 0; i < sizeof go->data / sizeof go->data[0]; i++)
			interfaces_find(&typing, go->data[i].address,
				go->data[i].address + go->data[i].size);
		for (size_t i = 0; i < go->span_count; i++)
			if ((go->spans[i].class & 1) == 0)
				interfaces_find(&typing, go->spans[i].start,
					go->spans[i].start +
						go->spans[i].count * go->spans[i].size);
		while (typing.waiting_count > 0 && !typing.lost && !scan_stopped(worker->scan)) {
			const uint32_t object = typing.waiting[--typing.waiting_count];
			const struct span_info *span = span_of(go, object);
			object_follow(&typing, span, object - span->first);
		}
		objects_count(&typing);
		stacks_count(worker);
		worker->free_bytes += go->free_bytes;
	}
	if (!ok || typing.lost)
		worker->scan->lost = true;
	typing_deinit(&typing);
}

// ---- spans

static const struct span_layout *layout_of(unsigned minor)
{
	const struct span_layout *ret = NULL;
	for (size_t i = 0; i < sizeof span_layouts / sizeof span_layouts[0]; i++)
		if (minor >= span_layouts[i].minor)
			ret = &span_layouts[i];
	return ret;
}

// Whether there is an mspan at address: of pages, in memory of the process.
static bool is_span(const struct runtime_scan *scan, struct reader *reader, uint64_t address)
{
	const uint64_t start = reader_word(reader, address + 24);
	const uint64_t pages = reader_word(reader, address + 32);
	return address != 0 && address % 8 == 0 && start != 0 && start % GO_PAGE == 0 &&
	       pages > 0 && pages < UINT64_C(1) << 32 &&
	       image_segment_at(scan->image, start) != NULL;
}

// mheap.allspans: a slice of pointers to all spans that ever were, the longest one among the
// variables.
static uint64_t spans_search(
	const struct runtime_scan *scan, struct reader *reader, uint64_t *ret_count)
{
	const struct go *go = scan->state;
	uint64_t found = 0;
	*ret_count = 0;
	for (size_t i = 0; i < sizeof go->data / sizeof go->data[0]; i++)
		for (uint64_t at = go->data[i].address; at < go->data[i].address + go->data[i].size;
			at += 8) {
			unsigned char slice[24];
			if (!reader_get(reader, at, slice, sizeof slice)) {
				const uint64_t next = image_next(scan->image, at);
				at = max_u64(at, next & ~UINT64_C(7));
				continue;
			}
			const uint64_t list = word_load(slice, 8, ORDER_LITTLE);
			const uint64_t count = word_load(slice + 8, 8, ORDER_LITTLE);
			const uint64_t room = word_load(slice + 16, 8, ORDER_LITTLE);
			if (list == 0 || list % 8 != 0 || count <= *ret_count || count < 4 ||
				count > room || room > SPANS_MAX)
				continue;
			bool right = true;
			for (uint64_t k = 0; k < 8 && right; k++) {
				const uint64_t of = list + 8 * (k * (count - 1) / 7);
				const uint64_t span = reader_word(reader, of);
				// What is free has no pages any more.
				right = span != 0 && span % 8 == 0 &&
					image_segment_at(scan->image, span) != NULL &&
					reader_word(reader, span + 24) % GO_PAGE == 0;
			}
			if (right && is_span(scan, reader, reader_word(reader, list))) {
				found = list;
				*ret_count = count;
			}
		}
	return found;
}

// mSpanState
enum { SPAN_DEAD, SPAN_IN_USE, SPAN_MANUAL };

static bool span_read(const struct runtime_scan *scan, struct reader *reader, uint64_t address,
	struct span_info *ret)
{
	struct go *go = scan->state;
	const struct span_layout *layout = layout_of(go->minor);
	const uint64_t pages = reader_word(reader, address + 32);
	const uint8_t state = reader_u8(reader, address + layout->state);
	if (!is_span(scan, reader, address))
		return false;
	if (state == SPAN_MANUAL) {
		go->stack_bytes = add_saturated(go->stack_bytes, pages * GO_PAGE);
		if (go->stack_count++ == 0)
			go->stack_first = reader_word(reader, address + 24);
	}
	if (state != SPAN_IN_USE)
		return false;
	*ret = (struct span_info){
		.start = reader_word(reader, address + 24),
		.size = reader_word(reader, address + layout->size),
		.pages = pages,
		.bits = reader_word(reader, address + layout->bits),
		.class = reader_u8(reader, address + layout->class),
	};
	const uint64_t free_index = layout->narrow
					    ? reader_u16(reader, address + layout->free_index)
					    : reader_word(reader, address + layout->free_index);
	const uint64_t count = layout->narrow ? reader_u16(reader, address + layout->count)
					      : reader_word(reader, address + layout->count);
	if (ret->size < 8 || ret->size > pages * GO_PAGE || count == 0 ||
		count > pages * GO_PAGE / ret->size)
		return false;
	// Not more than what the dump has, which is damaged or cut if that is less.
	const uint64_t there = image_present(scan->image, ret->start, count * ret->size);
	ret->count = (uint32_t)min_u64(count, there / ret->size);
	if (ret->count == 0)
		return false;
	ret->free_index = (uint32_t)min_u64(free_index, ret->count);
	// heapBitsInSpan: up to 512 bytes there is no header; without pointers neither.
	if (go->minor >= 22 && (ret->class & 1) == 0) {
		if (ret->class < 2)
			ret->large = reader_word(reader, address + layout->large);
		else if (ret->size > 512)
			ret->header = 8;
	}
	return true;
}

static int span_compare(const void *left, const void *right)
{
	const struct span_info *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

// Of a heap whose parts are so far from each other that they are damaged, nothing is said.
#define PAGES_MAX (UINT64_C(1) << 26)

static bool pages_load(struct runtime_scan *scan)
{
	struct go *go = scan->state;
	const uint64_t count = (go->heap_end - go->heap_start + GO_PAGE - 1) / GO_PAGE;
	if (count > PAGES_MAX)
		return false;
	go->pages = calloc(count + 1, sizeof *go->pages);
	if (go->pages == NULL) {
		scan->lost = true;
		return true;
	}
	for (size_t i = 0; i < go->span_count; i++) {
		const struct span_info *span = &go->spans[i];
		const uint64_t first = (span->start - go->heap_start) / GO_PAGE;
		const uint64_t bytes = span->count * span->size;
		for (uint64_t k = 0; k * GO_PAGE < bytes; k++)
			go->pages[first + k] = (uint32_t)i + 1;
	}
	return true;
}

// What there is of spans, in order and without overlaps.
// What the dump has of the arenas that is no span's.
static void free_measure(const struct runtime_scan *scan)
{
	struct go *go = scan->state;
	const struct image_info *info = image_info(scan->image);
	const uint64_t from = go->heap_start & ~(ARENA_SIZE - 1);
	const uint64_t to = add_saturated(go->heap_end, ARENA_SIZE - 1) & ~(ARENA_SIZE - 1);
	uint64_t used = go->stack_bytes, bytes = 0;
	for (size_t i = 0; i < go->span_count; i++)
		used = add_saturated(used, go->spans[i].pages * GO_PAGE);
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t start = max_u64(segment->address, from);
		const uint64_t end = min_u64(add_saturated(segment->address, segment->present), to);
		bytes = add_saturated(bytes, end > start ? end - start : 0);
	}
	go->free_bytes = bytes > used ? bytes - used : 0;
}

static bool spans_load(struct runtime_scan *scan, struct reader *reader)
{
	struct go *go = scan->state;
	uint64_t count;
	const uint64_t list = spans_search(scan, reader, &count);
	if (list == 0)
		return false;
	go->spans = calloc(count, sizeof *go->spans);
	if (go->spans == NULL) {
		scan->lost = true;
		return true;
	}
	for (uint64_t i = 0; i < count; i++)
		if (span_read(scan, reader, reader_word(reader, list + 8 * i),
			    &go->spans[go->span_count]))
			go->span_count++;
	if (go->span_count == 0)
		return false;
	qsort(go->spans, go->span_count, sizeof *go->spans, span_compare);
	size_t kept = 0;
	uint64_t end = 0, objects = 0;
	for (size_t i = 0; i < go->span_count; i++) {
		struct span_info *span = &go->spans[i];
		const uint64_t bytes = span->count * span->size;
		if (span->start < end || span->start + bytes < span->start ||
			objects + span->count > OBJECTS_MAX)
			continue;
		span->first = (uint32_t)objects;
		objects += span->count;
		end = span->start + bytes;
		go->spans[kept++] = *span;
	}
	go->span_count = kept;
	go->object_count = (uint32_t)objects;
	go->heap_start = go->spans[0].start;
	go->heap_end = end;
	free_measure(scan);
	return pages_load(scan);
}

// ---- which Go

// The version that the linker has left in .go.buildinfo, in the data: 16 bytes of mark and flags,
// at 32 a length and "go1.19.8" (flag 2: since 1.18). 0: none; 1: not of this kind.
static unsigned version_find(
	const struct runtime_scan *scan, struct reader *reader, const struct module *module)
{
	static const char mark[] = "\xff Go buildinf:";
	for (size_t i = 0; i < scan->modules->range_count; i++) {
		const struct module_range *range = &scan->modules->ranges[i];
		if (&scan->modules->list[range->module] != module || (range->flags & PF_W) == 0)
			continue;
		const uint64_t end = min_u64(range->end - range->start, SEARCH_SIZE);
		for (uint64_t at = 0; at < end; at += 16) {
			char bytes[48];
			if (!reader_get(reader, range->start + at, bytes, 16))
				break;
			if (memcmp(bytes, mark, sizeof mark - 1) != 0 ||
				!reader_get(reader, range->start + at, bytes, sizeof bytes))
				continue;
			if ((bytes[15] & 2) == 0 || memcmp(bytes + 33, "go1.", 4) != 0)
				return 1;
			bytes[47] = '\0';
			const unsigned long minor = strtoul(bytes + 37, NULL, 10);
			return minor > 1 && minor < 1000 ? (unsigned)minor : 1;
		}
	}
	return 0;
}

// Words of a moduledata: until 1.19, and since 1.20, which has two more for coverage.
enum {
	DATA_FIRST = 24, // noptrdata, data, bss, noptrbss: beginning and end of each
	TYPES_OLD = 35,
	TYPES_NEW = 37,
	MODULE_WORDS = 48,
};

// Whether a pcHeader is at address: src/runtime/symtab.go; its magic says the version.
static bool is_header(struct reader *reader, uint64_t address)
{
	unsigned char bytes[8];
	if (!reader_get(reader, address, bytes, sizeof bytes))
		return false;
	const uint32_t magic = load_u32(bytes, ORDER_LITTLE);
	return (magic == 0xfffffff0 || magic == 0xfffffff1 || magic == 0xfffffffa) &&
	       bytes[4] == 0 && bytes[5] == 0 && bytes[7] == 8;
}

// The words of the moduledata at address; false if there is none.
static bool moduledata_read(
	struct go *go, struct reader *reader, const struct module *module, uint64_t address)
{
	uint64_t words[MODULE_WORDS];
	if (!reader_get(reader, address, words, sizeof words) || !is_header(reader, words[0]))
		return false;
	const unsigned types = go->minor < 20 ? TYPES_OLD : TYPES_NEW;
	if (words[types] < module->start || words[types + 1] > module->end ||
		words[types] >= words[types + 1])
		return false;
	for (unsigned i = 0; i < 4; i++) {
		const uint64_t start = words[DATA_FIRST + 2 * i];
		const uint64_t end = words[DATA_FIRST + 2 * i + 1];
		if (end < start || start < module->start || end > module->end ||
			end - start > DATA_MAX)
			return false;
		go->data[i].address = (start + 7) & ~UINT64_C(7);
		go->data[i].size = end > go->data[i].address ? end - go->data[i].address : 0;
	}
	go->types = words[types];
	go->types_end = words[types + 1];
	return true;
}

static bool moduledata_find(
	const struct runtime_scan *scan, struct reader *reader, const struct module *module)
{
	struct go *go = scan->state;
	for (size_t i = 0; i < scan->modules->range_count; i++) {
		const struct module_range *range = &scan->modules->ranges[i];
		if (&scan->modules->list[range->module] != module || (range->flags & PF_W) == 0)
			continue;
		for (uint64_t at = (range->start + 7) & ~UINT64_C(7);
			at < range->end && range->end - at >= 8;) {
			unsigned char bytes[8];
			if (!reader_get(reader, at, bytes, sizeof bytes)) {
				const uint64_t next = image_next(scan->image, at);
				at = max_u64(at + 8, (next + 7) & ~UINT64_C(7));
				continue;
			}
			const uint64_t word = word_load(bytes, 8, ORDER_LITTLE);
			if (word >= module->start && word < module->end &&
				is_header(reader, word) && moduledata_read(go, reader, module, at))
				return true;
			at += 8;
		}
	}
	return false;
}

static void go_free(void *state)
{
	struct go *go = state;
	if (go == NULL)
		return;
	free(go->spans);
	free(go->pages);
	free(go);
}

enum { MINOR_MIN = 18, MINOR_MAX = 24 };

static bool go_find(struct runtime_scan *scan, struct reader *reader, const struct module *module)
{
	const unsigned minor = module->is_main ? version_find(scan, reader, module) : 0;
	char name[32];
	if (minor == 0)
		return false;
	struct go *go = calloc(1, sizeof *go);
	snprintf(name, sizeof name, minor > 1 ? "go 1.%u" : "go", minor);
	scan->runtime->name = strdup(name);
	scan->runtime->own = OWN_OBJECTS;
	scan->state = go;
	if (go == NULL || scan->runtime->name == NULL) {
		scan->lost = true;
		return true;
	}
	go->minor = minor;
	go->module_start = module->start;
	go->module_end = module->end;
	if (minor < MINOR_MIN || minor > MINOR_MAX || !moduledata_find(scan, reader, module) ||
		!spans_load(scan, reader)) {
		scan->runtime->doubt = strdup("this version is not known yet");
		scan->lost = scan->lost || scan->runtime->doubt == NULL;
		return true;
	}
	scan_add(scan, 0, 1, 0, false);
	return true;
}

const struct runtime_ops go_ops = {
	.language = "go",
	.find = go_find,
	.free_state = go_free,
	.walk = go_walk,
};
