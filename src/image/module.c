// SPDX-License-Identifier: MIT
#include "image/module.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/guard.h"
#include "image/auxv.h"
#include "image/binary.h"
#include "image/linkmap.h"
#include "image/overlay.h"

// The parts of one file lie near each other; that far back one is looked for.
#define NEIGHBOURS 8
// More programs than any process maps; what a hostile dump has more is taken for data.
#define PROGRAMS_MAX 8192
// A PT_LOAD has a few parts that are not mapped from the file; a hostile one might have millions.
#define GAPS_MAX 256

struct builder {
	struct image *image;
	const struct image_info *info;
	const struct module_options *options;
	struct diag *diag;
	struct modules *modules;
	size_t capacity;       // of modules->list
	size_t range_capacity; // of modules->ranges
	size_t program_count;
	uint32_t *owners; // of each mapping; owned
};

static size_t memory_source_read(const void *context, uint64_t offset, void *buffer, size_t size)
{
	return image_read(context, offset, buffer, size);
}

static struct elf_source memory_source(const struct image *image, uint64_t base)
{
	return (struct elf_source){.read = memory_source_read, .context = image, .base = base};
}

// Make room for one more in an array that grows; false if there is no memory.
static bool array_reserve(void **array, size_t *capacity, size_t count, size_t size)
{
	if (count < *capacity)
		return true;
	const size_t wanted = *capacity * 2 + 64;
	void *grown = reallocarray(*array, wanted, size);
	if (grown == NULL)
		return false;
	*array = grown;
	*capacity = wanted;
	return true;
}

static struct module *module_add(struct builder *builder, const char *path)
{
	static const char suffix[] = " (deleted)";
	struct modules *modules = builder->modules;
	void *list = modules->list;
	if (modules->count >= UINT32_MAX ||
		!array_reserve(&list, &builder->capacity, modules->count, sizeof *modules->list))
		return NULL;
	modules->list = list;
	struct module *module = &modules->list[modules->count];
	*module = (struct module){.path = strdup(path), .start = UINT64_MAX, .origin = UINT32_MAX};
	if (module->path == NULL)
		return NULL;
	const size_t length = strlen(path);
	if (length > sizeof suffix && strcmp(path + length - (sizeof suffix - 1), suffix) == 0) {
		module->path[length - (sizeof suffix - 1)] = '\0';
		module->deleted = true;
	}
	const char *slash = strrchr(module->path, '/');
	module->name = slash != NULL && slash[1] != '\0' ? slash + 1 : module->path;
	modules->count++;
	return module;
}

static bool range_add(
	struct builder *builder, uint64_t start, uint64_t end, uint32_t flags, size_t module)
{
	struct modules *modules = builder->modules;
	void *ranges = modules->ranges;
	if (start >= end)
		return true;
	if (!array_reserve(&ranges, &builder->range_capacity, modules->range_count,
		    sizeof *modules->ranges))
		return false;
	modules->ranges = ranges;
	modules->ranges[modules->range_count++] =
		(struct module_range){start, end, flags, (uint32_t)module};
	struct module *owner = &modules->list[module];
	owner->start = min_u64(owner->start, start);
	owner->end = max_u64(owner->end, end);
	return true;
}

// Read the ELF header that the process had at address, the beginning of the file.
static void module_load_header(struct builder *builder, struct module *module, uint64_t address)
{
	const struct elf_source header = memory_source(builder->image, address);
	struct elf elf;
	if (builder->program_count >= PROGRAMS_MAX || !elf_load(&header, &elf))
		return;
	uint64_t first;
	if (elf.elf_class != builder->info->elf_class || elf.order != builder->info->elf_order ||
		elf.machine != builder->info->machine || !elf_offset_address(&elf, 0, &first) ||
		(elf.type == ET_EXEC && first != address)) {
		elf_deinit(&elf);
		return;
	}
	module->elf = elf;
	module->bias = address - first;
	module->loaded = true;
	module->has_header = true;
	builder->program_count++;
	const struct elf_source memory = memory_source(builder->image, module->bias);
	elf_build_id(&elf, &memory, true, &module->build_id);
}

