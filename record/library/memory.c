// SPDX-License-Identifier: MIT
#include "memory.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lock.h"
#include "log.h"
#include "settings.h"
#include "threads.h"

#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1U
#endif

struct record_header *header;

// What there can be of each; where address space is limited, a quarter of it, and so on.
static const struct {
	enum record_kind kind;
	uint32_t entry;
	uint64_t capacity;
} plan[] = {
	{RECORD_STACKS, sizeof(struct record_stack), 1U << 22},
	{RECORD_NODES, sizeof(struct record_node), 1U << 24},
	{RECORD_BLOCKS, sizeof(struct record_block), 1U << 23},
	{RECORD_DIRECTORY, sizeof(struct record_granule), 1U << 19},
	{RECORD_SHADOW, sizeof(struct record_slot), (1ULL << 17) * RECORD_SLOTS},
	{RECORD_THREADS, sizeof(struct thread), 1U << 13},
	{RECORD_MODULES, sizeof(struct record_module), 1U << 13},
	{RECORD_STRINGS, 1, 1U << 22},
	{LOG_BUFFERS, sizeof(struct log_buffer), 1U << 13},
};
#define SECTIONS (sizeof plan / sizeof *plan)
#define SHIFT_MOST 8
#define STEP (64U << 10) // bytes that a section grows by at least

// Bytes of each section that are open, in the order of the plan.
static uint64_t opened[SECTIONS];

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t plan_bytes(unsigned shift)
{
	uint64_t bytes = PAGE;
	for (size_t i = 0; i < SECTIONS; i++)
		bytes += round_up((plan[i].capacity >> shift) * plan[i].entry, PAGE);
	return bytes;
}

// To extend a file beyond the limit for files sends SIGXFSZ, and shared memory is no exception.
static bool file_extend(int file, uint64_t bytes)
{
	struct rlimit old;
	if (getrlimit(RLIMIT_FSIZE, &old) || bytes > old.rlim_max)
		return false;
	const struct rlimit most = {old.rlim_max, old.rlim_max};
	if (bytes > old.rlim_cur && setrlimit(RLIMIT_FSIZE, &most))
		return false;
	const bool extended = ftruncate(file, (off_t)bytes) == 0;
	if (bytes > old.rlim_cur)
		setrlimit(RLIMIT_FSIZE, &old);
	return extended;
}

static int file_create(uint64_t bytes)
{
	const int file = (int)syscall(SYS_memfd_create, "topleak-record", MFD_CLOEXEC);
	if (file < 0 || file_extend(file, bytes))
		return file;
	close(file);
	return -1;
}

