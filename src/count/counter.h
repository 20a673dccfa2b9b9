// SPDX-License-Identifier: MIT
//
// What the parts of the engine share: the state of one count, its threads, and how a pass is run.
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "count/best.h"
#include "count/count.h"
#include "count/gather.h"
#include "count/hash.h"
#include "count/known.h"
#include "count/tally.h"
#include "count/wide.h"

struct worker {
	struct counter *counter;
	void *buffer;
	uint32_t *cells, *known; // as in struct tally
	uint64_t undrained;	 // words counted there
	// Of all words, and of those that can have a row; NULL: the same.
	struct sample *sample, *selected;
	struct gather gather;
	uint64_t words; // read in this pass
	uint64_t zeros; // of holes, read in the full pass
	struct error err;
	bool ok;
	pthread_t thread;
};

struct counter {
	const struct count_source *source;
	const struct count_options *options;
	bool select_first; // words that can have no row are not counted in cells either
	struct hash hash;
	struct known known;
	uint64_t *known_counts; // a count for each slot of known
	// 2^cell_bits of all threads together. What the wide cells could not hold, if they were
	// there from the beginning.
	uint64_t *cells;
	unsigned cell_bits;
	struct wide wide; // finer cells; without cells as long as they are not needed
	// A bit for each cell, or for each finer one if there are any: the words in it are wanted.
	uint64_t *open;
	size_t open_count;
	bool loads_unknown; // cells say nothing of their words any more
	struct sift *sift;  // while it is at work
	struct best best;
	// What a gathering pass looks for: words whose rank is in [low, high).
	_Atomic count_rank low;
	count_rank high;
	struct count_row bar; // as it was when the pass began
	struct worker *workers;
	unsigned threads;
	pthread_mutex_t lock; // for what workers add to while a pass runs
	atomic_bool failed;
	uint64_t words;
	unsigned passes;
};

// What a pass does: feed is called for each block, finish once by each thread. The block's words
// are selected if select is set.
struct pass {
	bool (*feed)(struct worker *worker, const struct count_block *block);
	bool (*finish)(struct worker *worker);
	bool select;
};

bool pass_run(struct counter *counter, unsigned stride, const struct pass *pass, struct error *err);
// For passes whose threads have nothing to hand in.
bool pass_finish(struct worker *worker);
bool counter_stopped(const struct counter *counter);
// Keep those of count words that can have a row, at the beginning. Returns how many.
size_t counter_select(const struct counter *counter, void *words, size_t count);
bool counter_wants(const struct counter *counter, uint64_t word);

// Bytes left for the finer cells and the tables of a gathering pass.
size_t counter_room(const struct counter *counter);

// Sample the stream for words worth knowing.
bool counter_learn(struct counter *counter, struct error *err);

// What is expected of a stream.
struct forecast {
	const uint64_t *words; // worth knowing, the most important first
	size_t count;
	size_t placed; // so many of them should be known for sure
	uint64_t bar;  // about how often the last row will occur
	uint64_t rest; // how many words are not among these, about
};

// Choose the known words and allocate what counts the others.
bool counter_teach(struct counter *counter, const struct forecast *forecast, struct error *err);
// The full pass: afterwards the known words are in best, all others in cells.
bool counter_tally(struct counter *counter, struct error *err);
// As many passes as it takes to be sure that no better word is in the cells.
bool counter_search(struct counter *counter, struct error *err);

static inline uint64_t counter_value(const struct counter *counter, uint64_t word)
{
	return word_swap(word, counter->options->word_size, counter->options->order);
}

// Words whose places in memory are fetched together: enough to hide the way there.
#define BATCH 128

// The words of count ones that are in open cells and can have a row go to the beginning. Returns
// how many.
size_t counter_filter(const struct counter *counter, void *words, size_t count);

// Which of count cells a word with this hash is in.
static inline size_t counter_cell_of(uint64_t hash, size_t count)
{
	return (size_t)((hash >> 32) * count >> 32);
}

static inline size_t counter_cell(const struct counter *counter, uint64_t hash)
{
	return (size_t)(hash >> (64 - counter->cell_bits));
}

static inline bool counter_is_open(const struct counter *counter, uint64_t hash)
{
	const size_t cell = counter_cell_of(hash, counter->open_count);
	return (counter->open[cell / 64] >> cell % 64 & 1) != 0;
}
