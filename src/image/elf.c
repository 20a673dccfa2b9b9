// SPDX-License-Identifier: MIT
#include "image/elf.h"

#include <libelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"

// Real programs have a dozen program headers.
#define SEGMENTS_MAX 64
// Notes of programs are some hundred bytes.
#define NOTES_MAX ((size_t)64 * 1024)

static size_t source_read(
	const struct elf_source *source, uint64_t offset, void *buffer, size_t size)
{
	return source->read(source->context, source->base + offset, buffer, size);
}

// Convert one structure from the file's class and byte order; both sizes are those of class.
static bool elf_translate(
	const struct elf *elf, Elf_Type type, void *target, void *source, size_t size)
{
	Elf_Data to = {.d_buf = target, .d_type = type, .d_version = EV_CURRENT, .d_size = size};
	Elf_Data from = {.d_buf = source, .d_type = type, .d_version = EV_CURRENT, .d_size = size};
	const unsigned encoding = elf->order == ORDER_LITTLE ? ELFDATA2LSB : ELFDATA2MSB;
	if (elf->elf_class == 32)
		return elf32_xlatetom(&to, &from, encoding) != NULL;
	return elf64_xlatetom(&to, &from, encoding) != NULL;
}

struct elf_layout {
	unsigned segment_size, segment_count;
};

static bool elf_load_header(
	const struct elf_source *source, struct elf *elf, struct elf_layout *layout)
{
	unsigned char raw[sizeof(Elf64_Ehdr)] = {0};
	union {
		Elf32_Ehdr e32;
		Elf64_Ehdr e64;
	} header;
	const size_t got = source_read(source, 0, raw, sizeof raw);
	if (got < sizeof(Elf32_Ehdr) || memcmp(raw, ELFMAG, SELFMAG) != 0)
		return false;
	if ((raw[EI_CLASS] != ELFCLASS32 && raw[EI_CLASS] != ELFCLASS64) ||
		(raw[EI_DATA] != ELFDATA2LSB && raw[EI_DATA] != ELFDATA2MSB))
		return false;
	elf->elf_class = raw[EI_CLASS] == ELFCLASS32 ? 32 : 64;
	elf->order = raw[EI_DATA] == ELFDATA2LSB ? ORDER_LITTLE : ORDER_BIG;
	const size_t size = elf->elf_class == 32 ? sizeof header.e32 : sizeof header.e64;
	if (got < size || !elf_translate(elf, ELF_T_EHDR, &header, raw, size))
		return false;
#define HEADER(field) (elf->elf_class == 32 ? header.e32.field : header.e64.field)
	elf->type = HEADER(e_type);
	elf->machine = HEADER(e_machine);
	elf->entry = HEADER(e_entry);
	elf->segment_offset = HEADER(e_phoff);
	elf->section_offset = HEADER(e_shoff);
	elf->section_count = HEADER(e_shnum);
	elf->section_size = HEADER(e_shentsize);
	elf->name_index = HEADER(e_shstrndx);
	layout->segment_size = HEADER(e_phentsize);
	layout->segment_count = HEADER(e_phnum);
#undef HEADER
	return elf->type == ET_EXEC || elf->type == ET_DYN;
}

static bool elf_load_segment(const struct elf *elf, void *raw, struct elf_segment *ret)
{
	union {
		Elf32_Phdr p32;
		Elf64_Phdr p64;
	} header;
	const bool is_32 = elf->elf_class == 32;
	if (!elf_translate(
		    elf, ELF_T_PHDR, &header, raw, is_32 ? sizeof header.p32 : sizeof header.p64))
		return false;
#define HEADER(field) (is_32 ? header.p32.field : header.p64.field)
	*ret = (struct elf_segment){
		.type = HEADER(p_type),
		.flags = HEADER(p_flags),
		.offset = HEADER(p_offset),
		.address = HEADER(p_vaddr),
		.file_size = HEADER(p_filesz),
		.memory_size = HEADER(p_memsz),
		.align = HEADER(p_align),
	};
#undef HEADER
	uint64_t end;
	return !__builtin_add_overflow(ret->address, ret->memory_size, &end) &&
	       !__builtin_add_overflow(ret->offset, ret->file_size, &end) &&
	       (ret->type != PT_LOAD || ret->file_size <= ret->memory_size);
}

bool elf_load(const struct elf_source *source, struct elf *ret)
{
	*ret = (struct elf){0};
	struct elf_layout layout;
	elf_version(EV_CURRENT);
	if (!elf_load_header(source, ret, &layout))
		return false;
	const size_t size = ret->elf_class == 32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
	if (layout.segment_size != size || layout.segment_count == 0 ||
		layout.segment_count > SEGMENTS_MAX)
		return false;
	unsigned char *raw AUTO_FREE = malloc(layout.segment_count * size);
	struct elf_segment *segments = calloc(layout.segment_count, sizeof *segments);
	ret->segments = segments;
	ret->segment_count = layout.segment_count;
	if (raw == NULL || segments == NULL ||
		source_read(source, ret->segment_offset, raw, ret->segment_count * size) !=
			ret->segment_count * size) {
		elf_deinit(ret);
		return false;
	}
	for (unsigned i = 0; i < ret->segment_count; i++) {
		if (!elf_load_segment(ret, raw + i * size, &segments[i])) {
			elf_deinit(ret);
			return false;
		}
	}
	return true;
}

void elf_deinit(struct elf *elf)
{
	free(elf->segments);
	*elf = (struct elf){0};
}

