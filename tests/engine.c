// SPDX-License-Identifier: MIT
//
// The counting engine on made-up streams, compared with sorting.
//
//   engine [CASES [SEED]]   so many random cases (2000)
//   engine huge [slow]      more than 2^32 equal words
//   engine passes           what a process has in memory: how often it is read for many rows
//
// Prints the seed, and what went wrong; exit status 1 then. A failed case is repeated with
// `engine 1 SEED` of its own seed.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "count/count.h"

// ---- random numbers (splitmix64)

static uint64_t random_state;

static uint64_t random_next(void)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static uint64_t random_below(uint64_t limit)
{
	return random_next() % limit;
}

// ---- a stream

struct stream {
	unsigned char *bytes; // its words, as they lie in memory
	size_t words;
	size_t block;	// words in a block, the last one's may be fewer
	uint64_t zeros; // in a block of their own at the end
	size_t fail_at; // number of the block that cannot be read
	size_t stop_at; // number of the block at which to set stop
	unsigned word_size;
	enum count_access access;
	// A word is wanted if a hash of it, with this salt, is below the limit.
	uint64_t salt, limit;

	pthread_mutex_t lock;
	size_t at, number;
	unsigned stride, starts;
	bool zeros_given;
	atomic_int stop;
};

static bool stream_start(void *context, unsigned stride, struct error *err)
{
	struct stream *stream = context;
	stream->at = stream->number = 0;
	stream->zeros_given = false;
	stream->stride = stride;
	if (stream->starts++ > 0 && stream->access == COUNT_ONCE)
		return error_set(err, "a pipe was read twice");
	if (stride != 1 && stream->access != COUNT_SEEK)
		return error_set(err, "a sample of what cannot seek");
	return true;
}

static int stream_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	struct stream *stream = context;
	size_t at = 0, words = 0, number;
	int more = 0;
	pthread_mutex_lock(&stream->lock);
	do {
		at = stream->at;
		words = (size_t)min_u64(stream->block, stream->words - at);
		stream->at += words;
		number = stream->number++;
	} while (words > 0 && number % stream->stride != 0);
	*ret = (struct count_block){.words = words};
	more = words > 0;
	if (words == 0 && stream->zeros > 0 && !stream->zeros_given) {
		stream->zeros_given = true;
		ret->zeros = stream->zeros;
		more = 1;
	}
	pthread_mutex_unlock(&stream->lock);
	if (number == stream->stop_at)
		atomic_store(&stream->stop, 2);
	if (number == stream->fail_at) {
		error_set(err, "block %zu cannot be read", number);
		return -1;
	}
	if (words > 0)
		memcpy(buffer, stream->bytes + at * stream->word_size, words * stream->word_size);
	return more;
}

static bool stream_wants(const struct stream *stream, uint64_t word)
{
	return (word ^ stream->salt) * UINT64_C(0xbf58476d1ce4e5b9) >> 32 < stream->limit;
}

static size_t stream_select(const void *context, void *words, size_t count)
{
	const struct stream *stream = context;
	const unsigned size = stream->word_size;
	unsigned char *bytes = words;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t word = word_load(bytes + i * size, size, ORDER_NATIVE);
		if (stream_wants(stream, word))
			word_store(bytes + kept++ * size, word, size, ORDER_NATIVE);
	}
	return kept;
}

// ---- what is right

static int value_compare(const void *left, const void *right)
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

// All words with their counts, best first.
static struct count_row *rows_of(
	const struct stream *stream, const struct count_options *options, size_t *ret)
{
	uint64_t *values = calloc(stream->words + 1, sizeof *values);
	struct count_row *rows = calloc(stream->words + 1, sizeof *rows);
	size_t count = 0;
	if (values == NULL || rows == NULL)
		exit(2);
	for (size_t i = 0; i < stream->words; i++)
		values[i] = word_load(
			stream->bytes + i * stream->word_size, stream->word_size, options->order);
	qsort(values, stream->words, sizeof *values, value_compare);
	if (stream->zeros > 0 && stream_wants(stream, 0))
		rows[count++] = (struct count_row){.count = stream->zeros};
	for (size_t i = 0; i < stream->words; i++) {
		if (!stream_wants(stream, word_swap(values[i], stream->word_size, options->order)))
			continue;
		if (count == 0 || rows[count - 1].value != values[i])
			rows[count++] = (struct count_row){.value = values[i]};
		rows[count - 1].count++;
	}
	free(values);
	qsort(rows, count, sizeof *rows, row_compare);
	*ret = count;
	return rows;
}

