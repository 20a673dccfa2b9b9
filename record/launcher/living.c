// SPDX-License-Identifier: MIT
#include "living.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "saving.h"

// The address of the recording: the first mapping of the memory that is called topleak-record.
static uint64_t address_find(pid_t pid)
{
	char path[64], line[4096];
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	uint64_t address = 0;
	while (maps && !address && fgets(line, sizeof line, maps)) {
		unsigned long long start, offset;
		if (strstr(line, "/memfd:topleak-record") &&
			sscanf(line, "%llx-%*x %*s %llx", &start, &offset) == 2 && !offset)
			address = start;
	}
	if (maps)
		fclose(maps);
	return address;
}

static bool memory_read(int memory, void *to, uint64_t bytes, uint64_t from)
{
	char *at = to;
	while (bytes) {
		const ssize_t got =
			pread(memory, at, bytes < 1 << 30 ? bytes : 1 << 30, (off_t)from);
		if (got <= 0)
			return false;
		at += got;
		from += (uint64_t)got;
		bytes -= (uint64_t)got;
	}
	return true;
}

// The parts of the memory that are in use, at the places where the process has them.
static struct record_header *memory_copy(int memory, uint64_t address)
{
	struct record_header header;
	if (!memory_read(memory, &header, sizeof header, address) || header.self != address ||
		memcmp(header.magic, RECORD_MAGIC, sizeof header.magic) ||
		header.version != RECORD_VERSION || header.size < sizeof header)
		return NULL;
	struct record_header *copy = mmap(NULL, header.size, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (copy == MAP_FAILED)
		return NULL;
	for (uint32_t i = 0; i < header.section_count && i < RECORD_SECTIONS; i++) {
		const struct record_section *section = &header.sections[i];
		if (section->kind >= RECORD_PRIVATE || !section->entry ||
			section->offset > header.size ||
			section->used > (header.size - section->offset) / section->entry)
			continue;
		if (!memory_read(memory, (char *)copy + section->offset,
			    section->used * section->entry, address + section->offset))
			return NULL;
	}
	*copy = header;
	return copy;
}

bool living_save(pid_t pid, const char *path)
{
	char name[64];
	const uint64_t address = address_find(pid);
	if (!address) {
		fprintf(stderr,
			"topleak-record: --pid %d: no process that runs under topleak-record, or "
			"not yours\n",
			pid);
		return false;
	}
	snprintf(name, sizeof name, "/proc/%d/mem", pid);
	const int memory = open(name, O_RDONLY | O_CLOEXEC);
	struct record_header *copy = memory < 0 ? NULL : memory_copy(memory, address);
	if (memory >= 0)
		close(memory);
	if (!copy) {
		fprintf(stderr, "topleak-record: --pid %d: its memory cannot be read: %s\n", pid,
			strerror(errno));
		return false;
	}
	const struct source source = {.header = copy, .size = copy->size};
	const bool done = saving_write(&source, path);
	munmap(copy, copy->size);
	return done;
}
