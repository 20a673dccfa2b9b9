// SPDX-License-Identifier: MIT
//
// The symbols and line tables of one module, from its file, its separate debug file, or the vdso in
// the dump. libdw is used here only.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/module.h"
#include "names/lines.h"

struct symbols_options {
	const char *debug_dir; // NULL: none
	const char *sysroot;   // NULL: none
	// Fetches a debug file by build-id; NULL: no server is asked. Returns a path that the
	// caller must free, or NULL.
	char *(*fetch)(void *context, const struct build_id *id);
	void *context;
};

struct symbols;

// Load what can be found for module. Never fails: without files there are no symbols. The caller
// must release the result with symbols_destroy; NULL if there is no memory. module must live as
// long.
struct symbols *symbols_create(const struct image *image, const struct module *module,
	const struct symbols_options *options);
// For a further module with the same file, of which the symbols are the same. Returns symbols; each
// user must release them.
struct symbols *symbols_share(struct symbols *symbols);
void symbols_destroy(struct symbols *symbols);

struct symbol {
	const char *name; // as in the file: any bytes, any length; lives as long as the symbols
	uint64_t offset;  // of the address in the symbol
	bool sized;	  // the symbol has a size, and the address is within
	bool linkage;	  // it is the symbol\'s entry in the procedure linkage table
	bool object;	  // it says that it is data
};

// The symbol that holds an address of the file (address minus bias): the innermost one that has a
// size, or the last one before it without a size. Where several have the same address the choice is
// always the same. False if there is none.
bool symbols_find(const struct symbols *symbols, uint64_t address, struct symbol *ret);
// Call visit for each address that a symbol has, until it returns false, and return that; or true.
// size: 0 if it has none. object: the symbol says that it is data.
typedef bool symbols_visit(void *context, uint64_t address, uint64_t size, bool object);
bool symbols_each(const struct symbols *symbols, symbols_visit *visit, void *context);
// The index of a name in a list that a symbol has, or count; of several symbols at one address only
// one is known.
size_t symbols_match(const struct symbols *symbols, const char *const *list, size_t count);
// The line of source code for an address of the file. The name lives as long as the symbols.
bool symbols_line(struct symbols *symbols, uint64_t address, const char **file, int *line);
// The functions that an instruction is part of, see lines_frames.
size_t symbols_frames(
	struct symbols *symbols, uint64_t address, struct line_frame *ret, size_t most);
// Bytes that libdw and the tables made of what it says take, about; 0 for a module that shares
// those of another.
uint64_t symbols_memory(const struct symbols *symbols, const struct module *module);
// Whether any symbol table (.symtab) was found.
bool symbols_complete(const struct symbols *symbols);
