// SPDX-License-Identifier: MIT
//
// The log of events: every block, how long it lived, and what was in use when. It is read once, in
// order; what is kept is as large as what was in use at once.
#pragma once

#include "stacks/recording.h"

// So many lifetimes are at least 2^(i-1), less than 2^i microseconds; the first: less than one.
#define STACK_LIVES 48

// How long blocks that were freed lived.
struct stack_lives {
	uint64_t count;
	uint64_t sum, most; // microseconds
	uint64_t *list;	    // STACK_LIVES of them; owned by whose struct it is; NULL: none
};

// Parts of the time for which the rate is told.
#define LOG_RATES 64

struct log {
	struct stack_lives *lives; // of each stack; owned, with their lists
	size_t stack_count;
	uint64_t events;
	uint64_t unmatched; // frees of what it does not have
	bool complete;	    // it has all since the beginning, and is not damaged
	bool damaged;
	uint64_t peak_bytes, peak_time;
	uint64_t end; // nanoseconds: the time of the last event
	uint64_t rates[LOG_RATES];
	uint64_t rate_time; // nanoseconds of each
	size_t rate_count;
};

struct log_options {
	size_t memory; // bytes
	uint64_t at;
};

// Read the log of a recording that has one. What the recording tells of stacks is replaced by what
// the log tells. *ret is to be released with log_destroy.
bool log_read(struct recording *recording, const struct log_options *options, struct error *err,
	struct log **ret);
void log_destroy(struct log *log);