bool elf_equal(const struct elf *a, const struct elf *b)
{
	if (a->elf_class != b->elf_class || a->order != b->order || a->machine != b->machine ||
		a->type != b->type || a->entry != b->entry || a->segment_count != b->segment_count)
		return false;
	for (unsigned i = 0; i < a->segment_count; i++) {
		const struct elf_segment *x = &a->segments[i], *y = &b->segments[i];
		if (x->type != y->type || x->flags != y->flags || x->offset != y->offset ||
			x->address != y->address || x->file_size != y->file_size ||
			x->memory_size != y->memory_size || x->align != y->align)
			return false;
	}
	return true;
}

const struct elf_segment *elf_segment_find(const struct elf *elf, uint32_t type)
{
	for (unsigned i = 0; i < elf->segment_count; i++)
		if (elf->segments[i].type == type)
			return &elf->segments[i];
	return NULL;
}

bool elf_extent(const struct elf *elf, uint64_t *start, uint64_t *end)
{
	*start = UINT64_MAX;
	*end = 0;
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type != PT_LOAD)
			continue;
		*start = min_u64(*start, segment->address);
		*end = max_u64(*end, segment->address + segment->memory_size);
	}
	return *start < *end;
}

// The section headers that can be read. The caller must free them; NULL: there are none.
static unsigned char *elf_read_sections(
	const struct elf *elf, const struct elf_source *file, size_t *size, size_t *ret)
{
	*size = elf->elf_class == 32 ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
	*ret = 0;
	if (elf->section_offset == 0 || elf->section_size != *size)
		return NULL;
	// A count that does not fit is 0; then there are more than 65,279 sections.
	const unsigned count = elf->section_count != 0 ? elf->section_count : 0x10000;
	unsigned char *raw = malloc(count * *size);
	if (raw != NULL)
		*ret = source_read(file, elf->section_offset, raw, count * *size) / *size;
	return raw;
}

bool elf_has_symbols(const struct elf *elf, const struct elf_source *file)
{
	size_t size, count;
	unsigned char *raw AUTO_FREE = elf_read_sections(elf, file, &size, &count);
	for (size_t i = 0; i < count; i++) {
		// sh_name, then sh_type, in both classes.
		if (load_u32(raw + i * size + 4, elf->order) == SHT_SYMTAB)
			return true;
	}
	return false;
}

bool elf_section_find(const struct elf *elf, const struct elf_source *file, const char *name,
	uint64_t *address, uint64_t *size)
{
	size_t header_size, count;
	unsigned char *raw AUTO_FREE = elf_read_sections(elf, file, &header_size, &count);
	const unsigned word = elf->elf_class / 8;
	const size_t length = strlen(name) + 1;
	char found[32];
	if (elf->name_index >= count || length > sizeof found)
		return false;
	// sh_name and sh_type of 4 bytes, then words: sh_flags, sh_addr, sh_offset, sh_size.
	const unsigned char *names = raw + elf->name_index * header_size + 8;
	const uint64_t at = word_load(names + 2 * word, word, elf->order);
	for (size_t i = 0; i < count; i++) {
		const unsigned char *header = raw + i * header_size;
		if (source_read(file, at + load_u32(header, elf->order), found, length) != length ||
			memcmp(found, name, length) != 0)
			continue;
		*address = word_load(header + 8 + word, word, elf->order);
		*size = word_load(header + 8 + 3 * word, word, elf->order);
		return *address != 0;
	}
	return false;
}

// Notes of one PT_NOTE: sizes of name and descriptor, type, name, descriptor, each padded.
static bool note_find_build_id(const struct elf *elf, const unsigned char *notes, size_t size,
	size_t align, struct build_id *ret)
{
	for (size_t at = 0; size - at >= 12;) {
		const size_t name_size = load_u32(notes + at, elf->order);
		const size_t id_size = load_u32(notes + at + 4, elf->order);
		const uint32_t type = load_u32(notes + at + 8, elf->order);
		if (name_size > size || id_size > size)
			return false;
		const size_t name = at + 12;
		const size_t id = (name + name_size + align - 1) / align * align;
		if (id > size || id_size > size - id)
			return false;
		if (type == NT_GNU_BUILD_ID && name_size == 4 &&
			memcmp(notes + name, "GNU", 4) == 0 && id_size > 0 &&
			id_size <= BUILD_ID_MAX) {
			memcpy(ret->bytes, notes + id, id_size);
			ret->size = (unsigned)id_size;
			return true;
		}
		at = (id + id_size + align - 1) / align * align;
		if (at > size)
			return false;
	}
	return false;
}

void elf_build_id(
	const struct elf *elf, const struct elf_source *source, bool mapped, struct build_id *ret)
{
	ret->size = 0;
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type != PT_NOTE || segment->file_size == 0)
			continue;
		size_t size = (size_t)min_u64(segment->file_size, NOTES_MAX);
		unsigned char *notes AUTO_FREE = malloc(size);
		if (notes == NULL)
			return;
		size = source_read(
			source, mapped ? segment->address : segment->offset, notes, size);
		if (note_find_build_id(elf, notes, size, segment->align == 8 ? 8 : 4, ret))
			return;
	}
}

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

struct build_id_text build_id_format(const struct build_id *id)
{
	struct build_id_text ret = {""};
	for (unsigned i = 0; i < id->size; i++)
		snprintf(ret.text + 2 * (size_t)i, 3, "%02x", id->bytes[i]);
	return ret;
}
