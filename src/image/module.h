// SPDX-License-Identifier: MIT
//
// The executable and the libraries of a dead process, the other files that were mapped into it, and
// the local files that belong to them.
//
// Sources, in this order: the NT_FILE note; the dynamic linker's link map (r_debug and link_map in
// glibc's elf/link.h, reached through DT_DEBUG); ELF headers at the beginning of segments.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/elf.h"
#include "image/image.h"
#include "image/localfile.h"

enum module_state {
	MODULE_DATA,	   // a mapped file that is not a program; no local file is looked for
	MODULE_OK,	   // the local file has the build-id of the dump
	MODULE_UNVERIFIED, // no build-id in the dump, but the file's headers agree with the dump
	MODULE_MISMATCH,   // there is a file, but it is another one: it was refused
	MODULE_MISSING,
	MODULE_MEMORY, // the vdso: it is in the dump itself
};

struct module {
	char *path;	  // as the dump names it, without " (deleted)"; owned
	const char *name; // its last component, part of path
	bool deleted;	  // the file had been deleted or replaced when the dump was written
	bool is_main;	  // the program, not a library
	bool loaded;	  // ELF, mapped as its program headers say; elf and bias are right
	bool has_header;  // elf was read from the dump, not from the local file
	bool stripped;	  // the local file has no .symtab
	enum module_state state;
	uint64_t start,
		end;	// lowest address and the first behind it; other modules may lie between
	uint64_t bias;	// address minus bias is the address in the file's symbol table
	struct elf elf; // program headers, if loaded
	struct build_id build_id;      // in the dump's memory
	struct build_id file_build_id; // of the local file, used or refused
	struct local_file *file;       // if the state is ok or unverified; owned
	char *refused;		       // path of the file that was refused; NULL: none; owned
	uint64_t dynamic; // address of the dynamic section from the link map; 0: unknown
	// A part of a program that is mapped again somewhere else, as V8 does: the index of the
	// module that is the program, and bias is for places in the file. UINT32_MAX: none.
	uint32_t origin;
};

// A part of the address space that belongs to a module.
struct module_range {
	uint64_t start, end;
	uint32_t flags;	 // PF_R, PF_W, PF_X
	uint32_t module; // index
};

// A program or a library that is known from elsewhere than the dump.
struct module_known {
	const char *path;
	uint64_t start, end; // addresses
	uint64_t bias;	     // address minus bias is the address in the file
	struct build_id id;
	bool is_main;
};

struct module_options {
	const struct module_known *known; // in the place of what the dump tells; NULL: none
	size_t known_count;
	const char *exe;       // the main program's file; NULL: none given
	const char *sysroot;   // searched before the paths themselves; NULL: none
	const char *debug_dir; // searched before /usr/lib/debug; NULL: none
	bool search;	       // look for local files at all
};

struct overlay;

struct modules {
	struct module *list;
	size_t count;
	struct module *main;	     // NULL: unknown
	struct module_range *ranges; // sorted, without overlaps
	size_t range_count;
	struct overlay *overlay; // what the verified files add to the image; owned
};

// Build the table for image; empty for raw bytes, and where word size or byte order are overridden.
// The bytes of verified files become readable through image_read until modules_destroy. What is
// refused is a warning.
bool modules_create(struct image *image, const struct module_options *options, struct diag *diag,
	struct error *err, struct modules **ret);
void modules_destroy(struct modules *modules, struct image *image);

// Use the file at path for a module that has none, if it is the module's. Not thread-safe, also not
// with image_read.
bool modules_add_file(
	struct modules *modules, struct image *image, struct module *module, const char *path);

// "ok", "stripped", "unverified", "mismatch", "missing"; "data" for what is no program.
const char *module_state_name(const struct module *module);

// The module whose symbols are those of address, which lies in module, and the address in its file.
const struct module *modules_locate(const struct modules *modules, const struct module *module,
	uint64_t address, uint64_t *ret);

// Whether constants and tables can lie in a range, and not instructions alone: linkers that make no
// segment of their own for constants (gold, GNU ld before 2.31 and with -z noseparate-code, that of
// most CPUs but x86) put them behind the code.
bool modules_range_has_data(const struct modules *modules, const struct module_range *range);
// The range that holds address; NULL if none.
const struct module_range *modules_find(const struct modules *modules, uint64_t address);
