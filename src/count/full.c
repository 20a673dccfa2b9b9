// SPDX-License-Identifier: MIT
//
// The sample, and the full pass.
#include <stdlib.h>
#include <string.h>

#include "count/counter.h"

// A sample of so many words for each row, within these bounds, finds the words that are worth
// knowing, however large the rest is. The least: a word that is one of 20,000 is in it a hundred
// times.
#define SAMPLE_WORDS_ROW 1024
#define SAMPLE_WORDS_MIN ((uint64_t)2 << 20)
#define SAMPLE_WORDS_MAX ((uint64_t)16 << 20)
// A counter of 32 bits is emptied into a wider one before this many words are through.
#define DRAIN_WORDS ((uint64_t)1 << 31)

static unsigned word_size(const struct worker *worker)
{
	return worker->counter->options->word_size;
}

// ---- the sample

static bool learn_feed(struct worker *worker, const struct count_block *block)
{
	sample_feed(worker->sample, &worker->counter->hash, worker->buffer, block->words,
		word_size(worker));
	return true;
}

// Whether a load of rest words in 2^bits cells stays below the bar, with a margin for words that
// the sample did not find.
static bool cells_suffice(uint64_t bar, uint64_t rest, unsigned bits)
{
	return bar / 4 > rest >> bits;
}

// The most cells that a thread may have, as a power of two: an eighth of the memory for all
// threads.
static unsigned cell_bits_max(const struct counter *counter)
{
	unsigned bits = CELL_BITS_USUAL;
	while (bits < CELL_BITS_MAX &&
		counter->threads * (sizeof(uint32_t) << (bits + 1)) <= counter->options->memory / 8)
		bits++;
	return bits;
}

static bool counter_plan(struct counter *counter, uint64_t bar, uint64_t rest, unsigned *cell_bits,
	size_t *wide_cells)
{
	const unsigned most = cell_bits_max(counter);
	*cell_bits = CELL_BITS_MIN;
	while (*cell_bits < most && !cells_suffice(bar, rest, *cell_bits))
		++*cell_bits;
	// Bytes, and eight times as few words in each as the last row has.
	const bool fine = bar <= WIDE_FULL && !cells_suffice(bar, rest, *cell_bits);
	if (!fine)
		return false;
	*cell_bits = CELL_BITS_USUAL;
	*wide_cells = (size_t)max_u64((size_t)1 << CELL_BITS_USUAL, rest / max_u64(1, bar / 8));
	return true;
}

static bool counter_heed(struct counter *counter, const struct lesson *lesson, struct error *err)
{
	const struct count_options *options = counter->options;
	const uint64_t scale = max_u64(1, counter->source->words / max_u64(1, lesson->words_seen));
	uint64_t bar = options->min_count;
	if (options->top <= lesson->count)
		bar = max_u64(bar, lesson->counts[options->top - 1] * scale);
	return counter_teach(counter, lesson->words, lesson->count, bar, lesson->rest * scale, err);
}

static bool sample_run(struct counter *counter, struct error *err, struct lesson *ret)
{
	static const struct pass pass = {learn_feed, pass_finish};
	const uint64_t wanted = min_u64(SAMPLE_WORDS_MAX,
		max_u64(SAMPLE_WORDS_MIN, counter->options->top * SAMPLE_WORDS_ROW));
	const uint64_t stride = max_u64(4, min_u64(counter->source->words / wanted, 1 << 20));
	if (!pass_run(counter, (unsigned)stride, &pass, err))
		return false;
	struct sample *all = counter->workers[0].sample;
	for (unsigned i = 1; i < counter->threads; i++)
		sample_merge(all, &counter->hash, counter->workers[i].sample);
	return sample_teach(all, err, ret);
}

bool counter_learn(struct counter *counter, struct error *err)
{
	struct lesson lesson = {0};
	bool ok = true;
	for (unsigned i = 0; ok && i < counter->threads; i++)
		ok = (counter->workers[i].sample = sample_create(counter->options->top, err)) !=
		     NULL;
	ok = ok && sample_run(counter, err, &lesson);
	for (unsigned i = 0; i < counter->threads; i++) {
		sample_destroy(counter->workers[i].sample);
		counter->workers[i].sample = NULL;
	}
	ok = ok && counter_heed(counter, &lesson, err);
	lesson_deinit(&lesson);
	return ok;
}

