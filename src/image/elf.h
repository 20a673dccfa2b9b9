// SPDX-License-Identifier: MIT
//
// The headers of an executable or a library, from a file or from the memory of a process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

// Where the bytes come from: read copies up to size bytes at offset and returns how many it got.
struct elf_source {
	size_t (*read)(const void *context, uint64_t offset, void *buffer, size_t size);
	const void *context;
	uint64_t base; // added to every offset
};

// A program header (gabi, chapter 5).
struct elf_segment {
	uint32_t type, flags;
	uint64_t offset, address;
	uint64_t file_size, memory_size; // file_size <= memory_size for PT_LOAD; neither wraps
	uint64_t align;
};

struct elf {
	unsigned elf_class; // 32 or 64
	enum byte_order order;
	uint16_t type, machine;
	uint64_t entry;
	uint64_t segment_offset; // e_phoff
	uint64_t section_offset; // e_shoff
	unsigned section_count, section_size;
	unsigned name_index;	      // e_shstrndx: the section that has their names
	struct elf_segment *segments; // owned
	unsigned segment_count;
};

#define BUILD_ID_MAX 64

struct build_id {
	unsigned char bytes[BUILD_ID_MAX];
	unsigned size; // 0: none
};

// Room for the hexadecimal digits of a build-id.
struct build_id_text {
	char text[2 * BUILD_ID_MAX + 1];
};

// Read the ELF header and all program headers of an executable or library (ET_EXEC, ET_DYN).
// False if source does not hold all of them or they make no sense. On success the caller must
// release *ret with elf_deinit.
bool elf_load(const struct elf_source *source, struct elf *ret);
void elf_deinit(struct elf *elf);
// Both have the same program headers, entry, class, byte order and machine.
bool elf_equal(const struct elf *a, const struct elf *b);

// The segment of the given type, NULL if there is none.
const struct elf_segment *elf_segment_find(const struct elf *elf, uint32_t type);
// The lowest address of a PT_LOAD and the first one behind all; false if there is no PT_LOAD.
bool elf_extent(const struct elf *elf, uint64_t *start, uint64_t *end);
// Has a section of type SHT_SYMTAB.
bool elf_has_symbols(const struct elf *elf, const struct elf_source *file);

// The address and the size of the section with a name, in the file; false if there is none.
bool elf_section_find(const struct elf *elf, const struct elf_source *file, const char *name,
	uint64_t *address, uint64_t *size);

// Read the NT_GNU_BUILD_ID note. mapped: offsets in source are addresses (p_vaddr), not places in a
// file. ret->size is 0 if there is none that can be read.
void elf_build_id(
	const struct elf *elf, const struct elf_source *source, bool mapped, struct build_id *ret);
bool build_id_equal(const struct build_id *a, const struct build_id *b);
struct build_id_text build_id_format(const struct build_id *id);
