// SPDX-License-Identifier: MIT
//
// --log: every event, in chunks of LOG_SLOT bytes (struct record_chunk in format.h). A thread fills
// a chunk in the shared memory, and writes it to the file when it is full; what is left at the end
// the launcher writes. The file is a ring: chunk n is at LOG_START + n % slots * LOG_SLOT.
#pragma once

#include "base.h"

#define LOG_SLOT (64U << 10)
#define LOG_START 4096U // room for the header of the recording

// The recorder's own section: a buffer for each thread.
#define LOG_BUFFERS ((enum record_kind)RECORD_PRIVATE)

struct log_buffer {
	struct record_chunk chunk; // bytes 0: nothing to write
	uint8_t events[LOG_SLOT - sizeof(struct record_chunk)];
	// Where the encoding is.
	uint64_t address, stack, size, time;
};

struct settings;

void log_init(const struct settings *settings);
// In the child after fork(): the log stays its parent's.
void log_forked(void);

struct thread;
void log_allocate(struct thread *thread, uint32_t stack, uint64_t size, uint64_t address);
void log_free(struct thread *thread, uint64_t address);
