// SPDX-License-Identifier: MIT
//
// What is said, in which format: plain facts and rows, and one writer for each format. Nothing else
// writes to stdout. All texts given to a writer are escaped already (base/escape.h), but for paths
// and what else is marked; each writer escapes what its own format demands.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_GDB };

// What was read. Texts may hold any bytes but NUL; NULL: does not apply or is not known.
struct report_input {
	const char *path;
	const char *format;	// "elf-core", "raw", "process"
	const char *packing;	// "zstd"; NULL: not compressed
	unsigned elf_class;	// 32, 64; 0: no ELF file
	const char *byte_order; // of the words: "little", "big"
	const char *machine;	// "x86-64"
	const char *program;	// the executable, or what is known of its name
	const char *command;	// the beginning of the command line, or the program's name
	const char *signal;	// "SIGABRT"
	int64_t pid;		// -1: not known
	int signal_number;	// 0: none or not known
	unsigned threads;
	bool live;  // a process that was not dumped
	bool piped; // from standard input, or a pipe: its path says nothing
};

struct report_scanned {
	uint64_t segments;
	uint64_t bytes_saved;	  // that the dump is meant to hold
	uint64_t bytes_not_saved; // that were left out when it was written
	uint64_t bytes_missing;	  // of the saved ones, not in the file
	uint64_t words;
	unsigned word_size; // bytes
	bool partial;	    // interrupted
};

// An executable or a library of the process. Texts may hold any bytes but NUL; NULL: not known.
struct report_module {
	const char *path;	   // in the dump
	const char *state;	   // "ok", "stripped", "unverified", "mismatch", "missing"
	const char *file;	   // on this machine: used, or refused if the state is "mismatch"
	const char *build_id;	   // in the dump, hexadecimal
	const char *file_build_id; // of the file, hexadecimal
	uint64_t start, end;	   // addresses
	uint64_t bias;		   // address minus bias is the address in the file
	bool main;		   // the program itself
	bool has_symbols;	   // if it is the main program: its own or a debug file's
	bool doubtful;		   // worth a word even if nobody asks for all
};

// The memory that the dump has, in bytes, by what it was used for.
struct report_memory {
	uint64_t heap, anon, stacks, files;
	bool known;
};

// One answer, before its rows.
struct report_head {
	const char *mode;    // "words"
	const char *version; // of topleak
	bool names;	     // rows have descriptions
	struct report_input input;
	struct report_scanned scanned;
	struct report_memory memory;
	const struct report_module *modules;
	size_t module_count;
	bool verbose; // people want to know all
};

// A row of the most frequent words.
struct report_word {
	uint64_t value;
	uint64_t count;
	uint64_t count_max; // it may be as many as these; count, if that is exact
	const char *kind;
	const char *text; // the description; "" if there is none
};

struct report {
	FILE *stream;
	const struct report_writer *writer;
	bool many;	// more than one file is read
	bool color;	// of text
	unsigned width; // of the terminal that text goes to, in columns; 0: none
	// Of the present answer.
	const struct report_head *head;
	size_t answers, rows;
	bool lost;   // out of memory inside a writer
	int failure; // errno of the first write that failed; 0: none
};

// Writers of one format; they need not look for errors of the stream.
struct report_writer {
	void (*begin)(struct report *report);
	void (*word)(struct report *report, const struct report_word *row);
	void (*end)(struct report *report);
};

extern const struct report_writer report_text, report_csv, report_gdb;
#if HAVE_JANSSON
extern const struct report_writer report_json;
#endif

// Begin to write to stream. Fails if this build lacks the format.
bool report_init(struct report *report, FILE *stream, enum report_format format, bool many,
	bool color, struct error *err);
// One answer: begin, rows, end. head must live until the end.
void report_begin(struct report *report, const struct report_head *head);
void report_word(struct report *report, const struct report_word *row);
void report_end(struct report *report);
// Write out what is buffered. An error if anything could not be written.
bool report_flush(struct report *report, struct error *err);

// The lines for people on what the numbers rest on, above the rows; stream is stderr.
void summary_write(FILE *stream, const struct report_head *head);
// The line below the rows: what to do next.
void summary_next(FILE *stream, const struct report_head *head);
