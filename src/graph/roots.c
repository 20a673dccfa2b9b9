// SPDX-License-Identifier: MIT
#include "graph/roots.h"

#include <elf.h>
#include <stdlib.h>

#include "alloc/pointers.h"
#include "base/bytes.h"

// What a function may use below the stack pointer: 128 bytes on x86-64 (System V ABI), 288 on
// powerpc64 (ELFv1 and ELFv2), of which Linux keeps 512; none elsewhere.
static uint64_t red_zone(uint16_t machine)
{
	return machine == EM_X86_64 ? 128 : machine == EM_PPC64 ? 512 : 0;
}

struct builder {
	const struct image *image;
	const struct modules *modules;
	const struct places *places;
	struct roots *roots;
	// What is no root: regions of the heap, and the allocator's own data.
	struct heap_range *excluded;
	size_t excluded_count;
};

static int range_compare(const void *left, const void *right)
{
	const struct heap_range *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

static void excluded_add(struct builder *builder, uint64_t start, uint64_t end)
{
	if (start < end)
		builder->excluded[builder->excluded_count++] = (struct heap_range){start, end};
}

// Regions, but for the gaps in them, and the allocator's own structures.
static bool excluded_init(struct builder *builder, const struct heap *heap)
{
	builder->excluded = calloc(heap->region_count + heap->gap_count + heap->internal_count + 1,
		sizeof *builder->excluded);
	if (builder->excluded == NULL)
		return false;
	size_t gap = 0;
	for (size_t i = 0; i < heap->region_count; i++) {
		const struct heap_region *region = &heap->regions[i];
		uint64_t at = region->start - region->lead;
		for (; gap < heap->gap_count && heap->gaps[gap].start < region->end; gap++) {
			excluded_add(builder, at, heap->gaps[gap].start);
			at = max_u64(at, heap->gaps[gap].end);
		}
		excluded_add(builder, at, region->end);
	}
	for (size_t i = 0; i < heap->internal_count; i++)
		excluded_add(builder, heap->internals[i].start, heap->internals[i].end);
	qsort(builder->excluded, builder->excluded_count, sizeof *builder->excluded, range_compare);
	return true;
}

static bool root_add(
	struct builder *builder, uint64_t start, uint64_t end, enum root_type type, size_t place)
{
	struct roots *roots = builder->roots;
	const uint64_t word = image_info(builder->image)->word_size;
	start = (start + word - 1) & ~(word - 1);
	end &= ~(word - 1);
	if (start >= end)
		return true;
	if (roots->count == roots->capacity) {
		const size_t wanted = 2 * roots->capacity + 64;
		struct root *grown = reallocarray(roots->list, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		roots->list = grown;
		roots->capacity = wanted;
	}
	roots->list[roots->count++] = (struct root){start, end, type, place};
	return true;
}

// Add a stretch without what is excluded.
static bool root_add_rest(
	struct builder *builder, uint64_t start, uint64_t end, enum root_type type, size_t place)
{
	size_t low = 0, high = builder->excluded_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (builder->excluded[middle].end <= start)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < builder->excluded_count && builder->excluded[low].start < end; low++) {
		if (!root_add(builder, start, builder->excluded[low].start, type, place))
			return false;
		start = max_u64(start, builder->excluded[low].end);
	}
	return root_add(builder, start, end, type, place);
}

// The lowest stack pointer in a stack; its start if there is none: then all of it may be in use.
static uint64_t stack_top(const struct builder *builder, const struct span *span)
{
	const struct image_info *info = image_info(builder->image);
	const uint64_t zone = red_zone(info->machine);
	uint64_t lowest = UINT64_MAX;
	for (size_t i = 0; i < info->process.thread_count; i++) {
		const uint64_t pointer = info->process.threads[i].stack_pointer;
		if (pointer >= span->start && pointer < span->end)
			lowest = min_u64(lowest, pointer);
	}
	if (lowest == UINT64_MAX)
		return span->start;
	return lowest - min_u64(lowest - span->start, zone);
}

// What the program's own headers say can be written, though it may not be any more: relocated data
// are read-only once they are made.
static bool root_add_program(
	struct builder *builder, const struct module *module, struct heap_range part, size_t place)
{
	for (unsigned i = 0; i < module->elf.segment_count; i++) {
		const struct elf_segment *segment = &module->elf.segments[i];
		if (segment->type != PT_LOAD || (segment->flags & PF_W) == 0)
			continue;
		const uint64_t start = module->bias + segment->address;
		const uint64_t from = max_u64(part.start, start);
		const uint64_t to = min_u64(part.end, add_saturated(start, segment->memory_size));
		if (from < to && !root_add_rest(builder, from, to, ROOT_MODULE, place))
			return false;
	}
	return true;
}

// ---- stacks of threads that have ended
//
// glibc keeps them for the next thread (nptl/allocatestack.c, stack_cache), with all that was on
// them. At the upper end is the thread's struct pthread (nptl/descr.h), which on some machines
// begins with its own address, the dtv, and its own address again (tcbhead_t), and has the thread's
// id as long as it lives. Below is a page that cannot be written.

// Not more of a struct pthread is looked at, nor by more threads: there it takes too long.
#define PTHREAD_SIZE 2048
#define THREADS_MAX 65536

static bool has_own_address(uint16_t machine)
{
	return machine == EM_X86_64 || machine == EM_386 || machine == EM_S390;
}

// Whether one of the threads has its struct pthread at address.
static bool thread_lives(const struct builder *builder, uint64_t address)
{
	const struct image_info *info = image_info(builder->image);
	unsigned char bytes[PTHREAD_SIZE];
	const size_t size = image_read(builder->image, address, bytes, sizeof bytes);
	if (info->process.thread_count > THREADS_MAX)
		return true;
	for (size_t at = 0; at + 4 <= size; at += 4) {
		const uint32_t id = load_u32(bytes + at, info->order);
		for (size_t i = 0; id != 0 && i < info->process.thread_count; i++)
			if (info->process.threads[i].id == (int64_t)id)
				return true;
	}
	return false;
}

// Where the stack of an ended thread ends that begins with a part of memory; the part's start if
// there is none.
static uint64_t dead_stack_end(const struct builder *builder, struct heap_range part)
{
	const struct image_info *info = image_info(builder->image);
	const size_t word = info->word_size;
	const struct image_segment *guard = image_segment_at(builder->image, part.start - 1);
	unsigned char bytes[4096];
	uint64_t found = part.start, end;
	// gdb writes pages that cannot be read as if they could.
	if (info->live || !has_own_address(info->machine) ||
		(guard != NULL && (guard->flags & PF_W) != 0))
		return part.start;
	for (uint64_t at = part.start; at < part.end; at += sizeof bytes) {
		if (!image_has_data(builder->image, at, part.end, &end) && end > at)
			at = (end - 1) & ~(uint64_t)(sizeof bytes - 1);
		const size_t size = image_read(
			builder->image, at, bytes, (size_t)min_u64(sizeof bytes, part.end - at));
		for (size_t i = 0; i + 3 * word <= size; i += word)
			if (word_load(bytes + i, info->word_size, info->order) == at + i &&
				word_load(bytes + i + 2 * word, info->word_size, info->order) ==
					at + i)
				found = at + i;
	}
	return found > part.start && !thread_lives(builder, found) ? found : part.start;
}

// A part of a place that the dump has, with the flags of its segment.
static bool root_add_place(
	struct builder *builder, struct heap_range part, uint32_t flags, size_t index)
{
	const struct span *span = &builder->places->spans[index];
	const struct place *place = &builder->places->list[index];
	switch (place->type) {
	case PLACE_MODULE: {
		const struct module *module = &builder->modules->list[place->module];
		if ((flags & PF_W) != 0)
			return root_add_rest(builder, part.start, part.end, ROOT_MODULE, index);
		return !module->loaded || module->origin != UINT32_MAX ||
		       root_add_program(builder, module, part, index);
	}
	case PLACE_STACK:
		part.start = max_u64(part.start, stack_top(builder, span));
		return part.start >= part.end ||
		       root_add_rest(builder, part.start, part.end, ROOT_STACK, index);
	case PLACE_ANON:
		part.start = dead_stack_end(builder, part);
		return root_add_rest(builder, part.start, part.end, ROOT_MEMORY, index);
	case PLACE_BREAK:
	case PLACE_ARENA:
	case PLACE_BLOCKS:
		return root_add_rest(builder, part.start, part.end, ROOT_HEAP, index);
	}
	return true;
}

// Segments and places, both sorted, in one walk.
static bool roots_walk(struct builder *builder)
{
	const struct image_info *info = image_info(builder->image);
	const struct places *places = builder->places;
	uint64_t done = 0;
	size_t next = 0;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t end = add_saturated(segment->address, segment->present);
		while (next < places->count && places->spans[next].end <= segment->address)
			next++;
		for (size_t at = next; at < places->count && places->spans[at].start < end; at++) {
			const struct span *span = &places->spans[at];
			const struct heap_range part = {
				max_u64(max_u64(span->start, segment->address), done),
				min_u64(span->end, end)};
			if (part.start >= part.end)
				continue;
			if (!root_add_place(builder, part, segment->flags, at))
				return false;
			done = part.end;
		}
	}
	return true;
}

