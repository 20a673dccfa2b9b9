// SPDX-License-Identifier: MIT
//
// Where a word goes: multiplicative hashing with random odd factors (Dietzfelbinger et al., "A
// Reliable Randomized Algorithm for the Closest-Pair Problem", 1997), so that nobody can make words
// that collide. Only the cost depends on the factors, never the result.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct hash {
	uint64_t factor, second, third; // odd, independent of each other
};

// Random bytes for factors, at most 256.
bool hash_random(void *ret, size_t size, struct error *err);

// 64 bits of which the upper ones are to be used; 0 for 0.
static inline uint64_t hash_word(const struct hash *hash, uint64_t word)
{
	return word * hash->factor;
}

// 32 more bits, independent of the upper ones of hash_word, and again 32.
static inline uint32_t hash_second(const struct hash *hash, uint64_t word)
{
	return (uint32_t)((word ^ word >> 32) * hash->second >> 32);
}

static inline uint32_t hash_third(const struct hash *hash, uint64_t word)
{
	return (uint32_t)((word ^ word >> 29) * hash->third >> 32);
}
