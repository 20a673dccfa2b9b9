// SPDX-License-Identifier: MIT
//
// CPython 3.8 to 3.14, 64-bit, with the global interpreter lock. An object is a count of references
// and a pointer to its type; a type is an object whose type is PyType_Type, or a type derived from
// that. What is freed has a count of 0, or a link of the allocator in its place, so the objects can
// be told without the allocator, be it pymalloc or malloc.
//
// Layouts: Include/object.h, Include/cpython/{object,unicodeobject,listobject,dictobject,
// longintrepr,bytearrayobject}.h, Include/internal/pycore_{object,dict,gc}.h, Objects/dictobject.c,
// Modules/{_collections,array}module.c of CPython 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0
// and 3.14.0; sizes are those of sys.getsizeof (each type's __sizeof__, and what
// _PySys_GetSizeOf in Python/sysmodule.c adds). 3.14 was not tried on a real dump.
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "runtime/exports.h"
#include "runtime/internal.h"

// PyObject, PyVarObject
enum { OB_TYPE = 8, OB_SIZE = 16, OBJECT_SIZE = 16, BLOCK = 16 };

// PyTypeObject; the same in all these versions.
enum {
	TP_NAME = 24,
	TP_BASICSIZE = 32,
	TP_ITEMSIZE = 40,
	TP_FLAGS = 168,
	TP_BASE = 256,
	TP_DICT = 264,
	TP_DICTOFFSET = 288,
	TYPE_READ = 296, // all of the above
};

// Include/object.h: Py_TPFLAGS_*
#define FLAG_INLINE_VALUES (1u << 2)
#define FLAG_MANAGED_WEAKREF (1u << 3)
#define FLAG_MANAGED_DICT (1u << 4)
#define FLAG_HEAPTYPE (1u << 9)
#define FLAG_READY (1u << 12)
#define FLAG_HAVE_GC (1u << 14)
#define FLAG_LONG (1u << 24)
#define FLAG_LIST (1u << 25)
#define FLAG_TUPLE (1u << 26)
#define FLAG_BYTES (1u << 27)
#define FLAG_STR (1u << 28)
#define FLAG_DICT (1u << 29)
#define FLAG_TYPE (1u << 31)

#define GC_HEAD 16

// No object of a fixed size is larger, and no chain of bases longer.
#define BASICSIZE_MAX (1u << 20)
#define ITEMSIZE_MAX (1u << 20)
#define BASES_MAX 64
// A class has no more attributes; __module__ is among the first.
#define ATTRIBUTES_MAX 4096
// No program of Python's has more words of data.
#define SEARCH_MAX ((unsigned)1 << 22)
#define NAME_MAX_SIZE ((size_t)512)

enum { MINOR_MIN = 8, MINOR_MAX = 14 };

struct python {
	unsigned minor; // of 3.x
	uint64_t type_type;
	// In a PyHeapTypeObject.
	uint64_t qualname, cached_keys;
};

// How an object says its size.
enum form {
	FORM_NONE, // this is no type
	FORM_PLAIN,
	FORM_LONG,
	FORM_STR,
	FORM_LIST,
	FORM_DICT,
	FORM_SET,
	FORM_DEQUE,
	FORM_BYTEARRAY,
	FORM_ARRAY,
	FORM_NDARRAY,
};

// What is kept of a type.
struct shape {
	uint64_t address;
	uint64_t keys; // ht_cached_keys
	uint32_t type; // index
	uint32_t flags;
	uint32_t basicsize, itemsize;
	int32_t dictoffset;
	uint32_t header; // bytes before the object
	enum form form;
};

// Types met last; also addresses that are none.
#define SHAPES ((size_t)1 << 14)

// ---- dictionaries

// PyDictObject
enum { MA_KEYS = 32, MA_VALUES = 40 };

struct keys {
	uint64_t refcnt, entries; // entries: their address
	uint64_t bytes, used;	  // of the whole; entries in use
	uint64_t usable;	  // room for values that instances with these keys have
	unsigned entry_size;	  // hash, key, value; or key, value
};

static uint64_t usable_fraction(uint64_t size)
{
	return size * 2 / 3;
}

