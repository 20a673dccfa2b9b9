// SPDX-License-Identifier: MIT
//
// What an object is, by the most telling word at its beginning: a vtable pointer, a pointer to code
// or static data, or a text.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "image/module.h"
#include "names/kinds.h"
#include "names/names.h"
#include "types/types.h"

// So many bytes of an object are looked at.
#define TELLING_SIZE 64

enum telling_kind {
	TELLING_NONE,
	TELLING_TEXT,	  // printable characters that fill the word
	TELLING_CONSTANT, // into read-only data
	TELLING_POINTER, // into code, or data that are, or were once, writable: tables of functions
	TELLING_CLASS,	 // a vtable with run time type information
};

struct telling {
	uint64_t word;
	uint16_t offset; // in the object
	uint8_t kind;	 // enum telling_kind
};

// Words that were looked at lately, for one thread.
#define TELLING_CACHE 1024

struct teller {
	const struct image *image;
	const struct modules *modules;
	const struct pointers *pointers; // NULL: it is not known which addresses count
	struct kinds kinds;
	// All modules lie in these two stretches: the program, and what is mapped far from it.
	struct {
		uint64_t start, size;
	} extents[2];
	struct telling cache[TELLING_CACHE];
};

// image and names must live as long.
void teller_init(struct teller *teller, const struct image *image, struct names *names);

// The most telling word of an object of which `available` bytes are at hand.
struct telling teller_look(struct teller *teller, const unsigned char *bytes, size_t available);

// What objects with this word are called: "Session", "-> on_retry @+8", "\"HTTP/1.1\" @+16", "(no
// type)". redact: texts are not shown. The caller must free *name; *module lives as long as names.
// False if memory ran out.
bool telling_name(const struct image *image, struct names *names, const struct telling *telling,
	bool redact, enum type_kind *kind, char **name, const char **module);
