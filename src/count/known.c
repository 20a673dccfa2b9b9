// SPDX-License-Identifier: MIT
#include "count/known.h"

#include <stdlib.h>

#define WAYS 4
#define BUCKET_BITS_MIN 12
#define BUCKET_BITS_MAX 15

struct entry {
	uint64_t word;
	uint64_t count; // 0: free
};

struct sample {
	uint64_t words;		// fed, zeros apart
	uint64_t zeros;		// fed
	unsigned shift;		// bucket = hash >> shift
	size_t size;		// of entries
	struct entry entries[]; // WAYS to a bucket
};

// More words than this cannot be expected to find slots of their own by trying.
#define PLACED_MAX 2048
// Tries that take a few milliseconds at most: each ends at its first collision.
#define TRIES 65536

// How many words, from the first on, have slots of their own. taken is all zero, before and after.
static size_t known_placed(
	const uint64_t *words, size_t count, uint64_t factor, unsigned shift, uint64_t *taken)
{
	size_t placed = 0;
	for (; placed < count; placed++) {
		const uint64_t slot = words[placed] * factor >> shift;
		if (words[placed] != 0 && (slot == 0 || taken[slot] != 0))
			break;
		taken[slot] = 1;
	}
	for (size_t i = 0; i < placed; i++)
		taken[words[i] * factor >> shift] = 0;
	return placed;
}

static uint64_t known_factor(
	const struct known *known, uint64_t first, const uint64_t *words, size_t count)
{
	uint64_t best = first, factor = first;
	size_t most = 0;
	for (int i = 0; i < TRIES && most < count; i++) {
		const size_t placed = known_placed(words, count, factor, known->shift, known->keys);
		if (placed > most) {
			most = placed;
			best = factor;
		}
		// A walk through the odd numbers, from a secret one on.
		factor = factor * UINT64_C(0x5851f42d4c957f2d) + 2;
		factor = (factor ^ factor >> 31) | 1;
	}
	return best;
}

bool known_init(struct known *known, struct hash *hash, const uint64_t *words, size_t count,
	size_t placed, struct error *err)
{
	const size_t wanted = (size_t)min_u64(placed, PLACED_MAX);
	unsigned bits = KNOWN_BITS_MIN;
	// So many slots that a try succeeds with a probability of e^-6.
	while (bits < KNOWN_BITS_MAX && wanted * wanted > (size_t)19 << bits)
		bits++;
	known->shift = 64 - bits;
	known->slots = (size_t)1 << bits;
	known->keys = calloc(known->slots, sizeof *known->keys);
	if (known->keys == NULL)
		return error_memory(err);
	hash->factor = known_factor(known, hash->factor, words, wanted);
	for (size_t i = 0; i < count; i++) {
		const uint64_t slot = hash_word(hash, words[i]) >> known->shift;
		if (slot != 0 && known->keys[slot] == 0)
			known->keys[slot] = words[i];
	}
	return true;
}

void known_deinit(struct known *known)
{
	free(known->keys);
	known->keys = NULL;
}

struct sample *sample_create(size_t top, struct error *err)
{
	unsigned bits = BUCKET_BITS_MIN;
	while (bits < BUCKET_BITS_MAX && (size_t)1 << bits < 4 * top)
		bits++;
	const size_t size = WAYS * ((size_t)1 << bits);
	struct sample *sample = calloc(1, sizeof *sample + size * sizeof *sample->entries);
	if (sample == NULL) {
		error_memory(err);
		return NULL;
	}
	sample->shift = 64 - bits;
	sample->size = size;
	return sample;
}

void sample_destroy(struct sample *sample)
{
	free(sample);
}

static void sample_add(
	struct sample *sample, const struct hash *hash, uint64_t word, uint64_t count)
{
	struct entry *bucket = &sample->entries[(hash_word(hash, word) >> sample->shift) * WAYS];
	struct entry *rarest = bucket;
	for (size_t i = 0; i < WAYS; i++) {
		if (bucket[i].count != 0 && bucket[i].word == word) {
			bucket[i].count += count;
			return;
		}
		if (bucket[i].count < rarest->count)
			rarest = &bucket[i];
	}
	// A newcomer wears the rarest word down and takes its place when nothing is left of it.
	if (rarest->count <= count)
		*rarest = (struct entry){word, count};
	else
		rarest->count -= count;
}

void sample_feed(struct sample *sample, const struct hash *hash, const void *words, size_t count,
	unsigned word_size)
{
	const char *bytes = words;
	for (size_t i = 0; i < count; i++) {
		const uint64_t word = word_load_native(bytes + i * word_size, word_size);
		if (word == 0) {
			sample->zeros++;
			continue;
		}
		sample_add(sample, hash, word, 1);
		sample->words++;
	}
}

void sample_merge(struct sample *sample, const struct hash *hash, const struct sample *other)
{
	const struct entry *entries = other->entries;
	for (size_t i = 0; i < other->size; i++)
		if (entries[i].count != 0)
			sample_add(sample, hash, entries[i].word, entries[i].count);
	sample->words += other->words;
	sample->zeros += other->zeros;
}

static int entry_compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	return a->count > b->count ? -1 : a->count < b->count;
}

bool sample_teach(struct sample *sample, struct error *err, struct lesson *ret)
{
	struct entry *entries = sample->entries;
	qsort(entries, sample->size, sizeof *entries, entry_compare);
	*ret = (struct lesson){
		.words = calloc(sample->size, sizeof *ret->words),
		.counts = calloc(sample->size, sizeof *ret->counts),
		.words_seen = sample->words + sample->zeros,
		.rest = sample->words,
	};
	if (ret->words == NULL || ret->counts == NULL) {
		lesson_deinit(ret);
		return error_memory(err);
	}
	for (size_t i = 0; i < sample->size && entries[i].count > 1; i++, ret->count++) {
		ret->words[i] = entries[i].word;
		ret->counts[i] = entries[i].count;
		ret->rest -= min_u64(ret->rest, entries[i].count);
	}
	return true;
}

void lesson_deinit(struct lesson *lesson)
{
	free(lesson->words);
	free(lesson->counts);
	*lesson = (struct lesson){0};
}