// PyDictKeysObject until 3.10, and since 3.11.
static bool keys_old(struct reader *reader, uint64_t address, struct keys *ret)
{
	unsigned char head[40];
	if (!reader_get(reader, address, head, sizeof head))
		return false;
	const uint64_t size = word_load(head + 8, 8, ORDER_LITTLE);
	if (size == 0 || size > UINT64_C(1) << 40 || (size & (size - 1)) != 0)
		return false;
	const uint64_t index = size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8;
	*ret = (struct keys){
		.refcnt = word_load(head, 8, ORDER_LITTLE),
		.entries = address + sizeof head + size * index,
		.bytes = sizeof head + size * index + usable_fraction(size) * 24,
		.used = word_load(head + 32, 8, ORDER_LITTLE),
		.usable = usable_fraction(size),
		.entry_size = 24,
	};
	return ret->used <= usable_fraction(size);
}

static bool keys_new(struct reader *reader, uint64_t address, struct keys *ret)
{
	unsigned char head[32];
	if (!reader_get(reader, address, head, sizeof head) || head[8] > 40 || head[9] > 43 ||
		head[10] > 2)
		return false;
	const uint64_t indices = UINT64_C(1) << head[9];
	const uint64_t room = usable_fraction(UINT64_C(1) << head[8]);
	const uint64_t usable = word_load(head + 16, 8, ORDER_LITTLE);
	*ret = (struct keys){
		.refcnt = word_load(head, 8, ORDER_LITTLE),
		.entries = address + sizeof head + indices,
		.used = word_load(head + 24, 8, ORDER_LITTLE),
		.entry_size = head[10] == 0 ? 24 : 16,
	};
	ret->bytes = sizeof head + indices + room * ret->entry_size;
	ret->usable = add_saturated(usable, ret->used);
	return ret->used <= room && ret->usable <= room;
}

static bool keys_load(
	const struct python *python, struct reader *reader, uint64_t address, struct keys *ret)
{
	if (address == 0)
		return false;
	return python->minor <= 10 ? keys_old(reader, address, ret)
				   : keys_new(reader, address, ret);
}

// ---- texts

// PyASCIIObject and PyCompactUnicodeObject.
struct text {
	uint64_t data; // address
	uint64_t length;
	unsigned kind;	// bytes of a character
	uint64_t bytes; // of the object; UINT64_MAX: it is no str
	uint64_t more;	// bytes of other blocks: data that is not in the object, the text as UTF-8
};

enum { TEXT_LENGTH = 16, TEXT_STATE = 32, TEXT_HEAD = 72 };

static struct text text_load(
	const struct python *python, const unsigned char head[static TEXT_HEAD], uint64_t address)
{
	const bool old = python->minor < 12; // with a wstr
	const unsigned ascii_size = old ? 48 : 40, compact_size = old ? 72 : 56;
	const uint64_t length = word_load(head + TEXT_LENGTH, 8, ORDER_LITTLE);
	const uint32_t state = load_u32(head + TEXT_STATE, ORDER_LITTLE);
	const unsigned kind = state >> 2 & 7;
	const bool compact = (state & 32) != 0, ascii = (state & 64) != 0;
	struct text text = {.length = length, .kind = kind, .bytes = UINT64_MAX};
	if (length >= UINT64_C(1) << 44 || (kind != 1 && kind != 2 && kind != 4) ||
		(ascii && kind != 1))
		return text;
	const uint64_t utf8 = word_load(head + (old ? 56 : 48), 8, ORDER_LITTLE);
	const uint64_t utf8_length = word_load(head + (old ? 48 : 40), 8, ORDER_LITTLE);
	if (compact) {
		text.data = address + (ascii ? ascii_size : compact_size);
		text.bytes = (ascii ? ascii_size : compact_size) + (length + 1) * kind;
		if (!ascii && utf8 != 0 && utf8_length < UINT64_C(1) << 44)
			text.more = utf8_length + 1;
	} else {
		text.bytes = compact_size + 8;
		text.more = (length + 1) * kind;
	}
	return text;
}