static bool wrong(const char *what, size_t row, uint64_t got, uint64_t expected)
{
	printf("%s, row %zu: %" PRIu64 " instead of %" PRIu64 "\n", what, row, got, expected);
	return false;
}

static bool exact_check(const struct count_result *result, const struct count_options *options,
	const struct count_row *rows, size_t count)
{
	while (count > 0 && (count > options->top || rows[count - 1].count < options->min_count))
		count--;
	if (result->row_count != count)
		return wrong("number of rows", 0, result->row_count, count);
	for (size_t i = 0; i < count; i++) {
		if (result->rows[i].value != rows[i].value)
			return wrong("value", i, result->rows[i].value, rows[i].value);
		if (result->rows[i].count != rows[i].count)
			return wrong("count", i, result->rows[i].count, rows[i].count);
		if (result->rows[i].count_max != rows[i].count)
			return wrong("count_max", i, result->rows[i].count_max, rows[i].count);
	}
	return true;
}

static bool interval_check(const struct count_result *result, const struct count_options *options,
	const struct count_row *rows, size_t count)
{
	size_t found = 0;
	if (result->row_count > options->top)
		return wrong("number of rows", 0, result->row_count, options->top);
	for (size_t i = 0; i < count; i++) {
		const struct count_row *row = NULL;
		for (size_t j = 0; j < result->row_count && row == NULL; j++)
			if (result->rows[j].value == rows[i].value)
				row = &result->rows[j];
		found += row != NULL;
		if (row == NULL && rows[i].count > result->rest_max)
			return wrong("rest_max", i, result->rest_max, rows[i].count);
		if (row != NULL && (row->count > rows[i].count || row->count_max < rows[i].count))
			return wrong("interval", i, row->count, rows[i].count);
		// Looking further would take too long.
		if (found == result->row_count && rows[i].count <= result->rest_max)
			break;
	}
	if (found != result->row_count)
		return wrong("rows that exist", 0, found, result->row_count);
	for (size_t i = 0; i + 1 < result->row_count; i++)
		if (row_compare(&result->rows[i], &result->rows[i + 1]) >= 0)
			return wrong("order", i, result->rows[i].count, result->rows[i + 1].count);
	for (size_t i = 0; i < result->row_count; i++)
		if (result->rows[i].count < options->min_count)
			return wrong("min_count", i, result->rows[i].count, options->min_count);
	return true;
}

// ---- cases

// The word at index i of words, of a stream of this kind.
static uint64_t word_make(unsigned kind, size_t i, size_t words, uint64_t parameter)
{
	switch (kind) {
	case 0: // skewed
		return random_next() >> (1 + random_below(63));
	case 1: // uniform
		return random_below(1 + parameter % 5000) * UINT64_C(0x10001);
	case 2: // sorted
		return i * (1 + parameter % 16) / 16;
	case 3: // repeating
		return UINT64_C(0xfedc000000000000) + i % (1 + parameter % 300);
	case 4: // all distinct
		return (i + 1) * (parameter | 1);
	case 5: // all equal
		return parameter;
	case 6: // what collides under multiplication modulo a power of two
		return random_below(2000) << (parameter % 49);
	case 7: // noise first, the winners last
		return i < words / 2 ? random_next() : random_below(20);
	case 8: // a few winners in noise
		return random_below(4) == 0 ? random_below(1 + parameter % 100) : random_next();
	default: // everything about as often: ties at the bar
		return i % (2 + words / (1 + parameter % 5));
	}
}

static void stream_make(struct stream *stream, unsigned word_size)
{
	const unsigned kind = (unsigned)random_below(10);
	const uint64_t parameter = random_next();
	const size_t longest = random_below(20) == 0 ? 300000 : 20000;
	*stream = (struct stream){
		.words = (size_t)(random_next() % (random_next() % longest + 1)),
		.word_size = word_size,
		.block = 1 + (size_t)random_below(random_below(2) == 0 ? 100 : 4096),
		.zeros = random_below(3) == 0 ? random_next() >> random_below(64) >> 1 : 0,
		.fail_at = SIZE_MAX,
		.stop_at = SIZE_MAX,
		.access = random_below(3) == 0 ? COUNT_ONCE : COUNT_SEEK,
		.salt = random_next(),
		.limit = random_below(2) == 0 ? UINT64_C(1) << 32
					      : random_next() >> (32 + random_below(10)),
	};
	stream->bytes = malloc(stream->words * word_size + 1);
	if (stream->bytes == NULL)
		exit(2);
	for (size_t i = 0; i < stream->words; i++) {
		const uint64_t word = word_make(kind, i, stream->words, parameter);
		word_store(stream->bytes + i * word_size, word, word_size, ORDER_NATIVE);
	}
	pthread_mutex_init(&stream->lock, NULL);
}