// Whether a mapping is a further part of the module that its predecessors belong to.
static bool module_continues(const struct module *module, const struct image_mapping *last,
	const struct image_mapping *mapping)
{
	if (strcmp(last->path, mapping->path) != 0)
		return false;
	const uint64_t size = mapping->end - mapping->start;
	if (module->loaded)
		return elf_maps(
			       &module->elf, module->bias, mapping->start, size, mapping->offset) ||
		       elf_leaves(
			       &module->elf, module->bias, mapping->start, size, mapping->offset);
	return mapping->offset > last->offset;
}

// The module of a mapping: one of the last few, or a new one.
static bool mapping_assign(struct builder *builder, size_t index)
{
	const struct image_mapping *mappings = builder->info->process.mappings;
	const struct image_mapping *mapping = &mappings[index];
	for (size_t back = 1; back <= NEIGHBOURS && back <= index; back++) {
		const uint32_t owner = builder->owners[index - back];
		if (module_continues(
			    &builder->modules->list[owner], &mappings[index - back], mapping)) {
			builder->owners[index] = owner;
			return true;
		}
	}
	struct module *module = module_add(builder, mapping->path);
	if (module == NULL)
		return false;
	builder->owners[index] = (uint32_t)(module - builder->modules->list);
	const uint64_t size = mapping->end - mapping->start;
	if (mapping->offset == 0)
		module_load_header(builder, module, mapping->start);
	// A program can be mapped as a mere file, too.
	if (module->loaded && !elf_maps(&module->elf, module->bias, mapping->start, size, 0)) {
		elf_deinit(&module->elf);
		module->loaded = module->has_header = false;
		module->build_id.size = 0;
	}
	if (!module->loaded)
		module->bias = mapping->start - mapping->offset;
	return true;
}

static uint32_t address_flags(const struct builder *builder, uint64_t address)
{
	const struct image_segment *segment = image_segment_at(builder->image, address);
	return segment != NULL ? segment->flags : 0;
}

static bool modules_from_mappings(struct builder *builder)
{
	const struct image_process *process = &builder->info->process;
	builder->owners = calloc(process->mapping_count, sizeof *builder->owners);
	if (builder->owners == NULL)
		return false;
	uint64_t end = 0;
	for (size_t i = 0; i < process->mapping_count; i++) {
		const struct image_mapping *mapping = &process->mappings[i];
		if (!mapping_assign(builder, i))
			return false;
		// Where mappings overlap, which no kernel writes, the first one wins.
		if (!range_add(builder, max_u64(mapping->start, end), mapping->end,
			    address_flags(builder, mapping->start), builder->owners[i]))
			return false;
		end = max_u64(end, mapping->end);
	}
	return true;
}

// The parts of a verified file that no process can have changed.
static bool module_add_overlay(struct modules *modules, const struct module *module)
{
	struct overlay *overlay = modules->overlay;
	for (unsigned i = 0; i < module->elf.segment_count; i++) {
		const struct elf_segment *segment = &module->elf.segments[i];
		const uint64_t start = module->bias + segment->address;
		uint64_t end;
		if (segment->type != PT_LOAD || (segment->flags & PF_W) != 0 ||
			segment->file_size == 0 ||
			__builtin_add_overflow(start, segment->file_size, &end))
			continue;
		const struct overlay_range range = {
			start, segment->file_size, segment->offset, module->file};
		if (!overlay_add(overlay, range))
			return false;
	}
	return true;
}

// The path that the program was started with.
static char *program_path(const struct builder *builder)
{
	uint64_t address;
	char *path = NULL;
	if (auxv_find(builder->info, AT_EXECFN, &address))
		path = image_read_string(builder->image, address, PATH_MAX);
	return path != NULL ? path : strdup("");
}

// Read the header of a library that the link map tells of. Where it was prelinked, its bias is 0
// and it lies where its program headers say: near its dynamic section.
static void library_load_header(struct builder *builder, struct module *module)
{
	const struct image_info *info = builder->info;
	module_load_header(builder, module, module->bias);
	if (module->loaded || module->bias != 0)
		return;
	size_t low = 0, high = info->segment_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (info->segments[middle].address <= module->dynamic)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t back = 0; back < NEIGHBOURS && back < low && !module->loaded; back++) {
		module_load_header(builder, module, info->segments[low - 1 - back].address);
		const struct elf_segment *dynamic =
			module->loaded ? elf_segment_find(&module->elf, PT_DYNAMIC) : NULL;
		if (module->loaded &&
			(dynamic == NULL || module->bias + dynamic->address != module->dynamic)) {
			elf_deinit(&module->elf);
			module->loaded = module->has_header = false;
			module->build_id.size = 0;
			module->bias = 0;
		}
	}
}

