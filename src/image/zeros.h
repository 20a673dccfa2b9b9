// SPDX-License-Identifier: MIT
//
// Which memory of a dump has nothing but zeros, in whole pages: most was never touched. Holes of
// the file are the same; whether it has holes depends on who copied it.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"

// A stretch of addresses.
struct zero_run {
	uint64_t start, end;
};

struct zeros {
	struct zero_run *list; // owned
	size_t count, capacity;
	size_t most; // runs that there may be; what comes later counts as touched
	bool lost;   // memory ran out
	pthread_mutex_t lock;
};

// memory: bytes that it may take. To be released with zeros_deinit.
void zeros_init(struct zeros *zeros, size_t memory);
void zeros_deinit(struct zeros *zeros);
// Note what a chunk of memory has; bytes: what was read of it. Several threads may call this.
void zeros_note(struct zeros *zeros, const struct image_chunk *chunk, const unsigned char *bytes);
// All chunks were there: sort the runs, and join those that touch. False if memory ran out.
bool zeros_finish(struct zeros *zeros);
