// SPDX-License-Identifier: MIT
//
// ELF cores: "System V Application Binary Interface", chapters 4 and 5; PN_XNUM and what Linux
// writes: fs/binfmt_elf.c. The headers are read as bytes and converted by libelf, so that a file
// which is cut inside them gives all that are whole.
#include <inttypes.h>
#include <libelf.h>
#include <stdlib.h>
#include <string.h>

#include "image/internal.h"
#include "image/stream.h"

// Program headers: enough for any process (Linux: vm.max_map_count, 65,530 by default), and 75 MiB
// at most.
#define HEADERS_MAX ((uint64_t)1 << 20)
// Headers converted at once.
#define BATCH ((size_t)1024)

// The layout of one class.
struct layout {
	size_t ehdr_size, phdr_size, shdr_size;
	Elf_Data *(*to_memory)(Elf_Data *, const Elf_Data *, unsigned);
};

static const struct layout layouts[] = {
	[ELFCLASS32] = {sizeof(Elf32_Ehdr), sizeof(Elf32_Phdr), sizeof(Elf32_Shdr), elf32_xlatetom},
	[ELFCLASS64] = {sizeof(Elf64_Ehdr), sizeof(Elf64_Phdr), sizeof(Elf64_Shdr), elf64_xlatetom},
};

struct core {
	struct image *image;
	struct diag *diag;
	const struct layout *layout;
	unsigned encoding; // ELFDATA2LSB or ELFDATA2MSB
	Elf64_Ehdr header;
	size_t beyond; // segments that go past the end of the address space
};

static bool core_convert(
	const struct core *core, Elf_Type type, void *bytes, size_t size, struct error *err)
{
	Elf_Data data = {.d_buf = bytes, .d_size = size, .d_type = type, .d_version = EV_CURRENT};
	if (core->layout->to_memory(&data, &data, core->encoding) != NULL)
		return true;
	return error_set(
		err, "%s: cannot convert its headers: %s", core->image->file.path, elf_errmsg(-1));
}

// A structure of either class, as libelf converts it in place.
union ehdr {
	Elf32_Ehdr half;
	Elf64_Ehdr full;
};
union phdr {
	Elf32_Phdr half;
	Elf64_Phdr full;
};
union shdr {
	Elf32_Shdr half;
	Elf64_Shdr full;
};

// Widen the fields that are used.
#define WIDEN(union_value, field) (wide ? (union_value).full.field : (union_value).half.field)

static bool core_read_header(struct core *core, struct error *err)
{
	const struct file *file = &core->image->file;
	union ehdr bytes = {0};
	if (file->size < core->layout->ehdr_size)
		return error_set(err,
			"%s: is cut inside its ELF header, %" PRIu64
			" bytes long: nothing is left to read",
			file->path, file->size);
	if (!file_read(file, 0, &bytes, core->layout->ehdr_size, err) ||
		!core_convert(core, ELF_T_EHDR, &bytes, core->layout->ehdr_size, err))
		return false;
	const bool wide = core->image->info.elf_class == 64;
	core->image->info.machine = WIDEN(bytes, e_machine);
	core->header = (Elf64_Ehdr){
		.e_type = WIDEN(bytes, e_type),
		.e_phoff = WIDEN(bytes, e_phoff),
		.e_shoff = WIDEN(bytes, e_shoff),
		.e_phentsize = WIDEN(bytes, e_phentsize),
		.e_phnum = WIDEN(bytes, e_phnum),
	};
	return true;
}

static bool core_check_type(const struct core *core, struct error *err)
{
	static const char *const kind[] = {[ET_NONE] = "no type",
		[ET_REL] = "an object file",
		[ET_EXEC] = "an executable",
		[ET_DYN] = "a shared library or executable"};
	const unsigned type = core->header.e_type;
	if (type == ET_CORE)
		return true;
	return error_set(err,
		"%s: is an ELF file but no core (%s); give the core dump, a program before it, "
		"or --raw to count the file's own bytes",
		core->image->file.path,
		type < sizeof kind / sizeof *kind ? kind[type] : "a type of its own");
}

// Read count program headers, at most BATCH, from index on, which are within the file.
static bool core_read_phdrs(
	const struct core *core, uint64_t index, size_t count, Elf64_Phdr *ret, struct error *err)
{
	const size_t size = core->layout->phdr_size;
	char bytes[BATCH * sizeof(Elf64_Phdr)] __attribute__((aligned(8)));
	if (!file_read(&core->image->file, core->header.e_phoff + index * size, bytes, count * size,
		    err) ||
		!core_convert(core, ELF_T_PHDR, bytes, count * size, err))
		return false;
	const bool wide = core->image->info.elf_class == 64;
	for (size_t i = 0; i < count; i++) {
		union phdr phdr;
		memcpy(&phdr, bytes + i * size, size);
		ret[i] = (Elf64_Phdr){
			.p_type = WIDEN(phdr, p_type),
			.p_flags = WIDEN(phdr, p_flags),
			.p_offset = WIDEN(phdr, p_offset),
			.p_vaddr = WIDEN(phdr, p_vaddr),
			.p_filesz = WIDEN(phdr, p_filesz),
			.p_memsz = WIDEN(phdr, p_memsz),
		};
	}
	return true;
}

