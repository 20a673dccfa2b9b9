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

// The upper 12 bits of the hash choose the slot: 32 KiB of keys stay in the first-level cache. More
// rows need more slots.
#define KNOWN_BITS_MIN 12
#define KNOWN_BITS_MAX 16

bool known_init(struct known *known, size_t top, struct error *err);
void known_deinit(struct known *known);
// Give the word a slot unless another one has it.
void known_add(struct known *known, const struct hash *hash, uint64_t word);

static inline bool known_has(const struct known *known, uint64_t hash, uint64_t word)
{
	return known->keys[hash >> known->shift] == word;
}

// A lossy counter of the frequent words of a sample: of the words that occur in more than one of
// about 16,000 places, few are missed. Only the cost of counting depends on it.
struct sample;

struct sample *sample_create(struct error *err);
void sample_destroy(struct sample *sample);
void sample_feed(struct sample *sample, const struct hash *hash, const void *words, size_t count,
	unsigned word_size);
// Add what other has seen.
void sample_merge(struct sample *sample, const struct hash *hash, const struct sample *other);
// Give slots to the words of the sample, the most frequent ones first.
void sample_teach(struct sample *sample, const struct hash *hash, struct known *known);
