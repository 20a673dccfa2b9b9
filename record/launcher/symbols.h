// SPDX-License-Identifier: MIT
//
// As much of ELF as is needed to know what a program is, and where its functions are.
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct elf {
	const char *data; // the file
	size_t size;
	const Elf64_Ehdr *header;
};

// False if it is no ELF file of this byte order. Of a 32-bit one only the header's beginning may be
// used.
bool elf_open(const char *path, struct elf *ret);
void elf_close(struct elf *elf);

// The dynamic linker it asks for; NULL: none, or one that is a library itself.
const char *elf_interpreter(const struct elf *elf);

// Whether it offers a function of this name to others.
bool elf_defines(const struct elf *elf, const char *name);

// Its build-id as lower case hexadecimal. False if it has none.
bool elf_build_id(const struct elf *elf, char ret[65]);

// Calls use for each function of the symbol tables, until it returns false.
void elf_functions(const struct elf *elf,
	bool (*use)(void *context, const char *name, uint64_t start, uint64_t size), void *context);

// The libraries that it needs (DT_NEEDED), one for each call of use.
void elf_needed(const struct elf *elf, void (*use)(void *context, const char *name), void *context);