// Read sh_info of section header 0.
static bool core_read_section(const struct core *core, struct error *err, uint64_t *ret)
{
	const size_t size = core->layout->shdr_size;
	union shdr shdr = {0};
	if (!file_read(&core->image->file, core->header.e_shoff, &shdr, size, err) ||
		!core_convert(core, ELF_T_SHDR, &shdr, size, err))
		return false;
	const bool wide = core->image->info.elf_class == 64;
	*ret = WIDEN(shdr, sh_info);
	return true;
}

// What the first program header, that of the notes, points at is where a kernel's headers end.
static bool core_guess_count(const struct core *core, struct error *err, uint64_t *ret)
{
	const uint64_t begin = core->header.e_phoff;
	uint64_t extent;
	*ret = UINT64_MAX;
	if (!file_extent(&core->image->file, begin + core->layout->phdr_size, err, &extent))
		return false;
	if (extent < begin + core->layout->phdr_size)
		return true;
	Elf64_Phdr first;
	if (!core_read_phdrs(core, 0, 1, &first, err))
		return false;
	if (first.p_offset > begin)
		*ret = (first.p_offset - begin) / core->layout->phdr_size;
	return true;
}

// The number of program headers when there are 65,535 or more: sh_info of section 0. A kernel core
// has that at its end, where a cut takes it first, and where a stream cannot look without being
// read to its end. UINT64_MAX: cannot be known.
static bool core_count_extended(const struct core *core, struct error *err, uint64_t *ret)
{
	const struct file *file = &core->image->file;
	const uint64_t begin = core->header.e_shoff;
	const bool exists =
		begin != 0 && begin < file->size && file->size - begin >= core->layout->shdr_size;
	const uint64_t end = exists ? begin + core->layout->shdr_size : 0;
	if (exists && (!file->in_order || end <= stream_head(file->stream)))
		return core_read_section(core, err, ret);
	if (!core_guess_count(core, err, ret))
		return false;
	if (!exists || (*ret >= PN_XNUM && *ret != UINT64_MAX))
		return true;
	uint64_t extent;
	if (!file_extent(file, end, err, &extent))
		return false;
	return extent < end || core_read_section(core, err, ret);
}

// Find out how many program headers the file should have, and how many of them it has.
static bool core_count_phdrs(const struct core *core, struct error *err, uint64_t *ret)
{
	struct image *image = core->image;
	const uint64_t begin = core->header.e_phoff;
	uint64_t count = core->header.e_phnum;
	*ret = 0;
	if (count == 0)
		return true;
	if (core->header.e_phentsize != core->layout->phdr_size)
		return error_set(err,
			"%s: its ELF header is damaged: program headers of %u bytes where %zu are "
			"right; --raw counts the file as plain bytes",
			image->file.path, core->header.e_phentsize, core->layout->phdr_size);
	if (begin > image->file.size) {
		image->info.headers_missing = count == PN_XNUM ? UINT64_MAX : count;
		return true;
	}
	if (count == PN_XNUM && !core_count_extended(core, err, &count))
		return false;
	uint64_t size, extent;
	if (__builtin_mul_overflow(count, core->layout->phdr_size, &size))
		size = UINT64_MAX;
	if (!file_extent(&image->file, min_u64(add_saturated(begin, size), FILE_SIZE_UNKNOWN), err,
		    &extent))
		return false;
	const uint64_t whole = extent > begin ? (extent - begin) / core->layout->phdr_size : 0;
	*ret = min_u64(count, whole);
	if (*ret > HEADERS_MAX)
		return error_set(err,
			"%s: more than %" PRIu64 " program headers: damaged, or no dump of a "
			"process; --raw counts the file as plain bytes",
			image->file.path, HEADERS_MAX);
	image->info.headers_missing = count == UINT64_MAX ? UINT64_MAX : count - *ret;
	return true;
}

