// SPDX-License-Identifier: MIT
//
// A stream of words and what is asked of it, against a plain counter. After the options each piece
// of the stream is a byte that says how its words are made and two bytes that say how many.
#include <pthread.h>

#include "count/count.h"
#include "fuzz.h"

#define WORDS_MAX ((size_t)1 << 16)

struct stream {
	uint8_t *bytes;
	size_t words;	// in bytes
	uint64_t zeros; // that are not
	unsigned word_size;
	size_t block; // words in a block
	size_t at;
	bool zeros_given;
	unsigned stride, number;
	pthread_mutex_t lock;
};

static void stream_make(struct stream *stream, struct input *input)
{
	uint64_t state = 1;
	while (input->size > 0 && stream->words < WORDS_MAX) {
		const unsigned how = (unsigned)take(input, 1);
		const uint64_t base = (how & 8) != 0 ? take(input, 8) : how;
		for (size_t left = take(input, 2); left > 0 && stream->words < WORDS_MAX; left--) {
			state = state * 6364136223846793005 + 1442695040888963407;
			const uint64_t word = (how & 3) == 0   ? base
					      : (how & 3) == 1 ? base + left % (1 + (how >> 4))
					      : (how & 3) == 2 ? state >> (how >> 4)
							       : left << (how >> 2);
			word_store(stream->bytes + stream->words++ * stream->word_size, word,
				stream->word_size, ORDER_NATIVE);
		}
	}
}

static bool stream_start(void *context, unsigned stride, struct error *err)
{
	struct stream *stream = context;
	(void)err;
	stream->at = 0;
	stream->zeros_given = false;
	stream->stride = stride;
	stream->number = 0;
	return true;
}

static int stream_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	struct stream *stream = context;
	int more = 0;
	(void)err;
	pthread_mutex_lock(&stream->lock);
	*ret = (struct count_block){0};
	while (more == 0 && (stream->at < stream->words || !stream->zeros_given)) {
		more = stream->number++ % stream->stride == 0;
		if (stream->at == stream->words) {
			stream->zeros_given = true;
			ret->zeros = stream->zeros;
			break;
		}
		const size_t left = stream->words - stream->at;
		ret->words = left < stream->block ? left : stream->block;
		memcpy(buffer, stream->bytes + stream->at * stream->word_size,
			ret->words * stream->word_size);
		stream->at += ret->words;
	}
	if (ret->zeros > 0)
		more = 1;
	pthread_mutex_unlock(&stream->lock);
	return more;
}

// Words with an even number of bits.
static bool wanted(uint64_t word)
{
	return __builtin_popcountll(word) % 2 == 0;
}

static size_t stream_select(const void *context, void *words, size_t count)
{
	const struct stream *stream = context;
	uint8_t *bytes = words;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t word =
			word_load_native(bytes + i * stream->word_size, stream->word_size);
		if (wanted(word))
			word_store(bytes + kept++ * stream->word_size, word, stream->word_size,
				ORDER_NATIVE);
	}
	return kept;
}

static int word_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

static int row_compare(const void *left, const void *right)
{
	const struct count_row *a = left, *b = right;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->value < b->value ? -1 : a->value > b->value;
}

// The right answer; *ret is the caller's.
static size_t plain_count(const struct stream *stream, const struct count_options *options,
	bool selected, struct count_row **ret)
{
	uint64_t *words = calloc(stream->words + 1, sizeof *words);
	*ret = calloc(stream->words + 1, sizeof **ret);
	CHECK(words != NULL && *ret != NULL);
	for (size_t i = 0; i < stream->words; i++)
		words[i] = word_load(
			stream->bytes + i * stream->word_size, stream->word_size, options->order);
	qsort(words, stream->words, sizeof *words, word_compare);
	size_t rows = 0;
	if (stream->zeros > 0)
		(*ret)[rows++] = (struct count_row){.count = stream->zeros};
	for (size_t i = 0; i < stream->words; i++) {
		if (selected && !wanted(words[i]))
			continue;
		if (rows == 0 || (*ret)[rows - 1].value != words[i])
			(*ret)[rows++] = (struct count_row){.value = words[i]};
		(*ret)[rows - 1].count++;
	}
	free(words);
	qsort(*ret, rows, sizeof **ret, row_compare);
	while (rows > 0 && (*ret)[rows - 1].count < options->min_count)
		rows--;
	return rows;
}

static uint64_t count_of(const struct count_row *rows, size_t count, uint64_t value)
{
	for (size_t i = 0; i < count; i++)
		if (rows[i].value == value)
			return rows[i].count;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const atomic_int stop;
	struct input input = {data, size};
	struct stream stream = {.lock = PTHREAD_MUTEX_INITIALIZER};
	stream.word_size = take(&input, 1) % 2 == 0 ? 8 : 4;
	stream.zeros = take(&input, 1) % 3 == 0 ? take(&input, 2) : 0;
	stream.block = 1 + take(&input, 2) % (COUNT_BLOCK_SIZE / 8);
	const struct count_options options = {
		.top = 1 + take(&input, 2) % 5000,
		.min_count = 1 + take(&input, 1) % 8,
		.word_size = stream.word_size,
		.order = take(&input, 1) % 2 == 0 ? ORDER_LITTLE : ORDER_BIG,
		.memory = COUNT_MEMORY_MIN,
		.threads = 1 + (unsigned)take(&input, 1) % 3,
		.stop = &stop,
	};
	const unsigned way = (unsigned)take(&input, 1) % 3;
	const enum count_access access = way == 2 ? COUNT_ONCE : COUNT_SEEK;
	stream.bytes = malloc(WORDS_MAX * stream.word_size);
	CHECK(stream.bytes != NULL);
	stream_make(&stream, &input);
	const struct count_source source = {
		.context = &stream,
		.access = access,
		.start = stream_start,
		.next = stream_next,
		.select = way == 1 ? stream_select : NULL,
		// A lie makes it take another way, not give another answer.
		.words = stream.words << (stream.words % 7),
	};
	struct count_row *right;
	const size_t rows = plain_count(&stream, &options, way == 1, &right);
	struct count_result result = {0};
	struct error err = {0};
	CHECK(count_words(&source, &options, &err, &result));
	CHECK(result.words == stream.words + stream.zeros && !result.partial);
	if (access == COUNT_ONCE) {
		for (size_t i = 0; i < result.row_count; i++) {
			const uint64_t count = count_of(right, rows, result.rows[i].value);
			CHECK(result.rows[i].count <= count && count <= result.rows[i].count_max);
		}
	} else {
		CHECK(result.row_count == (rows < options.top ? rows : options.top));
		for (size_t i = 0; i < result.row_count; i++)
			CHECK(result.rows[i].value == right[i].value &&
				result.rows[i].count == right[i].count &&
				result.rows[i].count_max == right[i].count);
	}
	count_result_deinit(&result);
	free(right);
	free(stream.bytes);
	return 0;
}
