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
	uint64_t words;	       // read
	uint64_t zeros_wanted; // 1: zeros can have a row
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
		pass->words += block.words + block.zeros;
		if (source->select != NULL) {
			block.words = source->select(source->context, buffer, block.words);
			block.zeros *= pass->zeros_wanted;
		}
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
	if (!has_row)
		pass->rest_max = max_u64(pass->rest_max, high);
}

bool once_count(const struct count_source *source, const struct count_options *options,
	struct error *err, struct count_result *ret)
{
	struct pass pass = {.options = options, .zeros_wanted = 1};
	const size_t rows = options->top;
	// An eighth is kept back for the program around and what malloc adds.
	const size_t used = COUNT_BLOCK_SIZE + rows * sizeof(struct count_row);
	uint64_t zero = 0;
	if (source->select != NULL)
		pass.zeros_wanted = source->select(source->context, &zero, 1);
	const bool ok = best_init(&pass.best, rows, options->min_count, err) &&
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
		*ret = (struct count_result){
			.rows = pass.best.rows,
			.row_count = pass.best.count,
			.rest_max = pass.rest_max,
			.words = pass.words,
			.passes = 1,
			.threads = 1,
			.partial = atomic_load(options->stop) != 0,
		};
		pass.best.rows = NULL;
	}
	stream_destroy(pass.stream);
	best_deinit(&pass.best);
	return ok;
}
