// SPDX-License-Identifier: MIT
#include "symbols.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool elf_open(const char *path, struct elf *ret)
{
	struct stat status;
	const int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return false;
	void *data = MAP_FAILED;
	if (!fstat(file, &status) && S_ISREG(status.st_mode) &&
		status.st_size >= (off_t)sizeof *ret->header)
		data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	close(file);
	if (data == MAP_FAILED)
		return false;
	*ret = (struct elf){data, (size_t)status.st_size, data};
	if (!memcmp(data, ELFMAG, SELFMAG) && ret->header->e_ident[EI_DATA] == ELFDATA2LSB)
		return true;
	elf_close(ret);
	return false;
}

void elf_close(struct elf *elf)
{
	munmap((void *)(uintptr_t)elf->data, elf->size);
}

static const void *part(const struct elf *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->size && size <= elf->size - offset ? elf->data + offset : NULL;
}

// A text that ends inside of the file; NULL if it does not.
static const char *text(const struct elf *elf, uint64_t offset)
{
	if (offset >= elf->size || !memchr(elf->data + offset, 0, elf->size - offset))
		return NULL;
	return elf->data + offset;
}

static const Elf64_Phdr *segments(const struct elf *elf, size_t *ret)
{
	const bool known = elf->header->e_ident[EI_CLASS] == ELFCLASS64 &&
			   elf->header->e_phentsize == sizeof(Elf64_Phdr);
	*ret = known ? elf->header->e_phnum : 0;
	const Elf64_Phdr *all = part(elf, elf->header->e_phoff, *ret * sizeof *all);
	if (!all)
		*ret = 0;
	return all;
}

static const Elf64_Shdr *sections(const struct elf *elf, size_t *ret)
{
	const bool known = elf->header->e_ident[EI_CLASS] == ELFCLASS64 &&
			   elf->header->e_shentsize == sizeof(Elf64_Shdr);
	*ret = known ? elf->header->e_shnum : 0;
	const Elf64_Shdr *all = part(elf, elf->header->e_shoff, *ret * sizeof *all);
	if (!all)
		*ret = 0;
	return all;
}

const char *elf_interpreter(const struct elf *elf)
{
	size_t count;
	const Elf64_Phdr *all = segments(elf, &count);
	for (size_t i = 0; i < count; i++)
		if (all[i].p_type == PT_INTERP)
			return text(elf, all[i].p_offset);
	return NULL;
}

// Calls use for the symbols of the tables of a type.
static void symbols(const struct elf *elf, uint32_t type,
	bool (*use)(void *context, const char *name, const Elf64_Sym *symbol), void *context)
{
	size_t count;
	const Elf64_Shdr *all = sections(elf, &count);
	for (size_t i = 0; i < count; i++) {
		if (all[i].sh_type != type || all[i].sh_link >= count)
			continue;
		const Elf64_Sym *table = part(elf, all[i].sh_offset, all[i].sh_size);
		for (uint64_t s = 0; table && s < all[i].sh_size / sizeof *table; s++) {
			const char *name =
				text(elf, all[all[i].sh_link].sh_offset + table[s].st_name);
			if (ELF64_ST_TYPE(table[s].st_info) == STT_FUNC &&
				table[s].st_shndx != SHN_UNDEF && name &&
				!use(context, name, &table[s]))
				return;
		}
	}
}

struct wanted {
	const char *name;
	bool found;
};

static bool compare(void *context, const char *name, const Elf64_Sym *symbol)
{
	struct wanted *wanted = context;
	(void)symbol;
	wanted->found = !strcmp(name, wanted->name);
	return !wanted->found;
}

bool elf_defines(const struct elf *elf, const char *name)
{
	struct wanted wanted = {name, false};
	symbols(elf, SHT_DYNSYM, compare, &wanted);
	return wanted.found;
}

bool elf_build_id(const struct elf *elf, char ret[65])
{
	size_t count;
	const Elf64_Phdr *all = segments(elf, &count);
	for (size_t i = 0; i < count; i++) {
		uint64_t at = all[i].p_offset, left = all[i].p_filesz;
		if (all[i].p_type != PT_NOTE || !part(elf, at, left))
			continue;
		while (left >= sizeof(Elf64_Nhdr)) {
			const Elf64_Nhdr *note = part(elf, at, sizeof *note);
			const uint64_t name = (note->n_namesz + 3ULL) & ~3ULL,
				       data = (note->n_descsz + 3ULL) & ~3ULL,
				       size = sizeof *note + name + data;
			if (size > left)
				break;
			const uint8_t *id = (const uint8_t *)(note + 1) + name;
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
				note->n_descsz <= 32) {
				for (uint32_t b = 0; b < note->n_descsz; b++)
					sprintf(ret + 2 * b, "%02x", id[b]);
				return note->n_descsz > 0;
			}
			at += size;
			left -= size;
		}
	}
	return false;
}

struct function_use {
	bool (*use)(void *context, const char *name, uint64_t start, uint64_t size);
	void *context;
};

static bool function(void *context, const char *name, const Elf64_Sym *symbol)
{
	const struct function_use *to = context;
	return to->use(to->context, name, symbol->st_value, symbol->st_size);
}

void elf_functions(const struct elf *elf,
	bool (*use)(void *context, const char *name, uint64_t start, uint64_t size), void *context)
{
	struct function_use to = {use, context};
	symbols(elf, SHT_SYMTAB, function, &to);
	symbols(elf, SHT_DYNSYM, function, &to);
}

void elf_needed(const struct elf *elf, void (*use)(void *context, const char *name), void *context)
{
	size_t count;
	const Elf64_Shdr *all = sections(elf, &count);
	for (size_t i = 0; i < count; i++) {
		if (all[i].sh_type != SHT_DYNAMIC || all[i].sh_link >= count)
			continue;
		const Elf64_Dyn *entries = part(elf, all[i].sh_offset, all[i].sh_size);
		for (uint64_t e = 0; entries && e < all[i].sh_size / sizeof *entries; e++) {
			const char *name = NULL;
			if (entries[e].d_tag == DT_NEEDED)
				name = text(
					elf, all[all[i].sh_link].sh_offset + entries[e].d_un.d_val);
			if (name)
				use(context, name);
		}
	}
}
