// SPDX-License-Identifier: MIT
#include "saving.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "library/log.h"

char *saving_name(const char *pattern, int pid)
{
	char *name = malloc(strlen(pattern) * (HOST_NAME_MAX + 16) + 1), *to = name;
	if (!name)
		abort();
	for (; *pattern; pattern++) {
		if (pattern[0] == '%' && pattern[1] == 'p') {
			to += sprintf(to, "%d", pid);
			pattern++;
		} else if (pattern[0] == '%' && pattern[1] == 'h') {
			if (gethostname(to, HOST_NAME_MAX))
				strcpy(to, "unknown");
			to[HOST_NAME_MAX] = '\0';
			to += strlen(to);
			pattern++;
		} else {
			pattern += pattern[0] == '%' && pattern[1] == '%';
			*to++ = *pattern;
		}
	}
	*to = '\0';
	return name;
}

static bool write_at(int file, const void *data, uint64_t bytes, uint64_t offset)
{
	const char *from = data;
	while (bytes) {
		const ssize_t done =
			pwrite(file, from, bytes < 1 << 30 ? bytes : 1 << 30, (off_t)offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		from += done;
		offset += (uint64_t)done;
		bytes -= (uint64_t)done;
	}
	return true;
}

struct writer {
	int file;
	uint64_t at; // where the next section goes
	struct record_header header;
};

static bool section_put(
	struct writer *writer, uint32_t kind, uint32_t entry, const void *data, uint64_t count)
{
	if (!count || writer->header.section_count == RECORD_SECTIONS)
		return true;
	writer->header.sections[writer->header.section_count++] =
		(struct record_section){.kind = kind,
			.entry = entry,
			.offset = writer->at,
			.capacity = count,
			.used = count};
	const bool done = write_at(writer->file, data, count * entry, writer->at);
	writer->at += (count * entry + 7) & ~(uint64_t)7;
	return done;
}

// The blocks of a hash table, without the empty entries.
static bool blocks_put(struct writer *writer, const struct record_block *blocks, uint64_t count)
{
	struct record_block *used = malloc((count + !count) * sizeof *used);
	uint64_t kept = 0;
	if (!used)
		return false;
	for (uint64_t i = 0; i < count; i++)
		if (blocks[i].address)
			used[kept++] = blocks[i];
	const bool done = section_put(writer, RECORD_BLOCKS, sizeof *used, used, kept);
	free(used);
	return done;
}

static bool sections_put(struct writer *writer, const struct source *source)
{
	const struct record_header *from = source->header;
	for (uint32_t i = 0; i < from->section_count && i < RECORD_SECTIONS; i++) {
		const struct record_section *section = &from->sections[i];
		const uint64_t used = section->used;
		// The process can write what it likes there.
		if (!section->kind || section->kind >= RECORD_PRIVATE ||
			section->kind == RECORD_LOG)
			continue;
		if (section->offset > source->size || !section->entry ||
			used > (source->size - section->offset) / section->entry)
			continue;
		const char *data = (const char *)from + section->offset;
		if (section->kind == RECORD_BLOCKS
				? !blocks_put(writer, (const struct record_block *)data, used)
				: !section_put(writer, section->kind, section->entry, data, used))
			return false;
	}
	const struct series *series = source->series;
	return !series || (section_put(writer, RECORD_SNAPSHOTS, sizeof *series->snapshots,
				   series->snapshots, series->count) &&
				  section_put(writer, RECORD_POINTS, sizeof *series->points,
					  series->points, series->point_count));
}

static uint64_t clock_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

// Everything but what is there already, from writer.at on.
static bool recording_put(struct writer *writer, const struct source *source, uint64_t log_size)
{
	struct record_header *own = &writer->header;
	*own = *source->header;
	own->section_count = 0;
	memset(own->sections, 0, sizeof own->sections);
	const uint64_t now = clock_now();
	if (now > own->start_clock)
		own->now = now - own->start_clock;
	own->ended = source->ended ? own->now : 0;
	own->exit_known = source->status_known;
	own->exit_status = source->status_known ? (uint64_t)source->status : 0;
	if (log_size)
		own->sections[own->section_count++] = (struct record_section){.kind = RECORD_LOG,
			.entry = 1,
			.offset = LOG_START,
			.capacity = log_size,
			.used = log_size};
	if (!sections_put(writer, source))
		return false;
	own->size = writer->at;
	return ftruncate(writer->file, (off_t)writer->at) == 0 &&
	       write_at(writer->file, own, sizeof *own, 0);
}

static bool failed(const char *path, const char *what)
{
	fprintf(stderr, "topleak-record: %s: %s: %s\n", path, what, strerror(errno));
	return false;
}

bool saving_write(const struct source *source, const char *path)
{
	char *beside = malloc(strlen(path) + sizeof ".XXXXXX");
	if (!beside)
		abort();
	sprintf(beside, "%s.XXXXXX", path);
	struct writer writer = {.file = mkostemp(beside, O_CLOEXEC),
		.at = (sizeof(struct record_header) + 7) & ~(uint64_t)7};
	bool done = writer.file >= 0 && recording_put(&writer, source, 0);
	if (done) {
		const mode_t mask = umask(0);
		umask(mask);
		done = fchmod(writer.file, 0666 & ~mask) == 0;
	}
	if (writer.file >= 0 && close(writer.file))
		done = false;
	done = done && rename(beside, path) == 0;
	if (!done) {
		failed(path, "the recording cannot be written");
		if (writer.file >= 0)
			unlink(beside);
	}
	free(beside);
	return done;
}

// What threads had not written yet when the process ended. *log_size grows to the end of the last
// chunk.
static bool buffers_put(const struct source *source, int file, uint64_t slots, uint64_t *log_size)
{
	for (uint32_t i = 0; i < source->header->section_count && i < RECORD_SECTIONS; i++) {
		const struct record_section *section = &source->header->sections[i];
		if (section->kind != LOG_BUFFERS || section->entry != sizeof(struct log_buffer))
			continue;
		if (section->offset > source->size ||
			section->used > (source->size - section->offset) / section->entry)
			continue;
		const struct log_buffer *buffers =
			(const struct log_buffer *)((const char *)source->header + section->offset);
		for (uint64_t b = 0; b < section->used; b++) {
			struct log_buffer buffer = buffers[b];
			const uint64_t slot = buffer.chunk.number % slots;
			if (buffer.chunk.magic != RECORD_CHUNK_MAGIC ||
				buffer.chunk.bytes > sizeof buffer.events)
				continue;
			memset(buffer.events + buffer.chunk.bytes, RECORD_TIME,
				sizeof buffer.events - buffer.chunk.bytes);
			buffer.chunk.bytes = sizeof buffer.events;
			if (!write_at(file, &buffer, LOG_SLOT, LOG_START + slot * LOG_SLOT))
				return false;
			if ((slot + 1) * LOG_SLOT > *log_size)
				*log_size = (slot + 1) * LOG_SLOT;
		}
	}
	return true;
}

bool saving_finish_log(const struct source *source, const char *path, uint64_t log_size)
{
	const int file = open(path, O_RDWR | O_CLOEXEC);
	if (file < 0)
		return failed(path, "the log cannot be finished");
	const uint64_t slots = log_size > 2 * LOG_SLOT ? log_size / LOG_SLOT : 2;
	uint64_t bytes = source->header->log_chunks < slots ? source->header->log_chunks * LOG_SLOT
							    : slots * LOG_SLOT;
	bool done = buffers_put(source, file, slots, &bytes);
	struct writer writer = {.file = file, .at = LOG_START + bytes};
	done = done && recording_put(&writer, source, bytes);
	if (close(file) || !done)
		return failed(path, "the log cannot be finished");
	return true;
}
