// SPDX-License-Identifier: MIT
#include "image/image.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "image/internal.h"
#include "image/live.h"
#include "image/magic.h"
#include "image/registers.h"
#include "image/sequence.h"
#include "image/stream.h"

static int range_compare(const void *left, const void *right)
{
	const struct range *a = left, *b = right;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

// What is to be scanned: of a core all that the file has of its segments.
static bool image_plan_core(struct image *image, struct error *err)
{
	const struct image_info *info = &image->info;
	image->ranges = calloc(info->segment_count + 1, sizeof *image->ranges);
	if (image->ranges == NULL)
		return error_memory(err);
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		if (segment->present > 0)
			image->ranges[image->range_count++] =
				(struct range){segment->address, segment->offset, segment->present};
	}
	qsort(image->ranges, image->range_count, sizeof *image->ranges, range_compare);
	return true;
}

// Of plain bytes: from the offset on, whose words begin there, up to the limit.
static bool image_plan_raw(
	struct image *image, const struct image_options *options, struct error *err)
{
	struct image_info *info = &image->info;
	image->ranges = calloc(1, sizeof *image->ranges);
	if (image->ranges == NULL)
		return error_memory(err);
	if (options->offset < info->file_size) {
		uint64_t limit;
		if (__builtin_mul_overflow(options->limit, info->word_size, &limit))
			limit = UINT64_MAX;
		image->range_count = 1;
		image->ranges[0] = (struct range){
			.offset = options->offset,
			.size = min_u64(limit, info->file_size - options->offset),
		};
		info->bytes_saved = image->ranges[0].size;
	} else {
		info->bytes_saved = 0;
	}
	info->bytes_present = info->bytes_saved;
	info->bytes_not_saved = 0;
	return true;
}

static void image_choose_words(struct image *image, const struct image_options *options, bool raw)
{
	struct image_info *info = &image->info;
	const bool elf = info->elf_class != 0;
	info->word_size = elf && !raw ? info->elf_class / 8 : 8;
	info->order = elf && !raw ? info->elf_order : ORDER_LITTLE;
	if (options->word_size != 0)
		info->word_size = options->word_size;
	if (options->order_given)
		info->order = options->order;
	info->overridden =
		elf && (info->word_size != info->elf_class / 8 || info->order != info->elf_order);
}

// Whether there is a whole word to count.
static bool image_has_words(const struct image *image)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < image->range_count; i++)
		bytes |= range_words(&image->ranges[i], image->info.word_size).size;
	return bytes > 0;
}

// A copy that broke off can have its full size, and nothing but zeros from somewhere on. What a
// kernel or a debugger writes last, a stack or the vdso, is not zero. So many places are looked at
// before all is.
#define EMPTY_SAMPLES 64
#define EMPTY_BLOCK 4096

static bool file_is_zero(const struct image *image, uint64_t offset, uint64_t size)
{
	static const char zeros[EMPTY_BLOCK];
	char block[EMPTY_BLOCK];
	struct error ignored = {0};
	for (uint64_t end; size > 0; offset = end) {
		if (file_has_data(&image->file, offset, offset + size, &end)) {
			end = offset + min_u64(end - offset, sizeof block);
			if (!file_read(&image->file, offset, block, (size_t)(end - offset),
				    &ignored) ||
				memcmp(block, zeros, (size_t)(end - offset)) != 0)
				return false;
		}
		size -= min_u64(size, end - offset);
	}
	return true;
}

// How much at the end of the file is zeros, in steps of a part of it; 0: less than a quarter.
static uint64_t file_empty(const struct image *image)
{
	const uint64_t size = image->info.file_size, step = size / EMPTY_SAMPLES;
	uint64_t samples = 0;
	if (image->file.in_order || image->info.live || step < EMPTY_BLOCK)
		return 0;
	while (samples < EMPTY_SAMPLES &&
		file_is_zero(image, size - samples * step - EMPTY_BLOCK, EMPTY_BLOCK))
		samples++;
	if (samples < EMPTY_SAMPLES / 4)
		return 0;
	const uint64_t empty = (samples - 1) * step;
	return file_is_zero(image, size - empty, empty) ? empty : 0;
}

