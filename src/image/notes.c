// SPDX-License-Identifier: MIT
//
// The notes of a core: who the process was, what ended it, its threads and mapped files.
//   Linux    "CORE": include/uapi/linux/elfcore.h, include/linux/elfcore-compat.h, fs/binfmt_elf.c
//   FreeBSD  "FreeBSD": sys/sys/procfs.h
//   NetBSD   "NetBSD-CORE": sys/sys/exec_elf.h
//   OpenBSD  "OpenBSD": sys/sys/exec_elf.h, sys/sys/core.h
#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "image/internal.h"
#include "image/registers.h"

// A hostile file could hold billions of empty notes, and a million segments of the same notes. All
// together may cost this much: one for each note, and one for each kilobyte. Ten notes for each of
// 4,194,304 threads, the most that Linux can have (PID_MAX_LIMIT), would be more, but no tool of
// any kind reads those.
#define NOTES_COST_MAX 4000000
// Linux limits NT_FILE to 4 MiB, and since 6.12 to 16 MiB (core_file_note_size_limit).
#define NOTE_SIZE_MAX ((size_t)16 << 20)

// One note, as it is looked at.
struct note {
	const char *name; // of the owner, without what follows a "@"
	uint32_t type;
	const unsigned char *data;
	size_t size;
	uint64_t offset; // of the data in the file
	int64_t thread;	 // behind a "@" in the name; 0: none
};

// The notes of a segment, read through a window.
struct notes {
	struct image *image;
	uint64_t at, end; // offsets in the file
	unsigned char *data;
	size_t capacity;
	size_t thread_capacity, registers_capacity;
};

static uint64_t note_word(const struct notes *notes, const struct note *note, size_t index)
{
	const unsigned size = notes->image->info.elf_class / 8;
	return word_load(note->data + index * size, size, notes->image->info.elf_order);
}

static uint32_t note_u32(const struct notes *notes, const struct note *note, size_t offset)
{
	return load_u32(note->data + offset, notes->image->info.elf_order);
}

// Copy a text that may lack its NUL.
static void note_text(
	const struct note *note, size_t offset, size_t size, char *ret, size_t ret_size)
{
	const size_t length = strnlen((const char *)note->data + offset, size);
	const size_t copied = length < ret_size ? length : ret_size - 1;
	memcpy(ret, note->data + offset, copied);
	ret[copied] = '\0';
	// Linux puts a space behind each argument.
	for (size_t end = copied; end > 0 && ret[end - 1] == ' '; end--)
		ret[end - 1] = '\0';
}

static bool notes_add_thread(
	struct notes *notes, int64_t id, uint64_t stack_pointer, struct error *err)
{
	struct image_process *process = &notes->image->info.process;
	if (process->thread_count == notes->thread_capacity) {
		notes->thread_capacity =
			process->thread_count == 0 ? 16 : 2 * process->thread_count;
		void *grown = realloc(
			process->threads, notes->thread_capacity * sizeof *process->threads);
		if (grown == NULL)
			return error_memory(err);
		process->threads = grown;
	}
	process->threads[process->thread_count++] = (struct image_thread){id, stack_pointer};
	return true;
}

// The rest of a note, from offset on, are registers of the thread that was added last.
static bool notes_add_registers(
	struct notes *notes, const struct note *note, size_t offset, struct error *err)
{
	struct image_process *process = &notes->image->info.process;
	if (process->thread_count == 0 || note->size <= offset)
		return true;
	if (process->registers_count == notes->registers_capacity) {
		notes->registers_capacity = 2 * process->registers_count + 16;
		void *grown = realloc(
			process->registers, notes->registers_capacity * sizeof *process->registers);
		if (grown == NULL)
			return error_memory(err);
		process->registers = grown;
	}
	process->registers[process->registers_count++] = (struct image_registers){
		.thread = (uint32_t)(process->thread_count - 1),
		.size = (uint32_t)(note->size - offset),
		.offset = note->offset + offset,
	};
	return true;
}

