// SPDX-License-Identifier: MIT
//
// Finds the local file that belongs to a module, and makes sure that it is the one.
#pragma once

#include "image/module.h"

// What a module without an ELF header in the dump is checked against.
struct binary_context {
	const struct image *image;
	const struct module_options *options;
	struct diag *diag;
	// The mappings of the process with their modules' indices; NULL without an NT_FILE note.
	const uint32_t *owners;
	uint32_t index; // of the module looked for
};

// Look for the file of module in the order --exe, --sysroot, the path, build-id directories, and
// set its state. Warns about a file that is not the one of the dump.
void binary_find(const struct binary_context *context, struct module *module);
// Use the file at path if it is the module's. Sets what binary_find sets, but never warns.
bool binary_try(const struct binary_context *context, struct module *module, const char *path);

// Whether the file at path is an executable or a library, not a core.
bool binary_is_program(const char *path);

// Address minus bias of what lies at offset in the file; false if no PT_LOAD holds it.
bool elf_offset_address(const struct elf *elf, uint64_t offset, uint64_t *ret);
// A part of the file at offset, of size bytes, that is mapped at address is mapped as a PT_LOAD
// says if the program is loaded at bias.
bool elf_maps(
	const struct elf *elf, uint64_t bias, uint64_t address, uint64_t size, uint64_t offset);
// Or it is a rest between two PT_LOADs, which the dynamic linker maps with the first and leaves.
bool elf_leaves(
	const struct elf *elf, uint64_t bias, uint64_t address, uint64_t size, uint64_t offset);
