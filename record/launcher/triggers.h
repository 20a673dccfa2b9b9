// SPDX-License-Identifier: MIT
//
// --when: what happens as a process grows.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "format.h"
#include "options.h"

// Of a process: what has happened already.
struct triggers {
	bool fired[TRIGGERS_MOST];
	uint64_t last_allocated, last_time; // bytes, nanoseconds
};

// Resident bytes of a process; 0 if that is not known.
uint64_t triggers_resident(pid_t pid);

// True if a condition is met for the first time. Switches to full mode where that was asked for.
bool triggers_look(struct triggers *triggers, const struct options *options,
	struct record_header *header, uint64_t resident);
