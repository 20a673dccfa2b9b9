// SPDX-License-Identifier: MIT
//
// See ALGORITHM.md for the idea. The steps: learn likely winners from a sample; one full pass that
// counts them exactly and all other words in cells; as long as a cell is so full that a better word
// may be in it, more passes that count the words of the fullest cells exactly.
#include "count/count.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "count/best.h"
#include "count/gather.h"
#include "count/hash.h"
#include "count/known.h"
#include "count/once.h"
#include "count/tally.h"

// A sample of this many words finds the words that are worth knowing, however large the rest is.
#define SAMPLE_WORDS ((uint64_t)4 << 20)
// Below this many words a sample does not pay: all words are counted exactly at once.
#define SMALL_WORDS ((uint64_t)1 << 18)
// A counter of 32 bits is emptied into a wider one before this many words are through.
#define DRAIN_WORDS ((uint64_t)1 << 31)

// Where a counter of 16 bits stops: all threads may be about to add one.
#define WIDE_FULL (UINT16_MAX - COUNT_THREADS_MAX)

struct worker {
	struct counter *counter;
	void *buffer;
	uint32_t *cells, *known;
	uint64_t undrained;
	struct sample *sample;
	struct gather gather;
	size_t gathered; // entries of the list that gather has become
	uint64_t words, zeros;
	struct error err;
	bool ok;
	pthread_t thread;
};

struct counter {
	const struct count_source *source;
	const struct count_options *options;
	struct hash hash;
	struct known known;
	uint64_t *known_counts; // a count for each slot of known
	uint64_t *cells;	// of all threads together
	// The second, finer set of cells, if there is one; WIDE_FULL: that many or more.
	_Atomic uint16_t *wide;
	unsigned wide_shift;
	struct best best;
	// What the present pass looks for: words whose rank is in [low, high).
	_Atomic count_rank low;
	count_rank high;
	struct count_row bar; // as it was when the pass began
	uint64_t *open;	      // a bit for each cell: may hold such words
	struct worker *workers;
	unsigned threads;
	pthread_mutex_t lock; // for what workers add to when they finish
	atomic_bool failed;
	uint64_t words;
	unsigned passes;
};

// ---- running a pass

static bool stopped(const struct counter *counter)
{
	return atomic_load_explicit(counter->options->stop, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&counter->failed, memory_order_relaxed);
}

// What a pass does: feed is called for each block, finish once by each thread.
struct pass {
	bool (*feed)(struct worker *worker, const struct count_block *block);
	bool (*finish)(struct worker *worker);
};

struct task {
	struct worker *worker;
	const struct pass *pass;
};

static void *worker_run(void *argument)
{
	const struct task *task = argument;
	struct worker *worker = task->worker;
	struct counter *counter = worker->counter;
	const struct count_source *source = counter->source;
	worker->ok = true;
	while (worker->ok && !stopped(counter)) {
		struct count_block block;
		const int more =
			source->next(source->context, worker->buffer, &block, &worker->err);
		if (more == 0)
			break;
		worker->ok = more > 0 && task->pass->feed(worker, &block);
	}
	worker->ok = worker->ok && task->pass->finish(worker);
	if (!worker->ok)
		atomic_store(&counter->failed, true);
	return NULL;
}

