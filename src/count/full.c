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
	const struct counter *counter = worker->counter;
	const unsigned size = word_size(worker);
	sample_feed(worker->sample, &counter->hash, worker->buffer, block->words, size);
	if (worker->selected == NULL)
		return true;
	const size_t count = counter_select(counter, worker->buffer, block->words);
	sample_feed(worker->selected, &counter->hash, worker->buffer, count, size);
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

// Half as many again as there are rows: the sample does not know the order well.
static size_t winners(const struct counter *counter, const struct lesson *wanted)
{
	const size_t top = counter->options->top;
	return (size_t)min_u64(wanted->count, top + top / 2 + 16);
}

// List what is worth knowing: the likely winners, then words without rows that would fill their
// cells so much that the last row, seen `bar` times, does not stand out; and what else was seen.
static void forecast_list(const struct counter *counter, const struct lesson *all,
	const struct lesson *wanted, uint64_t bar, uint64_t *words, struct forecast *forecast)
{
	const size_t first = winners(counter, wanted);
	size_t count = first;
	memcpy(words, wanted->words, first * sizeof *words);
	forecast->placed = first;
	for (size_t i = 0; i < all->count; i++) {
		if (counter_wants(counter, all->words[i]))
			continue;
		words[count++] = all->words[i];
		// With as many others as cells_suffice allows it stays below the bar.
		if (all->counts[i] > bar / 8 * 5)
			forecast->placed = count;
	}
	memcpy(words + count, wanted->words + first, (wanted->count - first) * sizeof *words);
	forecast->words = words;
	forecast->count = count + wanted->count - first;
}

static bool counter_heed(struct counter *counter, const struct lesson *all,
	const struct lesson *wanted, struct error *err)
{
	const struct count_options *options = counter->options;
	const struct count_source *source = counter->source;
	const uint64_t scale = max_u64(1, source->words / max_u64(1, all->words_seen));
	const uint64_t bar = options->top <= wanted->count ? wanted->counts[options->top - 1] : 0;
	struct forecast forecast = {
		.words = wanted->words,
		.count = wanted->count,
		.placed = winners(counter, wanted),
		.bar = max_u64(bar * scale, options->min_count),
		.rest = wanted->rest * scale,
	};
	// To select words costs more than to count them. It can wait if the last row stands out all
	// the same.
	const uint64_t rest = all->rest * scale;
	counter->select_first =
		source->select_fast || !cells_suffice(forecast.bar, rest, cell_bits_max(counter));
	if (source->select == NULL || counter->select_first)
		return counter_teach(counter, &forecast, err);
	uint64_t *words = calloc(all->count + wanted->count + 1, sizeof *words);
	if (words == NULL)
		return error_memory(err);
	forecast_list(counter, all, wanted, forecast.bar / scale, words, &forecast);
	forecast.rest = rest;
	const bool ok = counter_teach(counter, &forecast, err);
	free(words);
	return ok;
}

static bool samples_create(struct counter *counter, struct error *err)
{
	const size_t top = counter->options->top;
	for (unsigned i = 0; i < counter->threads; i++) {
		struct worker *worker = &counter->workers[i];
		if ((worker->sample = sample_create(top, err)) == NULL)
			return false;
		if (counter->source->select != NULL &&
			(worker->selected = sample_create(top, err)) == NULL)
			return false;
	}
	return true;
}

static void samples_destroy(struct counter *counter)
{
	for (unsigned i = 0; i < counter->threads; i++) {
		struct worker *worker = &counter->workers[i];
		sample_destroy(worker->sample);
		sample_destroy(worker->selected);
		worker->sample = worker->selected = NULL;
	}
}

static bool samples_run(struct counter *counter, struct error *err)
{
	static const struct pass pass = {learn_feed, pass_finish, false};
	const uint64_t wanted = min_u64(SAMPLE_WORDS_MAX,
		max_u64(SAMPLE_WORDS_MIN, counter->options->top * SAMPLE_WORDS_ROW));
	const uint64_t stride = max_u64(4, min_u64(counter->source->words / wanted, 1 << 20));
	if (!pass_run(counter, (unsigned)stride, &pass, err))
		return false;
	struct worker *first = &counter->workers[0];
	for (unsigned i = 1; i < counter->threads; i++) {
		sample_merge(first->sample, &counter->hash, counter->workers[i].sample);
		if (first->selected != NULL)
			sample_merge(first->selected, &counter->hash, counter->workers[i].selected);
	}
	return true;
}

bool counter_learn(struct counter *counter, struct error *err)
{
	struct lesson all = {0}, selected = {0};
	bool ok = samples_create(counter, err) && samples_run(counter, err) &&
		  sample_teach(counter->workers[0].sample, err, &all);
	const bool some = ok && counter->workers[0].selected != NULL;
	ok = ok && (!some || sample_teach(counter->workers[0].selected, err, &selected));
	samples_destroy(counter);
	ok = ok && counter_heed(counter, &all, some ? &selected : &all, err);
	lesson_deinit(&all);
	lesson_deinit(&selected);
	return ok;
}

bool counter_teach(struct counter *counter, const struct forecast *forecast, struct error *err)
{
	unsigned cell_bits;
	size_t wide_cells;
	const bool fine =
		counter_plan(counter, forecast->bar, forecast->rest, &cell_bits, &wide_cells);
	const size_t cells = (size_t)1 << cell_bits;
	if (!known_init(&counter->known, &counter->hash, forecast->words, forecast->count,
		    forecast->placed, err))
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
	const struct pass pass = {
		.feed = counter->wide.cells != NULL ? tally_feed_wide : tally_feed,
		.finish = tally_finish,
		.select = counter->select_first,
	};
	if (!pass_run(counter, 1, &pass, err))
		return false;
	if (counter->wide.cells != NULL)
		wide_measure(&counter->wide);
	for (unsigned i = 0; i < counter->threads; i++) {
		counter->known_counts[0] += counter->workers[i].zeros;
		counter->words += counter->workers[i].words;
	}
	for (size_t i = 0; i < counter->known.slots; i++)
		if (counter->known_counts[i] > 0 && counter_wants(counter, counter->known.keys[i]))
			best_offer(&counter->best,
				(struct count_row){
					.value = counter_value(counter, counter->known.keys[i]),
					.count = counter->known_counts[i],
					.count_max = counter->known_counts[i],
				});
	return true;
}
