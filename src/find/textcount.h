// SPDX-License-Identifier: MIT
//
// The most frequent texts of a dump. First in one pass, with a table of all texts; as soon as that
// does not fit the memory, by counting hashes of texts with the engine of count/, and a pass that
// collects the texts of the most frequent hashes. Then, of texts that are as frequent as the last
// row, their hashes decide which are shown; else the texts.
#pragma once

#include "count/count.h"
#include "find/sweep.h"
#include "find/texts.h"

// Takes a text so many times, only once unless it is empty; what text->bytes points to lives until
// it returns.
typedef void text_sink(void *context, const struct text *text, uint64_t count);

// One pass over the texts.
struct text_pass {
	uint64_t seed; // of the hashes
	bool fold;
	text_sink *sink;
	void *context; // of the sink
};

// The most texts of a window while hashes are counted.
#define HASHES_MAX (COUNT_BLOCK_SIZE / sizeof(uint64_t))

// What finds texts in windows.
struct text_finder {
	bool bytes;	      // see struct sweep
	size_t before, after; // the same
	size_t chunk;	      // the same
	size_t hash_chunk;    // the same, such that no window has more than HASHES_MAX texts
	void *context;
	void (*begin)(void *context); // a pass; may be NULL
	// Hand all texts of a window to the pass. Called by several threads at once.
	void (*visit)(
		void *context, const struct text_pass *pass, const struct sweep_window *window);
	// If not NULL: the same for what needs the order of windows.
	void (*commit)(
		void *context, const struct text_pass *pass, const struct sweep_window *window);
};

struct find_options {
	const struct image *image;
	size_t top;
	uint64_t min_count;
	bool fold;	// letters A to Z count as a to z
	bool templates; // texts with the same template are one
	size_t memory;	// bytes
	unsigned threads;
	const atomic_int *stop;
	bool once;			 // the dump can be read only once
	const struct sweep_watch *watch; // NULL: none
};

struct text_result {
	struct texts texts; // ranked; owned
	uint64_t count;	    // of all texts
	bool partial;	    // stopped before the end
};

// On success *ret is the caller's, to be released with text_result_deinit.
bool texts_count(const struct text_finder *finder, const struct find_options *options,
	struct error *err, struct text_result *ret);
void text_result_deinit(struct text_result *result);
