// SPDX-License-Identifier: MIT
#include "count/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/huge.h"
#include "count/hash.h"

// Words that wait for their cells to be fetched from memory.
#define BATCH 256
// A word is listed at once as long as all fit; after that, when its cell holds this many. Twice as
// many each time that the list overflows: only noise is left out then.
#define THRESHOLD_FIRST 16
// Enough that the words of a class, and a few thousand others, keep their places. The keys of
// these stay in the second-level cache.
#define LIST_MIN ((size_t)1 << 14)

// The cells' hash is fixed, so that the same stream gives the same intervals; who makes words that
// collide makes his own intervals wide. The list's hash is random, it decides the time.
#define CELL_FACTOR UINT64_C(0x9e3779b97f4a7c15)

struct entry {
	uint64_t low;
	uint64_t slack; // it may have occurred that many times more
};

struct stream {
	// The list: open addressing, linear probing. In use are slots of slots_max.
	uint64_t *words; // 0: free
	struct entry *entries;
	size_t slots, slots_max;
	size_t used, limit;
	size_t keep;	 // entries that survive an overflow
	uint32_t *cells; // NULL until the list overflows; UINT32_MAX: so many or more
	size_t cell_count;
	uint32_t threshold;
	uint64_t factor;
	uint64_t zeros, total;
};

// Entries are ordered by these when the list overflows: the exact low up to 1023, then its ten
// leading bits.
#define RANKS ((size_t)64 * 512)

static size_t rank_of(uint64_t low)
{
	if (low < 1024)
		return (size_t)low;
	const unsigned shift = 54 - (unsigned)__builtin_clzll(low);
	return (size_t)shift * 512 + (size_t)(low >> shift);
}

bool stream_create(size_t top, size_t memory, struct error *err, struct stream **ret)
{
	struct stream *stream = calloc(1, sizeof *stream);
	if (stream == NULL)
		return error_memory(err);
	const size_t entry = sizeof *stream->words + sizeof *stream->entries;
	stream->cell_count = 1024;
	while (2 * stream->cell_count * sizeof *stream->cells <= memory * 5 / 8)
		stream->cell_count *= 2;
	stream->slots_max =
		(memory - stream->cell_count * sizeof *stream->cells) / (entry + entry / 4);
	stream->keep = (size_t)min_u64(max_u64(LIST_MIN / 2, 4 * top), stream->slots_max / 4);
	stream->slots = stream->slots_max;
	stream->limit = stream->slots / 4 * 3;
	stream->words = calloc(stream->slots, sizeof *stream->words);
	stream->entries = calloc(stream->slots, sizeof *stream->entries);
	if (stream->words == NULL || stream->entries == NULL)
		error_memory(err);
	else if (hash_random(&stream->factor, sizeof stream->factor, err)) {
		stream->factor |= 1;
		*ret = stream;
		return true;
	}
	stream_destroy(stream);
	return false;
}

void stream_destroy(struct stream *stream)
{
	if (stream == NULL)
		return;
	free(stream->words);
	free(stream->entries);
	free(stream->cells);
	free(stream);
}

// Where a word is, or the free slot where it belongs.
static inline size_t stream_find(const struct stream *stream, uint64_t word)
{
	const uint64_t hash = (word ^ word >> 32) * stream->factor >> 32;
	size_t at = (size_t)(hash * stream->slots >> 32);
	while (stream->words[at] != 0 && stream->words[at] != word)
		at = at + 1 < stream->slots ? at + 1 : 0;
	return at;
}

static inline size_t stream_cell(const struct stream *stream, uint64_t word)
{
	return (size_t)((word ^ word >> 32) * CELL_FACTOR >> 32 & (stream->cell_count - 1));
}

static void cell_add(uint32_t *cell, uint64_t count)
{
	*cell = (uint32_t)min_u64(UINT32_MAX, add_saturated(*cell, count));
}

// The lowest rank of which, and of those above, no more than keep are listed.
static bool stream_least_rank(const struct stream *stream, struct error *err, size_t *ret)
{
	size_t *histogram = calloc(RANKS, sizeof *histogram);
	if (histogram == NULL)
		return error_memory(err);
	for (size_t i = 0; i < stream->slots; i++)
		if (stream->words[i] != 0)
			histogram[rank_of(stream->entries[i].low)]++;
	size_t rank = RANKS, above = 0;
	while (rank > 1 && above + histogram[rank - 1] <= stream->keep)
		above += histogram[--rank];
	free(histogram);
	*ret = rank;
	return true;
}