static void image_warn_core(const struct image *image, const char *fault, struct diag *diag)
{
	const struct image_info *info = &image->info;
	if (info->headers_missing > 0)
		diag_warn(diag,
			"%s: cut inside its program headers: what memory they tell of is missing; "
			"get the whole file, it had more than %" PRIu64 " bytes",
			info->path, info->file_size);
	else if (info->bytes_present < info->bytes_saved)
		diag_warn(diag,
			"%s: truncated: %s of %s are missing, counts are lower bounds; get the "
			"whole file%s",
			info->path, size_format(info->bytes_saved - info->bytes_present).text,
			size_format(info->bytes_saved).text,
			fault != NULL ? "" : " (was the disk full, or ulimit -c too small?)");
	const uint64_t empty = file_empty(image);
	if (empty > 0)
		diag_warn(diag,
			"%s: the last %s of its %s are empty, nothing but zeros: a copy that broke "
			"off? counts are lower bounds; copy it again",
			info->path, size_format(empty).text, size_format(info->file_size).text);
	if (!image_has_words(image))
		diag_warn(diag, "%s: holds no memory: there is nothing to count", info->path);
}

// Say what is wrong, once all is known.
static void image_warn(const struct image *image, struct diag *diag)
{
	const struct image_info *info = &image->info;
	const char *fault = image->file.stream != NULL ? stream_fault(image->file.stream) : NULL;
	if (fault != NULL)
		diag_warn(diag, "%s: %s", info->path, fault);
	if (info->format == IMAGE_ELF_CORE && !info->raw_elf)
		image_warn_core(image, fault, diag);
	else if (!image_has_words(image))
		diag_warn(diag, "%s: has no whole word at offset %" PRIu64 " to count", info->path,
			image->raw_offset);
}

// Open what the user wants read as plain bytes. If it is a sound core all the same, what it tells
// of the process serves for names.
static bool image_open_raw(struct image *image, const struct image_options *options,
	const unsigned char *head, bool elf, struct diag *diag, struct error *err)
{
	struct error ignored = {0};
	if (elf && core_load(image, head, diag, &ignored)) {
		image->info.raw_elf = true;
		diag_warn(diag,
			"%s: an ELF core, read as plain bytes as asked; without --raw, --offset "
			"and --limit its words are aligned by their addresses",
			image->info.path);
	} else {
		image->info.format = IMAGE_RAW;
		image->info.elf_class = 0;
		image->info.segment_count = 0;
	}
	image_choose_words(image, options, true);
	image->raw_offset = options->offset;
	return image_plan_raw(image, options, err);
}

// A piece of memory is a segment.
static bool image_open_piece(
	struct image *image, const struct image_options *options, struct error *err)
{
	struct image_info *info = &image->info;
	const struct image_memory *piece = options->piece;
	if (image->file.in_order)
		return error_set(err, "%s: is compressed; unpack it first, with: %s", info->path,
			packing_command(stream_packing(image->file.stream)));
	info->segments = calloc(1, sizeof *info->segments);
	if (info->segments == NULL)
		return error_memory(err);
	info->format = IMAGE_MEMORY;
	info->elf_class = 64;
	info->elf_order = ORDER_LITTLE;
	info->machine = piece->machine;
	info->process.pid = piece->pid;
	info->segment_count = 1;
	info->segments[0] = (struct image_segment){
		.address = piece->address,
		.size = min_u64(max_u64(piece->size, 1), 0 - piece->address - 1),
		.flags = PF_R | PF_W,
	};
	info->segments[0].saved = info->segments[0].size;
	info->segments[0].present = min_u64(info->segments[0].size, image->file.size);
	image_choose_words(image, options, false);
	core_sum(image);
	return image_plan_core(image, err);
}

// The executable's name, from the command line; the kernel's own name for it is cut short.
static void image_name_program(struct image_process *process)
{
	const size_t length = strcspn(process->arguments, " ");
	if (length > 0)
		snprintf(process->program, sizeof process->program, "%.*s", (int)length,
			process->arguments);
	else
		snprintf(process->program, sizeof process->program, "%s", process->command);
}

static bool image_open_core(struct image *image, const struct image_options *options,
	const unsigned char *head, struct diag *diag, struct error *err)
{
	if (!core_load(image, head, diag, err))
		return false;
	image_choose_words(image, options, false);
	image_name_program(&image->info.process);
	return image_plan_core(image, err);
}