bool counter_teach(struct counter *counter, const uint64_t *words, size_t count, uint64_t bar,
	uint64_t rest, struct error *err)
{
	unsigned cell_bits;
	size_t wide_cells;
	const bool fine = counter_plan(counter, bar, rest, &cell_bits, &wide_cells);
	const size_t cells = (size_t)1 << cell_bits;
	if (!known_init(&counter->known, &counter->hash, words, count, counter->options->top, err))
		return false;
	counter->cell_bits = cell_bits;
	counter->known_counts = calloc(counter->known.slots, sizeof *counter->known_counts);
	counter->cells = calloc(cells, sizeof *counter->cells);
	if (counter->known_counts == NULL || counter->cells == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < counter->threads; i++) {
		struct worker *worker = &counter->workers[i];
		worker->cells = calloc(cells, sizeof *worker->cells);
		worker->known = calloc(counter->known.slots * LANES, sizeof *worker->known);
		if (worker->cells == NULL || worker->known == NULL)
			return error_memory(err);
	}
	// Half of the room at most: the rest is for exact counts.
	return !fine || wide_init(&counter->wide,
				(size_t)min_u64(wide_cells, counter_room(counter) / 2), err);
}

// ---- the full pass

// Add this thread's counters to those of all.
static void tally_drain(struct worker *worker)
{
	struct counter *counter = worker->counter;
	const size_t cells = (size_t)1 << counter->cell_bits;
	pthread_mutex_lock(&counter->lock);
	for (size_t i = 0; i < counter->known.slots * LANES; i++)
		counter->known_counts[i / LANES] += worker->known[i];
	for (size_t i = 0; i < cells; i++)
		counter->cells[i] += worker->cells[i];
	pthread_mutex_unlock(&counter->lock);
	memset(worker->known, 0, counter->known.slots * LANES * sizeof *worker->known);
	memset(worker->cells, 0, cells * sizeof *worker->cells);
	worker->undrained = 0;
}

static struct tally worker_tally(const struct worker *worker)
{
	const struct counter *counter = worker->counter;
	return (struct tally){
		.keys = counter->known.keys,
		.known_shift = counter->known.shift,
		.cell_shift = 64 - counter->cell_bits,
		.factor = counter->hash.factor,
		.known = worker->known,
		.cells = worker->cells,
	};
}

static void tally_account(struct worker *worker, const struct count_block *block)
{
	worker->words += block->words;
	worker->zeros += block->zeros;
	worker->undrained += block->words;
	if (worker->undrained >= DRAIN_WORDS)
		tally_drain(worker);
}

static bool tally_feed(struct worker *worker, const struct count_block *block)
{
	const struct tally tally = worker_tally(worker);
	tally_words(&tally, worker->buffer, block->words, word_size(worker));
	tally_account(worker, block);
	return true;
}

// Words whose finer cells are fetched together: enough to hide the way to memory.
#define BATCH 128

// The other words go to the finer cells, and to the coarse ones when those are full.
static bool tally_feed_wide(struct worker *worker, const struct count_block *block)
{
	struct counter *counter = worker->counter;
	const struct tally tally = worker_tally(worker);
	const unsigned size = word_size(worker);
	const char *bytes = worker->buffer;
	const bool alone = counter->threads == 1;
	for (size_t i = 0; i < block->words; i += BATCH) {
		uint64_t rest[BATCH + 1];
		const size_t batch = (size_t)min_u64(BATCH, block->words - i);
		const size_t count = tally_known(&tally, bytes + i * size, batch, size, rest);
		for (size_t k = 0; k < count; k++) {
			rest[k] = hash_word(&counter->hash, rest[k]);
			__builtin_prefetch((void *)wide_cell(&counter->wide, rest[k]), 1);
		}
		for (size_t k = 0; k < count; k++)
			if (!wide_add(&counter->wide, rest[k], alone))
				worker->cells[counter_cell(counter, rest[k])]++;
	}
	tally_account(worker, block);
	return true;
}

static bool tally_finish(struct worker *worker)
{
	tally_drain(worker);
	return true;
}

bool counter_tally(struct counter *counter, struct error *err)
{
	static const struct pass coarse = {tally_feed, tally_finish};
	static const struct pass fine = {tally_feed_wide, tally_finish};
	if (!pass_run(counter, 1, counter->wide.cells != NULL ? &fine : &coarse, err))
		return false;
	if (counter->wide.cells != NULL)
		wide_measure(&counter->wide);
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
