// SPDX-License-Identifier: MIT
//
// The command line of topleak-record: one table feeds getopt_long, --help and the completions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIGGERS_MOST 16
#define CHOSEN_MOST 64

enum trigger_kind { TRIGGER_RSS, TRIGGER_LIVE, TRIGGER_RATE };

// --when KIND>BYTES[:full]
struct trigger {
	enum trigger_kind kind;
	uint64_t bytes; // rate: a second
	bool goes_full; // from then on every block is recorded
};

struct options {
	bool full;
	uint64_t sample;   // bytes
	uint64_t above;	   // --all-above
	const char *log;   // NULL: none
	uint64_t log_size; // bytes
	const char *output;
	uint64_t snapshot; // milliseconds; 0: never
	struct trigger triggers[TRIGGERS_MOST];
	size_t trigger_count;
	const char *chosen[CHOSEN_MOST]; // --all-of
	size_t chosen_count;
	uint64_t guard; // one of so many samples; 0: none
	bool mappings;
	int pid; // --pid; 0: none
	bool quiet;
	uint64_t seed;
	char **program; // and its arguments
};

// Fills options. Does not return on wrong usage, --help and --version.
void options_read(int argc, char **argv, struct options *ret);