// The dump is something else.
static bool image_refuse(const struct image *image, const struct magic *magic, struct error *err)
{
	const char *path = image->info.path;
	if (magic->packing != PACKING_NONE)
		return error_set(err,
			"%s: is packed twice: there is %s in its %s data; one level is unpacked, "
			"so use: "
			"%s FILE | topleak -",
			path, magic->name, image->info.packing,
			packing_command(stream_packing(image->file.stream)));
	return error_set(err, "%s: is %s, not a core dump; %s, or count its own bytes with --raw",
		path, magic->name, magic->advice);
}

// Look at the beginning of the file and read it as what it is.
static bool image_load(struct image *image, const struct image_options *options, struct diag *diag,
	struct error *err)
{
	unsigned char head[MAGIC_SIZE] = {0};
	const size_t size = (size_t)min_u64(sizeof head, image->file.size);
	if (size == 0)
		return error_set(err, "%s: is empty", image->info.path);
	if (options->piece != NULL)
		return image_open_piece(image, options, err);
	if (!file_read(&image->file, 0, head, size, err))
		return false;
	const bool elf = size >= EI_NIDENT && memcmp(head, ELFMAG, SELFMAG) == 0;
	const struct magic *magic = magic_find(head, size);
	// A file on disk would be unpacked already.
	if (magic != NULL && (!options->raw || magic->packing != PACKING_NONE))
		return image_refuse(image, magic, err);
	if (options->raw)
		return image_open_raw(image, options, head, elf, diag, err);
	if (elf)
		return image_open_core(image, options, head, diag, err);
	diag_warn(diag,
		"%s: no ELF core: counted as plain bytes, words of %u bytes, %s; --raw says that "
		"this is meant",
		image->info.path, options->word_size == 4 ? 4 : 8,
		options->order_given && options->order == ORDER_BIG ? "big-endian"
								    : "little-endian");
	return image_open_raw(image, options, head, false, diag, err);
}

static bool image_open_live(struct image *image, const struct image_options *options,
	struct diag *diag, struct error *err)
{
	if (!live_load(image, options->pid, err) ||
		(options->registers && !registers_take(image, diag, err)))
		return false;
	if (image->info.process.program[0] == '\0')
		image_name_program(&image->info.process);
	image_choose_words(image, options, false);
	return image_plan_core(image, err);
}

static bool image_open_file(struct image *image, const char *path,
	const struct image_options *options, struct diag *diag, struct error *err)
{
	struct image_info *info = &image->info;
	const size_t memory = options->memory - (size_t)min_u64(options->memory, SEQUENCE_MEMORY);
	const struct file_options file_options = {
		.memory = options->whole ? memory : memory / 2,
		.stop = options->stop,
	};
	if (!file_open(path, &file_options, err, &image->file))
		return false;
	info->path = image->file.path;
	info->file_size = image->file.size;
	info->piped = image->file.piped;
	if (image->file.stream != NULL) {
		info->packing = packing_name(stream_packing(image->file.stream));
		info->unpack_memory = stream_unpack_memory(image->file.stream);
	}
	if (!image_load(image, options, diag, err))
		return false;
	if (!image->file.in_order) {
		info->memory = image->file.stream != NULL ? (size_t)image->file.size : 0;
		image_warn(image, diag);
		return true;
	}
	info->in_order = true;
	info->once = stream_once(image->file.stream);
	info->memory = options->memory;
	// Of what was to be kept whole nothing else is of use.
	return image_keep(image, options->keep && !options->whole ? options->memory : 0, diag, err);
}

bool image_open(const char *path, const struct image_options *options, struct diag *diag,
	struct error *err, struct image **ret)
{
	struct image *image = calloc(1, sizeof *image);
	if (image == NULL)
		return error_memory(err);
	image->info.process.pid = -1;
	image->stop = options->stop;
	if (options->pid != 0 ? !image_open_live(image, options, diag, err)
			      : !image_open_file(image, path, options, diag, err)) {
		image_close(image);
		return false;
	}
	// What is packed takes less on disk than its data.
	image->info.bytes_data = image->info.bytes_present;
	if (image->file.on_disk != 0 && image->file.stream == NULL)
		image->info.bytes_data = min_u64(image->file.on_disk, image->info.bytes_present);
	*ret = image;
	return true;
}

