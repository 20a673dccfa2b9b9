// SPDX-License-Identifier: MIT
#include "find/textcount.h"

#include <stdlib.h>

// If two texts have the same hash, other hashes are tried: with 64 bits once is a rare event.
#define SEEDS 8

// Threads count for each text: in lines of the cache of their own.
struct tally_count {
	_Alignas(64) uint64_t texts;
};

struct tally {
	const struct text_finder *finder;
	const struct find_options *options;
	unsigned threads;
	uint64_t seed;
	struct texts *tables;	    // one for each thread; owned
	struct tally_count *counts; // of texts, the same; owned
	uint64_t *winners;	    // hashes that are collected, 0: free; NULL: all; owned
	bool empty_wins;	    // and the text without bytes, whose hash is 0
	size_t winner_mask;
	bool trial;	      // a full table ends the pass
	atomic_bool given_up; // that has happened
};

// ---- tables of texts

struct tally_sink {
	struct tally *tally;
	unsigned worker;
};

static bool tally_wants(const struct tally *tally, uint64_t hash)
{
	if (tally->winners == NULL)
		return true;
	if (hash == 0)
		return tally->empty_wins;
	size_t at = hash & tally->winner_mask;
	while (tally->winners[at] != 0 && tally->winners[at] != hash)
		at = (at + 1) & tally->winner_mask;
	return tally->winners[at] == hash;
}

static void tally_add(void *context, const struct text *text, uint64_t count)
{
	const struct tally_sink *sink = context;
	struct tally *tally = sink->tally;
	tally->counts[sink->worker].texts += count;
	if (tally->options->templates) {
		struct template template;
		const uint64_t hash =
			texts_template(text, tally->seed, tally->options->fold, &template);
		if (tally_wants(tally, hash))
			texts_add_template(
				&tally->tables[sink->worker], text, &template, hash, count);
	} else if (tally_wants(tally, text->hash))
		texts_add(&tally->tables[sink->worker], text, count);
}

typedef void tally_step(
	void *context, const struct text_pass *pass, const struct sweep_window *window);

static bool tally_call(
	struct tally *tally, unsigned worker, tally_step *step, const struct sweep_window *window)
{
	struct tally_sink sink = {tally, worker};
	const struct text_pass pass = {tally->seed, tally->options->fold, tally_add, &sink};
	step(tally->finder->context, &pass, window);
	if (!tally->trial || !tally->tables[worker].full)
		return true;
	atomic_store(&tally->given_up, true);
	return false;
}

static bool tally_visit(
	void *context, unsigned worker, const struct sweep_window *window, struct error *err)
{
	(void)err;
	struct tally *tally = context;
	return tally_call(tally, worker, tally->finder->visit, window);
}

static bool tally_commit(
	void *context, unsigned worker, const struct sweep_window *window, struct error *err)
{
	(void)err;
	struct tally *tally = context;
	return tally_call(tally, worker, tally->finder->commit, window);
}

static struct sweep tally_sweep(struct tally *tally)
{
	const struct text_finder *finder = tally->finder;
	const struct find_options *options = tally->options;
	return (struct sweep){
		.image = options->image,
		.watch = options->watch,
		.bytes = finder->bytes,
		.before = finder->before,
		.after = finder->after,
		.chunk = finder->chunk,
		.stride = 1,
		.threads = tally->threads,
		.stop = options->stop,
		.context = tally,
		.visit = tally_visit,
		.commit = finder->commit != NULL ? tally_commit : NULL,
	};
}

// What is left for tables: half is for those of the threads, half for their union.
static size_t tally_memory(struct tally *tally)
{
	const struct sweep sweep = tally_sweep(tally);
	const size_t windows = tally->threads * sweep_memory(&sweep);
	const size_t usable = tally->options->memory / 8 * 7;
	return usable > windows ? usable - windows : 0;
}

