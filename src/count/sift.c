// SPDX-License-Identifier: MIT
//
// A word is kept as 12 bits of a hash in a bucket that another hash chooses, with a count of 4
// bits. Words of which both are equal share a count, which then is too high for each: a few more
// words stay in question, none is lost.
#include "count/sift.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge.h"

#define ENTRIES 31
// Words that a bucket gets on average: so few find it full.
#define FILL 20
#define COUNT_FULL 15
_Static_assert(SIFT_BAR_MAX < COUNT_FULL, "more than the bar can be told");
#define BUCKETS_MIN ((size_t)64)

// A line of the cache.
struct bucket {
	uint16_t lock;
	uint16_t entries[ENTRIES]; // the tag, then the count in the lower 4 bits; 0: free
};
_Static_assert(sizeof(struct bucket) == 64, "no bucket is in two lines");

struct sift {
	struct bucket *buckets;
	size_t bucket_count;
	uint64_t *bits; // the cells that stay open
	size_t bit_count;
	uint64_t first, last; // this pass: words whose hash_second is in [first, last)
};

bool sift_useful(const struct count_row *bar)
{
	return bar->count <= SIFT_BAR_MAX && (bar->count > 1 || bar->value != UINT64_MAX);
}

static void bucket_lock(struct bucket *bucket)
{
	while (__atomic_exchange_n(&bucket->lock, 1, __ATOMIC_ACQUIRE) != 0)
		sched_yield();
}

static void bucket_unlock(struct bucket *bucket)
{
	__atomic_store_n(&bucket->lock, 0, __ATOMIC_RELEASE);
}

// Count a word. Returns at least its occurrences in this pass so far, COUNT_FULL for more than
// that.
static unsigned bucket_add(struct bucket *bucket, unsigned tag)
{
	for (size_t i = 0; i < ENTRIES; i++) {
		uint16_t *entry = &bucket->entries[i];
		if (*entry == 0) {
			*entry = (uint16_t)(tag << 4 | 1);
			return 1;
		}
		if (*entry >> 4 != tag)
			continue;
		if ((*entry & COUNT_FULL) != COUNT_FULL)
			++*entry;
		return *entry & COUNT_FULL;
	}
	// There is no room: it may be any word.
	return COUNT_FULL;
}

static struct bucket *sift_bucket(const struct counter *counter, uint64_t word)
{
	const struct sift *sift = counter->sift;
	return &sift->buckets[hash_third(&counter->hash, word) * (uint64_t)sift->bucket_count >>
			      32];
}

// The words of count ones at bytes that this pass is about go to the beginning.
static size_t batch_window(const struct counter *counter, char *bytes, size_t count)
{
	const struct sift *sift = counter->sift;
	const unsigned size = counter->options->word_size;
	const struct hash hash = counter->hash;
	const uint64_t first = sift->first, length = sift->last - sift->first;
	size_t used = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t word = word_load_native(bytes + i * size, size);
		word_store(bytes + used * size, word, size, ORDER_NATIVE);
		used += hash_second(&hash, word) - first < length;
	}
	return used;
}

static void sift_add(const struct counter *counter, uint64_t word)
{
	struct sift *sift = counter->sift;
	const uint64_t hash = hash_word(&counter->hash, word);
	if (known_has(&counter->known, hash, word))
		return;
	struct bucket *bucket = sift_bucket(counter, word);
	const unsigned tag = (unsigned)(hash >> 52);
	if (counter->threads > 1)
		bucket_lock(bucket);
	const unsigned count = bucket_add(bucket, tag);
	if (counter->threads > 1)
		bucket_unlock(bucket);
	const struct count_row *bar = &counter->bar;
	if (count < bar->count ||
		(count == bar->count && counter_value(counter, word) > bar->value))
		return;
	const size_t cell = counter_cell_of(hash, sift->bit_count);
	__atomic_fetch_or(&sift->bits[cell / 64], UINT64_C(1) << cell % 64, __ATOMIC_RELAXED);
}

static bool sift_feed(struct worker *worker, const struct count_block *block)
{
	struct counter *counter = worker->counter;
	const unsigned size = counter->options->word_size;
	for (size_t i = 0; i < block->words; i += BATCH) {
		char *bytes = (char *)worker->buffer + i * size;
		size_t count =
			batch_window(counter, bytes, (size_t)min_u64(BATCH, block->words - i));
		count = counter_filter(counter, bytes, count);
		for (size_t k = 0; k < count; k++)
			__builtin_prefetch(
				sift_bucket(counter, word_load_native(bytes + k * size, size)), 1);
		for (size_t k = 0; k < count; k++)
			sift_add(counter, word_load_native(bytes + k * size, size));
	}
	return true;
}

static bool sift_init(struct sift *sift, size_t room, uint64_t words, struct error *err)
{
	// The open cells of now, and those of then, an eighth each.
	const uint64_t wanted = max_u64(BUCKETS_MIN, words / FILL);
	sift->bucket_count =
		max_u64(BUCKETS_MIN, min_u64(wanted, room / 8 * 6 / sizeof *sift->buckets));
	sift->bit_count = max_u64(64 * BUCKETS_MIN, min_u64(8 * words, room)) / 64 * 64;
	sift->buckets = huge_alloc(sift->bucket_count * sizeof *sift->buckets);
	sift->bits = calloc(sift->bit_count / 64, sizeof *sift->bits);
	return (sift->buckets != NULL && sift->bits != NULL) || error_memory(err);
}

static uint64_t bits_set(const struct sift *sift)
{
	uint64_t set = 0;
	for (size_t i = 0; i < sift->bit_count / 64; i++)
		set += (unsigned)__builtin_popcountll(sift->bits[i]);
	return set;
}

bool counter_sift(
	struct counter *counter, uint64_t end, uint64_t words, struct error *err, uint64_t *ret)
{
	static const struct pass pass = {sift_feed, pass_finish, false};
	struct sift sift = {0};
	bool ok = sift_init(&sift, counter_room(counter), words, err);
	const uint64_t each = (uint64_t)sift.bucket_count * FILL;
	const uint64_t windows = (words + each - 1) / each;
	counter->sift = &sift;
	for (uint64_t i = 0; ok && i < windows && !counter_stopped(counter); i++) {
		memset(sift.buckets, 0, sift.bucket_count * sizeof *sift.buckets);
		sift.first = end * i / windows;
		sift.last = end * (i + 1) / windows;
		ok = pass_run(counter, 1, &pass, err);
	}
	counter->sift = NULL;
	free(sift.buckets);
	if (!ok || counter_stopped(counter)) {
		free(sift.bits);
		return ok;
	}
	free(counter->open);
	counter->open = sift.bits;
	counter->open_count = sift.bit_count;
	const uint64_t set = bits_set(&sift);
	// Those that were found, and others with the same cells.
	*ret = set + (uint64_t)((double)words * (double)set / (double)sift.bit_count);
	return true;
}
