// SPDX-License-Identifier: MIT
//
// V8 of Node 18 to 24, and of other programs that export what V8 says to debuggers (v8dbg_...),
// where pointers are not compressed. An object begins with a pointer to its map, which says what
// kind of object it is and how large; a map's own map is a map of maps, which is its own. Objects
// lie one behind the other; gaps are filled with objects that say so.
//
// Numbers and places: tools/gen-postmortem-metadata.py, which makes the symbols; what they do not
// say is cited where it is used, of V8 10.2, 11.3, 12.4 and 13.6 (Node 18, 20, 22 and 24), on which
// this was tried.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "runtime/exports.h"
#include "runtime/internal.h"

#define SHAPES ((size_t)1 << 14)
#define FUNCTIONS ((size_t)1 << 12)
// No chain of maps to their constructor, and of strings to their text, is longer.
#define CHAIN_MAX 1024
#define DEPTH_MAX 16
// The first properties of a prototype are looked at.
#define PROPERTIES_MAX 128
#define TEXT_SIZE 256
// There are fewer symbols v8dbg_.
#define CONSTANTS_MAX 4096
// Of an object whose size is not known, the next one is so near.
#define UNKNOWN_MAX ((uint64_t)64 << 10)
// Pages are aligned to this: kPageSizeBits, src/base/build_config.h.
#define PAGE_SIZE ((uint64_t)1 << 18)
// What a page has before its first object is less than this.
#define HEADER_MAX 8192

// How an object says its size.
enum form {
	FORM_NONE, // this is no map
	FORM_FIXED,
	FORM_WORDS, // a number of words, after a length at 8
	FORM_BYTES, // of bytes
	FORM_BYTECODE,
	FORM_ONE_BYTE, // a text
	FORM_TWO_BYTE,
	FORM_PROPERTIES,
	FORM_DESCRIPTORS,
	FORM_LIST, // a capacity at 8, a length at 16, then words
	FORM_BIGINT,
	FORM_FREE,  // nothing
	FORM_GUESS, // one of these, by what is behind it
	FORM_OPEN,  // up to the next object
};

struct constant {
	char *name; // after v8dbg_; owned
	int32_t value;
};

struct v8 {
	struct constant *constants; // sorted by name; owned
	size_t constant_count;
	char *names[65536]; // of instance types; owned by constants, not ended by a zero byte
	bool lost;
	// Places in objects.
	uint64_t map_type, map_size, map_constructor;
	uint64_t map_bits2, map_prototype;
	uint64_t function_shared, function_initial, shared_name;
	uint64_t properties, elements, table;
	uint64_t buffer_store, buffer_length;
	uint64_t bytecode_data;
	// Instance types.
	uint16_t map, shared, scope, fixed_array, array_buffer, set, js_map, first_object;
	uint16_t first_context, last_context, first_nonstring;
};

struct shape {
	uint64_t map; // a tagged pointer
	uint32_t type;
	uint16_t instance;
	uint8_t words; // of its objects; 0: they differ
	uint8_t form;
	bool is_object, is_function, is_filler;
};

struct function {
	uint64_t shared;
	uint32_t type;
};

struct v8_worker {
	struct shape shapes[SHAPES];
	struct function functions[FUNCTIONS];
	// An object of which the size is not known yet.
	uint64_t open;
	uint32_t open_type;
};

// ---- what V8 says of itself

static int constant_compare(const void *left, const void *right)
{
	return strcmp(
		((const struct constant *)left)->name, ((const struct constant *)right)->name);
}

struct collect {
	struct v8 *v8;
	struct reader *reader;
};

static void constant_add(void *context, const char *name, uint64_t address)
{
	const struct collect *collect = context;
	struct v8 *v8 = collect->v8;
	if (v8->constant_count == CONSTANTS_MAX || v8->lost)
		return;
	char *copy = strdup(name);
	if (copy == NULL) {
		v8->lost = true;
		return;
	}
	v8->constants[v8->constant_count++] =
		(struct constant){copy, (int32_t)reader_u32(collect->reader, address)};
}

