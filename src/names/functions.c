// SPDX-License-Identifier: MIT
#include "names/functions.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"

// More functions than any program has.
#define FUNCTIONS_MAX ((uint64_t)16 << 20)
#define BLOCK ((size_t)64 << 10)
#define NOTES_MAX ((size_t)64 << 10)

static int start_compare(const void *left, const void *right)
{
	const struct function_start *a = left, *b = right;
	return (a->start > b->start) - (a->start < b->start);
}

static void table_sort(struct function_table *table)
{
	for (size_t i = 1; i < table->count; i++)
		if (table->list[i - 1].start > table->list[i].start) {
			qsort(table->list, table->count, sizeof *table->list, start_compare);
			return;
		}
}

// The number of functions that begin at address or before.
static size_t table_up_to(const struct function_table *table, uint64_t address)
{
	const int64_t wanted = (int64_t)(address - table->base);
	size_t low = 0, high = table->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (table->list[middle].start <= wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// Read count pairs of numbers of width bytes at address, as far as they are there.
static bool pairs_read(const struct image *image, uint64_t address, uint64_t count, unsigned width,
	struct function_table *ret)
{
	const enum byte_order order = image_info(image)->elf_order;
	unsigned char *block AUTO_FREE = malloc(BLOCK);
	// What a hostile dump says need not be there.
	size_t capacity = 0;
	if (block == NULL)
		return false;
	while (count > 0) {
		const size_t wanted = (size_t)min_u64(BLOCK, count * 2 * width);
		const size_t size = image_read(image, address, block, wanted) / (2 * width);
		if (size == 0)
			break;
		if (ret->count + size > capacity) {
			capacity = 2 * (ret->count + size);
			void *list = reallocarray(ret->list, capacity, sizeof *ret->list);
			if (list == NULL)
				return false;
			ret->list = list;
		}
		for (size_t i = 0; i < size; i++) {
			const unsigned char *at = block + i * 2 * width;
			const uint64_t a = word_load(at, width, order);
			const uint64_t b = word_load(at + width, width, order);
			ret->list[ret->count++] =
				(struct function_start){width == 4 ? (int32_t)a : (int64_t)a,
					width == 4 ? (int32_t)b : (int64_t)b};
		}
		address += size * 2 * width;
		count -= size;
	}
	return true;
}

// ---- .eh_frame_hdr: version, three encodings, the address of .eh_frame, the number of functions,
// and for each where it begins and where its description is.

#define PE_UDATA4 0x03
#define PE_SDATA4 0x0b
#define PE_PCREL 0x10
#define PE_DATAREL 0x30

static bool frames_load(
	const struct image *image, const struct module *module, struct function_table *ret)
{
	const struct elf_segment *segment = elf_segment_find(&module->elf, PT_GNU_EH_FRAME);
	unsigned char head[12];
	if (segment == NULL || segment->memory_size < sizeof head)
		return true;
	ret->base = module->bias + segment->address;
	// As all linkers write it.
	if (image_read(image, ret->base, head, sizeof head) != sizeof head || head[0] != 1 ||
		(head[1] & 0x0f) != PE_SDATA4 || head[2] != PE_UDATA4 ||
		head[3] != (PE_DATAREL | PE_SDATA4))
		return true;
	const uint64_t count = load_u32(head + 8, image_info(image)->elf_order);
	const uint64_t most = (segment->memory_size - sizeof head) / 8;
	if (!pairs_read(image, ret->base + sizeof head, min_u64(count, most), 4, ret))
		return false;
	table_sort(ret);
	return true;
}

// Static programs of glibc have the descriptions, but no table of them. They follow each other: a
// length, and 0 for a common part, else how far back that is. Only beginnings of 4 bytes from where
// they stand are understood, as gcc and clang make them; what these give outside of code is left
// out.
static bool frames_scan(const struct image *image, const struct modules *modules,
	const struct module *module, struct function_table *ret)
{
	const enum byte_order order = image_info(image)->elf_order;
	const struct elf_source source = local_file_source(module->file);
	uint64_t address, size;
	if (!elf_section_find(&module->elf, &source, ".eh_frame", &address, &size))
		return true;
	size_t capacity = 0;
	ret->base = module->bias + address;
	for (uint64_t at = 0; at < size && size - at >= 16;) {
		unsigned char bytes[16];
		if (image_read(image, ret->base + at, bytes, sizeof bytes) != sizeof bytes)
			break;
		const uint32_t length = load_u32(bytes, order);
		if (length == 0 || length >= 0xfffffff0 || ret->count >= FUNCTIONS_MAX)
			break;
		const int32_t near = (int32_t)load_u32(bytes + 8, order);
		const int64_t start = (int64_t)at + 8 + near;
		const struct module_range *range =
			modules_find(modules, ret->base + (uint64_t)start);
		if (load_u32(bytes + 4, order) != 0 && range != NULL &&
			(range->flags & PF_X) != 0) {
			if (ret->count == capacity) {
				capacity = 2 * capacity + 256;
				void *list = reallocarray(ret->list, capacity, sizeof *ret->list);
				if (list == NULL)
					return false;
				ret->list = list;
			}
			ret->list[ret->count++] = (struct function_start){start, (int64_t)at};
		}
		at += 4 + (uint64_t)length;
	}
	table_sort(ret);
	return true;
}

// Where a function ends, from its description: length, where the common part is, and, in the
// encoding that this says, beginning and size. Only those of 4 bytes from where they stand, and
// whole addresses, are understood: then the beginning is right. 0: unknown.
static uint64_t frame_end(
	const struct image *image, const struct function_table *table, size_t index)
{
	const struct image_info *info = image_info(image);
	const unsigned word = info->elf_class / 8;
	const uint64_t start = table->base + (uint64_t)table->list[index].start;
	const uint64_t at = table->base + (uint64_t)table->list[index].description + 8;
	unsigned char bytes[16];
	if (image_read(image, at, bytes, 2 * word) != 2 * word)
		return 0;
	const int32_t near = (int32_t)load_u32(bytes, info->elf_order);
	if (at + (uint64_t)(int64_t)near == start)
		return start + load_u32(bytes + 4, info->elf_order);
	if (word_load(bytes, word, info->elf_order) == start)
		return start + word_load(bytes + word, word, info->elf_order);
	return 0;
}

static enum function_place frames_look(const struct function_table *table,
	const struct image *image, uint64_t address, uint64_t *before, uint64_t *next)
{
	const size_t index = table_up_to(table, address);
	if (index == 0)
		return FUNCTION_UNKNOWN;
	if (table->base + (uint64_t)table->list[index - 1].start == address)
		return FUNCTION_BEGINS;
	*before = frame_end(image, table, index - 1);
	if (address < *before)
		return FUNCTION_INSIDE;
	if (*before == 0 || index == table->count)
		return FUNCTION_UNKNOWN;
	*next = table->base + (uint64_t)table->list[index].start;
	return FUNCTION_BETWEEN;
}

// ---- Go. Source: src/runtime/symtab.go, pcHeader, and src/debug/gosym/pclntab.go: a magic number
// of 4 bytes, two zeros, the unit of instructions, the size of a word, and words: the number of
// functions, from 1.16 on that of files, from 1.18 on where the code begins, and four or five
// offsets, of which the last is that of the functions. These are pairs of a place and an offset, of
// 4 bytes and counted from the code's beginning from 1.18 on, else whole addresses.

enum { GO_12 = 0xfffffffb, GO_116 = 0xfffffffa, GO_118 = 0xfffffff0, GO_120 = 0xfffffff1 };

static bool go_read(const struct image *image, const struct modules *modules,
	const struct module *module, uint64_t address, struct function_table *ret)
{
	const struct image_info *info = image_info(image);
	const unsigned word = info->elf_class / 8;
	unsigned char head[8 + 8 * 8];
	const size_t size = 8 + 8 * (size_t)word;
	if (image_read(image, address, head, size) != size || head[4] != 0 || head[5] != 0 ||
		(head[6] != 1 && head[6] != 2 && head[6] != 4) || head[7] != word)
		return true;
	const uint32_t magic = load_u32(head, info->elf_order);
	const uint64_t count = word_load(head + 8, word, info->elf_order);
	const bool near = magic == GO_118 || magic == GO_120;
	if (count == 0 || count > FUNCTIONS_MAX)
		return true;
	uint64_t list = address + 8 + word;
	if (magic != GO_12)
		list = address + word_load(head + 8 + (near ? 7 : 6) * word, word, info->elf_order);
	uint64_t base = near ? word_load(head + 8 + 2 * word, word, info->elf_order) : 0;
	// In a file it is not relocated.
	const struct module_range *range = modules_find(modules, base);
	if (near && (range == NULL || &modules->list[range->module] != module))
		base += module->bias;
	range = modules_find(modules, base);
	if (near && (range == NULL || (range->flags & PF_X) == 0))
		return true;
	struct function_table table = {.base = base};
	if (!pairs_read(image, list, count + 1, near ? 4 : word, &table)) {
		free(table.list);
		return false;
	}
	if (table.count < 2) {
		free(table.list);
		return true;
	}
	table_sort(&table);
	*ret = table;
	return true;
}

// A note of the linker's says that a program is Go's.
static bool is_go(const struct image *image, const struct module *module)
{
	for (unsigned i = 0; i < module->elf.segment_count; i++) {
		const struct elf_segment *segment = &module->elf.segments[i];
		if (segment->type != PT_NOTE)
			continue;
		const size_t wanted = (size_t)min_u64(segment->file_size, NOTES_MAX);
		unsigned char *notes AUTO_FREE = malloc(wanted + 1);
		const size_t size =
			notes != NULL
				? image_read(image, module->bias + segment->address, notes, wanted)
				: 0;
		if (size > 0 && memmem(notes, size, "Go\0\0", 4) != NULL)
			return true;
	}
	return false;
}

static bool go_load(const struct image *image, const struct modules *modules,
	const struct module *module, struct function_table *ret)
{
	const enum byte_order order = image_info(image)->elf_order;
	if (!is_go(image, module))
		return true;
	unsigned char *block AUTO_FREE = malloc(BLOCK);
	if (block == NULL)
		return false;
	for (size_t i = 0; i < modules->range_count; i++) {
		const struct module_range *range = &modules->ranges[i];
		if (&modules->list[range->module] != module || (range->flags & PF_X) != 0)
			continue;
		uint64_t at = range->start;
		while ((at = image_next(image, at)) < range->end) {
			const size_t size = image_read(
				image, at, block, (size_t)min_u64(BLOCK, range->end - at));
			if (size < 16)
				break;
			// Sections of Go are aligned to 32.
			for (size_t k = 0; k + 8 <= size; k += 16) {
				const uint32_t magic = load_u32(block + k, order);
				if ((magic == GO_12 || magic == GO_116 || magic == GO_118 ||
					    magic == GO_120) &&
					!go_read(image, modules, module, at + k, ret))
					return false;
				if (ret->count > 0)
					return true;
			}
			at += size - size % 16;
		}
	}
	return true;
}

// ---- the whole

bool functions_load(const struct image *image, const struct modules *modules,
	const struct module *module, struct functions *ret)
{
	*ret = (struct functions){0};
	if (!module->loaded)
		return true;
	if (!frames_load(image, module, &ret->frames) || !go_load(image, modules, module, &ret->go))
		return false;
	return ret->frames.count > 0 || module->file == NULL ||
	       frames_scan(image, modules, module, &ret->frames);
}

void functions_deinit(struct functions *functions)
{
	free(functions->frames.list);
	free(functions->go.list);
	*functions = (struct functions){0};
}

enum function_place functions_look(const struct functions *functions, const struct image *image,
	uint64_t address, uint64_t *before, uint64_t *next)
{
	const struct function_table *go = &functions->go;
	const size_t index = table_up_to(go, address);
	if (index > 0 && index < go->count)
		return go->base + (uint64_t)go->list[index - 1].start == address ? FUNCTION_BEGINS
										 : FUNCTION_INSIDE;
	return frames_look(&functions->frames, image, address, before, next);
}
