// SPDX-License-Identifier: MIT
//
// Composes a recording as topleak-record writes it, of a process that never was, with call stacks
// in this very program: what is in it is known.
//
//   test-stacks KIND [SEED] >FILE
//
// KIND: full, sample, log, events (log without most blocks, small), growth, later (full, with more in use), cut (with links that lead
// nowhere). SEED: replaces some bytes at random.
#include <elf.h>
#include <link.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../record/format.h"

#define SELF UINT64_C(0x7f0000100000)
#define MEAN 65536
#define SNAPSHOTS 8

// What is in the file, one behind the other.
struct file {
	unsigned char *bytes;
	size_t size;
	struct record_header *header;
};

static size_t file_add(struct file *file, const void *bytes, size_t size)
{
	const size_t at = (file->size + 7) & ~(size_t)7;
	file->bytes = realloc(file->bytes, at + size);
	if (file->bytes == NULL)
		abort();
	memset(file->bytes + file->size, 0, at - file->size);
	memcpy(file->bytes + at, bytes, size);
	file->size = at + size;
	file->header = (struct record_header *)file->bytes;
	return at;
}

static void section_add(
	struct file *file, uint32_t kind, const void *entries, size_t entry, size_t count)
{
	const size_t at = file_add(file, entries, entry * count);
	file->header->sections[file->header->section_count++] =
		(struct record_section){kind, (uint32_t)entry, at, count, count};
}

// ---- functions to be named

static __attribute__((noinline, used)) int leaf_small(int a)
{
	__asm__ volatile("nop; nop; nop; nop" ::: "memory");
	return a + 1;
}

static __attribute__((noinline, used)) int leaf_large(int a)
{
	__asm__ volatile("nop; nop; nop; nop" ::: "memory");
	return a + 2;
}

static __attribute__((noinline, used)) int middle(int a)
{
	__asm__ volatile("nop; nop; nop; nop" ::: "memory");
	return a + 3;
}

static __attribute__((noinline, used)) int outer(int a)
{
	__asm__ volatile("nop; nop; nop; nop" ::: "memory");
	return a + 4;
}

static uint64_t place(int (*function)(int))
{
	return (uint64_t)(uintptr_t)function + 2;
}

// ---- the module: this program

struct self {
	struct record_module module;
	char path[4096];
};

static int self_find(struct dl_phdr_info *info, size_t size, void *context)
{
	struct self *self = context;
	(void)size;
	self->module.bias = info->dlpi_addr;
	self->module.start = UINT64_MAX;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const uint64_t start = info->dlpi_addr + segment->p_vaddr;
		if (segment->p_type == PT_LOAD) {
			if (start < self->module.start)
				self->module.start = start & ~UINT64_C(4095);
			if (start + segment->p_memsz > self->module.end)
				self->module.end = (start + segment->p_memsz + 4095) & ~UINT64_C(4095);
		}
		const char *note = (const char *)(uintptr_t)start;
		for (size_t at = 0; segment->p_type == PT_NOTE && at + 12 <= segment->p_memsz;) {
			ElfW(Nhdr) header;
			memcpy(&header, note + at, sizeof header);
			const char *id = note + at + 12 + ((header.n_namesz + 3) & ~3U);
			if (header.n_type == NT_GNU_BUILD_ID && header.n_descsz <= 32) {
				self->module.id_size = header.n_descsz;
				memcpy(self->module.id, id, header.n_descsz);
			}
			at = (size_t)(id - note) + ((header.n_descsz + 3) & ~3U);
		}
	}
	return 1; // the first one is the program
}

static void modules_add(struct file *file)
{
	struct self self = {.module = {.main = 1, .path = 1}};
	dl_iterate_phdr(self_find, &self);
	FILE *link = popen("readlink -f /proc/$PPID/exe", "r");
	self.path[0] = '\0';
	if (link == NULL || fgets(self.path + 1, sizeof self.path - 1, link) == NULL)
		abort();
	pclose(link);
	self.path[1 + strcspn(self.path + 1, "\n")] = '\0';
	// One more, that was closed before the end.
	struct record_module list[2] = {self.module,
		{.start = 0x10000000, .end = 0x10001000, .bias = 0x10000000, .closed = 5}};
	const size_t length = strlen(self.path + 1) + 2;
	memcpy(self.path + length, "/lib/closed.so", 15);
	list[1].path = length;
	section_add(file, RECORD_MODULES, list, sizeof *list, 2);
	section_add(file, RECORD_STRINGS, self.path, 1, length + 15);
}

// ---- stacks