// struct elf_prstatus: pr_cursig is a short at 12; after it the two signal masks of a word, the
// four ids of an int, the four times of two words, the registers.
static bool note_prstatus(struct notes *notes, const struct note *note, struct error *err)
{
	struct image_process *process = &notes->image->info.process;
	const bool wide = notes->image->info.elf_class == 64;
	const size_t id = wide ? 32 : 24, registers = wide ? 112 : 72;
	if (note->size < registers)
		return true;
	if (process->thread_count == 0)
		process->signal = load_u16(note->data + 12, notes->image->info.elf_order);
	if (process->pid < 0)
		process->pid = (int32_t)note_u32(notes, note, id);
	return notes_add_thread(notes, (int32_t)note_u32(notes, note, id),
		       registers_stack_pointer(
			       &notes->image->info, note->data + registers, note->size - registers),
		       err) &&
	       notes_add_registers(notes, note, registers, err);
}

// struct elf_prpsinfo: four chars, flags of a word, uid and gid, four ids of an int, the name of 16
// bytes, the arguments of 80. With 32 bits uid and gid are 16 or 32 bits wide; the size tells.
static void note_prpsinfo(struct notes *notes, const struct note *note)
{
	struct image_process *process = &notes->image->info.process;
	const size_t name = note->size - 96;
	if (note->size != 136 && note->size != 128 && note->size != 124)
		return;
	process->pid = (int32_t)note_u32(notes, note, name - 16);
	note_text(note, name, 16, process->command, sizeof process->command);
	note_text(note, name + 16, 80, process->arguments, sizeof process->arguments);
}