static struct count_options options_make(struct stream *stream)
{
	return (struct count_options){
		.top = 1 + (size_t)(random_next() % (random_next() % 3000 + 1)),
		.min_count = random_below(3) == 0 ? 1 + random_below(200) : 1,
		.word_size = stream->word_size,
		.order = random_below(2) == 0 ? ORDER_LITTLE : ORDER_BIG,
		// Less than the program allows: then little is much.
		.memory = (size_t)1 << (stream->access == COUNT_ONCE ? 22 + random_below(5)
								     : 16 + random_below(11)),
		.threads = 1 + (unsigned)(random_below(3) == 0 ? random_below(8) : random_below(2)),
		.stop = &stream->stop,
	};
}

// Errors and interrupts: no crash, a message, and no count that is too high.
static bool trouble_check(struct stream *stream, const struct count_options *options,
	const struct count_source *source, const struct count_row *rows, size_t count)
{
	struct count_result result = {0};
	struct error err = {0};
	const size_t at = (size_t)random_below(stream->words / stream->block + 1);
	const bool fail = random_below(2) == 0;
	stream->starts = 0;
	*(fail ? &stream->fail_at : &stream->stop_at) = at;
	const bool ok = count_words(source, options, &err, &result);
	bool right = true;
	if (fail && ok)
		right = wrong("failed read", at, 1, 0);
	if (fail && strstr(err.text, "cannot be read") == NULL)
		right = wrong("message of a failed read", at, 0, 0);
	if (!fail && (!ok || !result.partial))
		right = wrong("stop", at, ok, 1);
	for (size_t i = 0; right && i < result.row_count; i++) {
		size_t j = 0;
		while (j < count && rows[j].value != result.rows[i].value)
			j++;
		if (j == count || rows[j].count < result.rows[i].count)
			right = wrong("partial count", i, result.rows[i].count, 0);
	}
	count_result_deinit(&result);
	return right;
}

static bool case_run(void)
{
	struct stream stream;
	stream_make(&stream, random_below(4) == 0 ? 4 : 8);
	const struct count_options options = options_make(&stream);
	const struct count_source source = {
		.context = &stream,
		.access = stream.access,
		.start = stream_start,
		.next = stream_next,
		.select = stream.limit >> 32 == 0 ? stream_select : NULL,
		.select_fast = random_below(4) == 0,
		// Wrong on purpose: only the cost may depend on it.
		.words = random_below(4) == 0 ? stream.words : random_next() >> random_below(64),
	};
	struct count_result result;
	struct error err = {0};
	size_t count;
	struct count_row *rows = rows_of(&stream, &options, &count);
	bool right = count_words(&source, &options, &err, &result);
	if (!right) {
		printf("%s\n", err.text);
	} else {
		const uint64_t words = stream.words + stream.zeros;
		right = stream.access == COUNT_ONCE ? interval_check(&result, &options, rows, count)
						    : exact_check(&result, &options, rows, count);
		if (result.words != words)
			right = wrong("words", 0, result.words, words);
		count_result_deinit(&result);
	}
	if (right && random_below(4) == 0)
		right = trouble_check(&stream, &options, &source, rows, count);
	if (!right)
		printf("%zu words of %u bytes in blocks of %zu, %" PRIu64 " zeros, access %d, "
		       "limit %" PRIx64 ": top %zu, min_count %" PRIu64
		       ", %u threads, %zu bytes of memory\n",
			stream.words, stream.word_size, stream.block, stream.zeros, stream.access,
			stream.limit, options.top, options.min_count, options.threads,
			options.memory);
	free(rows);
	free(stream.bytes);
	pthread_mutex_destroy(&stream.lock);
	return right;
}

static int cases_run(uint64_t cases, uint64_t seed)
{
	printf("seed %" PRIu64 "\n", seed);
	for (uint64_t i = 0; i < cases; i++) {
		random_state = seed + i;
		if (!case_run()) {
			printf("repeat it with: engine 1 %" PRIu64 "\n", seed + i);
			return 1;
		}
	}
	return 0;
}

// ---- more than 2^32 equal words

// Counts in the least memory that the program allows. Prints what went wrong.
static bool least_memory_count(
	const struct count_source *source, size_t top, struct count_result *ret)
{
	static const atomic_int stop;
	const struct count_options options = {
		.top = top,
		.min_count = 1,
		.word_size = 8,
		.memory = COUNT_MEMORY_MIN,
		.threads = 2,
		.stop = &stop,
	};
	struct error err = {0};
	const bool ok = count_words(source, &options, &err, ret);
	if (!ok)
		printf("%s\n", err.text);
	return ok;
}

