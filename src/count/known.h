// SPDX-License-Identifier: MIT
//
// The words that a sample of the stream makes likely winners: each owns a slot, chosen by its hash,
// and is counted there exactly. Of two words that want the same slot the likelier one gets it.
#pragma once

#include "count/count.h"
#include "count/hash.h"

struct known {
	uint64_t *keys; // 0: free; slot 0 belongs to the word 0, whose hash is 0
	unsigned shift; // slot = hash >> shift
	size_t slots;
};

// 2048 slots: their keys, 16 KiB, leave half of a first-level cache to the rest. More rows need
// more.
#define KNOWN_BITS_MIN 11
#define KNOWN_BITS_MAX 15

// Give slots to words, the most important first. hash->factor becomes one with which as many as
// possible of the first `placed` ones do not collide.
bool known_init(struct known *known, struct hash *hash, const uint64_t *words, size_t count,
	size_t placed, struct error *err);
void known_deinit(struct known *known);

static inline bool known_has(const struct known *known, uint64_t hash, uint64_t word)
{
	return known->keys[hash >> known->shift] == word;
}

// A lossy counter of the frequent words of a sample: of the words that occur in more than one of
// about 16,000 places, few are missed; more places for more rows. Only the cost of counting depends
// on it.
struct sample;

struct sample *sample_create(size_t top, struct error *err);
void sample_destroy(struct sample *sample);
void sample_feed(struct sample *sample, const struct hash *hash, const void *words, size_t count,
	unsigned word_size);
// Add what other has seen.
void sample_merge(struct sample *sample, const struct hash *hash, const struct sample *other);
// What a sample says.
struct lesson {
	uint64_t *words;  // seen more than once, the most frequent first; owned
	uint64_t *counts; // of these words in the sample; owned
	size_t count;
	uint64_t words_seen;
	uint64_t rest; // of them, occurrences of words that are not listed, zeros apart
};

// Sorts the sample, which is of no further use.
bool sample_teach(struct sample *sample, struct error *err, struct lesson *ret);
void lesson_deinit(struct lesson *lesson);
