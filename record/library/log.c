// SPDX-License-Identifier: MIT
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "lock.h"
#include "memory.h"
#include "settings.h"
#include "threads.h"

#define EVENT_MOST 50 // bytes: five numbers
#define MICROSECOND 1000U

static char path[PATH_MAX];
static uint64_t slots;
static bool is_on;

void log_init(const struct settings *settings)
{
	if (!*settings->log || settings->mode != RECORD_FULL)
		return;
	memcpy(path, settings->log, sizeof path);
	slots = settings->log_size > 2 * LOG_SLOT ? settings->log_size / LOG_SLOT : 2;
	is_on = true;
}

void log_forked(void)
{
	is_on = false;
}

// Threads' buffers have their index.
static struct log_buffer *buffer_of(const struct thread *thread)
{
	const uint64_t index = (uint64_t)(thread - (struct thread *)memory_start(RECORD_THREADS));
	struct record_section *section = memory_section(LOG_BUFFERS);
	if (UNLIKELY(index >= LOAD(&section->used))) {
		lock_take(LOCK_LOG);
		if (index >= section->used && memory_grow(LOG_BUFFERS, index + 1))
			section->used = index + 1;
		lock_release(LOCK_LOG);
		if (index >= LOAD(&section->used))
			return NULL;
	}
	return (struct log_buffer *)memory_start(LOG_BUFFERS) + index;
}

static void chunk_write(struct log_buffer *buffer)
{
	// Bytes of a TIME event that adds nothing.
	memset(buffer->events + buffer->chunk.bytes, RECORD_TIME,
		sizeof buffer->events - buffer->chunk.bytes);
	buffer->chunk.bytes = sizeof buffer->events;
	const int error = errno;
	// Opened by name each time: a descriptor that is kept could be closed, and be another
	// file's.
	const int file = open(path, O_WRONLY | O_CLOEXEC);
	const off_t at = (off_t)(LOG_START + buffer->chunk.number % slots * LOG_SLOT);
	if (file < 0 || pwrite(file, buffer, LOG_SLOT, at) != LOG_SLOT)
		ADD(&header->events_lost, buffer->chunk.events);
	if (file >= 0)
		close(file);
	errno = error;
}

static void chunk_begin(struct log_buffer *buffer, const struct thread *thread, uint64_t now)
{
	buffer->chunk = (struct record_chunk){.magic = RECORD_CHUNK_MAGIC,
		.thread = thread->record.id,
		.number = ADD(&header->log_chunks, 1) - 1,
		.time = now};
	buffer->address = buffer->stack = buffer->size = 0;
	buffer->time = now;
}

static uint8_t *number_put(uint8_t *to, uint64_t value)
{
	while (value > 127) {
		*to++ = (uint8_t)(value | 128);
		value >>= 7;
	}
	*to++ = (uint8_t)value;
	return to;
}

static uint64_t zigzag(uint64_t difference)
{
	return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

// Where the next event goes, behind the time that passed; NULL if there is no buffer.
static uint8_t *event_begin(struct log_buffer *buffer, const struct thread *thread)
{
	const uint64_t now = memory_now();
	if (buffer->chunk.bytes > sizeof buffer->events - EVENT_MOST)
		chunk_write(buffer);
	if (buffer->chunk.magic != RECORD_CHUNK_MAGIC ||
		buffer->chunk.thread != thread->record.id ||
		buffer->chunk.bytes > sizeof buffer->events - EVENT_MOST)
		chunk_begin(buffer, thread, now);
	uint8_t *to = buffer->events + buffer->chunk.bytes;
	const uint64_t passed = now > buffer->time ? (now - buffer->time) / MICROSECOND : 0;
	if (passed) {
		to = number_put(to, passed << 2 | RECORD_TIME);
		buffer->time += passed * MICROSECOND;
	}
	return to;
}

static void event_end(struct log_buffer *buffer, const uint8_t *end)
{
	buffer->chunk.events++;
	STORE_RELEASE(&buffer->chunk.bytes, (uint32_t)(end - buffer->events));
}

static uint8_t *address_put(
	struct log_buffer *buffer, uint8_t *to, uint64_t address, unsigned kind_bits, unsigned kind)
{
	const uint64_t units = address >> 3, difference = zigzag(units - buffer->address);
	buffer->address = units;
	return number_put(to, difference << kind_bits | kind);
}

void log_allocate(struct thread *thread, uint32_t stack, uint64_t size, uint64_t address)
{
	struct log_buffer *buffer = is_on ? buffer_of(thread) : NULL;
	if (!buffer)
		return;
	uint8_t *to = event_begin(buffer, thread);
	if (buffer->stack == stack && buffer->size == size) {
		to = address_put(buffer, to, address, 2, RECORD_REPEAT);
	} else {
		to = number_put(to, zigzag((uint64_t)stack - buffer->stack) << 2 | RECORD_ALLOCATE);
		to = number_put(to, size);
		to = address_put(buffer, to, address, 0, 0);
		buffer->stack = stack;
		buffer->size = size;
	}
	event_end(buffer, to);
}

void log_free(struct thread *thread, uint64_t address)
{
	struct log_buffer *buffer = is_on ? buffer_of(thread) : NULL;
	if (!buffer)
		return;
	event_end(
		buffer, address_put(buffer, event_begin(buffer, thread), address, 2, RECORD_FREE));
}
