// SPDX-License-Identifier: MIT
//
// A table of texts and how often each occurs, exact as long as it is not full. Or of templates, and
// of each an example.
#pragma once

#include "base/error.h"
#include "find/distinct.h"
#include "find/template.h"
#include "find/text.h"

struct texts_entry {
	uint64_t count; // 0: free
	uint64_t hash;
	uint64_t length, check; // as in struct text
	uint64_t address;	// the lowest of those where it occurs
	uint64_t bytes;		// of all of them in memory
	size_t at;		// of what is kept, in texts->bytes
	uint32_t size;		// bytes of the text
	uint32_t room;		// for so many there is room
	uint16_t template;	// bytes of its template, before them if it has marks; or 0
	uint8_t widths;		// of so many marks, before that
	uint8_t encoding;
	bool cut_before, cut_after;
	struct distinct distinct; // of templates, the texts
};

struct texts {
	struct texts_entry *entries; // open addressing; owned
	size_t slots, used;
	unsigned char *bytes; // owned
	size_t bytes_used, bytes_size;
	size_t memory; // bytes that all this may take
	bool fold;
	bool templates; // texts with the same template are the same
	bool full;	// from now on texts that are not in the table are only counted
	uint64_t rest;	// these
};

// memory is at least TEXTS_MEMORY_MIN.
#define TEXTS_MEMORY_MIN ((size_t)64 * 1024)
void texts_init(struct texts *texts, size_t memory, bool fold, bool templates);
void texts_deinit(struct texts *texts);
// Count a text so many times.
void texts_add(struct texts *texts, const struct text *text, uint64_t count);
// The hash of a text's template, by which it is counted; *ret becomes the template.
uint64_t texts_template(const struct text *text, uint64_t seed, bool fold, struct template *ret);
// The same for a table of templates: this is the text's one, of that hash.
void texts_add_template(struct texts *texts, const struct text *text,
	const struct template *template, uint64_t hash, uint64_t count);
// How many different texts an entry of a table of templates has, about.
uint64_t texts_distinct(const struct texts *texts, const struct texts_entry *entry);
// Add all that other has, and empty it.
void texts_merge(struct texts *texts, struct texts *other);
// What is kept of an entry's text, entry->size bytes.
unsigned char *texts_bytes(const struct texts *texts, const struct texts_entry *entry);
// Put the entries in order, most frequent first, then by text, and forget those below min_count and
// beyond top. The table is a list then; nothing can be added any more. Returns its length.
size_t texts_rank(struct texts *texts, size_t top, uint64_t min_count);
