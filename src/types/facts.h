// SPDX-License-Identifier: MIT
//
// Exact counts of what was seen of candidates: a hash table of small records.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "count/hash.h"

enum fact_type {
	FACT_OPEN,  // in an object of the heap, as the first candidate: offset, size of the chunk
	FACT_INNER, // in one behind the first one, which is other: the same
	FACT_DISTANCE, // from the hit before, in bytes: size
	FACT_BEHIND,   // other was the last hit before, at a distance of size bytes
	FACT_HEADER,   // the word before is the header of a chunk of size bytes
	FACT_RUN,      // a run, see runs.h; other: enum run_kind, offset: distance, size: objects
};

// Offsets up to here are told apart, in bytes.
#define OFFSET_MAX 64
// All that are greater.
#define OFFSET_DEEP (OFFSET_MAX + 1)
// No other candidate.
#define NO_ID (((uint32_t)1 << 28) - 1)

struct fact {
	uint64_t who;	// id << 32 | type << 28 | other
	uint64_t what;	// offset << 48 | size
	uint64_t count; // 0: free
};

static inline uint64_t fact_who(uint32_t id, enum fact_type type, uint32_t other)
{
	return (uint64_t)id << 32 | (uint64_t)type << 28 | other;
}

static inline uint64_t fact_what(unsigned offset, uint64_t size)
{
	return (uint64_t)offset << 48 | (size & UINT64_MAX >> 16);
}

static inline uint32_t fact_id(const struct fact *fact)
{
	return (uint32_t)(fact->who >> 32);
}

static inline enum fact_type fact_type(const struct fact *fact)
{
	return (enum fact_type)(fact->who >> 28 & 0xf);
}

static inline uint32_t fact_other(const struct fact *fact)
{
	return (uint32_t)fact->who & NO_ID;
}

static inline unsigned fact_offset(const struct fact *fact)
{
	return (unsigned)(fact->what >> 48);
}

static inline uint64_t fact_size(const struct fact *fact)
{
	return fact->what & UINT64_MAX >> 16;
}

struct facts {
	struct fact *list; // owned
	unsigned shift;	   // 64 minus the logarithm of the number of entries
	size_t used, most; // entries that may be used
	struct hash hash;
};

bool facts_init(struct facts *facts, const struct hash *hash, size_t memory, struct error *err);
void facts_deinit(struct facts *facts);

static inline size_t facts_slots(const struct facts *facts)
{
	return (size_t)1 << (64 - facts->shift);
}

static inline size_t facts_slot(const struct facts *facts, uint64_t who, uint64_t what)
{
	const uint64_t hashed = (who ^ what * facts->hash.second) * facts->hash.factor;
	return (size_t)(hashed >> facts->shift);
}

// As facts_count, for facts that are not where they should be.
bool facts_count_far(struct facts *facts, uint64_t who, uint64_t what, uint64_t times);

// Count a fact so many times. False if no more fit.
static inline bool facts_count(struct facts *facts, uint64_t who, uint64_t what, uint64_t times)
{
	struct fact *fact = &facts->list[facts_slot(facts, who, what)];
	// What is free has 0 in both, which no fact has.
	if (__builtin_expect(((fact->who ^ who) | (fact->what ^ what)) == 0, 1)) {
		fact->count += times;
		return true;
	}
	return facts_count_far(facts, who, what, times);
}
