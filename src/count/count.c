// SPDX-License-Identifier: MIT
//
// See ALGORITHM.md for the idea. The steps: learn likely winners from a sample; one full pass that
// counts them exactly and all other words in cells; as long as a cell is so full that a better word
// may be in it, more passes that count the words of the fullest cells exactly.
#include "count/count.h"

#include <stdlib.h>

#include "count/counter.h"
#include "count/once.h"

// Below this many words a sample does not pay: all words are counted exactly at once.
#define SMALL_WORDS ((uint64_t)1 << 18)

// ---- running a pass

bool counter_stopped(const struct counter *counter)
{
	return atomic_load_explicit(counter->options->stop, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&counter->failed, memory_order_relaxed);
}

size_t counter_select(const struct counter *counter, void *words, size_t count)
{
	const struct count_source *source = counter->source;
	return source->select == NULL ? count : source->select(source->context, words, count);
}

bool counter_wants(const struct counter *counter, uint64_t word)
{
	uint64_t words[1];
	word_store(words, word, counter->options->word_size, ORDER_NATIVE);
	return counter_select(counter, words, 1) == 1;
}

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
	while (worker->ok && !counter_stopped(counter)) {
		struct count_block block;
		const int more =
			source->next(source->context, worker->buffer, &block, &worker->err);
		if (more == 0)
			break;
		worker->words += more > 0 ? block.words + block.zeros : 0;
		if (more > 0 && task->pass->select)
			block.words = counter_select(counter, worker->buffer, block.words);
		worker->ok = more > 0 && task->pass->feed(worker, &block);
	}
	worker->ok = worker->ok && task->pass->finish(worker);
	if (!worker->ok)
		atomic_store(&counter->failed, true);
	return NULL;
}

bool pass_run(struct counter *counter, unsigned stride, const struct pass *pass, struct error *err)
{
	struct task tasks[counter->threads];
	if (!counter->source->start(counter->source->context, stride, err))
		return false;
	unsigned started = 1;
	for (unsigned i = 0; i < counter->threads; i++) {
		counter->workers[i].words = 0;
		tasks[i] = (struct task){&counter->workers[i], pass};
	}
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

bool pass_finish(struct worker *worker)
{
	(void)worker;
	return true;
}

// ---- memory

static size_t worker_memory(unsigned cell_bits, size_t known_slots)
{
	return COUNT_BLOCK_SIZE + (sizeof(uint32_t) << cell_bits) +
	       known_slots * LANES * sizeof(uint32_t);
}

size_t counter_room(const struct counter *counter)
{
	const size_t used =
		counter->best.capacity * sizeof *counter->best.rows +
		counter->known.slots * 2 * sizeof(uint64_t) +
		(sizeof *counter->cells << counter->cell_bits) + counter->wide.count / 8 * 9 +
		(counter->loads_unknown ? counter->open_count / 8 : 0) +
		counter->threads * worker_memory(counter->cell_bits, counter->known.slots);
	// An eighth is kept back for the program around and what malloc adds.
	const size_t usable = counter->options->memory / 8 * 7;
	return usable > used ? usable - used : 0;
}

// Threads take a quarter of the memory at most, and half of what the rows leave.
static unsigned counter_threads(const struct counter *counter)
{
	const uint64_t most = min_u64(counter->options->memory / 4, counter_room(counter) / 2);
	const size_t each = worker_memory(CELL_BITS_USUAL, (size_t)1 << KNOWN_BITS_MAX);
	const uint64_t fit = min_u64(COUNT_THREADS_MAX, most / each);
	return (unsigned)max_u64(1, min_u64(counter->options->threads, fit));
}

size_t count_memory_needed(size_t top)
{
	// An eighth of it is kept back; counting needs 7 MiB beside the rows.
	return max_u64(COUNT_MEMORY_MIN, ((size_t)8 << 20) + 28 * top);
}

// ---- the whole

static bool counter_init(struct counter *counter, struct error *err)
{
	const struct count_options *options = counter->options;
	if (!hash_random(&counter->hash, sizeof counter->hash, err))
		return false;
	counter->hash.factor |= 1;
	counter->hash.second |= 1;
	counter->hash.third |= 1;
	if (!best_init(&counter->best, options->top, options->min_count, err))
		return false;
	counter->threads = counter_threads(counter);
	counter->workers = calloc(counter->threads, sizeof *counter->workers);
	if (counter->workers == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < counter->threads; i++) {
		counter->workers[i].counter = counter;
		counter->workers[i].buffer = aligned_alloc(64, COUNT_BLOCK_SIZE);
		if (counter->workers[i].buffer == NULL)
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
	wide_deinit(&counter->wide);
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

bool count_words(const struct count_source *source, const struct count_options *options,
	struct error *err, struct count_result *ret)
{
	if (source->access == COUNT_ONCE)
		return once_count(source, options, err, ret);
	static const struct forecast unknown = {.bar = SMALL_WORDS, .rest = SMALL_WORDS};
	struct counter counter = {
		.source = source, .options = options, .lock = PTHREAD_MUTEX_INITIALIZER};
	bool ok = counter_init(&counter, err);
	if (ok && source->words >= SMALL_WORDS)
		ok = counter_learn(&counter, err);
	else if (ok)
		ok = counter_teach(&counter, &unknown, err);
	ok = ok && counter_run(&counter, err, ret);
	counter_deinit(&counter);
	return ok;
}

void count_result_deinit(struct count_result *result)
{
	free(result->rows);
	result->rows = NULL;
}
