// SPDX-License-Identifier: MIT
#include "count/once.h"

#include <stdlib.h>

#include "base/guard.h"
#include "count/best.h"
#include "count/stream.h"

struct pass {
	const struct count_options *options;
	struct stream *stream;
	struct best best;
	struct count_row bar; // the last of the rows; count 0: everything listed has a row
	uint64_t rest_max;
	bool inexact; // a word that is listed and has no row has an interval
};

static bool pass_run(struct pass *pass, const struct count_source *source, struct error *err)
{
	const struct count_options *options = pass->options;
	void *buffer AUTO_FREE = aligned_alloc(64, COUNT_BLOCK_SIZE);
	if (buffer == NULL)
		return error_memory(err);
	if (!source->start(source->context, 1, err))
		return false;
	while (atomic_load_explicit(options->stop, memory_order_relaxed) == 0) {
		struct count_block block;
		const int more = source->next(source->context, buffer, &block, err);
		if (more <= 0)
			return more == 0;
		stream_feed_zeros(pass->stream, block.zeros);
		if (!stream_feed(pass->stream, buffer, block.words, options->word_size, err))
			return false;
	}
	return true;
}

static struct count_row row_of(const struct pass *pass, uint64_t word, uint64_t low, uint64_t high)
{
	return (struct count_row){
		.value = word_swap(word, pass->options->word_size, pass->options->order),
		.count = low,
		.count_max = high,
	};
}

static void pass_offer(void *context, uint64_t word, uint64_t low, uint64_t high)
{
	struct pass *pass = context;
	best_offer(&pass->best, row_of(pass, word, low, high));
}

static void pass_look_at_rest(void *context, uint64_t word, uint64_t low, uint64_t high)
{
	struct pass *pass = context;
	const struct count_row row = row_of(pass, word, low, high);
	const bool has_row = row.count >= pass->options->min_count && !row_better(&pass->bar, &row);
	if (has_row)
		return;
	pass->rest_max = max_u64(pass->rest_max, high);
	pass->inexact = pass->inexact || low != high;
}

// Whether no interval leaves anything open.
static bool pass_exact(const struct pass *pass)
{
	for (size_t i = 0; i < pass->best.count; i++)
		if (pass->best.rows[i].count != pass->best.rows[i].count_max)
			return false;
	const uint64_t least = max_u64(pass->options->min_count, pass->bar.count);
	// Words with exact counts and without a row have lost fairly, even with as many as the last
	// row: the value decided.
	if (!pass->inexact && stream_unlisted_max(pass->stream) == 0)
		return true;
	return pass->rest_max < least;
}

bool once_count(const struct count_source *source, const struct count_options *options, size_t rows,
	struct error *err, struct once *ret)
{
	struct pass pass = {.options = options};
	// An eighth is kept back for the program around and what malloc adds.
	const size_t used = COUNT_BLOCK_SIZE + rows * sizeof(struct count_row);
	bool ok = best_init(&pass.best, rows, options->min_count, err) &&
		  stream_create(rows, options->memory / 8 * 7 - used, err, &pass.stream) &&
		  pass_run(&pass, source, err);
	if (ok) {
		stream_visit(pass.stream, pass_offer, &pass);
		best_sort(&pass.best);
		pass.bar = (struct count_row){.value = UINT64_MAX};
		if (pass.best.count == rows)
			pass.bar = pass.best.rows[rows - 1];
		pass.rest_max = stream_unlisted_max(pass.stream);
		stream_visit(pass.stream, pass_look_at_rest, &pass);
		*ret = (struct once){
			.result =
				{
					.rows = pass.best.rows,
					.row_count = pass.best.count,
					.rest_max = pass.rest_max,
					.words = stream_words(pass.stream),
					.passes = 1,
					.threads = 1,
					.partial = atomic_load(options->stop) != 0,
				},
			.exact = pass_exact(&pass),
			.bar = pass.bar.count,
			.unlisted = stream_words(pass.stream),
		};
		for (size_t i = 0; i < pass.best.count; i++)
			ret->unlisted -= pass.best.rows[i].count;
		pass.best.rows = NULL;
	}
	stream_destroy(pass.stream);
	best_deinit(&pass.best);
	return ok;
}
