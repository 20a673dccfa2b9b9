// SPDX-License-Identifier: MIT
#include "answer/answer.h"
#include "count/count.h"

_Static_assert(IMAGE_CHUNK_SIZE == COUNT_BLOCK_SIZE, "a chunk is a block");

struct words {
	const struct image *image;
	struct image_scan *scan;
	const struct kind_filter *filter; // NULL: all words
};

static bool words_start(void *context, unsigned stride, struct error *err)
{
	struct words *words = context;
	image_scan_close(words->scan);
	words->scan = NULL;
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
	*ret = (struct count_block){chunk.size / size, chunk.zeros / size};
	if (words->filter != NULL) {
		ret->words = kind_filter_select(words->filter, buffer, ret->words);
		if ((words->filter->wanted >> KIND_ZERO & 1) == 0)
			ret->zeros = 0;
	}
	return more;
}

static bool words_count(const struct dump *dump, const struct kind_filter *filter,
	struct error *err, struct count_result *ret)
{
	const struct options *options = dump->options;
	const struct image_info *info = image_info(dump->image);
	struct words words = {.image = dump->image, .filter = filter};
	const struct count_source source = {
		.context = &words,
		.start = words_start,
		.next = words_next,
		.words = info->bytes_present / info->word_size,
	};
	const struct count_options count_options = {
		.top = options->top,
		.min_count = options->min_count,
		.word_size = info->word_size,
		.order = info->order,
		.memory = options->memory - info->memory,
		.threads = (unsigned)options->threads,
		.stop = dump->stop,
	};
	const bool ok = count_words(&source, &count_options, err, ret);
	image_scan_close(words.scan);
	return ok;
}

static bool words_report(struct names *names, const struct count_result *result,
	const struct report_head *head, struct report *report, struct error *err)
{
	report_begin(report, head);
	for (size_t i = 0; i < result->row_count; i++) {
		struct report_word row = {
			.value = result->rows[i].value,
			.count = result->rows[i].count,
			.kind = "",
			.text = "",
		};
		if (head->names) {
			const struct name name = names_describe(names, row.value);
			row.kind = kind_name(name.kind);
			row.text = name.text;
		}
		report_word(report, &row);
	}
	report_end(report);
	return report_flush(report, err);
}

bool answer_words(struct dump *dump, struct report *report, struct error *err)
{
	const struct options *options = dump->options;
	struct kind_filter filter;
	struct count_result result = {0};
	struct dump_head head = {0};
	if (options->kinds != 0)
		names_filter(dump->names, (kind_set)options->kinds, &filter);
	const bool ok = words_count(dump, options->kinds != 0 ? &filter : NULL, err, &result) &&
			dump_head_init(dump, "words", result.words, result.partial, err, &head) &&
			words_report(dump->names, &result, &head.head, report, err);
	if (ok) {
		dump_finish(dump, &head);
		dump_time(dump, result.passes, result.threads);
	}
	dump_head_deinit(&head);
	count_result_deinit(&result);
	return ok;
}