// The libraries, from the list that the dynamic linker keeps for the program.
static bool modules_add_libraries(struct builder *builder, const struct module *program)
{
	struct link_entry *entries;
	const struct elf elf = program->elf;
	const size_t count = linkmap_load(builder->image, &elf, program->bias, &entries);
	bool done = true;
	for (size_t i = 0; i < count && done; i++) {
		if (entries[i].path[0] != '/')
			continue;
		struct module *module = module_add(builder, entries[i].path);
		done = module != NULL;
		if (!done)
			break;
		module->bias = entries[i].bias;
		module->dynamic = entries[i].dynamic;
		library_load_header(builder, module);
	}
	linkmap_free(entries, count);
	return done;
}

// The program is known: what the dump left out of its constants, and its libraries.
static bool modules_follow_program(struct builder *builder, const struct module *program)
{
	// The dynamic linker's own path is a constant of the program.
	if (program->file != NULL && !module_add_overlay(builder->modules, program))
		return false;
	overlay_sort(builder->modules->overlay);
	image_set_overlay(builder->image, builder->modules->overlay);
	return modules_add_libraries(builder, program);
}

static bool modules_from_linkmap(struct builder *builder)
{
	uint64_t headers;
	if (!auxv_find(builder->info, AT_PHDR, &headers))
		return true;
	char *path AUTO_FREE = program_path(builder);
	struct module *program = path != NULL ? module_add(builder, path) : NULL;
	if (program == NULL)
		return false;
	program->is_main = true;
	// The program headers follow the ELF header, which begins a page.
	module_load_header(builder, program, headers & ~(uint64_t)0xfff);
	struct binary_context context = {builder->image, builder->options, builder->diag, NULL, 0};
	if (!program->loaded && builder->options->search)
		binary_find(&context, program);
	return !program->loaded || modules_follow_program(builder, program);
}

// ---- without the auxiliary vector

// Whether the tags of the dynamic section of elf, which file has, are in memory at bias, as the
// dynamic linker leaves them: a page of the file can be mapped twice. Or it has none.
static bool program_is_at(const struct builder *builder, const struct elf *elf,
	const struct elf_source *file, uint64_t bias)
{
	const struct elf_segment *dynamic = elf_segment_find(elf, PT_DYNAMIC);
	const unsigned word = elf->elf_class / 8;
	if (dynamic == NULL)
		return elf->type == ET_EXEC;
	for (uint64_t at = 0; at + 2 * word <= dynamic->file_size; at += 2 * word) {
		unsigned char bytes[8];
		uint64_t there;
		if (file->read(file->context, file->base + dynamic->offset + at, bytes, word) !=
				word ||
			!image_read_word(builder->image, bias + dynamic->address + at, &there) ||
			there != word_load(bytes, word, elf->order))
			return false;
		uint64_t debug;
		if (there == DT_DEBUG && (!image_read_word(builder->image,
						  bias + dynamic->address + at + word, &debug) ||
						 debug == 0))
			return false;
		if (there == DT_NULL)
			return at > 0;
	}
	return false;
}

// Where a program lies, by its part that can be written.
static bool program_locate(const struct builder *builder, const struct elf *elf,
	const struct elf_source *file, uint64_t *ret)
{
	const struct image_info *info = builder->info;
	*ret = 0;
	if (elf->elf_class != info->elf_class || elf->order != info->elf_order ||
		elf->machine != info->machine)
		return false;
	if (elf->type == ET_EXEC)
		return program_is_at(builder, elf, file, 0);
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type != PT_LOAD || (segment->flags & PF_W) == 0)
			continue;
		for (size_t k = 0; k < info->segment_count; k++) {
			*ret = info->segments[k].address - (segment->address & ~(uint64_t)0xfff);
			if (info->segments[k].present > 0 &&
				program_is_at(builder, elf, file, *ret))
				return true;
		}
	}
	return false;
}