// The constant whose name begins so; otherwise if there is none.
static int64_t constant(const struct v8 *v8, const char *prefix, int64_t otherwise)
{
	const size_t length = strlen(prefix);
	for (size_t i = 0; i < v8->constant_count; i++)
		if (strncmp(v8->constants[i].name, prefix, length) == 0)
			return v8->constants[i].value;
	return otherwise;
}

static uint64_t place(const struct v8 *v8, const char *prefix, bool *missing)
{
	const int64_t value = constant(v8, prefix, -1);
	if (value < 0 || value > 4096)
		*missing = true;
	return (uint64_t)value;
}

// "type_JSArray__JS_ARRAY_TYPE" names an instance type JSArray.
static void names_find(struct v8 *v8)
{
	for (size_t i = 0; i < v8->constant_count; i++) {
		const struct constant *from = &v8->constants[i];
		if (strncmp(from->name, "type_", 5) == 0 && from->value >= 0 &&
			from->value < 65536 && strstr(from->name + 5, "__") != NULL)
			v8->names[from->value] = from->name + 5;
	}
}

static bool type_is(const struct v8 *v8, uint16_t instance, const char *name)
{
	const char *known = v8->names[instance];
	const size_t length = strlen(name);
	return known != NULL && strncmp(known, name, length) == 0 &&
	       strncmp(known + length, "__", 2) == 0;
}

static bool places_load(struct v8 *v8)
{
	bool missing = false;
	v8->map_type = place(v8, "class_Map__instance_type__", &missing);
	v8->map_size = place(v8, "class_Map__instance_size_in_words__", &missing);
	v8->map_constructor = place(v8, "class_Map__constructor_or_back_pointer__", &missing);
	v8->map_bits2 = place(v8, "class_Map__bit_field2__", &missing);
	v8->map_prototype = place(v8, "class_Map__prototype__", &missing);
	v8->function_initial = place(v8, "class_JSFunction__prototype_or_initial_map__", &missing);
	v8->function_shared = place(v8, "class_JSFunction__shared__", &missing);
	v8->shared_name = place(v8, "class_SharedFunctionInfo__name_or_scope_info__", &missing);
	v8->properties = place(v8, "class_JSReceiver__raw_properties_or_hash__", &missing);
	v8->elements = place(v8, "class_JSObject__elements__", &missing);
	v8->buffer_store = place(v8, "class_JSArrayBuffer__backing_store__", &missing);
	v8->buffer_length = place(v8, "class_JSArrayBuffer__byte_length__", &missing);
	v8->bytecode_data = place(v8, "class_BytecodeArray__data__", &missing);
	// JSCollection::kTableOffset follows JSObject's header: src/objects/js-collection.tq.
	v8->table = v8->elements + 8;
	v8->map = (uint16_t)place(v8, "type_Map__", &missing);
	v8->shared = (uint16_t)place(v8, "type_SharedFunctionInfo__", &missing);
	v8->scope = (uint16_t)place(v8, "type_ScopeInfo__", &missing);
	v8->fixed_array = (uint16_t)place(v8, "type_FixedArray__", &missing);
	v8->array_buffer = (uint16_t)place(v8, "type_JSArrayBuffer__", &missing);
	v8->js_map = (uint16_t)place(v8, "type_JSMap__", &missing);
	v8->set = (uint16_t)place(v8, "type_JSSet__", &missing);
	v8->first_nonstring = (uint16_t)place(v8, "FirstNonstringType", &missing);
	v8->first_context = (uint16_t)place(v8, "FirstContextType", &missing);
	v8->last_context = (uint16_t)place(v8, "LastContextType", &missing);
	// The types of objects of JavaScript are the last ones; special ones, such as the global
	// object, have names that begin with JS.
	v8->first_object = (uint16_t)place(v8, "SpecialAPIObjectType", &missing);
	names_find(v8);
	return !missing && constant(v8, "TaggedSize", 8) == 8;
}

// ---- objects

static bool is_tagged(uint64_t word)
{
	return (word & 3) == 1 && word % 8 == 1 && word > 0x10000 && word >> 47 == 0;
}

