// SPDX-License-Identifier: MIT
#include <inttypes.h>

#include "answer/answer.h"
#include "count/count.h"

_Static_assert(IMAGE_CHUNK_SIZE == COUNT_BLOCK_SIZE, "a chunk is a block");

struct words {
	const struct image *image;
	struct image_scan *scan;
	const struct kind_filter *filter; // NULL: all words
	struct progress *progress;
};

static bool words_start(void *context, unsigned stride, struct error *err)
{
	struct words *words = context;
	image_scan_close(words->scan);
	words->scan = NULL;
	progress_begin(words->progress, image_info(words->image)->bytes_present / stride);
	return image_scan_open(words->image, stride, err, &words->scan);
}

static int words_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	const struct words *words = context;
	const unsigned size = image_info(words->image)->word_size;
	struct image_chunk chunk;
	const int more = image_scan_next(words->scan, buffer, &chunk, err);
	if (more <= 0)
		return more;
	progress_add(words->progress, chunk.size + chunk.zeros);
	*ret = (struct count_block){chunk.size / size, chunk.zeros / size};
	return more;
}

static size_t words_select(const void *context, void *buffer, size_t count)
{
	const struct words *words = context;
	return kind_filter_select(words->filter, buffer, count);
}

bool dump_count(struct dump *dump, const struct kind_filter *filter, size_t top, uint64_t min_count,
	struct error *err, struct count_result *ret)
{
	const struct options *options = dump->options;
	const struct image_info *info = image_info(dump->image);
	struct words words = {.image = dump->image, .filter = filter, .progress = &dump->progress};
	const struct count_source source = {
		.context = &words,
		.start = words_start,
		.next = words_next,
		.select = filter != NULL ? words_select : NULL,
		.select_fast = filter != NULL && kind_filter_fast(filter),
		// Of what is unpacked a sample is the beginning, which is kept.
		.access = info->once ? COUNT_ONCE : COUNT_SEEK,
		.words = info->bytes_data / info->word_size,
	};
	const struct count_options count_options = {
		.top = top,
		.min_count = min_count,
		.word_size = info->word_size,
		.order = info->order,
		.memory = options->memory - info->memory,
		.threads = (unsigned)options->threads,
		.stop = dump->stop,
	};
	const size_t needed = count_memory_needed(top);
	if (needed > COUNT_MEMORY_MIN && needed > count_options.memory)
		return error_usage(err,
			"--top %zu: does not fit --memory, of which reading %s takes a "
			"quarter; use -m %zuM or more",
			top, info->path, (needed / 3 * 4 + (1 << 20)) >> 20);
	const bool ok = count_words(&source, &count_options, err, ret);
	image_scan_close(words.scan);
	return ok;
}

// A pipe is read once; what that leaves open. The options say how many rows there could be.
static void words_warn(const struct image_info *info, const struct options *options,
	const struct count_result *result, struct diag *diag)
{
	bool exact = true;
	for (size_t i = 0; i < result->row_count; i++)
		exact = exact && result->rows[i].count == result->rows[i].count_max;
	const uint64_t last = result->row_count > 0 ? result->rows[result->row_count - 1].count : 0;
	const bool full = result->row_count >= options->top;
	if (!exact)
		diag_warn(diag,
			"%s: can be read only once: counts are intervals where they are not "
			"certain; for exact ones save the dump to a file, or use a larger --memory",
			info->path);
	if (!full && result->rest_max >= options->min_count)
		diag_warn(diag,
			"%s: can be read only once: rows are missing, of words that may occur "
			"up to %" PRIu64 " times; for all save the dump to a file, or use a "
			"larger --memory",
			info->path, result->rest_max);
	if (full && result->rest_max > last)
		diag_warn(diag,
			"%s: words that have no row may occur up to %" PRIu64
			" times, more often than those of the last rows",
			info->path, result->rest_max);
}

static bool words_report(struct dump *dump, const struct count_result *result,
	const struct report_head *head, struct report *report, struct error *err)
{
	report_begin(report, head);
	for (size_t i = 0; i < result->row_count; i++) {
		struct report_word row = {
			.value = result->rows[i].value,
			.count = result->rows[i].count,
			.count_max = result->rows[i].count_max,
			.kind = "",
			.text = "",
		};
		dump_describe(dump, &row);
		report_word(report, &row);
	}
	report_end(report);
	return dump_flush(dump, report, err);
}

bool answer_words(struct dump *dump, struct report *report, struct error *err)
{
	const struct options *options = dump->options;
	struct kind_filter *filter = NULL; // all words
	struct count_result result = {0};
	struct dump_head head = {0};
	bool ok = options->kinds == 0 ||
		  names_filter(dump->names, (kind_set)options->kinds, options->level, err, &filter);
	ok = ok && dump_count(dump, filter, options->top, options->min_count, err, &result);
	if (ok)
		words_warn(image_info(dump->image), options, &result, dump->diag);
	ok = ok && dump_head_init(dump, "words", result.words, result.partial, err, &head) &&
	     words_report(dump, &result, &head.head, report, err);
	if (ok) {
		dump_finish(dump, &head);
		dump_time(dump, result.passes, result.threads);
	}
	dump_head_deinit(&head);
	count_result_deinit(&result);
	kind_filter_destroy(filter);
	return ok;
}
