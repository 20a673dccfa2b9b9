// SPDX-License-Identifier: MIT
//
// A table of texts and how often each occurs, exact as long as it is not full.
#pragma once

#include "base/error.h"
#include "find/text.h"

struct texts_entry {
	uint64_t count; // 0: free
	uint64_t hash;
	uint64_t length, check; // as in struct text
	uint64_t address;	// the lowest of those where it occurs
	uint32_t size;		// bytes kept
	bool cut_before, cut_after;
	size_t at; // of these bytes in texts->bytes
};

struct texts {
	struct texts_entry *entries; // open addressing; owned
	size_t slots, used;
	unsigned char *bytes; // owned
	size_t bytes_used, bytes_size;
	size_t memory; // bytes that all this may take
	bool fold;
	bool full;     // from now on texts that are not in the table are only counted
	uint64_t rest; // these
};

// memory is at least TEXTS_MEMORY_MIN.
#define TEXTS_MEMORY_MIN ((size_t)64 * 1024)
void texts_init(struct texts *texts, size_t memory, bool fold);
void texts_deinit(struct texts *texts);
// Count a text so many times.
void texts_add(struct texts *texts, const struct text *text, uint64_t count);
// Add all that other has, and empty it.
void texts_merge(struct texts *texts, struct texts *other);
// Put the entries in order, most frequent first, then by text, and forget those below min_count and
// beyond top. The table is a list then; nothing can be added any more. Returns its length.
size_t texts_rank(struct texts *texts, size_t top, uint64_t min_count);