// The user's --exe, where the dump says neither which files were mapped nor where the program is.
static bool modules_from_exe(struct builder *builder)
{
	const char *path = builder->options->exe;
	struct local_file *file =
		path != NULL && builder->options->search ? local_file_create(path) : NULL;
	if (file == NULL)
		return true;
	const struct elf_source source = local_file_source(file);
	struct elf elf = {0};
	uint64_t bias = 0;
	const bool found = elf_load(&source, &elf) && program_locate(builder, &elf, &source, &bias);
	const struct elf_segment *dynamic = elf_segment_find(&elf, PT_DYNAMIC);
	const uint64_t at = dynamic != NULL ? bias + dynamic->address : 0;
	uint64_t first = 0, end;
	elf_extent(&elf, &first, &end);
	elf_deinit(&elf);
	local_file_destroy(file);
	if (!found)
		return true;
	struct module *program = module_add(builder, path);
	if (program == NULL)
		return false;
	program->is_main = true;
	program->dynamic = at;
	program->bias = bias;
	module_load_header(builder, program, bias + first);
	struct binary_context context = {builder->image, builder->options, builder->diag, NULL, 0};
	binary_try(&context, program, path);
	return !program->loaded || modules_follow_program(builder, program);
}

// Without any list: what begins like a program, if --exe or a build-id directory has it.
static bool modules_from_headers(struct builder *builder)
{
	struct modules *modules = builder->modules;
	for (size_t i = 0; i < builder->info->segment_count; i++) {
		const struct image_segment *segment = &builder->info->segments[i];
		struct module *module = segment->present > 0 ? module_add(builder, "") : NULL;
		if (module == NULL)
			continue;
		struct binary_context context = {
			builder->image, builder->options, builder->diag, NULL, 0};
		module_load_header(builder, module, segment->address);
		bool found = false;
		if (module->loaded && builder->options->search) {
			found = builder->options->exe != NULL &&
				binary_try(&context, module, builder->options->exe);
			module->is_main = found;
			// Most are libraries: that they are not the program is no news.
			free(module->refused);
			module->refused = NULL;
			module->file_build_id.size = 0;
			if (!found)
				binary_find(&context, module);
			found = module->file != NULL;
		}
		if (found) {
			free(module->path);
			module->path = strdup(module->file->path);
			if (module->path == NULL)
				return false;
			const char *slash = strrchr(module->path, '/');
			module->name = slash != NULL ? slash + 1 : module->path;
			continue;
		}
		elf_deinit(&module->elf);
		free(module->refused);
		free(module->path);
		modules->count--;
	}
	return true;
}

static bool modules_add_vdso(struct builder *builder)
{
	uint64_t address;
	if (!auxv_find(builder->info, AT_SYSINFO_EHDR, &address))
		return true;
	struct module *module = module_add(builder, "[vdso]");
	if (module == NULL)
		return false;
	module_load_header(builder, module, address);
	module->state = MODULE_MEMORY;
	if (!module->loaded)
		module->bias = address;
	const struct image_segment *segment = image_segment_at(builder->image, address);
	// The vdso has one PT_LOAD, and its section headers lie behind it.
	return segment == NULL ||
	       range_add(builder, segment->address, segment->address + segment->size,
		       segment->flags | PF_X, builder->modules->count - 1);
}

static int range_compare(const void *a, const void *b)
{
	const struct module_range *x = a, *y = b;
	return x->start != y->start ? (x->start < y->start ? -1 : 1)
				    : (x->end > y->end) - (x->end < y->end);
}

// Sort the ranges; of those that overlap the first one keeps what both have.
static void ranges_sort(struct modules *modules)
{
	if (modules->range_count == 0)
		return;
	qsort(modules->ranges, modules->range_count, sizeof *modules->ranges, range_compare);
	size_t kept = 0;
	uint64_t end = 0;
	for (size_t i = 0; i < modules->range_count; i++) {
		struct module_range range = modules->ranges[i];
		range.start = max_u64(range.start, end);
		if (range.start >= range.end)
			continue;
		end = range.end;
		modules->ranges[kept++] = range;
	}
	modules->range_count = kept;
}