// Count all texts, or the winners, in tables; *ret becomes their union.
static bool tally_run(struct tally *tally, struct error *err, struct texts *ret)
{
	const size_t all = tally_memory(tally), half = tally->threads == 1 ? all : all / 2;
	tally->tables = calloc(tally->threads, sizeof *tally->tables);
	tally->counts =
		aligned_alloc(_Alignof(struct tally_count), tally->threads * sizeof *tally->counts);
	bool ok = (tally->tables != NULL && tally->counts != NULL) || error_memory(err);
	for (unsigned i = 0; tally->counts != NULL && i < tally->threads; i++)
		tally->counts[i].texts = 0;
	for (unsigned i = 0; ok && i < tally->threads; i++)
		texts_init(&tally->tables[i], max_u64(half / tally->threads, TEXTS_MEMORY_MIN),
			tally->options->fold, tally->options->templates);
	const struct sweep sweep = tally_sweep(tally);
	if (tally->finder->begin != NULL)
		tally->finder->begin(tally->finder->context);
	ok = ok && (sweep_run(&sweep, err) || atomic_load(&tally->given_up));
	// One thread has seen everything: its table is the union.
	if (ok && tally->threads == 1) {
		*ret = tally->tables[0];
		tally->tables[0] = (struct texts){0};
	} else if (ok) {
		texts_init(ret, max_u64(half, TEXTS_MEMORY_MIN), tally->options->fold,
			tally->options->templates);
		for (unsigned i = 0; i < tally->threads; i++)
			texts_merge(ret, &tally->tables[i]);
	}
	for (unsigned i = 0; tally->tables != NULL && i < tally->threads; i++)
		texts_deinit(&tally->tables[i]);
	free(tally->tables);
	tally->tables = NULL;
	return ok;
}

static uint64_t tally_count(struct tally *tally)
{
	uint64_t count = 0;
	for (unsigned i = 0; tally->counts != NULL && i < tally->threads; i++)
		count += tally->counts[i].texts;
	free(tally->counts);
	tally->counts = NULL;
	return count;
}

// ---- hashes for the engine

struct hashes {
	const struct text_finder *finder;
	const struct find_options *options;
	uint64_t seed;
	struct sweep sweep;
	struct sweep_source *source;
};

struct hash_sink {
	const struct hashes *hashes;
	uint64_t *words;
	size_t count;
	uint64_t empty; // texts without bytes
};

static void hash_add(void *context, const struct text *text, uint64_t count)
{
	struct hash_sink *sink = context;
	const struct hashes *hashes = sink->hashes;
	uint64_t hash = text->hash;
	if (hashes->options->templates) {
		struct template template;
		hash = texts_template(text, hashes->seed, hashes->options->fold, &template);
	}
	if (hash == 0)
		sink->empty += count;
	else if (sink->count < HASHES_MAX)
		sink->words[sink->count++] = hash;
}

static bool hash_call(struct hash_sink *sink, tally_step *step, const struct sweep_window *window)
{
	const struct hashes *hashes = sink->hashes;
	const struct text_pass pass = {hashes->seed, hashes->options->fold, hash_add, sink};
	step(hashes->finder->context, &pass, window);
	return true;
}

static bool hash_visit(
	void *context, unsigned worker, const struct sweep_window *window, struct error *err)
{
	(void)worker;
	(void)err;
	struct hash_sink *sink = context;
	return hash_call(sink, sink->hashes->finder->visit, window);
}

static bool hash_commit(
	void *context, unsigned worker, const struct sweep_window *window, struct error *err)
{
	(void)worker;
	(void)err;
	struct hash_sink *sink = context;
	return hash_call(sink, sink->hashes->finder->commit, window);
}

static bool hashes_start(void *context, unsigned stride, struct error *err)
{
	struct hashes *hashes = context;
	sweep_close(hashes->source);
	hashes->source = NULL;
	hashes->sweep.stride = stride;
	// What crosses windows does not matter for a sample.
	hashes->sweep.commit = stride == 1 && hashes->finder->commit != NULL ? hash_commit : NULL;
	if (hashes->finder->begin != NULL)
		hashes->finder->begin(hashes->finder->context);
	return sweep_open(&hashes->sweep, err, &hashes->source);
}

static int hashes_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	struct hashes *hashes = context;
	struct hash_sink sink = {.hashes = hashes, .words = buffer};
	const int more = sweep_next(hashes->source, &sink, err);
	*ret = (struct count_block){.words = sink.count, .zeros = sink.empty};
	return more;
}

