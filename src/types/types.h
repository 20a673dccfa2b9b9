// SPDX-License-Identifier: MIT
//
// The table of types: which classes and C structs the objects in a dump have, how many there are,
// and how much memory they take. No allocator need be known, no symbols, no whole file.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "names/names.h"
#include "types/survey.h"

enum type_kind {
	TYPE_CLASS,   // C++: its vtable pointer
	TYPE_STRUCT,  // C: a pointer to a function or a static object at a constant offset
	TYPE_UNNAMED, // as either, but what is pointed at has no name
	TYPE_TEXT,    // a text at a constant offset
	TYPE_PLAIN,   // nothing of this
	TYPE_OBJECT,  // of a managed language: what its runtime says
	TYPE_KIND_COUNT
};

// How the size of an object was found.
enum type_method {
	METHOD_NONE,	 // not at all
	METHOD_CHUNK,	 // of the chunks in a heap of glibc's malloc
	METHOD_HEADER,	 // the word before the object, as malloc has it
	METHOD_DISTANCE, // between neighbours
	METHOD_OBJECT,	 // the runtime of a managed language says it
	METHOD_ELEMENT,	 // between neighbours in one chunk, or in one block: arrays
	METHOD_COUNT
};

// "class", "struct", "unnamed", "text", "none"; "none", "chunk", ...
const char *type_kind_name(enum type_kind kind);
const char *type_method_name(enum type_method method);
// "heap", "anon", "stack", "data".
const char *site_name(enum site site);

struct type {
	enum type_kind kind;
	enum type_method method;
	char *name;   // as the texts of struct name; owned
	char *module; // name of the file the type comes from; owned
	uint64_t count;
	uint64_t
		size; // most frequent cost of one object in bytes, with malloc's header; 0: unknown
	double agreement; // share of the objects whose size was seen that have this size
	uint64_t bytes;	  // of all objects, without those inside others
	bool bytes_known;
	uint64_t sites[SITE_COUNT];
	char *place; // the thread's stack or the module's data that all are in, as the texts of
		     // struct name; NULL: they are in the heap, or not all in one; owned
	uint64_t secondary; // vtable pointers of the second and further bases; not in count
	uint64_t embedded;  // objects inside others; in count
	uint64_t freed;	    // in free chunks; not in count
	// Of lost objects, those that no other lost object points at, and what they take.
	uint64_t direct, direct_bytes;
	uint64_t examples[EXAMPLES_MAX];
	unsigned example_count;
	char *allocated_by; // functions of the stack that allocated most of them, as the texts of
			    // struct name; NULL: not known; owned
};

struct types_result {
	struct type *list; // owned
	size_t count, capacity;
	uint64_t *marks; // the words by which objects have rows, sorted; owned
	size_t mark_count, mark_capacity;
	// Of classes and structs with a name.
	uint64_t named_count, named_bytes;
	uint64_t heap_bytes; // heap and anonymous memory that was touched
	uint64_t words, zeros, texts;
	struct size_field fields[SIZE_FIELDS_MAX]; // size fields of malloc's chunks
	size_t field_count;
	uint64_t left_out; // types that are rarer may be missing, for lack of memory; 0: none
	unsigned passes, threads;
	const char *size_classes; // whose arrays' bytes are rounded up; NULL: none is known
	bool walked;	  // the blocks of an allocator are known: objects in free ones are left out
	bool lists_known; // and all that are in threads' caches and fastbins
	uint64_t packed;  // the --memory with which a packed dump's blocks would be known; 0: they
			  // are
	bool lower;	  // the dump is cut: counts are lower bounds
	bool partial;	  // stopped before the end
	bool recorded;	  // the dump has a recording: what allocated them may be known
};

// Find the types in image from what the pass over it has gathered. On success *ret is the caller's,
// to be released with types_result_deinit.
bool types_find(const struct image *image, struct names *names, const struct survey_result *pass,
	struct error *err, struct types_result *ret);
void types_result_deinit(struct types_result *result);
// What all rows take, bytes.
uint64_t types_bytes(const struct types_result *result);
// Add a row, whose texts become the result's. On failure they are released.
bool types_add(struct types_result *result, const struct type *row, struct error *err);

// The name of a type that is known by a pointer at an offset in its objects: "-> ssl_read_methods
// @+8", "-> app+0x1234 @+0"; without the offset if it is above OFFSET_MAX. value is the pointer,
// identity what it points to, in a module. The caller must free it; NULL if memory ran out.
char *type_name_pointer(const struct identity *identity, uint64_t value, unsigned offset);

enum type_sort { SORT_BYTES, SORT_COUNT, SORT_SIZE, SORT_NAME };

void types_sort(struct types_result *result, enum type_sort sort);