// Add what the program headers say and the ranges so far do not have: uninitialized data, and all
// there is without an NT_FILE note.
static bool module_add_segments(struct builder *builder, size_t index, size_t known)
{
	struct modules *modules = builder->modules;
	const struct module *module = &modules->list[index];
	unsigned gaps = 0;
	for (unsigned i = 0; i < module->elf.segment_count; i++) {
		const struct elf_segment segment = module->elf.segments[i];
		uint64_t start = module->bias + segment.address, end;
		if (segment.type != PT_LOAD ||
			__builtin_add_overflow(start, segment.memory_size, &end))
			continue;
		// The rest of the last page is nobody else's.
		end = end > UINT64_MAX - 4095 ? end : (end + 4095) & ~(uint64_t)4095;
		for (size_t low = 0, high = known; start < end && gaps < GAPS_MAX; gaps++) {
			while (low < high) {
				const size_t middle = low + (high - low) / 2;
				if (modules->ranges[middle].end <= start)
					low = middle + 1;
				else
					high = middle;
			}
			high = known;
			const bool last = low == known || modules->ranges[low].start >= end;
			const uint64_t limit = last ? end : modules->ranges[low].start;
			const uint64_t next = last ? end : modules->ranges[low].end;
			if (!range_add(builder, start, limit, segment.flags, index))
				return false;
			start = next;
		}
	}
	return true;
}

static bool modules_add_segments(struct builder *builder)
{
	struct modules *modules = builder->modules;
	ranges_sort(modules);
	const size_t known = modules->range_count;
	for (size_t i = 0; i < modules->count; i++)
		if (modules->list[i].loaded && modules->list[i].state != MODULE_MEMORY &&
			!module_add_segments(builder, i, known))
			return false;
	ranges_sort(modules);
	return true;
}

// The main program is the one whose program headers the kernel passed on.
static void modules_find_main(struct builder *builder)
{
	const struct image_process *process = &builder->info->process;
	uint64_t address;
	if (!auxv_find(builder->info, AT_PHDR, &address))
		return;
	for (size_t i = 0; i < process->mapping_count; i++) {
		if (address < process->mappings[i].start || address >= process->mappings[i].end)
			continue;
		builder->modules->list[builder->owners[i]].is_main = true;
		return;
	}
}

// The user's --exe is the main program if a module has its build-id: not where the dynamic linker
// was started with the program as its argument, and where the dump does not say which one it is.
static void modules_use_exe(struct builder *builder)
{
	struct modules *modules = builder->modules;
	const char *path = builder->options->exe;
	struct local_file *file = path != NULL ? local_file_create(path) : NULL;
	if (file == NULL)
		return;
	const struct elf_source source = local_file_source(file);
	struct elf elf;
	if (elf_load(&source, &elf)) {
		struct build_id id;
		elf_build_id(&elf, &source, false, &id);
		size_t found = 0;
		while (found < modules->count &&
			(id.size == 0 || !modules->list[found].loaded ||
				!build_id_equal(&modules->list[found].build_id, &id)))
			found++;
		for (size_t i = 0; i < modules->count && found < modules->count; i++)
			modules->list[i].is_main = i == found;
		elf_deinit(&elf);
	}
	local_file_destroy(file);
}

// Programs are looked for; other files that were mapped are not, since nothing vouches for them.
static bool module_is_program(const struct builder *builder, size_t index)
{
	const struct modules *modules = builder->modules;
	const struct module *module = &modules->list[index];
	if (module->loaded || module->is_main || module->dynamic != 0)
		return true;
	static const char *const memory[] = {"/dev/", "/SYSV", "/memfd:", "/anon_hugepage", "/["};
	for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
		if (strncmp(module->path, memory[i], strlen(memory[i])) == 0)
			return false;
	return module->state == MODULE_MISSING;
}

static int path_compare(const void *a, const void *b, void *list)
{
	const struct module *x = (const struct module *)list + *(const uint32_t *)a;
	const struct module *y = (const struct module *)list + *(const uint32_t *)b;
	const int order = strcmp(x->path, y->path);
	return order != 0 ? order : (x > y) - (x < y);
}

// Find the programs that other modules are parts of.
static bool modules_find_origins(struct modules *modules)
{
	uint32_t *order AUTO_FREE = calloc(modules->count + 1, sizeof *order);
	if (order == NULL)
		return false;
	for (size_t i = 0; i < modules->count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, modules->count, sizeof *order, path_compare, modules->list);
	for (size_t i = 0, next; i < modules->count; i = next) {
		const char *path = modules->list[order[i]].path;
		uint32_t program = UINT32_MAX;
		for (next = i;
			next < modules->count && strcmp(modules->list[order[next]].path, path) == 0;
			next++)
			if (modules->list[order[next]].loaded && program == UINT32_MAX)
				program = order[next];
		for (; program != UINT32_MAX && i < next; i++)
			if (!modules->list[order[i]].loaded)
				modules->list[order[i]].origin = program;
	}
	return true;
}