// 1: leaf_small < middle < outer; 2: leaf_large < outer; 3: leaf_small < outer; 4: a closed library
static void stacks_add(struct file *file, bool sampled, uint64_t more)
{
	const struct record_node nodes[] = {{0}, {place(outer), 0, 0}, {place(middle), 1, 0},
		{place(leaf_small), 2, 0}, {place(leaf_large), 1, 0}, {place(leaf_small), 1, 0},
		{0x10000124, 1, 0}};
	struct record_stack stacks[] = {{0},
		{.node = 3, .hash = 1, .blocks = 10, .bytes = 1000, .freed_blocks = 4,
			.freed_bytes = 400, .largest = 100, .peak_bytes = 700, .peak_blocks = 7,
			.peak_number = 9, .first = 1000000, .last = 900000000},
		{.node = 4, .hash = 2, .blocks = 3, .bytes = 3 << 20, .freed_blocks = 1,
			.freed_bytes = 1 << 20, .temporary = 1, .largest = 1 << 20,
			.peak_number = 8, .first = 2000000, .last = 800000000},
		{.node = 5, .hash = 3, .blocks = 100, .bytes = 1600, .freed_blocks = 100,
			.freed_bytes = 1600, .temporary = 90, .largest = 16, .peak_bytes = 160,
			.peak_blocks = 10, .peak_number = 9},
		{.node = 6, .hash = 4, .blocks = 1, .bytes = 50, .largest = 50,
			.flags = RECORD_STACK_FULL}};
	struct record_block blocks[8 + 64] = {{0x7e0000000000, 1 << 20, 2, 100},
		{0}, {0x7e0000200000, 1 << 20, 2, 600}, {0x7e0000400000, 50, 4, 0}};
	size_t count = 4;
	for (uint64_t i = 0; i < more; i++)
		blocks[count++] = (struct record_block){0x7d0000000000 + i * 4096, 100, 1, 700};
	// Blocks of which one in many was sampled.
	for (uint64_t i = 0; sampled && i < 60; i++)
		blocks[count++] = (struct record_block){0x7c0000000000 + i * 4096, 1024, 1, 500};
	section_add(file, RECORD_NODES, nodes, sizeof *nodes, 7);
	section_add(file, RECORD_STACKS, stacks, sizeof *stacks, 5);
	section_add(file, RECORD_BLOCKS, blocks, sizeof *blocks, count);
}

// Eight blocks of 100 bytes of stack 1, of which a thread still holds back two.
static void shadow_add(struct file *file)
{
	const struct record_granule granules[] = {{0}, {0x12345, 1}};
	struct record_slot *slots = calloc(RECORD_SLOTS, sizeof *slots);
	struct record_thread *thread = calloc(1, sizeof *thread);
	if (slots == NULL || thread == NULL)
		abort();
	for (unsigned i = 0; i < 8; i++)
		slots[7 * i] = (struct record_slot){1, 100, 3};
	thread->id = thread->used = 1;
	thread->changes[3] =
		(struct record_change){.stack = 1, .blocks = 2, .bytes = 200, .peak_number = 9};
	section_add(file, RECORD_DIRECTORY, granules, sizeof *granules, 2);
	section_add(file, RECORD_SHADOW, slots, sizeof *slots, RECORD_SLOTS);
	section_add(file, RECORD_THREADS, thread, sizeof *thread, 1);
	free(slots);
	free(thread);
}

// Stack 1 grows, stack 2 fills up and stays, stack 3 goes up and down.
static void snapshots_add(struct file *file)
{
	struct record_snapshot snapshots[SNAPSHOTS];
	struct record_point points[3 * SNAPSHOTS];
	for (uint64_t i = 0; i < SNAPSHOTS; i++) {
		const uint64_t bytes[3] = {100 * i, i < 3 ? i << 20 : 2 << 20, i % 2 * 5000};
		for (uint32_t k = 0; k < 3; k++)
			points[3 * i + k] =
				(struct record_point){k + 1, 0, bytes[k], bytes[k] / 16};
		snapshots[i] = (struct record_snapshot){
			i * 100000000, bytes[0] + bytes[1] + bytes[2], 9, 0, 3 * i, 3};
	}
	section_add(file, RECORD_SNAPSHOTS, snapshots, sizeof *snapshots, SNAPSHOTS);
	section_add(file, RECORD_POINTS, points, sizeof *points, 3 * SNAPSHOTS);
}

// ---- the log

static unsigned char log_bytes[1 << 16];
static size_t log_size, chunk_start;
static uint64_t log_stack, log_address;

