// SPDX-License-Identifier: MIT
#include "count/known.h"

#include <stdlib.h>

#define WAYS 4
#define BUCKET_BITS 12
#define BUCKETS ((size_t)1 << BUCKET_BITS)

struct entry {
	uint64_t word;
	uint64_t count; // 0: free
};

struct sample {
	struct entry entries[BUCKETS][WAYS];
};

bool known_init(struct known *known, size_t top, struct error *err)
{
	unsigned bits = KNOWN_BITS_MIN;
	while (bits < KNOWN_BITS_MAX && ((size_t)1 << bits) < 16 * top)
		bits++;
	known->shift = 64 - bits;
	known->slots = (size_t)1 << bits;
	known->keys = calloc(known->slots, sizeof *known->keys);
	return known->keys != NULL || error_memory(err);
}

void known_deinit(struct known *known)
{
	free(known->keys);
}

void known_add(struct known *known, const struct hash *hash, uint64_t word)
{
	const uint64_t slot = hash_word(hash, word) >> known->shift;
	if (slot != 0 && known->keys[slot] == 0)
		known->keys[slot] = word;
}

struct sample *sample_create(struct error *err)
{
	struct sample *sample = calloc(1, sizeof *sample);
	if (sample == NULL)
		error_memory(err);
	return sample;
}

void sample_destroy(struct sample *sample)
{
	free(sample);
}

static void sample_add(
	struct sample *sample, const struct hash *hash, uint64_t word, uint64_t count)
{
	struct entry *bucket = sample->entries[hash_word(hash, word) >> (64 - BUCKET_BITS)];
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
		if (word != 0)
			sample_add(sample, hash, word, 1);
	}
}

void sample_merge(struct sample *sample, const struct hash *hash, const struct sample *other)
{
	const struct entry *entries = other->entries[0];
	for (size_t i = 0; i < BUCKETS * WAYS; i++)
		if (entries[i].count != 0)
			sample_add(sample, hash, entries[i].word, entries[i].count);
}

static int entry_compare(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	return a->count > b->count ? -1 : a->count < b->count;
}

void sample_teach(struct sample *sample, const struct hash *hash, struct known *known)
{
	struct entry *entries = sample->entries[0];
	qsort(entries, BUCKETS * WAYS, sizeof *entries, entry_compare);
	for (size_t i = 0; i < BUCKETS * WAYS && entries[i].count > 1; i++)
		known_add(known, hash, entries[i].word);
}