static size_t utf8_put(char *target, uint32_t c)
{
	if (c < 0x80) {
		target[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		target[0] = (char)(0xc0 | c >> 6);
		target[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		target[0] = (char)(0xe0 | c >> 12);
		target[1] = (char)(0x80 | (c >> 6 & 63));
		target[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	target[0] = (char)(0xf0 | (c >> 18 & 7));
	target[1] = (char)(0x80 | (c >> 12 & 63));
	target[2] = (char)(0x80 | (c >> 6 & 63));
	target[3] = (char)(0x80 | (c & 63));
	return 4;
}

// Read a compact str as UTF-8; the beginning, if it is longer. False if there is none.
static bool text_read(const struct python *python, struct reader *reader, uint64_t address,
	char *buffer, size_t size)
{
	unsigned char head[TEXT_HEAD] = {0};
	if (!reader_get(reader, address, head, 48))
		return false;
	reader_get(reader, address, head, sizeof head);
	const struct text text = text_load(python, head, address);
	size_t used = 0;
	if (text.bytes == UINT64_MAX || text.data == 0 || text.length == 0)
		return false;
	for (uint64_t i = 0; i < text.length && used + 5 < size; i++) {
		unsigned char bytes[4] = {0};
		if (!reader_get(reader, text.data + i * text.kind, bytes, text.kind))
			return false;
		used += utf8_put(buffer + used, load_u32(bytes, ORDER_LITTLE));
	}
	buffer[used] = '\0';
	return true;
}

// ---- types

// The value of a key in a class's dictionary; 0: it has none.
static uint64_t attribute_find(
	const struct python *python, struct reader *reader, uint64_t dict, const char *name)
{
	struct keys keys;
	if (dict == 0 || !keys_load(python, reader, reader_word(reader, dict + MA_KEYS), &keys) ||
		reader_word(reader, dict + MA_VALUES) != 0)
		return 0;
	const uint64_t key = keys.entry_size == 24 ? 8 : 0;
	for (uint64_t i = 0; i < keys.used && i < ATTRIBUTES_MAX; i++) {
		char text[32];
		const uint64_t entry = keys.entries + i * keys.entry_size;
		if (text_read(
			    python, reader, reader_word(reader, entry + key), text, sizeof text) &&
			strcmp(text, name) == 0)
			return reader_word(reader, entry + key + 8);
	}
	return 0;
}

// "module.Class" for what a program defines, the name alone for what is built in.
static void class_name(const struct python *python, struct reader *reader, uint64_t address,
	uint32_t flags, char name[static 2 * NAME_MAX_SIZE])
{
	char module[NAME_MAX_SIZE], own[NAME_MAX_SIZE];
	if ((flags & FLAG_HEAPTYPE) != 0 &&
		text_read(python, reader, reader_word(reader, address + python->qualname), own,
			sizeof own)) {
		const uint64_t of = attribute_find(
			python, reader, reader_word(reader, address + TP_DICT), "__module__");
		const bool known = of != 0 && text_read(python, reader, of, module, sizeof module);
		if (!known || strcmp(module, "builtins") == 0)
			memcpy(name, own, sizeof own);
		else
			snprintf(name, 2 * NAME_MAX_SIZE, "%s.%s", module, own);
		return;
	}
	reader_text(reader, reader_word(reader, address + TP_NAME), name, NAME_MAX_SIZE);
	if (name[0] != '\0')
		return;
	// The text is in a file that is missing.
	static const struct {
		uint32_t flag;
		const char *name;
	} known[] = {{FLAG_LONG, "int"}, {FLAG_LIST, "list"}, {FLAG_TUPLE, "tuple"},
		{FLAG_BYTES, "bytes"}, {FLAG_STR, "str"}, {FLAG_DICT, "dict"}, {FLAG_TYPE, "type"}};
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if ((flags & known[i].flag) != 0) {
			snprintf(name, NAME_MAX_SIZE, "%s", known[i].name);
			return;
		}
	snprintf(name, NAME_MAX_SIZE, "type at 0x%" PRIx64, address);
}

static enum form class_form(struct reader *reader, uint64_t address, uint32_t flags)
{
	static const struct {
		const char *name;
		enum form form;
	} known[] = {{"set", FORM_SET}, {"frozenset", FORM_SET}, {"collections.deque", FORM_DEQUE},
		{"bytearray", FORM_BYTEARRAY}, {"array.array", FORM_ARRAY},
		{"numpy.ndarray", FORM_NDARRAY}};
	if ((flags & FLAG_LONG) != 0)
		return FORM_LONG;
	if ((flags & FLAG_STR) != 0)
		return FORM_STR;
	if ((flags & FLAG_LIST) != 0)
		return FORM_LIST;
	if ((flags & FLAG_DICT) != 0)
		return FORM_DICT;
	for (unsigned i = 0; i < BASES_MAX && address != 0; i++) {
		char name[32];
		reader_text(reader, reader_word(reader, address + TP_NAME), name, sizeof name);
		for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
			if (strcmp(name, known[k].name) == 0)
				return known[k].form;
		address = reader_word(reader, address + TP_BASE);
	}
	return FORM_PLAIN;
}

// Whether the object at address is a type, by what the types of types are.
static bool is_type(const struct python *python, struct reader *reader, uint64_t meta)
{
	return meta == python->type_type ||
	       (meta != 0 && reader_word(reader, meta + OB_TYPE) == python->type_type &&
		       (reader_u32(reader, meta + TP_FLAGS) & FLAG_TYPE) != 0);
}

static uint32_t header_size(const struct python *python, uint32_t flags)
{
	const uint32_t managed = python->minor >= 12   ? FLAG_MANAGED_DICT | FLAG_MANAGED_WEAKREF
				 : python->minor == 11 ? FLAG_MANAGED_DICT
						       : 0;
	return ((flags & FLAG_HAVE_GC) != 0 ? GC_HEAD : 0u) + ((flags & managed) != 0 ? 16u : 0u);
}

static void shape_load(struct worker *worker, uint64_t address, struct shape *ret)
{
	const struct python *python = worker->scan->state;
	struct reader *reader = &worker->reader;
	unsigned char bytes[TYPE_READ];
	*ret = (struct shape){.address = address, .type = NO_TYPE, .form = FORM_NONE};
	if (!reader_get(reader, address, bytes, sizeof bytes) ||
		!is_type(python, reader, word_load(bytes + OB_TYPE, 8, ORDER_LITTLE)))
		return;
	const uint64_t basicsize = word_load(bytes + TP_BASICSIZE, 8, ORDER_LITTLE);
	const uint64_t itemsize = word_load(bytes + TP_ITEMSIZE, 8, ORDER_LITTLE);
	const int64_t dictoffset = (int64_t)word_load(bytes + TP_DICTOFFSET, 8, ORDER_LITTLE);
	const uint32_t flags = load_u32(bytes + TP_FLAGS, ORDER_LITTLE);
	if (basicsize < OBJECT_SIZE || basicsize > BASICSIZE_MAX || itemsize > ITEMSIZE_MAX ||
		(flags & FLAG_READY) == 0)
		return;
	ret->type = scan_type(worker->scan, address);
	if (ret->type == NO_TYPE) {
		char name[2 * NAME_MAX_SIZE];
		class_name(python, reader, address, flags, name);
		ret->type = scan_type_add(worker->scan, address, name);
	}
	ret->flags = flags;
	ret->basicsize = (uint32_t)basicsize;
	ret->itemsize = (uint32_t)itemsize;
	ret->dictoffset = dictoffset > 0 && dictoffset < BASICSIZE_MAX ? (int32_t)dictoffset : 0;
	ret->header = header_size(python, flags);
	ret->form = class_form(reader, address, flags);
	if ((flags & FLAG_HEAPTYPE) != 0)
		ret->keys = reader_word(reader, address + python->cached_keys);
}

// The class at address, which is NULL if it is none.
static const struct shape *shape_find(struct worker *worker, uint64_t address)
{
	struct shape *shapes = worker->state;
	struct shape *shape = &shapes[(address * 0x9e3779b97f4a7c15u >> 40) % SHAPES];
	if (shape->address != address)
		shape_load(worker, address, shape);
	return shape->form == FORM_NONE ? NULL : shape;
}

// ---- sizes

// Bytes at an address that the dump has, which are the object's then; 0 if it has not.
static uint64_t block_size(const struct worker *worker, uint64_t address, uint64_t size)
{
	if (worker_block(worker, address, size) != size)
		return 0;
	worker_own(worker, address);
	return size;
}

static uint64_t items_size(struct worker *worker, uint64_t address, uint64_t count, uint64_t size)
{
	uint64_t bytes;
	return address == 0 || __builtin_mul_overflow(count, size, &bytes)
		       ? 0
		       : block_size(worker, address, bytes);
}

// Data of a numpy array that is its own: PyArrayObject_fields in numpy/ndarraytypes.h, the same in
// numpy 1 and 2. What an array spans tells its bytes without its dtype.
static uint64_t ndarray_size(struct worker *worker, uint64_t address)
{
	const uint64_t data = worker_word(worker, address + 16);
	const uint32_t dimensions = worker_u32(worker, address + 24);
	const uint64_t counts = worker_word(worker, address + 32);
	const uint64_t strides = worker_word(worker, address + 40);
	uint64_t bytes = 0;
	if ((worker_u32(worker, address + 64) & 4) == 0 || dimensions > 64)
		return 0; // not NPY_ARRAY_OWNDATA
	for (uint32_t i = 0; i < dimensions; i++) {
		const uint64_t count = reader_word(&worker->reader, counts + 8 * (uint64_t)i);
		const int64_t stride =
			(int64_t)reader_word(&worker->reader, strides + 8 * (uint64_t)i);
		uint64_t all;
		if (stride < 0 || __builtin_mul_overflow(count, (uint64_t)stride, &all))
			return 0;
		if (count == 0)
			return 0;
		bytes = max_u64(bytes, all);
	}
	return block_size(worker, data, dimensions == 0 ? 8 : bytes);
}

static uint64_t array_size(struct worker *worker, uint64_t address)
{
	// arrayobject: ob_item, allocated, ob_descr; its itemsize follows a character.
	const uint64_t description = worker_word(worker, address + 40);
	const uint32_t size = reader_u32(&worker->reader, description + 4);
	return size > 16 ? 0
			 : items_size(worker, worker_word(worker, address + 24),
				   worker_word(worker, address + 32), size);
}

static uint64_t deque_size(struct worker *worker, uint64_t address)
{
	// dequeobject: leftblock, rightblock, leftindex; a block has two links and 64 items.
	const uint64_t left = worker_word(worker, address + 40);
	const uint64_t count = worker_word(worker, address + OB_SIZE);
	if (left > 64 || count > UINT64_C(1) << 40)
		return 0;
	return max_u64(1, (left + count + 63) / 64) * 66 * 8;
}

static uint64_t dict_size(struct worker *worker, uint64_t address, bool *ret_split)
{
	const struct python *python = worker->scan->state;
	const uint64_t keys_at = worker_word(worker, address + MA_KEYS);
	const uint64_t values = worker_word(worker, address + MA_VALUES);
	struct keys keys;
	*ret_split = values != 0;
	if (!keys_load(python, &worker->reader, keys_at, &keys))
		return 0;
	uint64_t bytes = values != 0 ? items_size(worker, values, keys.usable, 8) : 0;
	if (keys.refcnt == 1)
		bytes += block_size(worker, keys_at, keys.bytes);
	return bytes;
}

// Bytes of other blocks that belong to the object. split: a dictionary whose keys are those of a
// class; it is an instance's.
static uint64_t extra_size(
	struct worker *worker, const struct shape *shape, uint64_t address, bool *ret_split)
{
	switch (shape->form) {
	case FORM_LIST:
		return items_size(worker, worker_word(worker, address + 24),
			worker_word(worker, address + 32), 8);
	case FORM_DICT:
		return dict_size(worker, address, ret_split);
	case FORM_SET: {
		const uint64_t table = worker_word(worker, address + 40);
		const uint64_t mask = worker_word(worker, address + 32);
		return table == address + 64 || mask == UINT64_MAX
			       ? 0
			       : items_size(worker, table, mask + 1, 16);
	}
	case FORM_DEQUE:
		return deque_size(worker, address);
	case FORM_BYTEARRAY:
		return items_size(worker, worker_word(worker, address + 32),
			worker_word(worker, address + 24), 1);
	case FORM_ARRAY:
		return array_size(worker, address);
	case FORM_NDARRAY:
		return ndarray_size(worker, address);
	default:
		return 0;
	}
}

// Bytes of the object alone, without its header; 0: there is none.
static uint64_t own_size(
	struct worker *worker, const struct shape *shape, uint64_t address, uint64_t *ret_more)
{
	const struct python *python = worker->scan->state;
	*ret_more = 0;
	if (shape->form == FORM_STR) {
		unsigned char head[TEXT_HEAD];
		for (unsigned i = 0; i < TEXT_HEAD; i += 8)
			word_store(head + i, worker_word(worker, address + i), 8, ORDER_LITTLE);
		const struct text text = text_load(python, head, address);
		*ret_more = text.more;
		return text.bytes == UINT64_MAX ? 0 : text.bytes;
	}
	if (shape->itemsize == 0)
		return shape->basicsize;
	const uint64_t word = worker_word(worker, address + OB_SIZE);
	const int64_t size = (int64_t)word;
	uint64_t count = (uint64_t)(size < 0 ? -(uint64_t)size : (uint64_t)size);
	if (shape->form == FORM_LONG)
		count = python->minor >= 12   ? max_u64(1, word >> 3)
			: python->minor == 11 ? max_u64(1, count)
					      : count;
	else if (size < 0)
		return 0;
	uint64_t bytes;
	if (__builtin_mul_overflow(count, shape->itemsize, &bytes) || bytes > UINT64_C(1) << 44)
		return 0;
	return shape->basicsize + bytes;
}

// ---- attributes

// The dictionary of an instance, counted to it.
static uint64_t dict_claim(struct worker *worker, uint64_t dict)
{
	const uint64_t address = worker_word(worker, dict + OB_TYPE);
	const struct shape *shape = address == 0 ? NULL : shape_find(worker, address);
	bool split = false;
	if (dict % BLOCK != 0 || shape == NULL || shape->form != FORM_DICT ||
		worker_u32(worker, dict) == 0)
		return 0;
	const uint64_t size = shape->header + shape->basicsize + dict_size(worker, dict, &split);
	// It was, or will be, met as an object of its own.
	if (!split && block_size(worker, dict, shape->basicsize) > 0)
		worker_correct(worker, shape->type, -1, -(int64_t)size);
	return size;
}

// Bytes of the attributes of an instance outside of it. ret_inside: those behind it.
static uint64_t attributes_size(
	struct worker *worker, const struct shape *shape, uint64_t address, uint64_t *ret_inside)
{
	const struct python *python = worker->scan->state;
	const uint64_t values_at = address - 32, dict_at = address - 24;
	struct keys keys;
	*ret_inside = 0;
	if (python->minor < 11 || (shape->flags & FLAG_MANAGED_DICT) == 0) {
		const uint64_t dict =
			shape->dictoffset > 0
				? worker_word(worker, address + (uint32_t)shape->dictoffset)
				: 0;
		return dict != 0 ? dict_claim(worker, dict) : 0;
	}
	const uint64_t dict = worker_word(worker, dict_at);
	if (python->minor >= 13 && (shape->flags & FLAG_INLINE_VALUES) != 0) {
		const uint64_t capacity = worker_word(worker, address + shape->basicsize) & 0xff;
		const uint64_t prefix = (capacity + 7) / 8 * 8;
		*ret_inside = prefix + (capacity + 1) * 8;
		if (dict == 0)
			return capacity * 8;
		// They are the dictionary's values, which it may have given up for its own.
		const uint64_t values = worker_word(worker, dict + MA_VALUES);
		return dict_claim(worker, dict) + (values != 0 ? 0 : capacity * 8);
	}
	const bool tagged = python->minor == 12 && (dict & 1) != 0;
	// 3.12 keeps a pointer that is one less (Include/internal/pycore_object.h).
	const uint64_t values = tagged ? dict + 1 : worker_word(worker, values_at);
	if (tagged || (python->minor == 11 && dict == 0 && values != 0)) {
		worker_own(worker, values);
		return keys_load(python, &worker->reader, shape->keys, &keys) ? keys.usable * 8 : 0;
	}
	return dict != 0 && !tagged ? dict_claim(worker, dict) : 0;
}

// ---- the walk

// Whether the first word of an object is a count of references, and not that of a block which is
// free: 0, or the link of a free list. That can be as small as a count where the heap is at a low
// address. Since 3.14 flags are above the count: Include/refcount.h.
static bool is_count(const struct worker *worker, uint64_t word)
{
	const struct python *python = worker->scan->state;
	const uint64_t above = word >> 32;
	if ((uint32_t)word == 0 ||
		(python->minor >= 14 ? (above & 0xffff) != 0 || above >> 24 != 0 : above != 0))
		return false;
	return word % 8 != 0 || word <= 0xffff || word >= UINT64_C(0x80000000) ||
	       image_segment_at(worker->scan->image, word) == NULL;
}

// The object at address, if one begins there, whose words these are. Returns its bytes from there
// on, or 0.
static uint64_t object_find(struct worker *worker, uint64_t address, uint64_t refcnt, uint64_t type)
{
	const struct shape *found = is_count(worker, refcnt) ? shape_find(worker, type) : NULL;
	if (found == NULL)
		return 0;
	const struct shape shape = *found; // the next one may take its place
	uint64_t more, inside;
	bool split = false;
	const uint64_t own = own_size(worker, &shape, address, &more);
	if (own == 0 || block_size(worker, address, own) == 0)
		return 0;
	const uint64_t extra = extra_size(worker, &shape, address, &split);
	const uint64_t attributes = attributes_size(worker, &shape, address, &inside);
	const uint64_t size = shape.header + own + more + extra + attributes;
	if (!split)
		worker_found(worker, shape.type, address, size);
	worker->round_bytes += -(shape.header + own + inside) % BLOCK + -extra % BLOCK;
	return own + inside;
}

static void python_walk(struct worker *worker, const struct piece *piece)
{
	uint64_t at = (piece->start + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
	while (at < piece->end && piece->end - at >= OBJECT_SIZE) {
		if (!worker_load(worker, at, piece->end))
			return;
		const uint64_t end = min_u64(piece->end, worker->start + worker->size);
		while (at < end && end - at >= OBJECT_SIZE) {
			const unsigned char *words = worker->bytes + (at - worker->start);
			const uint64_t refcnt = word_load(words, 8, ORDER_LITTLE);
			const uint64_t type = word_load(words + OB_TYPE, 8, ORDER_LITTLE);
			uint64_t size = BLOCK;
			if (refcnt != 0 && type % 8 == 0 && type > 0xffff && type >> 47 == 0)
				size = max_u64(size, object_find(worker, at, refcnt, type));
			size = (size + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
			if (size > piece->end - at)
				return;
			at += size;
		}
		// Memory may be missing there.
		const uint64_t next = image_next(worker->scan->image, max_u64(at, end));
		if (next >= piece->end)
			return;
		at = (next + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
	}
}

static bool python_worker_begin(struct worker *worker)
{
	worker->state = calloc(SHAPES, sizeof(struct shape));
	return worker->state != NULL;
}

static void python_worker_end(struct worker *worker)
{
	free(worker->state);
}

// ---- which Python

// The minor version that a path tells: ".../libpython3.11.so.1.0", "/usr/lib/python3.11/...",
// "....cpython-311-x86_64-linux-gnu.so"; 0: none.
static unsigned path_version(const char *path, bool *ret_threaded)
{
	static const char *const before[] = {"python3.", "cpython-3"};
	for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
		const char *at = strstr(path, before[i]);
		if (at == NULL)
			continue;
		at += strlen(before[i]);
		unsigned minor = 0;
		for (unsigned k = 0; k < 3 && *at >= '0' && *at <= '9'; k++, at++)
			minor = 10 * minor + (unsigned)(*at - '0');
		*ret_threaded = *at == 't';
		if (minor > 0)
			return minor;
	}
	return 0;
}

static unsigned process_version(
	const struct runtime_scan *scan, const struct module *module, bool *ret_threaded)
{
	unsigned minor = path_version(module->path, ret_threaded);
	for (size_t i = 0; minor == 0 && i < scan->modules->count; i++)
		minor = path_version(scan->modules->list[i].path, ret_threaded);
	return minor;
}

// sizeof(PyHeapTypeObject), where the places of its fields were looked up.
static const struct {
	unsigned minor, size, qualname, cached_keys;
} heap_types[] = {
	{8, 880, 864, 872},
	{9, 880, 856, 864},
	{10, 888, 864, 872},
	{11, 904, 864, 872},
	{12, 920, 872, 880},
	{13, 928, 872, 880},
	{14, 936, 872, 880},
};

static bool is_type_type(struct reader *reader, uint64_t address)
{
	const uint64_t size = reader_word(reader, address + TP_BASICSIZE);
	return reader_word(reader, address + OB_TYPE) == address && size >= 800 && size < 1200 &&
	       (reader_u32(reader, address + TP_FLAGS) & (FLAG_TYPE | FLAG_READY)) ==
		       (FLAG_TYPE | FLAG_READY);
}

// Without the file of the program there are no exports: the one word in its data that points at
// itself, as the type of a type.
static uint64_t type_type_search(
	const struct runtime_scan *scan, struct reader *reader, const struct module *module)
{
	for (size_t i = 0; i < scan->modules->range_count; i++) {
		const struct module_range *range = &scan->modules->ranges[i];
		if (&scan->modules->list[range->module] != module || (range->flags & PF_W) == 0)
			continue;
		uint64_t at = (range->start + 7) & ~UINT64_C(7);
		for (unsigned tries = 0;
			tries < SEARCH_MAX && at < range->end && range->end - at >= TYPE_READ;
			tries++) {
			unsigned char word[8];
			if (!reader_get(reader, at + OB_TYPE, word, sizeof word)) {
				// A damaged module can be as large as all memory.
				const uint64_t next = image_next(scan->image, at + OB_TYPE);
				at = max_u64(at + 8, (next + 7) & ~UINT64_C(7));
				continue;
			}
			if (word_load(word, 8, ORDER_LITTLE) == at && is_type_type(reader, at))
				return at;
			at += 8;
		}
	}
	return 0;
}

static bool python_find(
	struct runtime_scan *scan, struct reader *reader, const struct module *module)
{
	struct exports exports;
	uint64_t type_type = 0;
	bool threaded = false;
	if ((!exports_init(&exports, reader, module) ||
		    !exports_find(&exports, reader, "PyType_Type", NULL, &type_type)) &&
		(strstr(module->name, "python3") == NULL ||
			(type_type = type_type_search(scan, reader, module)) == 0))
		return false;
	char name[48];
	const unsigned minor = process_version(scan, module, &threaded);
	struct python *python = calloc(1, sizeof *python);
	scan->state = python;
	snprintf(name, sizeof name, minor > 0 ? "python 3.%u%s" : "python 3", minor,
		threaded ? "t" : "");
	scan->runtime->name = strdup(name);
	if (python == NULL || scan->runtime->name == NULL) {
		scan->lost = true;
		return true;
	}
	python->type_type = type_type;
	const uint64_t size = reader_word(reader, type_type + TP_BASICSIZE);
	for (size_t i = 0; i < sizeof heap_types / sizeof heap_types[0]; i++)
		if (minor == heap_types[i].minor && (size == heap_types[i].size || minor == 14)) {
			python->minor = minor;
			python->qualname = heap_types[i].qualname;
			python->cached_keys = heap_types[i].cached_keys;
		}
	if (python->minor == 0 || !is_type_type(reader, type_type)) {
		scan->runtime->doubt = strdup("this version is not known yet");
		scan->lost = scan->runtime->doubt == NULL;
		return true;
	}
	scan_add_heaps(scan, true);
	return true;
}

const struct runtime_ops cpython_ops = {
	.language = "python",
	.find = python_find,
	.worker_begin = python_worker_begin,
	.worker_end = python_worker_end,
	.walk = python_walk,
};