static int mapping_compare(const void *left, const void *right)
{
	const struct image_mapping *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

// NT_FILE: count and page size; start, end, offset in pages for each; then their paths.
static bool note_file(struct notes *notes, const struct note *note, struct error *err)
{
	struct image *image = notes->image;
	struct image_process *process = &image->info.process;
	const size_t word = image->info.elf_class / 8;
	if (process->mappings != NULL || note->size < 2 * word)
		return true;
	const uint64_t count = note_word(notes, note, 0), page = note_word(notes, note, 1);
	if (count == 0 || count > (note->size - 2 * word) / (3 * word))
		return true;
	const size_t texts = (2 + 3 * (size_t)count) * word, size = note->size - texts;
	process->mappings = calloc((size_t)count, sizeof *process->mappings);
	image->strings = malloc(size + 1);
	if (process->mappings == NULL || image->strings == NULL)
		return error_memory(err);
	memcpy(image->strings, note->data + texts, size);
	image->strings[size] = '\0';
	const char *path = image->strings, *end = image->strings + size;
	for (size_t i = 0; i < count && path < end; i++, path += strlen(path) + 1) {
		const struct image_mapping mapping = {
			.start = note_word(notes, note, 2 + 3 * i),
			.end = note_word(notes, note, 3 + 3 * i),
			.offset = note_word(notes, note, 4 + 3 * i),
			.path = path,
		};
		uint64_t offset;
		if (mapping.start >= mapping.end ||
			__builtin_mul_overflow(mapping.offset, page, &offset))
			continue;
		process->mappings[process->mapping_count] = mapping;
		process->mappings[process->mapping_count++].offset = offset;
	}
	qsort(process->mappings, process->mapping_count, sizeof *process->mappings,
		mapping_compare);
	return true;
}

static bool note_auxv(struct notes *notes, const struct note *note, struct error *err)
{
	struct image *image = notes->image;
	if (image->auxv != NULL || note->size == 0)
		return true;
	image->auxv = malloc(note->size);
	if (image->auxv == NULL)
		return error_memory(err);
	memcpy(image->auxv, note->data, note->size);
	image->info.process.auxv = image->auxv;
	image->info.process.auxv_size = note->size;
	return true;
}

static bool note_linux(struct notes *notes, const struct note *note, struct error *err)
{
	switch (note->type) {
	case NT_PRSTATUS:
		return note_prstatus(notes, note, err);
	case NT_PRPSINFO:
		note_prpsinfo(notes, note);
		return true;
	case NT_FILE:
		return note_file(notes, note, err);
	case NT_AUXV:
		return note_auxv(notes, note, err);
	case NT_FPREGSET:
		return notes_add_registers(notes, note, 0, err);
	default:
		return true;
	}
}

// Of the owner "LINUX": further registers, in which compilers keep pairs of pointers, too.
static bool note_linux_more(struct notes *notes, const struct note *note, struct error *err)
{
	switch (note->type) {
	case NT_X86_XSTATE:
	case NT_PRXFPREG:
	case NT_PPC_VMX:
	case NT_PPC_VSX:
	case NT_S390_HIGH_GPRS:
	case NT_S390_VXRS_LOW:
	case NT_S390_VXRS_HIGH:
	case NT_ARM_VFP:
	case NT_ARM_SVE:
		return notes_add_registers(notes, note, 0, err);
	default:
		return true;
	}
}

// struct prpsinfo and struct prstatus: an int version, then sizes of a word. The name has 17 bytes,
// the arguments 81; pr_cursig, pr_pid and the registers follow three sizes and pr_osreldate.
static bool note_freebsd(struct notes *notes, const struct note *note, struct error *err)
{
	struct image_process *process = &notes->image->info.process;
	const size_t word = notes->image->info.elf_class / 8;
	const size_t name = 2 * word, signal = 4 * word + 4;
	if (note->type == NT_PRPSINFO && note->size >= name + 98) {
		note_text(note, name, 17, process->command, sizeof process->command);
		note_text(note, name + 17, 81, process->arguments, sizeof process->arguments);
		if (note->size >= name + 104)
			process->pid = (int32_t)note_u32(notes, note, name + 100);
	}
	if (note->type != NT_PRSTATUS || note->size < signal + 8)
		return true;
	if (process->thread_count == 0)
		process->signal = (int)note_u32(notes, note, signal);
	// pr_pid is the thread's id. amd64: struct reg, r_rsp is the 21st.
	const bool amd64 = notes->image->info.machine == EM_X86_64 && word == 8;
	const size_t stack = signal + 12 + 20 * word;
	return notes_add_thread(notes, (int32_t)note_u32(notes, note, signal + 4),
		       amd64 && note->size >= stack + word ? note_word(notes, note, stack / word)
							   : 0,
		       err) &&
	       notes_add_registers(notes, note, signal + 12, err);
}

// Where the stack pointer is among the general registers of a thread of NetBSD and OpenBSD.
// Sources: struct reg in sys/arch/*/include/reg.h of both; the note's type on NetBSD is that of
// PT_GETREGS, sys/arch/*/include/ptrace.h, on OpenBSD NT_OPENBSD_REGS.
struct bsd_registers {
	bool netbsd;
	uint16_t machine;
	uint8_t elf_class;
	uint32_t type;
	unsigned index; // words before it
	unsigned bias;	// what is to be added
};

static const struct bsd_registers bsd_registers[] = {
	{true, EM_X86_64, 64, 33, 24, 0},
	{true, EM_386, 32, 33, 4, 0},
	{true, EM_AARCH64, 64, 32, 31, 0},
	{true, EM_ARM, 32, 33, 13, 0},
	{true, EM_SPARCV9, 64, 32, 18, 2047},
	{true, EM_ALPHA, 64, 32, 30, 0},
	{false, EM_X86_64, 64, 20, 15, 0},
	{false, EM_AARCH64, 64, 20, 31, 0},
	{false, EM_SPARCV9, 64, 20, 18, 2047},
};

static bool note_bsd_registers(
	struct notes *notes, const struct note *note, bool netbsd, struct error *err)
{
	const struct image_info *info = &notes->image->info;
	const size_t word = info->elf_class / 8;
	for (size_t i = 0; i < sizeof bsd_registers / sizeof *bsd_registers; i++) {
		const struct bsd_registers *of = &bsd_registers[i];
		if (of->netbsd != netbsd || of->machine != info->machine ||
			of->elf_class != info->elf_class || of->type != note->type ||
			note->size < (of->index + 1) * word)
			continue;
		return notes_add_thread(notes, note->thread,
			       note_word(notes, note, of->index) + of->bias, err) &&
		       notes_add_registers(notes, note, 0, err);
	}
	// Of other processors it is known that there is a thread: binutils, bfd/elf.c,
	// elfcore_grok_netbsd_note, elfcore_grok_openbsd_note.
	const bool first = info->machine == EM_SPARC || info->machine == EM_PARISC;
	if (note->type == (netbsd ? (first ? 32U : 33U) : 20U) && note->size >= word)
		return notes_add_thread(notes, note->thread, 0, err) &&
		       notes_add_registers(notes, note, 0, err);
	return true;
}

// Both have a structure of ints with the signal at 8, the pid and a name of 32 bytes, as note 1 or
// 10, and the auxiliary vector as note 2 or 11. NetBSD's signal sets have four ints, OpenBSD's one.
// What is of a thread has its id behind an "@" in the owner's name.
static bool note_bsd(struct notes *notes, const struct note *note, bool netbsd, struct error *err)
{
	struct image_process *process = &notes->image->info.process;
	const uint32_t base = netbsd ? 1 : 10;
	const size_t pid = netbsd ? 80 : 32, name = netbsd ? 124 : 72;
	if (note->type == base + 1)
		return note_auxv(notes, note, err);
	if (note->type != base)
		return note_bsd_registers(notes, note, netbsd, err);
	if (note->size < name + 32)
		return true;
	process->signal = (int)note_u32(notes, note, 8);
	process->pid = (int32_t)note_u32(notes, note, pid);
	note_text(note, name, 32, process->command, sizeof process->command);
	return true;
}

static bool notes_take(struct notes *notes, const struct note *note, struct error *err)
{
	if (strcmp(note->name, "CORE") == 0)
		return note_linux(notes, note, err);
	if (strcmp(note->name, "LINUX") == 0)
		return note_linux_more(notes, note, err);
	if (strcmp(note->name, "FreeBSD") == 0)
		return note_freebsd(notes, note, err);
	if (strcmp(note->name, "NetBSD-CORE") == 0)
		return note_bsd(notes, note, true, err);
	if (strcmp(note->name, "OpenBSD") == 0)
		return note_bsd(notes, note, false, err);
	// ESP-IDF, components/espcoredump: what is said to be the process is the address of a
	// task's control block.
	if (strncmp(note->name, "ESP_", 4) == 0)
		notes->image->info.process.pid = -1;
	return true;
}

// Make the size bytes at notes->at available as notes->data.
static bool notes_fetch(struct notes *notes, size_t size, struct error *err)
{
	if (size > notes->capacity) {
		void *grown = realloc(notes->data, size);
		if (grown == NULL)
			return error_memory(err);
		notes->data = grown;
		notes->capacity = size;
	}
	return file_read(&notes->image->file, notes->at, notes->data, size, err);
}

// Read one note and step over it. *more becomes false at the end, also where a note is cut.
static bool notes_next(struct notes *notes, bool *more, struct error *err)
{
	const enum byte_order order = notes->image->info.elf_order;
	*more = false;
	if (notes->end - notes->at < sizeof(Elf64_Nhdr))
		return true;
	if (!notes_fetch(notes, sizeof(Elf64_Nhdr), err))
		return false;
	// Elf32_Nhdr and Elf64_Nhdr are alike; names and data are padded to four bytes.
	const uint64_t name_size = load_u32(notes->data, order);
	const uint64_t data_size = load_u32(notes->data + 4, order);
	const uint32_t type = load_u32(notes->data + 8, order);
	const uint64_t name_room = (name_size + 3) & ~UINT64_C(3);
	const uint64_t room = name_room + ((data_size + 3) & ~UINT64_C(3));
	notes->at += sizeof(Elf64_Nhdr);
	notes->image->notes_cost += 1 + room / 1024;
	if (name_room + data_size > notes->end - notes->at)
		return true;
	char name[32] = "";
	if (name_size < 64 && name_room + data_size <= NOTE_SIZE_MAX) {
		if (!notes_fetch(notes, (size_t)(name_room + data_size), err))
			return false;
		for (size_t i = 0; i < name_size && i < sizeof name - 1; i++)
			name[i] = (char)notes->data[i];
		const char *thread = strchr(name, '@');
		const int64_t id = thread != NULL ? strtol(thread + 1, NULL, 10) : 0;
		name[strcspn(name, "@")] = '\0';
		const struct note note = {name, type, notes->data + name_room, (size_t)data_size,
			notes->at + name_room, id};
		if (!notes_take(notes, &note, err))
			return false;
	}
	notes->at += min_u64(room, notes->end - notes->at);
	*more = true;
	return true;
}

bool notes_load(struct image *image, uint64_t offset, uint64_t size, struct error *err)
{
	struct notes notes = {
		.image = image,
		.at = offset,
		.end = offset + size,
		.thread_capacity = image->info.process.thread_count,
		.registers_capacity = image->info.process.registers_count,
	};
	bool more = true;
	bool ok = true;
	while (ok && more && image->notes_cost < NOTES_COST_MAX)
		ok = notes_next(&notes, &more, err);
	free(notes.data);
	return ok;
}
