// SPDX-License-Identifier: MIT
#include "modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "lock.h"
#include "memory.h"

#define MODULES_MOST 8192

uint32_t modules_generation;

// As in RECORD_MODULES, by the same index.
static struct unwind_info unwinding[MODULES_MOST];

// What the dynamic linker says of the module at an address.
struct found {
	uint64_t pc;
	uint64_t start, end, bias;
	const ElfW(Phdr) * segments;
	size_t count;
	const char *path;
};

static int find_by_segments(struct dl_phdr_info *info, size_t size, void *context)
{
	(void)size;
	struct found *found = context;
	uint64_t start = UINT64_MAX, end = 0;
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		if (segment->p_type != PT_LOAD)
			continue;
		const uint64_t from = info->dlpi_addr + segment->p_vaddr;
		start = from < start ? from : start;
		end = from + segment->p_memsz > end ? from + segment->p_memsz : end;
	}
	if (found->pc < start || found->pc >= end)
		return 0;
	*found = (struct found){.pc = found->pc,
		.start = start,
		.end = end,
		.bias = info->dlpi_addr,
		.segments = info->dlpi_phdr,
		.count = info->dlpi_phnum,
		.path = info->dlpi_name};
	return 1;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
#pragma weak _dl_find_object
static bool find_without_lock(struct found *found)
{
	struct dl_find_object object;
	if (_dl_find_object((void *)(uintptr_t)found->pc, &object))
		return false;
	const ElfW(Ehdr) *elf = object.dlfo_map_start;
	found->start = (uintptr_t)object.dlfo_map_start;
	found->end = (uintptr_t)object.dlfo_map_end;
	found->bias = object.dlfo_link_map->l_addr;
	found->path = object.dlfo_link_map->l_name;
	if (!memcmp(elf->e_ident, ELFMAG, SELFMAG)) {
		found->segments = (const ElfW(Phdr) *)((const char *)elf + elf->e_phoff);
		found->count = elf->e_phnum;
	}
	return true;
}
#define HAVE_FIND_OBJECT (_dl_find_object != NULL)
#else
static bool find_without_lock(struct found *found)
{
	(void)found;
	return false;
}
#define HAVE_FIND_OBJECT false
#endif

static bool find(uint64_t pc, struct found *ret)
{
	*ret = (struct found){.pc = pc};
	if (HAVE_FIND_OBJECT)
		return find_without_lock(ret);
	return dl_iterate_phdr(find_by_segments, ret) == 1;
}

static void build_id_copy(const char *notes, size_t size, struct record_module *module)
{
	size_t at = 0;
	while (size - at >= sizeof(ElfW(Nhdr))) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(notes + at);
		const size_t name = (note->n_namesz + 3U) & ~(size_t)3,
			     data = (note->n_descsz + 3U) & ~(size_t)3;
		at += sizeof *note;
		if (size - at < name || size - at - name < data)
			return;
		if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
			!memcmp(notes + at, "GNU", 4) && note->n_descsz <= sizeof module->id) {
			module->id_size = note->n_descsz;
			memcpy(module->id, notes + at + name, note->n_descsz);
			return;
		}
		at += name + data;
	}
}

static uint64_t path_add(const char *path, bool *ret_main)
{
	char program[1024];
	*ret_main = !path || !*path;
	if (!*ret_main)
		return memory_text(path, strlen(path));
	const ssize_t length = readlink("/proc/self/exe", program, sizeof program);
	return length > 0 ? memory_text(program, (size_t)length) : 0;
}

static bool same_module(const struct record_module *a, const struct record_module *b)
{
	return a->start == b->start && a->end == b->end && a->bias == b->bias &&
	       a->id_size == b->id_size && !memcmp(a->id, b->id, sizeof a->id);
}

// The index of an entry that can be taken again, as the same module came back to the same place.
static uint64_t entry_for(
	const struct record_module *modules, uint64_t count, const struct record_module *new)
{
	for (uint64_t i = 0; i < count; i++) {
		if (new->start >= modules[i].end || modules[i].start >= new->end)
			continue;
		if (same_module(&modules[i], new))
			return i;
		STORE(&modules_generation, modules_generation + 1);
	}
	return count;
}

static uint32_t module_add(const struct found *found)
{
	struct record_module new = {.start = found->start,
		.end = found->end,
		.bias = found->bias,
		.loaded = header->now};
	struct unwind_info info = {NULL, (const uint8_t *)(uintptr_t)found->end};
	for (size_t i = 0; i < found->count; i++) {
		const char *data =
			(const char *)(uintptr_t)(found->bias + found->segments[i].p_vaddr);
		if (found->segments[i].p_type == PT_GNU_EH_FRAME)
			info.eh_frame_hdr = (const uint8_t *)data;
		if (found->segments[i].p_type == PT_NOTE && !new.id_size)
			build_id_copy(data, found->segments[i].p_memsz, &new);
	}
	lock_take(LOCK_MODULES);
	struct record_section *section = memory_section(RECORD_MODULES);
	struct record_module *modules = memory_start(RECORD_MODULES);
	const uint64_t i = entry_for(modules, section->used, &new);
	uint32_t index = 0;
	if (i < MODULES_MOST && memory_grow(RECORD_MODULES, i + 1)) {
		bool main;
		new.path = i < section->used ? modules[i].path : path_add(found->path, &main);
		new.main = i < section->used ? modules[i].main : main;
		unwinding[i] = info;
		modules[i] = new;
		if (i >= section->used)
			STORE_RELEASE(&section->used, i + 1);
		index = (uint32_t)i + 1;
	}
	lock_release(LOCK_MODULES);
	return index;
}

uint32_t module_at(uint64_t pc, struct unwind_info *ret)
{
	const struct record_module *modules = memory_start(RECORD_MODULES);
	const uint64_t count = LOAD_ACQUIRE(&memory_section(RECORD_MODULES)->used);
	uint32_t index = 0;
	for (uint64_t i = 0; !index && i < count; i++)
		if (pc >= modules[i].start && pc < modules[i].end && !modules[i].closed)
			index = (uint32_t)i + 1;
	struct found found;
	if (!index && find(pc, &found))
		index = module_add(&found);
	if (index)
		*ret = unwinding[index - 1];
	return index;
}

bool modules_check(void)
{
	struct record_module *modules = memory_start(RECORD_MODULES);
	const uint64_t count = LOAD_ACQUIRE(&memory_section(RECORD_MODULES)->used);
	bool gone = false;
	for (uint64_t i = 0; i < count; i++) {
		struct found found;
		// The linker itself and the program never go.
		if (modules[i].closed || modules[i].main ||
			(find(modules[i].start, &found) && found.start == modules[i].start &&
				found.bias == modules[i].bias))
			continue;
		modules[i].closed = memory_now() | 1;
		gone = true;
	}
	return gone;
}