static void modules_find_files(struct builder *builder)
{
	struct modules *modules = builder->modules;
	// An executable part without a header in the dump can be a program's all the same.
	for (size_t i = 0; i < modules->range_count; i++) {
		struct module *owner = &modules->list[modules->ranges[i].module];
		if ((modules->ranges[i].flags & PF_X) != 0 && owner->state == MODULE_DATA)
			owner->state = MODULE_MISSING;
	}
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = &modules->list[i];
		if (module->state == MODULE_MEMORY || module->file != NULL)
			continue;
		if (module->origin != UINT32_MAX || !module_is_program(builder, i)) {
			module->state = MODULE_DATA;
			continue;
		}
		module->state = MODULE_MISSING;
		struct binary_context context = {builder->image, builder->options, builder->diag,
			builder->owners, (uint32_t)i};
		if (builder->options->search)
			binary_find(&context, module);
	}
}

static bool modules_add_overlay(struct builder *builder)
{
	struct modules *modules = builder->modules;
	for (size_t i = 0; i < modules->count; i++)
		if (modules->list[i].file != NULL &&
			!module_add_overlay(modules, &modules->list[i]))
			return false;
	overlay_sort(modules->overlay);
	image_set_overlay(builder->image, modules->overlay);
	return true;
}

bool modules_add_file(
	struct modules *modules, struct image *image, struct module *module, const char *path)
{
	const struct binary_context context = {.image = image};
	if (module->file != NULL || module->build_id.size == 0 || !module->loaded ||
		!binary_try(&context, module, path))
		return false;
	const bool done = module_add_overlay(modules, module);
	overlay_sort(modules->overlay);
	return done;
}

// What is known from elsewhere. Only a build-id says which file it is.
static bool modules_from_known(struct builder *builder)
{
	for (size_t i = 0; i < builder->options->known_count; i++) {
		const struct module_known *known = &builder->options->known[i];
		struct module *module = module_add(builder, known->path);
		if (module == NULL)
			return false;
		module->bias = known->bias;
		module->build_id = known->id;
		module->is_main = known->is_main;
		module->state = MODULE_MISSING;
		struct binary_context context = {
			builder->image, builder->options, builder->diag, NULL, (uint32_t)i};
		if (builder->options->search && known->id.size > 0)
			binary_find(&context, module);
		if (!range_add(builder, known->start, known->end, PF_R | PF_X, i))
			return false;
	}
	ranges_sort(builder->modules);
	for (size_t i = 0; i < builder->modules->count; i++) {
		struct module *module = &builder->modules->list[i];
		if (module->is_main)
			builder->modules->main = module;
		if (module->start > module->end)
			module->start = module->end = 0;
	}
	return true;
}

// Where nothing says what the process was, --exe helps.
static void modules_warn(const struct builder *builder)
{
	const struct image_info *info = builder->info;
	bool code = false;
	for (size_t i = 0; i < info->segment_count; i++)
		code |= (info->segments[i].flags & PF_X) != 0;
	for (size_t i = 0; i < builder->modules->count; i++)
		if (builder->modules->list[i].is_main)
			return;
	if (!builder->options->search || info->process.thread_count == 0 || !code)
		return;
	if (builder->options->exe != NULL)
		diag_warn(builder->diag,
			"%s: is not the program of %s, as far as that can be told: names of it are "
			"missing; give the right file with --exe",
			builder->options->exe, info->path);
	else
		diag_warn(builder->diag,
			"%s: no program is known: the dump says neither which files were mapped "
			"nor "
			"where the program was, so names are missing; give the program with --exe",
			info->path);
}