static bool pass_run(
	struct counter *counter, unsigned stride, const struct pass *pass, struct error *err)
{
	struct task tasks[counter->threads];
	if (!counter->source->start(counter->source->context, stride, err))
		return false;
	unsigned started = 1;
	for (unsigned i = 0; i < counter->threads; i++)
		tasks[i] = (struct task){&counter->workers[i], pass};
	// What cannot be started is done by the others.
	while (started < counter->threads && pthread_create(&counter->workers[started].thread, NULL,
						     worker_run, &tasks[started]) == 0)
		started++;
	worker_run(&tasks[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(counter->workers[i].thread, NULL);
	counter->passes += stride == 1;
	for (unsigned i = 0; i < started; i++)
		if (!counter->workers[i].ok) {
			*err = counter->workers[i].err;
			return false;
		}
	return true;
}

static unsigned word_size(const struct worker *worker)
{
	return worker->counter->options->word_size;
}

// For passes whose threads have nothing to hand in.
static bool pass_finish(struct worker *worker)
{
	(void)worker;
	return true;
}

// ---- the sample

static bool learn_feed(struct worker *worker, const struct count_block *block)
{
	sample_feed(worker->sample, &worker->counter->hash, worker->buffer, block->words,
		word_size(worker));
	return true;
}

static bool counter_learn(struct counter *counter, struct error *err)
{
	static const struct pass pass = {learn_feed, pass_finish};
	const uint64_t stride = max_u64(4, min_u64(counter->source->words / SAMPLE_WORDS, 1 << 20));
	bool ok = true;
	for (unsigned i = 0; ok && i < counter->threads; i++)
		ok = (counter->workers[i].sample = sample_create(err)) != NULL;
	ok = ok && pass_run(counter, (unsigned)stride, &pass, err);
	if (ok) {
		struct sample *all = counter->workers[0].sample;
		for (unsigned i = 1; i < counter->threads; i++)
			sample_merge(all, &counter->hash, counter->workers[i].sample);
		sample_teach(all, &counter->hash, &counter->known);
	}
	for (unsigned i = 0; i < counter->threads; i++) {
		sample_destroy(counter->workers[i].sample);
		counter->workers[i].sample = NULL;
	}
	return ok;
}

// ---- the full pass

// Add this thread's counters to those of all.
static void tally_drain(struct worker *worker)
{
	struct counter *counter = worker->counter;
	pthread_mutex_lock(&counter->lock);
	for (size_t i = 0; i < counter->known.slots; i++)
		counter->known_counts[i] += worker->known[i];
	for (size_t i = 0; i < CELL_COUNT; i++)
		counter->cells[i] += worker->cells[i];
	pthread_mutex_unlock(&counter->lock);
	memset(worker->known, 0, counter->known.slots * sizeof *worker->known);
	memset(worker->cells, 0, CELL_COUNT * sizeof *worker->cells);
	worker->undrained = 0;
}

static bool tally_feed(struct worker *worker, const struct count_block *block)
{
	const struct counter *counter = worker->counter;
	const struct tally tally = {
		.keys = counter->known.keys,
		.known_shift = counter->known.shift,
		.factor = counter->hash.factor,
		.known = worker->known,
		.cells = worker->cells,
	};
	tally_words(&tally, worker->buffer, block->words, word_size(worker));
	worker->words += block->words;
	worker->zeros += block->zeros;
	worker->undrained += block->words;
	if (worker->undrained >= DRAIN_WORDS)
		tally_drain(worker);
	return true;
}

static bool tally_finish(struct worker *worker)
{
	tally_drain(worker);
	return true;
}

static uint64_t counter_value(const struct counter *counter, uint64_t word)
{
	return word_swap(word, counter->options->word_size, counter->options->order);
}

static bool counter_tally(struct counter *counter, struct error *err)
{
	static const struct pass pass = {tally_feed, tally_finish};
	if (!pass_run(counter, 1, &pass, err))
		return false;
	for (unsigned i = 0; i < counter->threads; i++) {
		counter->known_counts[0] += counter->workers[i].zeros;
		counter->words += counter->workers[i].words + counter->workers[i].zeros;
	}
	for (size_t i = 0; i < counter->known.slots; i++)
		if (counter->known_counts[i] > 0)
			best_offer(&counter->best,
				(struct count_row){
					.value = counter_value(counter, counter->known.keys[i]),
					.count = counter->known_counts[i],
					.count_max = counter->known_counts[i],
				});
	return true;
}

// ---- finer cells

// As many words, or more, as the cell of a word with this hash holds.
static uint64_t counter_load(const struct counter *counter, uint64_t hash)
{
	if (counter->wide != NULL) {
		const uint16_t load = atomic_load_explicit(
			&counter->wide[hash >> counter->wide_shift], memory_order_relaxed);
		if (load < WIDE_FULL)
			return load;
	}
	return counter->cells[cell_of(hash)];
}

// Whether the words of a cell are looked for at all, and the word is not counted yet.
static inline bool counter_wants(const struct counter *counter, uint64_t hash, uint64_t word)
{
	const size_t cell = cell_of(hash);
	return (counter->open[cell / 64] >> cell % 64 & 1) != 0 &&
	       !known_has(&counter->known, hash, word);
}

static bool refine_feed(struct worker *worker, const struct count_block *block)
{
	struct counter *counter = worker->counter;
	const unsigned size = word_size(worker);
	const char *bytes = worker->buffer;
	for (size_t i = 0; i < block->words; i++) {
		const uint64_t word = word_load_native(bytes + i * size, size);
		const uint64_t hash = hash_word(&counter->hash, word);
		if (!counter_wants(counter, hash, word))
			continue;
		_Atomic uint16_t *cell = &counter->wide[hash >> counter->wide_shift];
		if (atomic_load_explicit(cell, memory_order_relaxed) < WIDE_FULL)
			atomic_fetch_add_explicit(cell, 1, memory_order_relaxed);
	}
	return true;
}

static bool counter_refine(struct counter *counter, size_t cells, struct error *err)
{
	static const struct pass pass = {refine_feed, pass_finish};
	_Atomic uint16_t *wide = calloc(cells, sizeof *wide);
	if (wide == NULL)
		return error_memory(err);
	counter->wide = wide;
	counter->wide_shift = 64 - (unsigned)__builtin_ctzll(cells);
	return pass_run(counter, 1, &pass, err);
}

// ---- exact counts of the words of full cells

// The lowest rank of a load. The largest loads are all alike in this order, and no rank is
// UINT64_MAX.
static count_rank rank_of_load(uint64_t load)
{
	return min_u64(load, UINT32_MAX - 1) << 32;
}

static count_rank counter_rank(const void *context, uint64_t word)
{
	const struct counter *counter = context;
	const uint64_t load = counter_load(counter, hash_word(&counter->hash, word));
	return rank_of_load(load) | hash_second(&counter->hash, word);
}

static bool gather_feed(struct worker *worker, const struct count_block *block)
{
	struct counter *counter = worker->counter;
	const unsigned size = word_size(worker);
	const char *bytes = worker->buffer;
	for (size_t i = 0; i < block->words; i++) {
		const uint64_t word = word_load_native(bytes + i * size, size);
		const uint64_t hash = hash_word(&counter->hash, word);
		if (!counter_wants(counter, hash, word))
			continue;
		const uint64_t load = counter_load(counter, hash);
		// As frequent as the bar at most: then the value decides.
		if (load < counter->bar.count ||
			(load == counter->bar.count &&
				counter_value(counter, word) > counter->bar.value))
			continue;
		const count_rank rank = counter_rank(counter, word);
		if (rank < atomic_load_explicit(&counter->low, memory_order_relaxed) ||
			rank >= counter->high)
			continue;
		if (!gather_add(&worker->gather, word, &worker->err))
			return false;
	}
	return true;
}

// Open the cells that may hold a better word than the bar. Returns how many words are in them.
static uint64_t counter_open(struct counter *counter)
{
	uint64_t words = 0;
	counter->bar = best_bar(&counter->best);
	memset(counter->open, 0, CELL_COUNT / 8);
	for (size_t i = 0; i < CELL_COUNT; i++) {
		const uint64_t load = counter->cells[i];
		// The finer cells that a cell consists of may be below the window when it is not.
		const bool counted = counter->wide == NULL && rank_of_load(load) >= counter->high;
		if (load < counter->bar.count || counted)
			continue;
		counter->open[i / 64] |= UINT64_C(1) << i % 64;
		words = add_saturated(words, load);
	}
	return words;
}

// Offer the words that the threads have counted, each with the sum of its counts.
static void counter_collect(struct counter *counter)
{
	size_t at[counter->threads];
	memset(at, 0, sizeof at);
	for (;;) {
		struct count_row row = {.count = 0};
		uint64_t least = UINT64_MAX;
		for (unsigned i = 0; i < counter->threads; i++) {
			const struct worker *worker = &counter->workers[i];
			if (at[i] < worker->gathered)
				least = min_u64(least, worker->gather.entries[at[i]].word);
		}
		for (unsigned i = 0; i < counter->threads; i++) {
			const struct worker *worker = &counter->workers[i];
			if (at[i] < worker->gathered && worker->gather.entries[at[i]].word == least)
				row.count += worker->gather.entries[at[i]++].count;
		}
		if (row.count == 0)
			break;
		row.value = counter_value(counter, least);
		row.count_max = row.count;
		best_offer(&counter->best, row);
	}
}

static bool counter_gather(struct counter *counter, size_t slots, struct error *err)
{
	static const struct pass pass = {gather_feed, pass_finish};
	bool ok = true;
	atomic_store(&counter->low, rank_of_load(counter->bar.count));
	for (unsigned i = 0; ok && i < counter->threads; i++) {
		struct gather *gather = &counter->workers[i].gather;
		*gather = (struct gather){.hash = &counter->hash,
			.rank = counter_rank,
			.context = counter,
			.low = &counter->low};
		ok = gather_init(gather, slots, err);
	}
	ok = ok && pass_run(counter, 1, &pass, err);
	const count_rank low = atomic_load(&counter->low);
	if (ok && low >= counter->high)
		ok = error_set(err, "too little memory to count exactly; use a larger --memory");
	if (ok && !stopped(counter)) {
		for (unsigned i = 0; i < counter->threads; i++)
			counter->workers[i].gathered = gather_list(&counter->workers[i].gather);
		counter_collect(counter);
		counter->high = low;
	}
	for (unsigned i = 0; i < counter->threads; i++)
		gather_deinit(&counter->workers[i].gather);
	return ok;
}

// ---- memory

static size_t worker_memory(const struct counter *counter)
{
	return COUNT_BLOCK_SIZE + CELL_COUNT * sizeof(uint32_t) +
	       counter->known.slots * sizeof(uint32_t);
}

// What is left for the finer cells and the tables of a gathering pass.
static size_t counter_room(const struct counter *counter)
{
	const size_t used = counter->best.capacity * sizeof *counter->best.rows +
			    counter->known.slots * 2 * sizeof(uint64_t) +
			    CELL_COUNT * sizeof *counter->cells +
			    counter->threads * worker_memory(counter);
	// An eighth is kept back for the program around and what malloc adds.
	const size_t usable = counter->options->memory / 8 * 7;
	return usable > used ? usable - used : 0;
}

// The largest power of two whose cells fit half of the room.
static size_t counter_wide_cells(const struct counter *counter)
{
	size_t cells = CELL_COUNT;
	while (2 * cells * sizeof *counter->wide <= counter_room(counter) / 2)
		cells *= 2;
	return cells;
}

static size_t counter_gather_slots(const struct counter *counter, uint64_t words)
{
	size_t room = counter_room(counter);
	if (counter->wide != NULL)
		room -= counter_wide_cells(counter) * sizeof *counter->wide;
	// Twice: for the copy while a table is narrowed.
	const size_t fit = room / (2 * sizeof(struct gather_entry)) / counter->threads;
	return max_u64(1024, min_u64(fit, add_saturated(words, words)));
}

size_t count_memory_needed(size_t top)
{
	return max_u64(COUNT_MEMORY_MIN, 2 * top * sizeof(struct count_row));
}

// ---- the whole

static bool counter_search(struct counter *counter, struct error *err)
{
	counter->high = UINT64_MAX;
	while (!stopped(counter)) {
		const uint64_t words = counter_open(counter);
		if (words == 0 || counter->high <= rank_of_load(counter->bar.count))
			break;
		const size_t slots = counter_gather_slots(counter, words);
		// A table that would have to be narrowed often: sort the words finer first.
		if (counter->wide == NULL && words / 4 > (uint64_t)slots * counter->threads) {
			if (!counter_refine(counter, counter_wide_cells(counter), err))
				return false;
		} else if (!counter_gather(counter, slots, err)) {
			return false;
		}
	}
	return true;
}

static bool counter_init(struct counter *counter, struct error *err)
{
	const struct count_options *options = counter->options;
	if (getrandom(&counter->hash, sizeof counter->hash, 0) != sizeof counter->hash)
		return error_set(err, "no random numbers: %s", strerror(errno));
	counter->hash.factor |= 1;
	counter->hash.second |= 1;
	counter->hash.third |= 1;
	if (!best_init(&counter->best, options->top, options->min_count, err) ||
		!known_init(&counter->known, options->top, err))
		return false;
	// Threads take a quarter of the memory at most.
	const size_t fit = options->memory / 4 / worker_memory(counter);
	counter->threads =
		(unsigned)max_u64(1, min_u64(min_u64(options->threads, COUNT_THREADS_MAX), fit));
	counter->known_counts = calloc(counter->known.slots, sizeof *counter->known_counts);
	counter->cells = calloc(CELL_COUNT, sizeof *counter->cells);
	counter->open = calloc(CELL_COUNT / 64, sizeof *counter->open);
	counter->workers = calloc(counter->threads, sizeof *counter->workers);
	if (counter->known_counts == NULL || counter->cells == NULL || counter->open == NULL ||
		counter->workers == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < counter->threads; i++) {
		struct worker *worker = &counter->workers[i];
		worker->counter = counter;
		worker->buffer = aligned_alloc(64, COUNT_BLOCK_SIZE);
		worker->cells = calloc(CELL_COUNT, sizeof *worker->cells);
		worker->known = calloc(counter->known.slots, sizeof *worker->known);
		if (worker->buffer == NULL || worker->cells == NULL || worker->known == NULL)
			return error_memory(err);
	}
	return true;
}

static void counter_deinit(struct counter *counter)
{
	for (unsigned i = 0; counter->workers != NULL && i < counter->threads; i++) {
		free(counter->workers[i].buffer);
		free(counter->workers[i].cells);
		free(counter->workers[i].known);
	}
	free(counter->workers);
	free(counter->known_counts);
	free(counter->cells);
	free(counter->open);
	free(counter->wide);
	known_deinit(&counter->known);
	best_deinit(&counter->best);
}

static bool counter_run(struct counter *counter, struct error *err, struct count_result *ret)
{
	if (!counter_tally(counter, err) || !counter_search(counter, err))
		return false;
	best_sort(&counter->best);
	*ret = (struct count_result){
		.rows = counter->best.rows,
		.row_count = counter->best.count,
		.words = counter->words,
		.passes = counter->passes,
		.threads = counter->threads,
		.partial = atomic_load(counter->options->stop) != 0,
	};
	counter->best.rows = NULL;
	return true;
}

// Of a stream that can be read again a first pass finds intervals. Where they leave something open,
// the words with the best ones are worth knowing.
static bool counter_learn_all(struct counter *counter, const struct once *once, struct error *err)
{
	(void)err;
	for (size_t i = 0; i < once->result.row_count; i++)
		known_add(&counter->known, &counter->hash,
			counter_value(counter, once->result.rows[i].value));
	counter->passes = once->result.passes;
	return true;
}

bool count_words(const struct count_source *source, const struct count_options *options,
	struct error *err, struct count_result *ret)
{
	struct counter counter = {
		.source = source, .options = options, .lock = PTHREAD_MUTEX_INITIALIZER};
	struct once once = {0};
	if (source->access != COUNT_SEEK) {
		if (!once_count(source, options, options->top, err, &once))
			return false;
		if (source->access == COUNT_ONCE || once.exact || once.result.partial) {
			if (source->access == COUNT_REWIND)
				once.result.rest_max = 0;
			*ret = once.result;
			return true;
		}
	}
	bool ok = counter_init(&counter, err);
	if (ok && source->access == COUNT_REWIND)
		ok = counter_learn_all(&counter, &once, err);
	else if (ok && source->words >= SMALL_WORDS)
		ok = counter_learn(&counter, err);
	ok = ok && counter_run(&counter, err, ret);
	count_result_deinit(&once.result);
	counter_deinit(&counter);
	return ok;
}

void count_result_deinit(struct count_result *result)
{
	free(result->rows);
	result->rows = NULL;
}
