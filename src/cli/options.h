// SPDX-License-Identifier: MIT
//
// The command line. One table feeds getopt_long, --help and the completions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/error.h"

enum output { OUTPUT_TEXT, OUTPUT_JSON, OUTPUT_CSV, OUTPUT_GDB };

struct options {
	const char **files; // owned; the texts are argv's
	size_t file_count;
	uint64_t top;
	uint64_t min_count;
	uint64_t word_size; // 4, 8 or 0: not given
	uint64_t order;	    // enum byte_order
	uint64_t offset;    // bytes
	uint64_t limit;	    // words
	uint64_t threads;   // 0: as many as there are processors
	uint64_t memory;    // bytes
	uint64_t output;    // enum output
	const char *find;   // what to look for; NULL: nothing
	const char *type;   // the class or symbol to look for; NULL: none
	const char *member; // fields, as member_parse has them; NULL: none
	const char *member_offset, *member_type; // the same, as topleaked has them
	const char *around_range;		 // NULL: as usual
	uint64_t min_length;			 // of strings, in characters
	bool strings;				 // ask for the most frequent strings
	bool around, all, ignore_case, min_length_given;
	bool min_count_given;
	bool order_given, raw;
	bool no_names, redact;
	bool time, verbose, quiet;
	bool help, version;
};

// Fill *ret from the command line. False for a usage error. On success *ret is the caller's, to be
// released with options_deinit.
bool options_parse(int argc, char **argv, struct error *err, struct options *ret);
void options_deinit(struct options *options);

// What --help prints.
void options_help(FILE *stream);