static bool map_fixed(char *start, uint64_t bytes, int file)
{
	const int flags =
		MAP_FIXED | MAP_NORESERVE | (file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	if (mmap(start, bytes, PROT_NONE, flags, file, 0) == MAP_FAILED)
		return false;
	madvise(start, bytes, MADV_DONTDUMP);
	return true;
}

// Address space that begins where readers of cores look.
static char *reserve(uint64_t bytes)
{
	const uint64_t room = bytes + RECORD_ALIGN;
	char *start =
		mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (start == MAP_FAILED)
		return NULL;
	char *aligned = start + (-(uintptr_t)start & (RECORD_ALIGN - 1));
	if (aligned > start)
		munmap(start, (size_t)(aligned - start));
	munmap(aligned + bytes, (size_t)(start + room - (aligned + bytes)));
	return aligned;
}

static bool range_open(char *start, uint64_t bytes)
{
	if (mprotect(start, bytes, PROT_READ | PROT_WRITE))
		return false;
	madvise(start, bytes, MADV_DODUMP);
	return true;
}

static uint64_t clock_read(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

static void header_fill(
	const struct settings *settings, char *start, uint64_t bytes, unsigned shift)
{
	header = (struct record_header *)start;
	*header = (struct record_header){
		.version = RECORD_VERSION,
		.header_size = sizeof *header,
		.self = (uintptr_t)start,
		.size = bytes,
		.mode = settings->mode,
		.pid = (uint32_t)getpid(),
#ifdef __aarch64__
		.machine = EM_AARCH64,
#else
		.machine = EM_X86_64,
#endif
		.section_count = SECTIONS,
		.sample_mean = settings->mode == RECORD_SAMPLE ? settings->mean : 0,
		.start_realtime = clock_read(CLOCK_REALTIME),
		.start_clock = clock_read(CLOCK_MONOTONIC),
	};
	uint64_t offset = PAGE;
	for (size_t i = 0; i < SECTIONS; i++) {
		const uint64_t capacity = plan[i].capacity >> shift;
		header->sections[i] = (struct record_section){.kind = plan[i].kind,
			.entry = plan[i].entry,
			.offset = offset,
			.capacity = capacity};
		offset += round_up(capacity * plan[i].entry, PAGE);
	}
}

bool memory_create(const struct settings *settings, int *ret_file)
{
	for (unsigned shift = 0; shift <= SHIFT_MOST; shift += 2) {
		const uint64_t bytes = plan_bytes(shift);
		char *start = reserve(bytes);
		if (!start)
			continue;
		const int file = file_create(bytes);
		if (map_fixed(start, bytes, file) && range_open(start, PAGE)) {
			header_fill(settings, start, bytes, shift);
			*ret_file = file;
			return true;
		}
		munmap(start, bytes);
		if (file >= 0)
			close(file);
	}
	return false;
}

static size_t plan_index(enum record_kind kind)
{
	size_t i = 0;
	while (plan[i].kind != kind)
		i++;
	return i;
}

struct record_section *memory_section(enum record_kind kind)
{
	return &header->sections[plan_index(kind)];
}

void *memory_start(enum record_kind kind)
{
	return (char *)header + memory_section(kind)->offset;
}

bool memory_grow(enum record_kind kind, uint64_t count)
{
	const size_t i = plan_index(kind);
	const struct record_section *section = &header->sections[i];
	const uint64_t bytes = count * section->entry;
	if (count <= section->capacity && bytes <= opened[i])
		return true;
	if (count > section->capacity)
		return false;
	// An eighth more than needed, so that there are few calls.
	const uint64_t most = round_up(section->capacity * section->entry, PAGE);
	uint64_t wanted = round_up(bytes + opened[i] / 8, STEP);
	if (wanted > most)
		wanted = most;
	lock_take(LOCK_MEMORY);
	const bool done = range_open((char *)header + section->offset, wanted);
	if (done)
		opened[i] = wanted;
	lock_release(LOCK_MEMORY);
	return done;
}

void *memory_private(uint64_t bytes)
{
	void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		return NULL;
	madvise(start, bytes, MADV_DONTDUMP);
	return start;
}

uint64_t memory_text(const char *text, size_t length)
{
	struct record_section *section = memory_section(RECORD_STRINGS);
	const uint64_t at = section->used ? section->used : 1;
	if (!length || !memory_grow(RECORD_STRINGS, at + length + 1))
		return 0;
	memcpy((char *)header + section->offset + at, text, length);
	STORE_RELEASE(&section->used, at + length + 1);
	return at;
}

uint64_t memory_now(void)
{
	const uint64_t now = clock_read(CLOCK_MONOTONIC) - header->start_clock;
	STORE(&header->now, now);
	return now;
}

uint64_t memory_now_about(void)
{
	const uint64_t clock = clock_read(CLOCK_MONOTONIC_COARSE);
	const uint64_t now = clock > header->start_clock ? clock - header->start_clock : 0;
	STORE(&header->now, now);
	return now;
}

static bool page_is_empty(const char *page)
{
	const uint64_t *word = (const uint64_t *)page;
	for (size_t i = 0; i < PAGE / sizeof *word; i++)
		if (word[i])
			return false;
	return true;
}

static void range_copy(char *to, uint64_t offset, uint64_t bytes)
{
	const char *from = (const char *)header;
	for (uint64_t at = offset; at < offset + bytes; at += PAGE)
		if (!page_is_empty(from + at))
			memcpy(to + at, from + at, PAGE);
}

// Whether it is the launcher's, too.
static bool shared;

void memory_share(void)
{
	shared = true;
}

int memory_copy(void)
{
	const int file = shared ? file_create(header->size) : -1;
	if (file < 0)
		return -1;
	// Written through a mapping: write() would heed the limit for files.
	char *to = mmap(
		NULL, header->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
	if (to == MAP_FAILED) {
		close(file);
		return -1;
	}
	madvise(to, header->size, MADV_DONTDUMP);
	range_copy(to, 0, PAGE);
	for (size_t i = 0; i < SECTIONS; i++)
		range_copy(to, header->sections[i].offset, opened[i]);
	munmap(to, header->size);
	return file;
}

bool memory_adopt(int copy)
{
	if (!shared)
		return true;
	char *start = (char *)header;
	if (copy < 0 || !map_fixed(start, header->size, copy) || !range_open(start, PAGE))
		return false;
	for (size_t i = 0; i < SECTIONS; i++)
		if (opened[i] && !range_open(start + header->sections[i].offset, opened[i]))
			return false;
	return true;
}