bool roots_init(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, struct error *err, struct roots *ret)
{
	struct builder builder = {
		.image = image, .modules = modules, .places = places, .roots = ret};
	*ret = (struct roots){0};
	const bool done = excluded_init(&builder, heap) && roots_walk(&builder);
	free(builder.excluded);
	if (done)
		return true;
	roots_deinit(ret);
	return error_memory(err);
}

void roots_deinit(struct roots *roots)
{
	free(roots->list);
	*roots = (struct roots){0};
}

// ---- what is no root, or should be one

// glibc, malloc/arena.c, HEAP_MAX_SIZE: so much is reserved for each heap of a further arena.
static uint64_t reserve_end(const struct heap *heap, uint64_t address)
{
	const uint64_t most = heap->word == 8 ? (uint64_t)64 << 20 : (uint64_t)1 << 20;
	const uint64_t start = address & ~(most - 1);
	const size_t index = heap_region_behind(heap, start);
	return index < heap->region_count && heap->regions[index].kind == HEAP_ARENA &&
			       (heap->regions[index].start & ~(most - 1)) == start
		       ? start + most
		       : address;
}

uint64_t roots_foreign(
	const struct image *image, const struct heap *heap, const struct roots *roots)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < roots->count; i++) {
		const struct root *root = &roots->list[i];
		uint64_t end, at = max_u64(root->start, reserve_end(heap, root->start));
		for (; root->type == ROOT_MEMORY && at < root->end; at = max_u64(end, at + 1))
			if (image_has_data(image, at, root->end, &end))
				sum += end - at;
	}
	return sum;
}