static bool core_add_segment(
	struct core *core, const Elf64_Phdr *phdr, size_t *capacity, struct error *err)
{
	struct image_info *info = &core->image->info;
	if (info->segment_count == *capacity) {
		*capacity = *capacity == 0 ? 64 : 2 * *capacity;
		void *grown = realloc(info->segments, *capacity * sizeof *info->segments);
		if (grown == NULL)
			return error_memory(err);
		info->segments = grown;
	}
	// What is left of the address space at p_vaddr; all 2^64 bytes cannot be said.
	const uint64_t room = phdr->p_vaddr == 0 ? UINT64_MAX : -phdr->p_vaddr;
	core->beyond += phdr->p_filesz > room;
	const uint64_t saved = min_u64(phdr->p_filesz, room);
	const uint64_t file_size = core->image->file.size;
	info->segments[info->segment_count++] = (struct image_segment){
		.address = phdr->p_vaddr,
		.size = min_u64(max_u64(phdr->p_memsz, saved), room),
		.saved = saved,
		.present =
			phdr->p_offset < file_size ? min_u64(saved, file_size - phdr->p_offset) : 0,
		.offset = phdr->p_offset,
		.flags = phdr->p_flags,
	};
	return true;
}

static bool core_add_notes(struct core *core, const Elf64_Phdr *phdr, struct error *err)
{
	const struct file *file = &core->image->file;
	struct error reason;
	uint64_t end;
	if (phdr->p_offset >= file->size)
		return true;
	const uint64_t size = min_u64(phdr->p_filesz, file->size - phdr->p_offset);
	if (file_extent(file, phdr->p_offset + size, &reason, &end) &&
		(phdr->p_offset >= end ||
			notes_load(core->image, phdr->p_offset, end - phdr->p_offset, &reason)))
		return true;
	if (!file->in_order) {
		*err = reason;
		return false;
	}
	// A stream that cannot come back: memory can be counted without notes.
	diag_warn(core->diag, "%s (its notes: without them there are no names)", reason.text);
	return true;
}

static bool core_read_segments(struct core *core, uint64_t count, struct error *err)
{
	size_t capacity = 0;
	for (uint64_t index = 0; index < count;) {
		Elf64_Phdr phdrs[BATCH];
		const size_t batch = (size_t)min_u64(BATCH, count - index);
		if (!core_read_phdrs(core, index, batch, phdrs, err))
			return false;
		for (size_t i = 0; i < batch; i++) {
			if (phdrs[i].p_type == PT_LOAD &&
				!core_add_segment(core, &phdrs[i], &capacity, err))
				return false;
			if (phdrs[i].p_type == PT_NOTE && !core_add_notes(core, &phdrs[i], err))
				return false;
		}
		index += batch;
	}
	return true;
}

static int segment_compare(const void *left, const void *right)
{
	const struct image_segment *a = left, *b = right;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static bool core_check_ident(struct core *core, const unsigned char *ident, struct error *err)
{
	struct image_info *info = &core->image->info;
	if ((ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64) ||
		(ident[EI_DATA] != ELFDATA2LSB && ident[EI_DATA] != ELFDATA2MSB))
		return error_set(err,
			"%s: its ELF header is damaged: class %u, byte order %u; --raw counts the "
			"file as plain bytes",
			info->path, ident[EI_CLASS], ident[EI_DATA]);
	if (elf_version(EV_CURRENT) == EV_NONE)
		return error_set(err, "libelf is too old: %s", elf_errmsg(-1));
	core->layout = &layouts[ident[EI_CLASS]];
	core->encoding = ident[EI_DATA];
	info->elf_class = ident[EI_CLASS] == ELFCLASS64 ? 64 : 32;
	info->elf_order = ident[EI_DATA] == ELFDATA2MSB ? ORDER_BIG : ORDER_LITTLE;
	info->os_abi = ident[EI_OSABI];
	return true;
}

void core_sum(struct image *image)
{
	struct image_info *info = &image->info;
	info->bytes_saved = info->bytes_present = info->bytes_not_saved = 0;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		info->bytes_saved = add_saturated(info->bytes_saved, segment->saved);
		info->bytes_present = add_saturated(info->bytes_present, segment->present);
		info->bytes_not_saved =
			add_saturated(info->bytes_not_saved, segment->size - segment->saved);
	}
}

bool core_load(
	struct image *image, const unsigned char *ident, struct diag *diag, struct error *err)
{
	struct core core = {.image = image, .diag = diag};
	struct image_info *info = &image->info;
	uint64_t count;
	if (!core_check_ident(&core, ident, err) || !core_read_header(&core, err) ||
		!core_check_type(&core, err) || !core_count_phdrs(&core, err, &count) ||
		!core_read_segments(&core, count, err))
		return false;
	info->format = IMAGE_ELF_CORE;
	core_sum(image);
	if (core.beyond > 0)
		diag_warn(diag,
			"%s: %zu segments go past the end of the address space: damaged; what is "
			"beyond is left out",
			info->path, core.beyond);
	// Of a stream this is only what the headers say.
	if (info->bytes_present == UINT64_MAX && !image->file.in_order)
		return error_set(err, "%s: damaged: its segments hold more than 2^64 bytes in all",
			info->path);
	if (info->segment_count > 0)
		qsort(info->segments, info->segment_count, sizeof *info->segments, segment_compare);
	return true;
}
