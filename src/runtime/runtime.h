// SPDX-License-Identifier: MIT
//
// The objects of managed languages, by class. Each runtime says in its own memory what every object
// is; a file for each reads that. Nothing here rests on debug information, and only what is said
// there on symbols that a stripped program exports.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "image/module.h"
#include "image/places.h"

#define RUNTIME_EXAMPLES 4

// Objects of one class. Bytes are those that the runtime's own tools would say, with all that
// belongs to an object alone (its items, its attributes).
struct runtime_type {
	char *name;			     // valid UTF-8 without control characters; owned
	uint64_t count, bytes;		     // of all objects
	uint64_t size;			     // of each, in bytes; 0: they differ
	uint64_t examples[RUNTIME_EXAMPLES]; // the lowest addresses
	unsigned example_count;
};

// What is to be thought of rows of structs and classes of the runtime's own program.
enum runtime_own {
	OWN_OBJECTS, // they are words in its objects
	OWN_MEMORY,  // they are in memory that it has beside its objects, for itself
	OWN_PROGRAM, // they are as good as those of any other program
};

// A runtime in the dump.
struct runtime {
	const char *language; // "python", "java", ...
	char *name;	      // with its version, as a module is named: "python 3.11"; owned
	// NULL, or why its objects are not known: "its version is not known". Owned.
	char *doubt;
	// Its heap where doubt is set: the memory that is its own; 0, 0: not known.
	uint64_t heap_start, heap_end, heap_bytes;
	const struct module *module; // the program or library that the runtime is
	enum runtime_own own;
	struct runtime_type *types; // sorted by bytes, the most first; owned
	size_t type_count;
	uint64_t count, bytes; // of all types
	uint64_t free_bytes;   // of its heap that are no objects; 0 also if not known
	uint64_t round_bytes;  // by which blocks are larger than what is in them
};

struct runtimes {
	struct runtime *list; // owned
	size_t count;
	bool partial; // stopped before the end
};

struct runtime_options {
	unsigned threads;
	const atomic_int *stop; // not zero: end soon, with what was found so far; NULL: never
	// Told of each block that is counted to an object: of an address in it, by several threads
	// at once. NULL: not wanted.
	void (*own)(void *context, uint64_t address);
	void *context;
};

// An object of the type at an index of its runtime's types while they are found (see
// runtimes_find), called by one thread after another, never by two at once.
struct runtime_watch {
	void *context;
	const char *name; // of the wanted class; NULL: all
	void (*object)(void *context, uint64_t address, uint64_t size, const char *name);
};

// Find the runtimes in image, and their objects. watch is told each object of one class; NULL: of
// none. On success *ret is the caller's, to be released with runtimes_deinit.
bool runtimes_find(const struct image *image, const struct modules *modules,
	const struct places *places, const struct runtime_options *options,
	const struct runtime_watch *watch, struct error *err, struct runtimes *ret);
void runtimes_deinit(struct runtimes *runtimes);