// The list is full: only the most frequent words stay, the others go to the cells. A word that
// leaves takes its count along; its slack is part of its cell's load already.
static bool stream_shrink(struct stream *stream, struct error *err)
{
	size_t least = 0, kept = 0;
	if (stream->cells == NULL)
		stream->cells = huge_alloc(stream->cell_count * sizeof *stream->cells);
	struct {
		uint64_t word;
		struct entry entry;
	} *saved = calloc(stream->keep + 1, sizeof *saved);
	if (stream->cells == NULL || saved == NULL) {
		free(saved);
		return error_memory(err);
	}
	if (!stream_least_rank(stream, err, &least)) {
		free(saved);
		return false;
	}
	for (size_t i = 0; i < stream->slots; i++) {
		const uint64_t word = stream->words[i];
		if (word == 0)
			continue;
		if (rank_of(stream->entries[i].low) >= least) {
			saved[kept].word = word;
			saved[kept++].entry = stream->entries[i];
		} else {
			cell_add(&stream->cells[stream_cell(stream, word)], stream->entries[i].low);
		}
	}
	memset(stream->words, 0, stream->slots * sizeof *stream->words);
	stream->slots = (size_t)min_u64(stream->slots_max, 4 * stream->keep);
	stream->limit = stream->slots / 2;
	stream->used = kept;
	for (size_t i = 0; i < kept; i++) {
		const size_t at = stream_find(stream, saved[i].word);
		stream->words[at] = saved[i].word;
		stream->entries[at] = saved[i].entry;
	}
	free(saved);
	stream->threshold = stream->threshold == 0 ? THRESHOLD_FIRST
						   : (uint32_t)min_u64(UINT32_MAX,
							     2 * (uint64_t)stream->threshold);
	return true;
}

// Count a word that was not listed when the batch began.
static bool stream_add(struct stream *stream, uint64_t word, struct error *err)
{
	const size_t at = stream_find(stream, word);
	if (stream->words[at] != 0) {
		stream->entries[at].low++;
		return true;
	}
	uint32_t load = 0;
	if (stream->cells != NULL) {
		uint32_t *cell = &stream->cells[stream_cell(stream, word)];
		load = *cell;
		if (load < stream->threshold) {
			++*cell;
			return true;
		}
	}
	stream->words[at] = word;
	stream->entries[at] = (struct entry){.low = 1, .slack = load};
	return ++stream->used <= stream->limit || stream_shrink(stream, err);
}

static bool stream_feed_batch(struct stream *stream, const char *bytes, size_t count,
	unsigned word_size, struct error *err)
{
	uint64_t missed[BATCH];
	size_t misses = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t word = word_load_native(bytes + i * word_size, word_size);
		if (word == 0) {
			stream->zeros++;
			continue;
		}
		const size_t at = stream_find(stream, word);
		if (stream->words[at] != 0) {
			stream->entries[at].low++;
			continue;
		}
		missed[misses++] = word;
		if (stream->cells != NULL)
			__builtin_prefetch(&stream->cells[stream_cell(stream, word)], 1);
	}
	// As long as no word is listed or dropped, the cells are all that changes.
	const uint32_t threshold = stream->cells != NULL ? stream->threshold : 0;
	bool same = true;
	for (size_t i = 0; i < misses; i++) {
		if (same && threshold > 0) {
			uint32_t *cell = &stream->cells[stream_cell(stream, missed[i])];
			if (*cell < threshold) {
				++*cell;
				continue;
			}
		}
		same = false;
		if (!stream_add(stream, missed[i], err))
			return false;
	}
	return true;
}

bool stream_feed(struct stream *stream, const void *words, size_t count, unsigned word_size,
	struct error *err)
{
	stream->total += count;
	for (size_t i = 0; i < count; i += BATCH)
		if (!stream_feed_batch(stream, (const char *)words + i * word_size,
			    (size_t)min_u64(BATCH, count - i), word_size, err))
			return false;
	return true;
}

void stream_feed_zeros(struct stream *stream, uint64_t count)
{
	stream->zeros += count;
	stream->total += count;
}

uint64_t stream_words(const struct stream *stream)
{
	return stream->total;
}

void stream_visit(const struct stream *stream,
	void (*visit)(void *context, uint64_t word, uint64_t low, uint64_t high), void *context)
{
	// A cell that is full can stand for more words than it says.
	const uint64_t others = stream->total - stream->zeros;
	if (stream->zeros > 0)
		visit(context, 0, stream->zeros, stream->zeros);
	for (size_t i = 0; i < stream->slots; i++) {
		const struct entry *entry = &stream->entries[i];
		if (stream->words[i] == 0)
			continue;
		const uint64_t high = entry->low + entry->slack;
		visit(context, stream->words[i], entry->low,
			entry->slack == UINT32_MAX ? others : min_u64(high, others));
	}
}

uint64_t stream_unlisted_max(const struct stream *stream)
{
	uint32_t most = 0;
	for (size_t i = 0; stream->cells != NULL && i < stream->cell_count; i++)
		if (stream->cells[i] > most)
			most = stream->cells[i];
	return most == UINT32_MAX ? stream->total - stream->zeros : most;
}
