// SPDX-License-Identifier: MIT
#include "image/binary.h"

#include <elf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/auxv.h"

#define DEBUG_DIR "/usr/lib/debug"

bool elf_offset_address(const struct elf *elf, uint64_t offset, uint64_t *ret)
{
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type == PT_LOAD && offset >= segment->offset &&
			offset - segment->offset < segment->file_size) {
			*ret = segment->address + (offset - segment->offset);
			return true;
		}
	}
	return false;
}

// Mappings begin and end at pages, of up to 64 KiB, and segments need not. Segments that follow
// each other in memory as in the file can share one mapping.
bool elf_maps(
	const struct elf *elf, uint64_t bias, uint64_t address, uint64_t size, uint64_t offset)
{
	bool overlaps = false;
	uint64_t end = 0;
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type != PT_LOAD ||
			address - offset != bias + segment->address - segment->offset)
			continue;
		overlaps |= offset < segment->offset + segment->file_size &&
			    add_saturated(offset, size) > segment->offset;
		end = max_u64(end, segment->offset + segment->file_size);
	}
	return overlaps && add_saturated(offset, size) <= add_saturated(end | 0xffff, 1);
}

bool elf_leaves(
	const struct elf *elf, uint64_t bias, uint64_t address, uint64_t size, uint64_t offset)
{
	const uint64_t page = 4096, end = add_saturated(address, size);
	uint64_t first, last;
	bool known = false;
	if (!elf_extent(elf, &first, &last) || address - bias < first || end - bias > last)
		return false;
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type != PT_LOAD)
			continue;
		const uint64_t start = (bias + segment->address) & ~(page - 1);
		if (start < end && bias + segment->address + segment->memory_size > address)
			return false;
		known |= segment->address == first &&
			 address - offset == bias + segment->address - segment->offset;
	}
	return known;
}

// The bias at which the mapping would be a part of a program.
static bool binary_bias(const struct elf *elf, const struct image_mapping *mapping, uint64_t *ret)
{
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		*ret = mapping->start - mapping->offset - segment->address + segment->offset;
		if (segment->type == PT_LOAD && segment->file_size > 0 &&
			elf_maps(elf, *ret, mapping->start, mapping->end - mapping->start,
				mapping->offset))
			return true;
	}
	return false;
}

// The mappings of the module lie where the program headers say, and no PT_LOAD is without one.
static bool binary_fits_mappings(const struct binary_context *context, const struct module *module,
	const struct elf *elf, uint64_t *ret)
{
	const struct image_process *process = &image_info(context->image)->process;
	bool known = false;
	uint64_t bias = 0;
	unsigned seen = 0, wanted = 0;
	for (size_t i = 0; i < process->mapping_count; i++) {
		const struct image_mapping *mapping = &process->mappings[i];
		if (context->owners[i] != context->index)
			continue;
		if (!known && !binary_bias(elf, mapping, &bias))
			return false;
		known = true;
		const uint64_t size = mapping->end - mapping->start;
		if (!elf_maps(elf, bias, mapping->start, size, mapping->offset) &&
			!elf_leaves(elf, bias, mapping->start, size, mapping->offset))
			return false;
	}
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type != PT_LOAD || segment->file_size == 0)
			continue;
		wanted++;
		const uint64_t address = bias + segment->address;
		seen += address >= module->start && address < module->end;
	}
	*ret = bias;
	return known && seen == wanted && (elf->type != ET_EXEC || bias == 0);
}

// What the kernel told the program about itself.
static bool binary_fits_auxv(
	const struct binary_context *context, const struct elf *elf, uint64_t bias)
{
	const struct image_info *info = image_info(context->image);
	uint64_t value, address;
	if (auxv_find(info, AT_PHNUM, &value) && value != elf->segment_count)
		return false;
	if (auxv_find(info, AT_ENTRY, &value) && value != bias + elf->entry)
		return false;
	return !auxv_find(info, AT_PHDR, &value) ||
	       (elf_offset_address(elf, elf->segment_offset, &address) && value == bias + address);
}

// Without an NT_FILE note: every PT_LOAD must lie in a segment of the dump.
static bool binary_fits_segments(const struct binary_context *context, const struct module *module,
	const struct elf *elf, uint64_t *ret)
{
	uint64_t value, address, bias = module->bias;
	const bool placed = module->dynamic != 0;
	const struct elf_segment *dynamic = elf_segment_find(elf, PT_DYNAMIC);
	if (placed) {
		if (dynamic == NULL || bias + dynamic->address != module->dynamic)
			return false;
	} else if (!auxv_find(image_info(context->image), AT_PHDR, &value) ||
		   !elf_offset_address(elf, elf->segment_offset, &address)) {
		return false;
	} else {
		bias = value - address;
	}
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		// What the dynamic linker says is enough where a dump leaves out what is in files.
		if (segment->type == PT_LOAD && segment->memory_size > 0 &&
			(!placed || (segment->flags & PF_W) != 0) &&
			image_segment_at(context->image, bias + segment->address) == NULL)
			return false;
	}
	*ret = bias;
	return elf->type != ET_EXEC || bias == 0;
}

