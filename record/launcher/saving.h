// SPDX-License-Identifier: MIT
//
// Recordings as files.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "format.h"
#include "series.h"

// What is saved: the memory of a process.
struct source {
	const struct record_header *header; // in memory of `size` bytes
	uint64_t size;
	const struct series *series; // its snapshots; NULL: none
	bool ended;
	bool status_known;
	int status; // as of waitpid()
};

// The name of the file for a process: %p, %h and %% in pattern replaced. Allocated.
char *saving_name(const char *pattern, int pid);

// Writes a recording to the file, by way of one beside it. False: says why on stderr.
bool saving_write(const struct source *source, const char *path);

// The same as a log's end: the log's chunks are in the file at path already.
bool saving_finish_log(const struct source *source, const char *path, uint64_t log_size);