static int64_t smi(uint64_t word)
{
	return (int64_t)word >> 32;
}

// Whether this tagged pointer is that of a map: its map, and that one's in turn, are maps, up to
// one that is its own.
static bool is_map(const struct v8 *v8, struct reader *reader, uint64_t map)
{
	for (unsigned i = 0; i < 4; i++) {
		const uint64_t next = is_tagged(map) ? reader_word(reader, map - 1) : 0;
		if (!is_tagged(next) || reader_u16(reader, next - 1 + v8->map_type) != v8->map)
			return false;
		if (next == map)
			return true;
		map = next;
	}
	return false;
}

// The instance type of a tagged object; 65535: it is none.
static uint16_t instance_of(const struct v8 *v8, struct reader *reader, uint64_t object)
{
	const uint64_t map = is_tagged(object) ? reader_word(reader, object - 1) : 0;
	return is_map(v8, reader, map) ? reader_u16(reader, map - 1 + v8->map_type) : UINT16_MAX;
}

// Latin-1 or UTF-16 as UTF-8; what is half of a pair is a question mark.
static size_t character_put(char *target, uint32_t c)
{
	if (c >= 0xd800 && c < 0xe000)
		c = '?';
	if (c < 0x80) {
		target[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		target[0] = (char)(0xc0 | c >> 6);
		target[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	target[0] = (char)(0xe0 | c >> 12);
	target[1] = (char)(0x80 | (c >> 6 & 63));
	target[2] = (char)(0x80 | (c & 63));
	return 3;
}

// Read a string's text as UTF-8; its beginning if it is longer. False: it is no string whose text
// is in it. Representations: src/objects/instance-type.h (kStringRepresentationMask and
// kThinStringTag, kStringEncodingMask); a string has its hash at 8, its length at 12.
static bool string_read(
	const struct v8 *v8, struct reader *reader, uint64_t string, char *text, size_t size)
{
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		const uint16_t instance = instance_of(v8, reader, string);
		if (instance >= v8->first_nonstring)
			return false;
		const unsigned representation = instance & 7, wide = (instance & 8) == 0;
		if (representation == 5 || representation == 1) {
			// Thin ones stand for another; of two that were joined, the first one.
			string = reader_word(reader, string - 1 + 16);
			continue;
		}
		if (representation != 0)
			return false;
		const uint32_t length = reader_u32(reader, string - 1 + 12);
		size_t used = 0;
		for (uint32_t i = 0; i < length && used + 4 < size; i++) {
			const uint64_t at = string - 1 + 16 + ((uint64_t)i << wide);
			used += character_put(
				text + used, wide ? reader_u16(reader, at) : reader_u8(reader, at));
		}
		text[used] = '\0';
		return true;
	}
	return false;
}

// The name of a function whose names of variables are kept: behind those. ScopeInfo has flags, two
// numbers, the second of which is that of the variables, their names, and a number for each
// (src/objects/scope-info.tq); many names are in a table of their own.
static bool scope_read(
	const struct v8 *v8, struct reader *reader, uint64_t scope, char *text, size_t size)
{
	const int64_t variables = smi(reader_word(reader, scope - 1 + 24));
	const uint64_t names = variables < 0 || variables > 4096 ? 0
			       : variables >= 75		 ? 1
								 : (uint64_t)variables;
	for (uint64_t i = names; i < names + (uint64_t)(variables < 0 ? 0 : variables) + 12; i++) {
		const uint64_t word = reader_word(reader, scope - 1 + 32 + 8 * i);
		if (string_read(v8, reader, word, text, size) && text[0] != '\0')
			return true;
	}
	return false;
}

// The name of a function by its SharedFunctionInfo; "" if it has none.
static void shared_read(
	const struct v8 *v8, struct reader *reader, uint64_t shared, char *text, size_t size)
{
	const uint64_t name = reader_word(reader, shared - 1 + v8->shared_name);
	const uint16_t instance = instance_of(v8, reader, name);
	text[0] = '\0';
	if (instance == v8->scope) {
		if (!scope_read(v8, reader, name, text, size))
			text[0] = '\0';
	} else if (instance < v8->first_nonstring && !string_read(v8, reader, name, text, size))
		text[0] = '\0';
}

// Whether value is a function whose objects have this prototype.
static bool is_constructor(
	const struct v8 *v8, struct reader *reader, uint64_t value, uint64_t prototype)
{
	if (!is_tagged(value) ||
		instance_of(v8, reader, reader_word(reader, value - 1 + v8->function_shared)) !=
			v8->shared)
		return false;
	const uint64_t made = reader_word(reader, value - 1 + v8->function_initial);
	return made == prototype ||
	       (instance_of(v8, reader, made) == v8->map &&
		       reader_word(reader, made - 1 + v8->map_prototype) == prototype);
}

// The constructor of a class derived from another one is not noted in the map of its objects; it is
// the function among the properties of their prototype whose objects have that prototype.
static uint64_t derived_find(const struct v8 *v8, struct reader *reader, uint64_t map)
{
	const uint64_t prototype = reader_word(reader, map - 1 + v8->map_prototype);
	const uint64_t of = is_tagged(prototype) ? reader_word(reader, prototype - 1) : 0;
	if (!is_map(v8, reader, of) || reader_u16(reader, of - 1 + v8->map_type) < v8->first_object)
		return 0;
	const uint64_t words = reader_u8(reader, of - 1 + v8->map_size);
	for (uint64_t i = v8->elements / 8 + 1; i < words; i++) {
		const uint64_t value = reader_word(reader, prototype - 1 + 8 * i);
		if (is_constructor(v8, reader, value, prototype))
			return value;
	}
	const uint64_t properties = reader_word(reader, prototype - 1 + v8->properties);
	for (uint64_t i = 2; is_tagged(properties) && i < PROPERTIES_MAX; i++) {
		const uint64_t value = reader_word(reader, properties - 1 + 8 * i);
		if (is_constructor(v8, reader, value, prototype))
			return value;
	}
	return 0;
}

// The name of the function that has made the objects of a map. Map::Bits2::NewTargetIsBaseBit, the
// lowest of bit_field2, says that it is the one in the map: src/objects/map.tq.
static bool constructor_read(
	const struct v8 *v8, struct reader *reader, uint64_t map, char *text, size_t size)
{
	if ((reader_u8(reader, map - 1 + v8->map_bits2) & 1) == 0) {
		const uint64_t derived = derived_find(v8, reader, map);
		if (derived != 0) {
			shared_read(v8, reader,
				reader_word(reader, derived - 1 + v8->function_shared), text, size);
			if (text[0] != '\0')
				return true;
		}
	}
	for (unsigned i = 0; i < CHAIN_MAX; i++) {
		const uint64_t next = reader_word(reader, map - 1 + v8->map_constructor);
		const uint16_t instance = instance_of(v8, reader, next);
		if (instance == v8->map) {
			map = next;
			continue;
		}
		if (instance == UINT16_MAX)
			return false;
		const uint64_t shared = reader_word(reader, next - 1 + v8->function_shared);
		if (instance_of(v8, reader, shared) != v8->shared)
			return false;
		shared_read(v8, reader, shared, text, size);
		return text[0] != '\0';
	}
	return false;
}

// ---- shapes

static enum form string_form(uint16_t instance)
{
	if ((instance & 7) != 0)
		return FORM_FIXED;
	return (instance & 8) != 0 ? FORM_ONE_BYTE : FORM_TWO_BYTE;
}

static enum form shape_form(const struct v8 *v8, uint16_t instance, uint8_t words)
{
	static const struct {
		const char *name;
		enum form form;
	} known[] = {{"FixedArray", FORM_WORDS}, {"FixedDoubleArray", FORM_WORDS},
		{"WeakFixedArray", FORM_WORDS}, {"EmbedderDataArray", FORM_WORDS},
		{"TrustedFixedArray", FORM_WORDS}, {"ProtectedFixedArray", FORM_WORDS},
		{"ClosureFeedbackCellArray", FORM_WORDS}, {"ByteArray", FORM_BYTES},
		{"TrustedByteArray", FORM_BYTES}, {"BytecodeArray", FORM_BYTECODE},
		{"PropertyArray", FORM_PROPERTIES}, {"DescriptorArray", FORM_DESCRIPTORS},
		{"StrongDescriptorArray", FORM_DESCRIPTORS}, {"WeakArrayList", FORM_LIST},
		{"BigInt", FORM_BIGINT}, {"FreeSpace", FORM_FREE}};
	if (instance < v8->first_nonstring)
		return string_form(instance);
	if (words != 0)
		return FORM_FIXED;
	if (instance >= v8->first_context && instance <= v8->last_context)
		return FORM_WORDS;
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
		if (type_is(v8, instance, known[i].name))
			return known[i].form;
	// BIGINT_TYPE follows SYMBOL_TYPE, the first that is no string, without a symbol.
	if (instance == v8->first_nonstring + 1 && v8->names[instance] == NULL)
		return FORM_BIGINT;
	// Tables of all kinds have no symbol; what has one has a layout of its own.
	return v8->names[instance] == NULL ? FORM_GUESS : FORM_OPEN;
}

// What an object is called: the class of a JavaScript object, "string", or in parentheses what only
// V8 itself knows.
static void shape_name(const struct v8 *v8, struct reader *reader, const struct shape *shape,
	char *name, size_t size)
{
	static const char *const strings[8] = {"string", "concatenated string", "external string",
		"sliced string", "string", "thin string", "string", "string"};
	const char *known = v8->names[shape->instance];
	const size_t length = known != NULL ? (size_t)(strstr(known, "__") - known) : 0;
	if (shape->instance < v8->first_nonstring)
		snprintf(name, size, "%s", strings[shape->instance & 7]);
	else if (shape->is_object && constructor_read(v8, reader, shape->map, name, size))
		return;
	else if (type_is(v8, shape->instance, "HeapNumber"))
		snprintf(name, size, "number");
	else if (type_is(v8, shape->instance, "Symbol"))
		snprintf(name, size, "symbol");
	else if (shape->form == FORM_BIGINT)
		snprintf(name, size, "bigint");
	else if (shape->instance >= v8->first_context && shape->instance <= v8->last_context)
		snprintf(name, size, "(Context)");
	else if (known != NULL)
		snprintf(name, size, "(%.*s)", (int)length, known);
	else
		snprintf(name, size, "(type %u)", shape->instance);
}

static void shape_load(struct worker *worker, uint64_t map, struct shape *ret)
{
	const struct v8 *v8 = worker->scan->state;
	struct reader *reader = &worker->reader;
	*ret = (struct shape){.map = map, .type = NO_TYPE, .form = FORM_NONE};
	if (!is_map(v8, reader, map))
		return;
	ret->instance = reader_u16(reader, map - 1 + v8->map_type);
	ret->words = reader_u8(reader, map - 1 + v8->map_size);
	ret->form = (uint8_t)shape_form(v8, ret->instance, ret->words);
	const char *known = v8->names[ret->instance];
	ret->is_object = ret->instance >= v8->first_object ||
			 (known != NULL && strncmp(known, "JS", 2) == 0);
	// One word: what fills a gap that has room for nothing else. Those of two words are of the
	// same type, for which there is no symbol.
	ret->is_filler = known == NULL && ret->words == 1;
	ret->type = scan_type(worker->scan, map);
	if (ret->type == NO_TYPE) {
		char name[TEXT_SIZE];
		shape_name(v8, reader, ret, name, sizeof name);
		ret->type = scan_type_add(worker->scan, map, name);
	}
}

static const struct shape *shape_find(struct worker *worker, uint64_t map)
{
	struct v8_worker *own = worker->state;
	struct shape *shape = &own->shapes[(map * 0x9e3779b97f4a7c15u >> 40) % SHAPES];
	if (shape->map != map)
		shape_load(worker, map, shape);
	return shape->form == FORM_NONE ? NULL : shape;
}

// ---- sizes

static uint64_t aligned(uint64_t size)
{
	return (size + 7) & ~UINT64_C(7);
}

// Whether an object can begin at address, or a page.
static bool is_boundary(struct worker *worker, uint64_t address)
{
	const uint64_t word = worker_word(worker, address);
	return address % PAGE_SIZE == 0 || (is_tagged(word) && shape_find(worker, word) != NULL);
}

// Whether all words, of which some are looked at, are what V8 keeps in arrays.
static bool has_words(struct worker *worker, uint64_t address, uint64_t count)
{
	const uint64_t step = count / 8 + 1;
	for (uint64_t i = 0; i < count; i += step) {
		const uint64_t word = worker_word(worker, address + 8 * i);
		if ((uint32_t)word != 0 && (word & 1) == 0)
			return false;
	}
	return true;
}

// Larger objects have memory of their own: kMaxRegularHeapObjectSize, src/common/globals.h.
#define LARGE_MIN (PAGE_SIZE / 2 - 4096)

// The size of an object of a type that has no symbol: of the ways in which lengths are counted, the
// one behind which there is an object. 0: none.
static uint64_t size_guess(struct worker *worker, uint64_t address, bool *ret_free)
{
	const uint64_t word = worker_word(worker, address + 8);
	const uint64_t length = word >> 32;
	*ret_free = false;
	if ((uint32_t)word != 0 || length >> 31 != 0)
		return 0;
	const uint64_t words = 16 + 8 * length;
	if (words < PAGE_SIZE << 12 && has_words(worker, address + 16, length) &&
		(is_boundary(worker, address + words) ||
			(words >= LARGE_MIN && worker_word(worker, address + words) == 0)))
		return words;
	if (length >= 16 && length % 8 == 0 && is_boundary(worker, address + length)) {
		*ret_free = true; // FreeSpace: its size is of the whole
		return length;
	}
	return 0;
}

// Whether a long array has what it should have. Doubles can be anything.
static bool is_words(
	struct worker *worker, const struct shape *shape, uint64_t address, uint64_t length)
{
	return type_is(worker->scan->state, shape->instance, "FixedDoubleArray") ||
	       has_words(worker, address + 16, length);
}

// Bytes of an object; 0: they are not known.
static uint64_t object_size(
	struct worker *worker, const struct shape *shape, uint64_t address, bool *ret_free)
{
	const struct v8 *v8 = worker->scan->state;
	const uint64_t word = worker_word(worker, address + 8);
	const uint64_t length = word >> 32 & INT32_MAX; // of a Smi
	*ret_free = shape->is_filler;
	switch ((enum form)shape->form) {
	case FORM_NONE:
	case FORM_OPEN:
		break;
	case FORM_FIXED:
		return 8 * (uint64_t)shape->words;
	case FORM_WORDS:
		return (uint32_t)word == 0 &&
				       (length < 1024 || is_words(worker, shape, address, length))
			       ? 16 + 8 * length
			       : 0;
	case FORM_BYTES:
		return aligned(16 + length);
	case FORM_BYTECODE:
		return aligned(v8->bytecode_data + length);
	case FORM_ONE_BYTE:
		return aligned(16 + (uint64_t)worker_u32(worker, address + 12));
	case FORM_TWO_BYTE:
		return aligned(16 + 2 * (uint64_t)worker_u32(worker, address + 12));
	case FORM_PROPERTIES: // PropertyArray::LengthField, src/objects/property-array.h
		return 16 + 8 * (length & 1023);
	case FORM_DESCRIPTORS: // src/objects/descriptor-array.tq
		return 24 + 24 * (word & 0xffff);
	case FORM_LIST:
		return 24 + 8 * length;
	case FORM_BIGINT: // BigIntBase::LengthBits, src/objects/bigint.h
		return 16 + 8 * (uint64_t)((uint32_t)word >> 1 & 0x3fffffff);
	case FORM_FREE:
		*ret_free = true;
		return length;
	case FORM_GUESS:
		return size_guess(worker, address, ret_free);
	}
	return 0;
}

// ---- what belongs to an object

// An array that belongs to one object alone: its elements, its properties, its table. It is counted
// to that, and no longer for itself. Arrays that are copied when they are written to, and shared
// until then, have a map of their own; plain is the map of others.
static uint64_t part_claim(struct worker *worker, uint64_t part, uint64_t plain)
{
	const struct v8 *v8 = worker->scan->state;
	const uint64_t map = is_tagged(part) ? worker_word(worker, part - 1) : 0;
	const struct shape *found = map != 0 ? shape_find(worker, map) : NULL;
	bool is_free;
	if (found == NULL || found->is_object ||
		(found->form != FORM_WORDS && found->form != FORM_PROPERTIES &&
			found->form != FORM_GUESS) ||
		(found->instance == v8->fixed_array && map != plain))
		return 0;
	const struct shape shape = *found;
	const uint64_t size = object_size(worker, &shape, part - 1, &is_free);
	if (size <= 16 || is_free || worker_block(worker, part - 1, size) == 0)
		return 0;
	worker_correct(worker, shape.type, -1, -(int64_t)size);
	return size;
}

// The type of a closure is its function.
static uint32_t function_type(struct worker *worker, uint64_t address)
{
	const struct v8 *v8 = worker->scan->state;
	struct v8_worker *own = worker->state;
	struct reader *reader = &worker->reader;
	const uint64_t shared = worker_word(worker, address + v8->function_shared);
	struct function *known = &own->functions[(shared * 0x9e3779b97f4a7c15u >> 40) % FUNCTIONS];
	if (known->shared == shared && shared != 0)
		return known->type;
	if (instance_of(v8, reader, shared) != v8->shared)
		return NO_TYPE;
	uint32_t type = scan_type(worker->scan, shared);
	if (type == NO_TYPE) {
		char text[TEXT_SIZE], name[TEXT_SIZE + 16];
		shared_read(v8, reader, shared, text, sizeof text);
		snprintf(name, sizeof name, "function %s", text[0] != '\0' ? text : "(anonymous)");
		type = scan_type_add(worker->scan, shared, name);
	}
	*known = (struct function){shared, type};
	return type;
}

static void object_tell(
	struct worker *worker, const struct shape *shape, uint64_t address, uint64_t size)
{
	const struct v8 *v8 = worker->scan->state;
	uint32_t type = shape->type;
	if (shape->is_object) {
		const uint32_t function = function_type(worker, address);
		if (function != NO_TYPE && type_is(v8, shape->instance, "JSFunction"))
			type = function;
		// Without properties there is an empty array, which is a plain one.
		const uint64_t properties = worker_word(worker, address + v8->properties);
		const uint64_t plain =
			is_tagged(properties) ? worker_word(worker, properties - 1) : 0;
		size += part_claim(worker, properties, 0);
		size += part_claim(worker, worker_word(worker, address + v8->elements), plain);
		if (shape->instance == v8->js_map || shape->instance == v8->set)
			size += part_claim(worker, worker_word(worker, address + v8->table), plain);
		if (shape->instance == v8->array_buffer) {
			const uint64_t store = worker_word(worker, address + v8->buffer_store);
			size += worker_block(
				worker, store, worker_word(worker, address + v8->buffer_length));
			worker_own(worker, store);
		}
	}
	worker_found(worker, type, address, size);
}

// ---- the walk

static void open_close(struct worker *worker, uint64_t address)
{
	struct v8_worker *own = worker->state;
	if (own->open == 0)
		return;
	const uint64_t size = address - own->open;
	worker_found(worker, own->open_type, own->open, size <= UNKNOWN_MAX ? size : 16);
	own->open = 0;
}

// An object is in one page, unless it is a large one, which has pages of its own.
static bool is_in_page(uint64_t address, uint64_t size)
{
	const uint64_t inside = address % PAGE_SIZE;
	return size <= PAGE_SIZE - inside || (size > LARGE_MIN && inside < HEADER_MAX);
}

// The object at address, whose first word is a tagged pointer. Returns its bytes; 0: there is none,
// or they are not known.
static uint64_t object_find(struct worker *worker, uint64_t address, uint64_t map)
{
	struct v8_worker *own = worker->state;
	const struct shape *found = shape_find(worker, map);
	if (found == NULL)
		return 0;
	const struct shape shape = *found;
	bool is_free;
	const uint64_t size = object_size(worker, &shape, address, &is_free);
	open_close(worker, address);
	if (size == 0 || !is_in_page(address, size) || worker_block(worker, address, size) == 0) {
		own->open = address;
		own->open_type = shape.type;
		return 0;
	}
	if (is_free)
		worker->free_bytes += size;
	else
		object_tell(worker, &shape, address, size);
	return size;
}

static void v8_walk(struct worker *worker, const struct piece *piece)
{
	uint64_t at = (piece->start + 7) & ~UINT64_C(7);
	while (at < piece->end && piece->end - at >= 8) {
		if (!worker_load(worker, at, piece->end))
			break;
		const uint64_t end = min_u64(piece->end, worker->start + worker->size);
		while (at < end && end - at >= 8) {
			const uint64_t word =
				word_load(worker->bytes + (at - worker->start), 8, ORDER_LITTLE);
			const uint64_t size = is_tagged(word) ? object_find(worker, at, word) : 0;
			if (size > piece->end - at) {
				open_close(worker, at);
				return;
			}
			at += max_u64(8, size);
		}
		const uint64_t next = image_next(worker->scan->image, max_u64(at, end));
		if (next >= piece->end)
			break;
		at = (next + 7) & ~UINT64_C(7);
	}
	open_close(worker, at);
}

static bool v8_worker_begin(struct worker *worker)
{
	worker->state = calloc(1, sizeof(struct v8_worker));
	return worker->state != NULL;
}

static void v8_worker_end(struct worker *worker)
{
	free(worker->state);
}

// ---- which V8

static void v8_free(void *state)
{
	struct v8 *v8 = state;
	if (v8 == NULL)
		return;
	for (size_t i = 0; i < v8->constant_count; i++)
		free(v8->constants[i].name);
	free(v8->constants);
	free(v8);
}

static char *v8_name(const struct exports *exports, struct reader *reader)
{
	uint64_t major, minor;
	char name[48];
	if (!exports_find(exports, reader, "_ZN2v88internal7Version6major_E", NULL, &major) ||
		!exports_find(exports, reader, "_ZN2v88internal7Version6minor_E", NULL, &minor))
		return strdup("v8");
	snprintf(name, sizeof name, "v8 %u.%u", reader_u32(reader, major),
		reader_u32(reader, minor));
	return strdup(name);
}

static bool v8_find(struct runtime_scan *scan, struct reader *reader, const struct module *module)
{
	struct exports exports;
	uint64_t symbol;
	if (!exports_init(&exports, reader, module) ||
		!exports_find(&exports, reader, "v8dbg_class_Map__instance_type__uint16_t", NULL,
			&symbol))
		return false;
	struct v8 *v8 = calloc(1, sizeof *v8);
	scan->state = v8;
	scan->runtime->name = v8_name(&exports, reader);
	scan->runtime->own = OWN_PROGRAM;
	if (v8 != NULL)
		v8->constants = calloc(CONSTANTS_MAX, sizeof *v8->constants);
	if (v8 == NULL || v8->constants == NULL) {
		scan->lost = true;
		return true;
	}
	exports_each(&exports, reader, "v8dbg_", constant_add, &(struct collect){v8, reader});
	qsort(v8->constants, v8->constant_count, sizeof *v8->constants, constant_compare);
	scan->lost = scan->lost || v8->lost;
	if (!places_load(v8)) {
		scan->runtime->doubt = strdup("this version is not known yet");
		scan->lost = scan->lost || scan->runtime->doubt == NULL;
		return true;
	}
	scan_add_heaps(scan, false);
	return true;
}

const struct runtime_ops v8_ops = {
	.language = "javascript",
	.find = v8_find,
	.free_state = v8_free,
	.worker_begin = v8_worker_begin,
	.worker_end = v8_worker_end,
	.walk = v8_walk,
};