static void log_varint(uint64_t number)
{
	for (; number >= 0x80; number >>= 7)
		log_bytes[log_size++] = (unsigned char)(number | 0x80);
	log_bytes[log_size++] = (unsigned char)number;
}

static uint64_t zigzag(uint64_t to, uint64_t from)
{
	const int64_t difference = (int64_t)(to - from);
	return ((uint64_t)difference << 1) ^ (uint64_t)(difference >> 63);
}

static void log_allocate(uint64_t stack, uint64_t size, uint64_t address)
{
	log_varint(zigzag(stack, log_stack) << 2 | RECORD_ALLOCATE);
	log_varint(size);
	log_varint(zigzag(address / 8, log_address / 8));
	log_stack = stack;
	log_address = address;
}

static void log_free(uint64_t address)
{
	log_varint(zigzag(address / 8, log_address / 8) << 2 | RECORD_FREE);
	log_address = address;
}

static void log_time(uint64_t microseconds)
{
	log_varint(microseconds << 2 | RECORD_TIME);
}

static void log_begin(uint32_t thread, uint64_t number, uint64_t microseconds)
{
	const struct record_chunk chunk = {
		RECORD_CHUNK_MAGIC, thread, 0, 0, number, microseconds * 1000};
	chunk_start = log_size;
	memcpy(log_bytes + log_size, &chunk, sizeof chunk);
	log_size += sizeof chunk;
	log_stack = log_address = 0;
}

static void log_end(void)
{
	const uint32_t size = (uint32_t)(log_size - chunk_start - sizeof(struct record_chunk));
	memcpy(log_bytes + chunk_start + offsetof(struct record_chunk, bytes), &size, sizeof size);
}

// Thread 2 frees what thread 1 allocated; its chunk comes first in the file.
static void log_add(struct file *file)
{
	log_begin(2, 1, 5000);
	log_free(0x1000);
	log_time(1000000);
	log_free(0x3000);
	log_end();
	log_begin(1, 0, 0);
	log_allocate(1, 100, 0x1000);
	log_allocate(1, 200, 0x2000);
	log_allocate(2, 1000, 0x3000); // the peak: 1300
	log_time(6000);
	log_varint(zigzag(0x4000 / 8, 0x3000 / 8) << 2 | RECORD_REPEAT); // 1000 more
	log_address = 0x4000;
	log_free(0x4000); // temporary
	log_free(0x2000);
	log_time(500000);
	log_allocate(1, 50, 0x2000);
	log_end();
	section_add(file, RECORD_LOG, log_bytes, 1, log_size);
}

// ---- the whole

static void bytes_replace(struct file *file, unsigned seed)
{
	srand(seed);
	for (int i = 0; i < 8; i++) {
		// Mostly not in the shadow, which is large and dull.
		const size_t room = i % 2 == 0 ? sizeof *file->header : file->size;
		file->bytes[16 + (size_t)rand() % (room - 16)] = (unsigned char)rand();
	}
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "full";
	const bool sampled = strcmp(kind, "sample") == 0, later = strcmp(kind, "later") == 0;
	struct record_header header = {
		.magic = RECORD_MAGIC,
		.version = RECORD_VERSION,
		.header_size = sizeof header,
		.self = SELF,
		.mode = sampled ? RECORD_SAMPLE : RECORD_FULL,
		.pid = 4711,
		.machine = EM_X86_64,
		.sample_mean = sampled ? MEAN : 0,
		.start_realtime = UINT64_C(1700000000000000000) + (later ? 60000000000 : 0),
		.now = 1000000000,
		.peak_bytes = 3000,
		.peak_time = 500000000,
		.peak_number = 9,
	};
	struct file file = {0};
	file_add(&file, &header, sizeof header);
	modules_add(&file);
	stacks_add(&file, sampled, later ? 5 : 0);
	const bool events = strcmp(kind, "events") == 0;
	if (!sampled && !events)
		shadow_add(&file);
	if (strcmp(kind, "growth") == 0)
		snapshots_add(&file);
	if (events || strcmp(kind, "log") == 0)
		log_add(&file);
	file.header->size = file.size;
	if (strcmp(kind, "cut") == 0) {
		file.header->sections[2].used = UINT64_MAX;
		file.header->sections[3].offset = UINT64_MAX - 8;
	}
	if (argc > 2)
		bytes_replace(&file, (unsigned)strtoul(argv[2], NULL, 0));
	fwrite(file.bytes, 1, file.size, stdout);
	free(file.bytes);
	return fflush(stdout) != 0;
}