static bool hashes_count(
	struct tally *tally, uint64_t texts, struct error *err, struct count_result *ret)
{
	const struct find_options *options = tally->options;
	struct hashes hashes = {
		.finder = tally->finder,
		.options = options,
		.seed = tally->seed,
		.sweep = tally_sweep(tally),
	};
	hashes.sweep.visit = hash_visit;
	hashes.sweep.chunk = tally->finder->hash_chunk;
	const size_t windows = tally->threads * sweep_memory(&hashes.sweep);
	const struct count_source source = {
		.context = &hashes,
		.start = hashes_start,
		.next = hashes_next,
		.words = texts,
	};
	const struct count_options count_options = {
		.top = options->top,
		.min_count = options->min_count,
		.word_size = 8,
		.order = ORDER_NATIVE,
		.memory = options->memory > windows + COUNT_MEMORY_MIN ? options->memory - windows
								       : COUNT_MEMORY_MIN,
		.threads = tally->threads,
		.stop = options->stop,
	};
	const bool ok = count_words(&source, &count_options, err, ret);
	sweep_close(hashes.source);
	return ok;
}

static bool tally_choose(struct tally *tally, const struct count_result *hashes, struct error *err)
{
	size_t slots = 64;
	while (slots < 2 * hashes->row_count)
		slots *= 2;
	tally->winners = calloc(slots, sizeof *tally->winners);
	if (tally->winners == NULL)
		return error_memory(err);
	tally->winner_mask = slots - 1;
	tally->empty_wins = false;
	for (size_t i = 0; i < hashes->row_count; i++) {
		size_t at = hashes->rows[i].value & tally->winner_mask;
		if (hashes->rows[i].value == 0) {
			tally->empty_wins = true;
			continue;
		}
		while (tally->winners[at] != 0)
			at = (at + 1) & tally->winner_mask;
		tally->winners[at] = hashes->rows[i].value;
	}
	return true;
}

// Count hashes, then collect the texts. *unlike: two texts had the same hash.
static bool tally_hashes(struct tally *tally, uint64_t texts, struct error *err, bool *unlike,
	struct text_result *ret)
{
	struct count_result hashes;
	if (!hashes_count(tally, texts, err, &hashes))
		return false;
	bool ok = tally_choose(tally, &hashes, err) && tally_run(tally, err, &ret->texts);
	// One thread has all the memory for one table.
	if (ok && ret->texts.full && tally->threads > 1) {
		texts_deinit(&ret->texts);
		tally_count(tally);
		tally->threads = 1;
		ok = tally_run(tally, err, &ret->texts);
	}
	const size_t wanted = hashes.row_count;
	const bool partial = hashes.partial;
	count_result_deinit(&hashes);
	free(tally->winners);
	tally->winners = NULL;
	if (!ok)
		return false;
	ret->count = tally_count(tally);
	if (ret->texts.full)
		return error_set(err, "too little memory for so many texts; use a larger --memory "
				      "or a smaller --top");
	ret->partial = partial || atomic_load(tally->options->stop) != 0;
	*unlike = !ret->partial && ret->texts.used != wanted;
	return true;
}

// ---- the whole

bool texts_count(const struct text_finder *finder, const struct find_options *options,
	struct error *err, struct text_result *ret)
{
	struct tally tally = {.finder = finder, .options = options};
	const struct sweep sweep = tally_sweep(&tally);
	// Threads' windows take a quarter of the memory at most.
	const size_t fit = options->memory / 4 / sweep_memory(&sweep);
	tally.threads = (unsigned)max_u64(1, min_u64(options->threads, fit));
	if (options->once)
		tally.threads = 1;
	*ret = (struct text_result){0};
	tally.trial = !options->once;
	bool ok = tally_run(&tally, err, &ret->texts);
	ret->count = tally_count(&tally);
	ret->partial = atomic_load(options->stop) != 0;
	const uint64_t texts = max_u64(ret->count, image_info(options->image)->bytes_present / 32);
	bool unlike = ok && ret->texts.full && !options->once && !ret->partial;
	tally.trial = false;
	for (tally.seed = 1; ok && unlike && tally.seed <= SEEDS; tally.seed++) {
		texts_deinit(&ret->texts);
		ok = tally_hashes(&tally, texts, err, &unlike, ret);
	}
	if (ok && unlike)
		ok = error_set(err, "cannot tell the texts apart by their hashes");
	if (ok)
		texts_rank(&ret->texts, options->top, options->min_count);
	else
		texts_deinit(&ret->texts);
	free(tally.counts);
	return ok;
}

void text_result_deinit(struct text_result *result)
{
	texts_deinit(&result->texts);
}