static bool modules_build(struct builder *builder)
{
	if (builder->options->known != NULL)
		return modules_from_known(builder);

	if (builder->info->process.mapping_count > 0) {
		if (!modules_from_mappings(builder))
			return false;
		modules_find_main(builder);
		modules_use_exe(builder);
	} else {
		if (!modules_from_linkmap(builder))
			return false;
		if (builder->modules->count == 0 &&
			(!modules_from_exe(builder) ||
				(builder->modules->count == 0 && !modules_from_headers(builder))))
			return false;
		modules_warn(builder);
	}
	if (!modules_add_vdso(builder))
		return false;
	if (!modules_find_origins(builder->modules))
		return false;
	modules_find_files(builder);
	if (!modules_add_segments(builder) || !modules_add_overlay(builder))
		return false;
	for (size_t i = 0; i < builder->modules->count; i++) {
		struct module *module = &builder->modules->list[i];
		if (module->is_main)
			builder->modules->main = module;
		if (module->start > module->end)
			module->start = module->end = 0;
	}
	return true;
}

// The file that the user names must be one; which one is a matter of its build-id.
static bool exe_check(const char *path, struct error *err)
{
	struct stat status;
	if (stat(path, &status) != 0)
		return error_set(err, "--exe: %s: %s", path, strerror(errno));
	return binary_is_program(path) ||
	       error_set(err, "--exe: %s: is %s; give the program that dumped core", path,
		       S_ISDIR(status.st_mode) ? "a directory"
					       : "not an ELF executable that can be read");
}

bool modules_create(struct image *image, const struct module_options *options, struct diag *diag,
	struct error *err, struct modules **ret)
{
	const struct image_info *info = image_info(image);
	if (options->exe != NULL && !exe_check(options->exe, err))
		return false;
	struct builder builder = {.image = image, .info = info, .options = options, .diag = diag};
	builder.modules = calloc(1, sizeof *builder.modules);
	struct overlay *overlay = calloc(1, sizeof *overlay);
	if (builder.modules == NULL || overlay == NULL) {
		free(builder.modules);
		free(overlay);
		return error_memory(err);
	}
	builder.modules->overlay = overlay;
	const bool known =
		options->known != NULL || (info->format == IMAGE_ELF_CORE && !info->overridden);
	const bool built = !known || modules_build(&builder);
	free(builder.owners);
	if (!built) {
		modules_destroy(builder.modules, image);
		return error_memory(err);
	}
	*ret = builder.modules;
	return true;
}

void modules_destroy(struct modules *modules, struct image *image)
{
	if (modules == NULL)
		return;
	image_set_overlay(image, NULL);
	for (size_t i = 0; i < modules->count; i++) {
		struct module *module = &modules->list[i];
		free(module->path);
		free(module->refused);
		elf_deinit(&module->elf);
		local_file_destroy(module->file);
	}
	overlay_deinit(modules->overlay);
	free(modules->overlay);
	free(modules->ranges);
	free(modules->list);
	free(modules);
}

const struct module *modules_locate(
	const struct modules *modules, const struct module *module, uint64_t address, uint64_t *ret)
{
	*ret = address - module->bias;
	if (module->origin == UINT32_MAX)
		return module;
	const struct module *program = &modules->list[module->origin];
	return elf_offset_address(&program->elf, *ret, ret) ? program : module;
}

const char *module_state_name(const struct module *module)
{
	static const char *const names[] = {
		[MODULE_DATA] = "data",
		[MODULE_OK] = "ok",
		[MODULE_UNVERIFIED] = "unverified",
		[MODULE_MISMATCH] = "mismatch",
		[MODULE_MISSING] = "missing",
		[MODULE_MEMORY] = "ok",
	};
	return module->state == MODULE_OK && module->stripped ? "stripped" : names[module->state];
}

bool modules_range_has_data(const struct modules *modules, const struct module_range *range)
{
	const struct module *module = &modules->list[range->module];
	if ((range->flags & PF_X) == 0)
		return true;
	for (unsigned i = 0; module->loaded && i < module->elf.segment_count; i++) {
		const struct elf_segment *segment = &module->elf.segments[i];
		if (segment->type == PT_LOAD && (segment->flags & (PF_W | PF_X)) == 0 &&
			segment->file_size > 0)
			return false;
	}
	return module->loaded;
}

const struct module_range *modules_find(const struct modules *modules, uint64_t address)
{
	size_t low = 0, high = modules->range_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (modules->ranges[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == modules->range_count || address < modules->ranges[low].start)
		return NULL;
	return &modules->ranges[low];
}