static bool program_has_data(const struct module *program)
{
	for (size_t i = 0; i < program->elf.segment_count; i++)
		if (program->elf.segments[i].type == PT_LOAD &&
			(program->elf.segments[i].flags & PF_W) != 0)
			return true;
	return false;
}

static bool roots_lack_data(
	const struct modules *modules, const struct places *places, const struct roots *roots)
{
	const struct module *program = modules->main;
	if (program == NULL || !program->loaded || !program_has_data(program))
		return false;
	for (size_t i = 0; i < roots->count; i++)
		if (roots->list[i].type == ROOT_MODULE &&
			&modules->list[places->list[roots->list[i].place].module] == program)
			return false;
	return true;
}

static bool roots_lack_stacks(const struct image *image)
{
	const struct image_process *process = &image_info(image)->process;
	bool any = false;
	for (size_t i = 0; i < process->thread_count; i++) {
		const uint64_t pointer = process->threads[i].stack_pointer;
		const struct image_segment *segment = image_segment_at(image, pointer);
		if (pointer != 0 && segment != NULL &&
			pointer - segment->address < segment->present)
			return false;
		any = any || pointer != 0;
	}
	return any;
}

bool roots_lack(const struct image *image, const struct modules *modules,
	const struct places *places, const struct roots *roots)
{
	return roots_lack_data(modules, places, roots) || roots_lack_stacks(image);
}

// ---- what roots had before

#define EARLY_MAX ((size_t)1 << 20)
#define EARLY_ROOT_MAX ((uint64_t)64 << 20)
#define EARLY_PIECE ((size_t)64 << 10)

static bool early_read_root(const struct image *image, const struct pointers *pointers,
	const struct root *root, unsigned char *bytes, struct addresses *ret)
{
	uint64_t end, at = root->start;
	while (at < root->end) {
		if (!image_has_data(image, at, root->end, &end) && end > at) {
			at = end; // of a page
			continue;
		}
		const size_t wanted = (size_t)min_u64(EARLY_PIECE, root->end - at);
		const size_t size = image_read(image, at, bytes, wanted);
		for (size_t i = 0; i + pointers->word <= size; i += pointers->word) {
			const uint64_t word =
				word_load(bytes + i, pointers->word, pointers->order) &
				pointers->mask;
			if (pointers_have(pointers, word) && ret->count < EARLY_MAX &&
				!addresses_add(ret, word))
				return false;
		}
		at += wanted;
	}
	return true;
}

bool roots_read_early(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, struct addresses *ret)
{
	struct error err = {0};
	struct pointers pointers;
	struct roots roots;
	unsigned char *bytes = malloc(EARLY_PIECE);
	bool ok = bytes != NULL && roots_init(image, modules, places, heap, &err, &roots);
	if (ok) {
		pointers_init(&pointers, image_info(image), heap);
		for (size_t i = 0; ok && i < roots.count; i++) {
			const struct root *root = &roots.list[i];
			ok = root->type == ROOT_HEAP || root->end - root->start > EARLY_ROOT_MAX ||
			     early_read_root(image, &pointers, root, bytes, ret);
		}
		roots_deinit(&roots);
	}
	free(bytes);
	return ok;
}
