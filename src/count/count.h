// SPDX-License-Identifier: MIT
//
// The most frequent words of a stream in a bounded amount of memory: exact if it can be read again,
// else proven intervals. ALGORITHM.md explains how, and why the result is right.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

// The most bytes that a block has.
#define COUNT_BLOCK_SIZE ((size_t)128 * 1024)

// A piece of the stream.
struct count_block {
	size_t words;	// now in the buffer, as they lie in memory
	uint64_t zeros; // words that are zero and not in the buffer
};

// How a stream can be read.
enum count_access {
	COUNT_SEEK, // as often as needed; what a stride leaves out costs nothing
	COUNT_ONCE, // once: a pipe
};

// Where the words come from.
struct count_source {
	void *context;
	enum count_access access;
	// Begin anew: called before each pass, once if access is COUNT_ONCE. Of every stride blocks
	// only one need be delivered; stride is 1 unless access is COUNT_SEEK.
	bool (*start)(void *context, unsigned stride, struct error *err);
	// Fill buffer, of COUNT_BLOCK_SIZE bytes and aligned to 64. Returns 1, 0 at the end, -1 on
	// an error. Called by several threads at once.
	int (*next)(void *context, void *buffer, struct count_block *ret, struct error *err);
	// Which words can have a row. Keeps those of count words, as they lie in memory, at the
	// beginning of words, and returns how many; each word is decided on by its value alone.
	// Called by several threads at once. NULL: all.
	size_t (*select)(const void *context, void *words, size_t count);
	bool select_fast; // it takes less time than counting; only the cost depends on it
	uint64_t words;	  // about how many there are, 0: unknown; only the cost depends on it
};

struct count_options {
	size_t top;		// rows wanted, at least 1
	uint64_t min_count;	// least count of a row, at least 1
	unsigned word_size;	// 4 or 8 bytes
	enum byte_order order;	// of the words in memory
	size_t memory;		// bytes that may be used, at least COUNT_MEMORY_MIN
	unsigned threads;	// at most; at least 1
	const atomic_int *stop; // not zero: end soon, with what was found so far
};

// More threads than this do not help.
#define COUNT_THREADS_MAX 256

#define COUNT_MEMORY_MIN ((size_t)16 << 20)

struct count_row {
	uint64_t value; // as a number: swapped if the memory's byte order is not this machine's
	uint64_t count;
	// It occurs this many times at most; more than count only if access is COUNT_ONCE.
	uint64_t count_max;
};

struct count_result {
	struct count_row *rows; // count descending, value ascending; owned
	size_t row_count;
	// No word that has no row occurs more often. Only if access is COUNT_ONCE; else 0.
	uint64_t rest_max;
	uint64_t words;	  // read in all, those that can have no row too
	unsigned passes;  // over the whole stream
	unsigned threads; // that were used at most
	bool partial;	  // stopped before the end: counts are lower bounds, rows may be missing
};

// The memory that count_words needs at least for this many rows, in bytes.
size_t count_memory_needed(size_t top);

// Count. On success *ret is the caller's, to be released with count_result_deinit.
bool count_words(const struct count_source *source, const struct count_options *options,
	struct error *err, struct count_result *ret);
void count_result_deinit(struct count_result *result);
