// SPDX-License-Identifier: MIT
//
// The questions that can be asked of a dump, a file for each: what is counted or looked for, and
// how its rows are reported. dump.c has what all of them need.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "count/count.h"
#include "image/image.h"
#include "names/names.h"
#include "report/report.h"

// One dump, and how it is to be read.
struct dump {
	const struct options *options;
	const atomic_int *stop; // not zero: the number of the signal that ends the run
	struct diag *diag;
	const char *exe; // of the program; NULL: not given
	// Of a recording in a file of its own; NULL: of none.
	const struct image_memory *piece;
	const struct module_known *known;
	size_t known_count;
	struct image *image; // owned
	struct names *names; // owned; NULL until the memory has been read, unless words are
			     // chosen by kind
	struct progress progress;
	double begin; // when work on it began, in seconds of a monotonic clock
};

// Open the dump at path, of the program exe (NULL: not given). dump->options, stop and diag are
// set; the rest is filled in, to be released with dump_close, also after a failure.
bool dump_open(struct dump *dump, const char *path, const char *exe, struct error *err);
void dump_close(struct dump *dump);
// The memory has been read: names and the facts about the image are now as good as they will be.
bool dump_settle(struct dump *dump, struct error *err);
// Whether the lines for people are wanted on stderr.
bool dump_wants_summary(const struct dump *dump);

// The facts about a dump that stand above every answer.
struct dump_head {
	struct report_head head;
	struct report_module *modules; // owned
	struct build_id_text *ids;     // owned: two for each module
};

// Fill *ret when the memory has been read, and print the summary if it is wanted. *ret must be
// released with dump_head_deinit, also after a failure. words: that were read; partial:
// interrupted.
bool dump_head_init(struct dump *dump, const char *mode, uint64_t words, bool partial,
	struct error *err, struct dump_head *ret);
void dump_head_deinit(struct dump_head *head);
// After the last row: what to do next, if the summary is wanted.
void dump_finish(const struct dump *dump, const struct dump_head *head);
// Write out what has been reported. An error also if memory was short while something was
// described.
bool dump_flush(const struct dump *dump, struct report *report, struct error *err);
// Print the time if it is wanted: so many passes over the memory, with so many threads.
void dump_time(const struct dump *dump, unsigned passes, unsigned threads);

// The table of types, or what grew in it.
bool answer_types(struct dump *dump, struct report *report, struct error *err);
// Whether --diff is to compare what --types or --leaks -ojson wrote of a dump, not a dump itself.
bool table_is_saved(const struct options *options, const char *path);
// What grew until then; dump was not opened.
bool answer_saved_types(
	struct dump *dump, const char *path, struct report *report, struct error *err);
bool answer_saved_leaks(
	struct dump *dump, const char *path, struct report *report, struct error *err);
// The table of objects that nothing reaches any more, or what grew in it.
bool answer_leaks(struct dump *dump, struct report *report, struct error *err);
// Which types and places point at the objects of --type.
bool answer_owners(struct dump *dump, struct report *report, struct error *err);
// The shortest way from a root to an object.
bool answer_path(struct dump *dump, struct report *report, struct error *err);
// What the allocator has.
bool answer_heap(struct dump *dump, struct report *report, struct error *err);
// Look for names now: needed before the memory is read. False where that cannot be, with an error
// that names option.
bool dump_names(struct dump *dump, const char *option, struct error *err);
// Of what comes packed or through a pipe: the --memory with which it could be read at any address.
uint64_t dump_memory_needed(const struct dump *dump);
// Fill in what the row's value is, unless no descriptions are wanted, and whether --redact forbids
// to show it. The text lives until the next call.
void dump_describe(struct dump *dump, struct report_word *row);

// Count the words that the filter keeps; NULL: all. See count_words.
bool dump_count(struct dump *dump, const struct kind_filter *filter, size_t top, uint64_t min_count,
	struct error *err, struct count_result *ret);

// A class can be there in several modules, a symbol be pointed into at many places.
#define TYPE_WORDS_MAX 64
// The last offset at which a word may be said to be, in bytes.
#define TYPE_WITHIN_MAX 248

struct type_words {
	uint64_t values[TYPE_WORDS_MAX];
	size_t count;
	bool within_known; // "NAME @+N": the words are N bytes from where their objects begin
	uint64_t within;   // N; 0 if it is not known
};

// The words that --type name asks for: the vtable pointers of a class, what points at a symbol, or
// at a place in a module, as a table of types names it. False if there is no such name, or more
// than one, with a message that lists the nearest ones.
bool type_find(struct dump *dump, const char *name, struct error *err, struct type_words *ret);

// Who allocated it: the stacks of the recording at path. dump was not opened.
bool answer_stacks(struct dump *dump, const char *path, const char *exe, struct report *report,
	struct error *err);
// Whether all files, or those in a folder, are one table; which is the answer then.
bool stacks_together(const struct options *options);
bool answer_stacks_together(
	struct dump *dump, const char *exe, struct report *report, struct error *err);

// Whether one of the questions of answer_find is asked.
bool find_asked(const struct options *options);
// --strings, --find, --type.
bool answer_find(struct dump *dump, struct report *report, struct error *err);
// The most frequent words.
bool answer_words(struct dump *dump, struct report *report, struct error *err);
