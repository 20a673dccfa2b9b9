// SPDX-License-Identifier: MIT
//
// The command line. One table feeds getopt_long, --help and the completions.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/error.h"

enum output {
	OUTPUT_TEXT,
	OUTPUT_JSON,
	OUTPUT_CSV,
	OUTPUT_GDB,
	OUTPUT_FOLDED,
	OUTPUT_PPROF,
	OUTPUT_SPEEDSCOPE,
};
enum when { WHEN_AUTO, WHEN_ALWAYS, WHEN_NEVER };

struct options {
	const char **files; // owned; the texts are argv's
	size_t file_count;
	uint64_t top;
	uint64_t min_count;
	uint64_t word_size;		       // 4, 8 or 0: not given
	uint64_t order;			       // enum byte_order
	uint64_t offset;		       // bytes
	uint64_t limit;			       // words
	uint64_t threads;		       // 0: as many as there are processors
	uint64_t memory;		       // bytes
	uint64_t pid;			       // of a live process; then there is one file, NULL
	uint64_t output;		       // enum output
	uint64_t color;			       // enum when
	uint64_t progress;		       // enum when
	uint64_t kinds;			       // bits 1 << enum kind (names/kinds.h); 0: all
	const char *exe, *sysroot, *debug_dir; // NULL: not given
	enum cpu_level level;		       // from the environment
	uint64_t sort;	  // enum type_sort (types/types.h), or stack_sort (stacks/table.h)
	uint64_t by;	  // enum stack_by (stacks/table.h)
	uint64_t at;	  // milliseconds since a recording began
	const char *diff; // NULL: not given
	bool types, leaks, heap, stacks, sort_given, by_given, at_given, top_given;
	bool exact_pointers, owners;
	uint64_t path; // address of an object to which the way is asked for
	bool path_given;
	const char *find;   // what to look for; NULL: nothing
	const char *type;   // the class or symbol to look for; NULL: none
	const char *member; // fields, as members_parse (find/member.h) has them; NULL: none
	const char *member_offset, *member_type; // the same, as topleaked has them
	const char *around_range;		 // NULL: as usual
	uint64_t min_length;			 // of strings, in characters
	bool exact;				 // texts as they are, not by template
	bool strings;				 // the most frequent strings are asked for
	bool around, all, ignore_case, min_length_given;
	bool order_given, raw;
	bool no_names, no_demangle, debuginfod, redact;
	bool time, verbose, quiet;
	bool help, version;
};

// Fill *ret from the command line. False for a usage error. On success *ret is the caller's, to be
// released with options_deinit.
bool options_parse(int argc, char **argv, struct error *err, struct options *ret);
void options_deinit(struct options *options);

// What --help and --version print.
void options_help(FILE *stream);
void options_version(FILE *stream);

// An option as it is known outside of this file: to what writes completions for shells.
struct option_info {
	const char *name;
	const char *other;    // a further long name; NULL: none
	char letter;	      // '\0': none
	const char *argument; // what kind of argument it takes: "N", "FILE", "DIR"; NULL: none
	const char *help;
	bool list;	       // the argument may be several words with commas between them
	const char *words[16]; // the words that the argument can be, up to NULL
};

// Describe the option at index. False past the last one.
bool options_info(size_t index, struct option_info *ret);