// The size is known now, or else how far the reading went.
static void image_cut(struct image *image, uint64_t size)
{
	struct image_info *info = &image->info;
	for (size_t i = 0; i < info->segment_count; i++) {
		struct image_segment *segment = &info->segments[i];
		segment->present = segment->offset < size
					   ? min_u64(segment->present, size - segment->offset)
					   : 0;
	}
	for (size_t i = 0; i < image->range_count; i++) {
		struct range *range = &image->ranges[i];
		range->size = range->offset < size ? min_u64(range->size, size - range->offset) : 0;
	}
	if (info->format == IMAGE_ELF_CORE && !info->raw_elf)
		core_sum(image);
	else
		info->bytes_saved = info->bytes_present = image->ranges[0].size;
}

static void image_finish_live(struct image *image, struct diag *diag)
{
	uint64_t bytes;
	const size_t count = live_skipped(&image->file, &bytes);
	if (count == 0)
		return;
	image->info.bytes_present -= min_u64(bytes, image->info.bytes_present);
	diag_warn(diag,
		"%s: %zu mapping%s went away, or could not be read, while the process was read: %s "
		"skipped",
		image->info.path, count, count == 1 ? "" : "s", size_format(bytes).text);
}

bool image_unchanged(const struct image *image, struct error *err)
{
	return !file_changed(&image->file) || error_set(err,
						      "%s: was written to while it was read: what "
						      "was printed may be wrong; run it "
						      "again when the dump is complete",
						      image->info.path);
}

void image_finish(struct image *image, struct diag *diag)
{
	struct image_info *info = &image->info;
	if (info->live)
		image_finish_live(image, diag);
	if (!image->file.in_order)
		return;
	const uint64_t size = stream_size(image->file.stream);
	const bool known = size != FILE_SIZE_UNKNOWN;
	info->file_size = known ? size : stream_seen(image->file.stream);
	if (known)
		image->file.size = size;
	// What was not read because there was no need to is present; plain bytes are read to the
	// end.
	if (known || info->raw_elf || info->format == IMAGE_RAW)
		image_cut(image, info->file_size);
	// An interrupted dump is not a truncated one.
	if (image->stop == NULL || atomic_load(image->stop) == 0)
		image_warn(image, diag);
}

void image_close(struct image *image)
{
	if (image == NULL)
		return;
	file_close(&image->file);
	free(image->info.segments);
	free(image->info.process.threads);
	free(image->info.process.registers);
	free(image->info.process.mappings);
	free(image->ranges);
	free(image->strings);
	free(image->auxv);
	free(image->registers);
	free(image);
}

const struct image_info *image_info(const struct image *image)
{
	return &image->info;
}

// Headers of sections may follow the memory.
#define BEHIND_MEMORY ((uint64_t)1 << 20)

uint64_t image_memory_needed(const struct image *image)
{
	const struct image_info *info = &image->info;
	uint64_t size = info->file_size != FILE_SIZE_UNKNOWN ? info->file_size : 0;
	for (size_t i = 0; i < info->segment_count; i++)
		size = max_u64(
			size, add_saturated(info->segments[i].offset, info->segments[i].present));
	return min_u64(add_saturated(size, BEHIND_MEMORY), UINT64_MAX >> 8) + SEQUENCE_MEMORY;
}