// Whether the ELF header, where the dump has it without the program headers, is that of the file.
static bool binary_fits_header(const struct binary_context *context, const struct module *module,
	const struct elf_source *source)
{
	unsigned char there[52], here[sizeof there];
	const bool known =
		image_read(context->image, module->start, there, sizeof there) == sizeof there &&
		memcmp(there, ELFMAG, SELFMAG) == 0;
	return !known ||
	       (source->read(source->context, source->base, here, sizeof here) == sizeof here &&
		       memcmp(there, here, sizeof there) == 0);
}

static bool binary_fits(const struct binary_context *context, const struct module *module,
	const struct elf *elf, const struct elf_source *source, uint64_t *ret)
{
	const struct image_info *info = image_info(context->image);
	*ret = module->bias;
	if (elf->elf_class != info->elf_class || elf->order != info->elf_order ||
		elf->machine != info->machine)
		return false;
	if (module->has_header)
		return elf_equal(elf, &module->elf);
	const bool fits = context->owners != NULL ? binary_fits_mappings(context, module, elf, ret)
						  : binary_fits_segments(context, module, elf, ret);
	return fits && binary_fits_header(context, module, source) &&
	       (!module->is_main || binary_fits_auxv(context, elf, *ret));
}

static void binary_refuse(
	struct module *module, const struct local_file *file, const struct build_id *id)
{
	if (module->refused != NULL)
		return;
	module->refused = strdup(file->path);
	module->file_build_id = *id;
	module->state = MODULE_MISMATCH;
}

bool binary_try(const struct binary_context *context, struct module *module, const char *path)
{
	struct local_file *file = local_file_create(path);
	if (file == NULL)
		return false;
	const struct elf_source source = local_file_source(file);
	struct elf elf;
	struct build_id id;
	uint64_t bias = module->bias;
	if (!elf_load(&source, &elf)) {
		local_file_destroy(file);
		return false;
	}
	elf_build_id(&elf, &source, false, &id);
	const bool verified = module->build_id.size > 0;
	if (verified ? !build_id_equal(&id, &module->build_id)
		     : !binary_fits(context, module, &elf, &source, &bias)) {
		binary_refuse(module, file, &id);
		elf_deinit(&elf);
		local_file_destroy(file);
		return false;
	}
	module->state = verified ? MODULE_OK : MODULE_UNVERIFIED;
	module->stripped = !elf_has_symbols(&elf, &source);
	module->file_build_id = id;
	module->file = file;
	local_file_release(file);
	if (module->loaded) {
		elf_deinit(&elf);
		return true;
	}
	module->loaded = true;
	module->bias = bias;
	module->elf = elf;
	return true;
}

bool binary_is_program(const char *path)
{
	struct local_file *file = local_file_create(path);
	if (file == NULL)
		return false;
	const struct elf_source source = local_file_source(file);
	struct elf elf;
	const bool is_program = elf_load(&source, &elf);
	if (is_program)
		elf_deinit(&elf);
	local_file_destroy(file);
	return is_program;
}

static bool binary_try_joined(const struct binary_context *context, struct module *module,
	const char *directory, const char *path)
{
	char joined[PATH_MAX];
	const int length = snprintf(
		joined, sizeof joined, "%s%s%s", directory, path[0] == '/' ? "" : "/", path);
	return length > 0 && (size_t)length < sizeof joined && binary_try(context, module, joined);
}

static bool binary_try_build_id(
	const struct binary_context *context, struct module *module, const char *directory)
{
	const struct build_id_text id = build_id_format(&module->build_id);
	char path[sizeof id.text + 16];
	if (directory == NULL || module->build_id.size < 2)
		return false;
	snprintf(path, sizeof path, ".build-id/%.2s/%s", id.text, id.text + 2);
	return binary_try_joined(context, module, directory, path);
}

static void binary_warn(const struct binary_context *context, const struct module *module)
{
	const char *core = image_info(context->image)->path;
	const char *advice = module->is_main ? "give the right file with --exe"
					     : "give a tree with the right one with --sysroot";
	if (module->build_id.size == 0) {
		diag_warn(context->diag,
			"%s: its program headers are not those of %s in %s, so it gives no names; "
			"%s",
			module->refused, module->name, core, advice);
		return;
	}
	const struct build_id_text there = build_id_format(&module->file_build_id);
	diag_warn(context->diag,
		"%s: its build-id %s is not the %s of %s in %s, so it gives no names; %s",
		module->refused, module->file_build_id.size > 0 ? there.text : "(none)",
		build_id_format(&module->build_id).text, module->name, core, advice);
}

void binary_find(const struct binary_context *context, struct module *module)
{
	const struct module_options *options = context->options;
	module->state = MODULE_MISSING;
	bool found = false;
	if (module->is_main && options->exe != NULL) {
		found = binary_try(context, module, options->exe);
		// The user's own choice: said even if another file turns out to be the right one.
		if (!found && module->refused != NULL)
			binary_warn(context, module);
	}
	if (!found && options->sysroot != NULL && module->path[0] == '/')
		found = binary_try_joined(context, module, options->sysroot, module->path);
	// What replaced a deleted file is known to be another one unless a build-id says otherwise.
	if (!found && module->path[0] != '\0' && (!module->deleted || module->build_id.size > 0))
		found = binary_try(context, module, module->path);
	if (!found)
		found = binary_try_build_id(context, module, options->debug_dir) ||
			binary_try_build_id(context, module, DEBUG_DIR);
	if (!found && module->refused != NULL)
		binary_warn(context, module);
}
