// SPDX-License-Identifier: MIT
//
// See proc(5), and for pagemap Documentation/admin-guide/mm/pagemap.rst in Linux.
#include "image/live.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/guard.h"
#include "image/internal.h"
#include "image/smaps.h"

// An auxiliary vector is some hundred bytes.
#define AUXV_MAX ((size_t)64 * 1024)
// Entries of pagemap that are read at once.
#define PAGES ((size_t)512)
#define PAGE_PRESENT (UINT64_C(1) << 63)
#define PAGE_SWAPPED (UINT64_C(1) << 62)

struct live {
	pid_t pid;
	char name[32];	     // "process 4711"
	int memory, pagemap; // /proc/PID/mem and pagemap; -1: may not be read
	uint64_t page_size;
	struct areas areas;
	_Atomic uint64_t *skipped; // bytes, for each area
};

static FILE *live_fopen(const struct live *live, const char *name)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)live->pid, name);
	return fopen(path, "re");
}

static int live_openfd(const struct live *live, const char *name)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", (int)live->pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

// Read the beginning of a file of /proc/PID. Returns the number of bytes, 0 if there are none.
static size_t live_slurp(const struct live *live, const char *name, void *buffer, size_t size)
{
	const int fd AUTO_CLOSE = live_openfd(live, name);
	size_t done = 0;
	while (fd >= 0 && done < size) {
		const ssize_t got = read(fd, (char *)buffer + done, size - done);
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

// ---- reading memory

size_t live_read_part(const struct file *file, uint64_t offset, void *buffer, size_t size)
{
	const struct live *live = file->context;
	size_t done = 0;
	while (done < size) {
		const struct iovec local = {(char *)buffer + done, size - done};
		const struct iovec remote = {(void *)(uintptr_t)(offset + done), size - done};
		ssize_t got = process_vm_readv(live->pid, &local, 1, &remote, 1, 0);
		// The kernel, or a sandbox, may not allow it; and mem reads PROT_NONE, too.
		if (got <= 0)
			got = pread(live->memory, (char *)buffer + done, size - done,
				(off_t)(offset + done));
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static bool live_read(
	const struct file *file, uint64_t offset, void *buffer, size_t size, struct error *err)
{
	return live_read_part(file, offset, buffer, size) == size ||
	       error_set(err, "%s: cannot read at address 0x%" PRIx64, file->path, offset);
}

// The area that holds address; NULL if none.
static const struct area *live_area(const struct live *live, uint64_t address)
{
	size_t low = 0, high = live->areas.count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (live->areas.list[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < live->areas.count && live->areas.list[low].start <= address
		       ? &live->areas.list[low]
		       : NULL;
}

static bool area_is_anonymous(const struct area *area)
{
	static const char *const names[] = {"[heap]", "[stack]", "[anon:"};
	bool anonymous = area->path[0] == '\0';
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		anonymous |= strncmp(area->path, names[i], strlen(names[i])) == 0;
	return anonymous && !area->shared && !area->huge;
}

// A private anonymous page that is neither present nor swapped out is zeros; reading it would make
// the process larger.
static bool live_has_data(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret)
{
	const struct live *live = file->context;
	const struct area *area = live_area(live, offset);
	uint64_t at = offset / live->page_size * live->page_size;
	bool first = true, data = true;
	*ret = limit;
	if (live->pagemap < 0 || area == NULL || !area_is_anonymous(area))
		return true;
	while (at < limit) {
		uint64_t pages[PAGES];
		const uint64_t left = (limit - at + live->page_size - 1) / live->page_size;
		const size_t wanted = (size_t)min_u64(PAGES, left) * sizeof *pages;
		const ssize_t got = pread(live->pagemap, pages, wanted,
			(off_t)(at / live->page_size * sizeof *pages));
		if (got < (ssize_t)sizeof *pages)
			return true;
		for (size_t i = 0; i < (size_t)got / sizeof *pages; i++, at += live->page_size) {
			const bool present = (pages[i] & (PAGE_PRESENT | PAGE_SWAPPED)) != 0;
			if (!first && present != data) {
				*ret = min_u64(at, limit);
				return data;
			}
			data = present;
			first = false;
		}
	}
	return data;
}

static void live_close(struct file *file)
{
	struct live *live = file->context;
	if (live->memory >= 0)
		close(live->memory);
	if (live->pagemap >= 0)
		close(live->pagemap);
	areas_deinit(&live->areas);
	free((void *)live->skipped);
	free(live);
}

static const struct file_ops live_ops = {live_read, live_has_data, live_close};

uint64_t live_skip_page(const struct file *file, uint64_t offset)
{
	struct live *live = file->context;
	const uint64_t next = (offset / live->page_size + 1) * live->page_size;
	const struct area *area = live_area(live, offset);
	if (area != NULL)
		atomic_fetch_add(&live->skipped[area - live->areas.list], next - offset);
	return next;
}

size_t live_skipped(const struct file *file, uint64_t *ret)
{
	const struct live *live = file->context;
	size_t count = 0;
	*ret = 0;
	for (size_t i = 0; i < live->areas.count; i++) {
		const struct area *area = &live->areas.list[i];
		const uint64_t bytes = atomic_load(&live->skipped[i]);
		count += bytes > 0;
		// Each pass counts it anew.
		*ret += min_u64(bytes, area->end - area->start);
	}
	return count;
}

// ---- what the process is

static bool live_refuse(const struct live *live, const char *what, struct error *err)
{
	const int reason = errno;
	if (reason == ENOENT || reason == ESRCH)
		return error_set(err, "%s: there is no such process", live->name);
	return error_set(err,
		"%s: may not read %s: %s; be its owner or root: where the sysctl "
		"kernel.yama.ptrace_scope is not 0, or its owner is another user, this takes "
		"CAP_SYS_PTRACE",
		live->name, what, strerror(reason));
}

static bool live_read_areas(struct live *live, struct error *err)
{
	errno = 0;
	FILE *stream = live_fopen(live, "smaps");
	if (stream == NULL && errno == ENOENT)
		stream = live_fopen(live, "maps");
	if (stream == NULL)
		return live_refuse(live, "its mappings", err);
	const bool ok = areas_read(stream, err, &live->areas);
	fclose(stream);
	if (!ok)
		return false;
	if (live->areas.count == 0)
		return error_set(err,
			"%s: has no memory of its own: it is a thread of the kernel, or has ended",
			live->name);
	live->skipped = calloc(live->areas.count, sizeof *live->skipped);
	return live->skipped != NULL || error_memory(err);
}

// Class, byte order and machine, from the ELF header of the program.
static bool live_read_header(const struct live *live, struct image_info *info, struct error *err)
{
	unsigned char header[EI_NIDENT + 4];
	if (live_slurp(live, "exe", header, sizeof header) != sizeof header ||
		memcmp(header, ELFMAG, SELFMAG) != 0)
		return error_set(err, "%s: cannot read the ELF header of its program", live->name);
	info->format = IMAGE_ELF_CORE;
	info->live = true;
	info->elf_class = header[EI_CLASS] == ELFCLASS32 ? 32 : 64;
	info->elf_order = header[EI_DATA] == ELFDATA2MSB ? ORDER_BIG : ORDER_LITTLE;
	info->os_abi = header[EI_OSABI];
	info->machine = load_u16(header + EI_NIDENT + 2, info->elf_order);
	return true;
}

// How many bytes of an area the core would have.
static uint64_t live_saved(
	const struct live *live, const struct file *file, const struct area *area, unsigned filter)
{
	char magic[SELFMAG];
	switch (area_dumped(area, filter)) {
	case AREA_ALL:
		return area->end - area->start;
	case AREA_FIRST_PAGE_IF_ELF:
		return live_read_part(file, area->start, magic, sizeof magic) == sizeof magic &&
				       memcmp(magic, ELFMAG, SELFMAG) == 0
			       ? live->page_size
			       : 0;
	case AREA_NONE:
		break;
	}
	return 0;
}

static bool live_read_segments(const struct live *live, struct image *image, struct error *err)
{
	struct image_info *info = &image->info;
	char text[32] = "";
	unsigned filter = FILTER_DEFAULT;
	if (live_slurp(live, "coredump_filter", text, sizeof text - 1) > 0)
		filter = (unsigned)strtoul(text, NULL, 16);
	info->segments = calloc(live->areas.count, sizeof *info->segments);
	if (info->segments == NULL)
		return error_memory(err);
	for (size_t i = 0; i < live->areas.count; i++) {
		const struct area *area = &live->areas.list[i];
		// [vsyscall] is in the kernel's half of the address space.
		if (area->start >= FILE_SIZE_UNKNOWN)
			continue;
		const uint64_t saved = live_saved(live, &image->file, area, filter);
		if (strcmp(area->path, "[heap]") == 0) {
			if (info->process.break_start == 0)
				info->process.break_start = area->start;
			info->process.break_end = area->end;
		}
		info->segments[info->segment_count++] = (struct image_segment){
			.address = area->start,
			.size = area->end - area->start,
			.saved = saved,
			.present = saved,
			.offset = area->start,
			.flags = (area->read ? PF_R : 0U) | (area->write ? PF_W : 0U) |
				 (area->execute ? PF_X : 0U),
		};
	}
	core_sum(image);
	return true;
}

static bool live_read_files(const struct live *live, struct image *image, struct error *err)
{
	struct image_process *process = &image->info.process;
	size_t size = 1;
	for (size_t i = 0; i < live->areas.count; i++)
		size += strlen(live->areas.list[i].path) + 1;
	image->strings = malloc(size);
	process->mappings = calloc(live->areas.count, sizeof *process->mappings);
	if (image->strings == NULL || process->mappings == NULL)
		return error_memory(err);
	char *text = image->strings;
	for (size_t i = 0; i < live->areas.count; i++) {
		const struct area *area = &live->areas.list[i];
		if (!area_has_file(area))
			continue;
		process->mappings[process->mapping_count++] =
			(struct image_mapping){area->start, area->end, area->offset, text};
		text = stpcpy(text, area->path) + 1;
	}
	return true;
}

static int thread_compare(const void *left, const void *right)
{
	const struct image_thread *a = left, *b = right;
	return a->id < b->id ? -1 : a->id > b->id;
}

// The stack pointer of a thread that waits in the kernel: the last but one field of
// /proc/PID/task/TID/syscall. 0: it is running, or may not be looked at.
static uint64_t live_stack_pointer(const struct live *live, const char *thread)
{
	char name[64], text[256];
	snprintf(name, sizeof name, "task/%.20s/syscall", thread);
	const size_t length = live_slurp(live, name, text, sizeof text - 1);
	text[length] = '\0';
	char *last = strrchr(text, ' ');
	if (last == NULL)
		return 0;
	*last = '\0';
	const char *before = strrchr(text, ' ');
	return before != NULL ? strtoull(before + 1, NULL, 16) : 0;
}

static bool live_read_threads(const struct live *live, struct image *image, struct error *err)
{
	struct image_process *process = &image->info.process;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", (int)live->pid);
	DIR *directory = opendir(path);
	if (directory == NULL)
		return true;
	size_t capacity = 0;
	bool ok = true;
	for (const struct dirent *entry; ok && (entry = readdir(directory)) != NULL;) {
		if (entry->d_name[0] == '.')
			continue;
		if (process->thread_count == capacity) {
			capacity = capacity == 0 ? 16 : 2 * capacity;
			void *grown =
				realloc(process->threads, capacity * sizeof *process->threads);
			ok = grown != NULL || error_memory(err);
			process->threads = grown != NULL ? grown : process->threads;
		}
		if (ok)
			process->threads[process->thread_count++] = (struct image_thread){
				.id = strtol(entry->d_name, NULL, 10),
				.stack_pointer = live_stack_pointer(live, entry->d_name),
			};
	}
	closedir(directory);
	if (process->thread_count > 0)
		qsort(process->threads, process->thread_count, sizeof *process->threads,
			thread_compare);
	return ok;
}

static bool live_read_texts(const struct live *live, struct image *image, struct error *err)
{
	struct image_process *process = &image->info.process;
	process->pid = live->pid;
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/exe", (int)live->pid);
	const ssize_t size = readlink(path, process->program, sizeof process->program - 1);
	// A name that does not fit whole is of no use.
	process->program[size > 0 && size < (ssize_t)sizeof process->program - 1 ? size : 0] = '\0';
	size_t length = live_slurp(live, "comm", process->command, sizeof process->command - 1);
	process->command[length] = '\0';
	process->command[strcspn(process->command, "\n")] = '\0';
	length = live_slurp(live, "cmdline", process->arguments, sizeof process->arguments - 1);
	while (length > 0 && process->arguments[length - 1] == '\0')
		length--;
	for (size_t i = 0; i < length; i++)
		if (process->arguments[i] == '\0')
			process->arguments[i] = ' ';
	image->auxv = malloc(AUXV_MAX);
	if (image->auxv == NULL)
		return error_memory(err);
	process->auxv_size = live_slurp(live, "auxv", image->auxv, AUXV_MAX);
	process->auxv = process->auxv_size > 0 ? image->auxv : NULL;
	return true;
}

bool live_load(struct image *image, int64_t pid, struct error *err)
{
	struct live *live = calloc(1, sizeof *live);
	if (live == NULL)
		return error_memory(err);
	live->pid = (pid_t)pid;
	live->memory = live->pagemap = -1;
	live->page_size = (uint64_t)sysconf(_SC_PAGESIZE);
	snprintf(live->name, sizeof live->name, "process %d", (int)pid);
	image->file = (struct file){
		.ops = &live_ops,
		.path = live->name,
		.size = FILE_SIZE_UNKNOWN,
		.fd = -1,
		.context = live,
	};
	image->info.path = live->name;
	if (!live_read_areas(live, err))
		return false;
	live->memory = live_openfd(live, "mem");
	if (live->memory < 0)
		return live_refuse(live, "its memory", err);
	live->pagemap = live_openfd(live, "pagemap");
	return live_read_header(live, &image->info, err) && live_read_segments(live, image, err) &&
	       live_read_files(live, image, err) && live_read_threads(live, image, err) &&
	       live_read_texts(live, image, err);
}
