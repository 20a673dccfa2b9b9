// SPDX-License-Identifier: MIT
//
// Symbols that a program or library exports: the dynamic linker's own table (.dynsym), which no
// stripping removes. It is in the file, or in a dump that has all pages.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "image/module.h"
#include "runtime/reader.h"

// Where the hash table of DT_GNU_HASH has what. Layout: "ELF Object File: the GNU hash section", as
// in glibc's elf/dl-lookup.c (do_lookup_x) and elf/dl-setup_hash.h, of ELFCLASS64.
struct exports {
	uint64_t bias;
	uint64_t symbols, strings;    // addresses of DT_SYMTAB, DT_STRTAB
	uint32_t bucket_count, first; // symoffset
	uint64_t buckets, chains;     // addresses
};

// False if the module has no such table that can be read.
bool exports_init(struct exports *exports, struct reader *reader, const struct module *module);
// The address of an exported object or function in the dead process, and its size if ret_size is
// not NULL. False if there is none of this name.
bool exports_find(const struct exports *exports, struct reader *reader, const char *name,
	uint64_t *ret_size, uint64_t *ret);

// Tell of each exported object whose name begins with prefix: the rest of its name, its address. A
// name is cut at some 100 bytes.
void exports_each(const struct exports *exports, struct reader *reader, const char *prefix,
	void (*tell)(void *context, const char *name, uint64_t address), void *context);