struct huge {
	atomic_size_t blocks;
};

enum {
	HUGE_BLOCK = COUNT_BLOCK_SIZE / sizeof(uint64_t),
	HUGE_BLOCKS = (int)((UINT64_C(1) << 32) / HUGE_BLOCK + 2),
	HUGE_WORD = 0x1234567,
};

static bool huge_start(void *context, unsigned stride, struct error *err)
{
	struct huge *huge = context;
	(void)err;
	atomic_store(&huge->blocks, HUGE_BLOCKS / stride);
	return true;
}

static int huge_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	struct huge *huge = context;
	uint64_t *words = buffer;
	(void)err;
	*ret = (struct count_block){.words = HUGE_BLOCK};
	for (size_t i = 0; words[HUGE_BLOCK - 1] != HUGE_WORD && i < HUGE_BLOCK; i++)
		words[i] = HUGE_WORD;
	size_t left = atomic_load(&huge->blocks);
	while (left > 0 && !atomic_compare_exchange_weak(&huge->blocks, &left, left - 1))
		;
	return left > 0;
}

// Without a sample they all fall into one cell first, and are counted in a second pass: slow.
static int huge_run(bool sample)
{
	struct huge huge = {0};
	const uint64_t words = (uint64_t)HUGE_BLOCK * HUGE_BLOCKS;
	const struct count_source source = {
		.context = &huge,
		.start = huge_start,
		.next = huge_next,
		.words = sample ? words : 1,
	};
	struct count_result result;
	if (!least_memory_count(&source, 1, &result))
		return 1;
	const bool right = result.row_count == 1 && result.rows[0].count == words;
	if (!right)
		wrong("count", 0, result.row_count == 1 ? result.rows[0].count : 0, words);
	count_result_deinit(&result);
	return !right;
}

// ---- words as a process has them

enum {
	HEAP_WORDS = 48 << 20,
	HEAP_BLOCK = COUNT_BLOCK_SIZE / sizeof(uint64_t),
	HEAP_BLOCKS = HEAP_WORDS / HEAP_BLOCK,
};

struct heap {
	atomic_size_t at; // number of the next block
	unsigned stride;
};

static uint64_t mixed(uint64_t number)
{
	number = (number ^ number >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return (number ^ number >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

// A third are 500 frequent words, a sixteenth 60,000 that occur about fifty times each, the rest any
// of 16 million, so that most of these occur once or twice: many more than fit a table.
static uint64_t heap_word(uint64_t at)
{
	const uint64_t random = mixed(at + 1) >> 8;
	const unsigned kind = (unsigned)(random % 16);
	if (kind < 5)
		return mixed(1 + (random >> 8) % (1 + (random >> 24) % 500));
	if (kind == 5)
		return mixed((1 << 20) + (random >> 8) % 60000);
	return mixed((UINT64_C(1) << 40) + (random >> 8) % (16 << 20));
}

static bool heap_start(void *context, unsigned stride, struct error *err)
{
	struct heap *heap = context;
	(void)err;
	atomic_store(&heap->at, 0);
	heap->stride = stride;
	return true;
}

static int heap_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	struct heap *heap = context;
	uint64_t *words = buffer;
	(void)err;
	const size_t block = atomic_fetch_add(&heap->at, 1) * heap->stride;
	if (block >= HEAP_BLOCKS)
		return 0;
	*ret = (struct count_block){.words = HEAP_BLOCK};
	for (size_t i = 0; i < HEAP_BLOCK; i++)
		words[i] = heap_word(block * HEAP_BLOCK + i);
	return 1;
}

// In the least memory, in which not a tenth of the distinct words fit a table.
static int passes_run(size_t top, unsigned most)
{
	struct heap heap = {0};
	const struct count_source source = {
		.context = &heap,
		.start = heap_start,
		.next = heap_next,
		.words = 1, // no sample: what it would tell is not there in a longer stream
	};
	struct count_result result;
	if (!least_memory_count(&source, top, &result))
		return 1;
	printf("%zu rows, the last %" PRIu64 " times: %u passes\n", top,
		result.rows[result.row_count - 1].count, result.passes);
	const bool right = result.row_count == top && result.passes <= most;
	count_result_deinit(&result);
	return !right;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1 && strcmp(argv[1], "huge") == 0)
		return huge_run(argc == 2);
	if (argc > 1 && strcmp(argv[1], "passes") == 0)
		return passes_run(50, 4) | passes_run(10000, 10);
	const uint64_t cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
	const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL) << 20;
	return cases_run(cases, seed);
}