// The number of segments that begin at address or before.
static size_t segments_up_to(const struct image_info *info, uint64_t address)
{
	size_t low = 0, high = info->segment_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (info->segments[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// Segments do not overlap in sound dumps; in others the one that begins last wins, and no more than
// this many are tried.
#define OVERLAPS_MAX 16

static const struct image_segment *segment_find(
	const struct image_info *info, uint64_t address, bool present)
{
	size_t index = segments_up_to(info, address);
	for (size_t tries = 0; index-- > 0 && tries < OVERLAPS_MAX; tries++) {
		const struct image_segment *segment = &info->segments[index];
		if (address - segment->address < (present ? segment->present : segment->size))
			return segment;
	}
	return NULL;
}

const struct image_segment *image_segment_at(const struct image *image, uint64_t address)
{
	return segment_find(&image->info, address, false);
}

// Read from the overlay what the dump left out, but nothing that it was meant to hold.
static size_t image_read_overlay(
	const struct image *image, uint64_t address, void *buffer, size_t size)
{
	const struct image_info *info = &image->info;
	const struct image_segment *segment = segment_find(info, address, false);
	const size_t next = segments_up_to(info, address);
	uint64_t room = UINT64_MAX - address;
	if (image->overlay == NULL)
		return 0;
	if (next < info->segment_count)
		room = info->segments[next].address - address;
	if (segment != NULL) {
		if (address - segment->address < segment->saved || (segment->flags & PF_W) != 0)
			return 0;
		room = min_u64(room, segment->size - (address - segment->address));
	}
	return overlay_read(image->overlay, address, buffer, (size_t)min_u64(size, room));
}

size_t image_read(const struct image *image, uint64_t address, void *buffer, size_t size)
{
	size_t done = 0;
	while (done < size) {
		const uint64_t at = address + done;
		const struct image_segment *segment = segment_find(&image->info, at, true);
		size_t piece;
		if (segment == NULL) {
			piece = image_read_overlay(image, at, (char *)buffer + done, size - done);
			if (piece == 0)
				break;
		} else {
			const uint64_t skipped = at - segment->address;
			struct error ignored = {0};
			piece = (size_t)min_u64(size - done, segment->present - skipped);
			if (!file_read(&image->file, segment->offset + skipped,
				    (char *)buffer + done, piece, &ignored))
				break;
		}
		done += piece;
	}
	return done;
}

uint64_t image_next(const struct image *image, uint64_t address)
{
	const struct image_info *info = &image->info;
	const struct image_segment *segment = segment_find(info, address, true);
	unsigned char byte;
	if (segment != NULL) {
		const uint64_t offset = segment->offset + (address - segment->address);
		uint64_t end;
		return file_has_data(&image->file, offset, segment->offset + segment->present, &end)
			       ? address
			       : address + (end - offset);
	}
	if (image_read_overlay(image, address, &byte, 1) > 0)
		return address;
	// What the overlay has may begin, or no longer be hidden, at one of these.
	uint64_t next = image->overlay != NULL ? overlay_next(image->overlay, address) : UINT64_MAX;
	const size_t following = segments_up_to(info, address);
	if (following < info->segment_count)
		next = min_u64(next, info->segments[following].address);
	segment = segment_find(info, address, false);
	if (segment != NULL) {
		const uint64_t inside = address - segment->address;
		const uint64_t end = inside < segment->saved ? segment->saved : segment->size;
		next = min_u64(next, address + min_u64(end - inside, UINT64_MAX - address));
	}
	return next;
}

size_t image_read_registers(const struct image *image, size_t index, void *buffer, size_t size)
{
	const struct image_registers *registers = &image->info.process.registers[index];
	struct error ignored = {0};
	if (size > registers->size)
		size = registers->size;
	if (image->registers != NULL) {
		memcpy(buffer, image->registers + registers->offset, size);
		return size;
	}
	return file_read(&image->file, registers->offset, buffer, size, &ignored) ? size : 0;
}

bool image_has_data(const struct image *image, uint64_t address, uint64_t limit, uint64_t *ret)
{
	const struct image_segment *segment = segment_find(&image->info, address, true);
	*ret = limit;
	if (segment == NULL)
		return true;
	const uint64_t skipped = address - segment->address;
	const uint64_t size = min_u64(limit - address, segment->present - skipped);
	const uint64_t offset = segment->offset + skipped;
	const bool data = file_has_data(&image->file, offset, offset + size, ret);
	*ret = address + (*ret - offset);
	return data;
}

void image_set_overlay(struct image *image, const struct overlay *overlay)
{
	image->overlay = overlay;
}

bool image_read_word(const struct image *image, uint64_t address, uint64_t *ret)
{
	unsigned char bytes[8];
	const unsigned size = image->info.elf_class / 8;
	if (size == 0 || image_read(image, address, bytes, size) != size)
		return false;
	*ret = word_load(bytes, size, image->info.elf_order);
	return true;
}
