// SPDX-License-Identifier: MIT
//
// What a word is: its kind, and a description for people.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "image/module.h"
#include "image/places.h"
#include "names/filter.h"
#include "names/kinds.h"

struct names_options {
	const char *exe;       // the main program's file; NULL: none given
	const char *sysroot;   // where to look for files first; NULL: nowhere else
	const char *debug_dir; // where to look for debug files first; NULL: nowhere else
	bool debuginfod;       // ask the servers in DEBUGINFOD_URLS
	bool mangled;	       // symbols as they are in the file
	bool kinds_only;       // look for no file and give no descriptions
	bool redact;
	// The modules, if they are known from elsewhere than the image; NULL: they are not.
	const struct module_known *known;
	size_t known_count;
};

struct names;

// Prepare to describe words of image, which must live as long. What the files of its modules have
// and the dump has not becomes readable through image_read. *ret is the caller's, to be released
// with names_destroy.
bool names_create(struct image *image, const struct names_options *options, struct diag *diag,
	struct error *err, struct names **ret);
void names_destroy(struct names *names);

struct name {
	enum kind kind;
	// Valid UTF-8 without control characters, "" if there is nothing to say; lives until the
	// next call with the same names.
	const char *text;
};

// Describe a word by its value (not as loaded, if the byte orders differ). Not thread-safe.
struct name names_describe(struct names *names, uint64_t value);
// The same of what is known to be an address.
struct name names_describe_address(struct names *names, uint64_t address);

// Which addresses in modules objects can hold; NULL if there is no memory. Lives as long as names.
// Not thread-safe, the result is.
const struct pointers *names_pointers(struct names *names);

// What an address in a module is.
enum identity_type {
	IDENTITY_NONE,	       // nothing is known
	IDENTITY_CLASS,	       // where the vtable pointers of a class's objects point
	IDENTITY_CONSTRUCTION, // the same of a base while an object is made or destroyed
	IDENTITY_OBJECT,       // data with a symbol, or that tell what they are: Rust's vtables
	IDENTITY_FUNCTION,     // code with a symbol
};

struct identity {
	enum identity_type type;
	const struct module *module; // NULL: not in a module
	// Of the class, or of the symbol; as the texts of struct name.
	const char *name;
	uint64_t offset; // where in an object this vtable pointer is, or of the address in the
			 // symbol
	bool inside; // it is no place that objects point at: the middle of a function, or of what
		     // a static object holds
};

// Say what an address in a module is. Not thread-safe.
struct identity names_identify(struct names *names, uint64_t address);

// The size of the chunk that a word is the header of, if it may be one of malloc's; else 0.
uint64_t names_malloc_size(uint64_t value, unsigned word_size);

// A function that an instruction is part of.
struct name_frame {
	const char *function; // as the texts of struct name; "": not known
	const char *file;     // the last component of its source file's name; "": not known
	int line;	      // 0: not known
	bool inlined;	      // it has no code of its own here, but is part of the next one
};
// What is inlined in each other is no deeper.
#define NAME_FRAMES_MAX 32
// The functions that the instruction at an address is part of, the innermost first. Returns their
// number, at least 1 in a module; 0: the address is in none. *ret_module becomes the module (NULL:
// none), *ret_inside the address in its file. Texts live until the next call with the same names.
// Not thread-safe.
size_t names_frames(struct names *names, uint64_t address,
	struct name_frame ret[static NAME_FRAMES_MAX], const struct module **ret_module,
	uint64_t *ret_inside);

// What lies where.
const struct places *names_places(const struct names *names);
// Whether a description is incomplete because memory ran out.
bool names_lost(const struct names *names);

// What the process had loaded, with the state of its files.
const struct modules *names_modules(const struct names *names);
// Whether the main program has a symbol table, its own or in a separate debug file.
bool names_has_symbols(struct names *names);
// The index of a name in a list that a symbol of the main program has, or count; no server is
// asked.
size_t names_program_match(struct names *names, const char *const *list, size_t count);
// Whether words can be told to be addresses: not in plain bytes, nor where the word size or the
// byte order is not the dump's.
bool names_has_addresses(const struct names *names);
// Add up the bytes that the dump has of each kind of memory.
void names_measure(const struct names *names, uint64_t ret[static KIND_COUNT]);
// Bytes that symbols take, beside all other memory, so far.
uint64_t names_symbols_memory(const struct names *names);
// A filter that keeps words of the wanted kinds, as names_describe has them. names must live as
// long. The caller must release *ret with kind_filter_destroy.
bool names_filter(struct names *names, kind_set wanted, enum cpu_level level, struct error *err,
	struct kind_filter **ret);

// The parts of the address space that are told apart: sorted, without overlaps. Returns their
// number; *ret lives as long as names.
size_t names_spans(const struct names *names, const struct span **ret);
// What is in a part, for people: "heap", "stack of thread 12", "data of libfoo.so". Lives until the
// next call with the same names.
const char *names_span(struct names *names, size_t index);
