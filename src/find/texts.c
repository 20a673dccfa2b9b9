// SPDX-License-Identifier: MIT
#include "find/texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define SLOTS_MIN ((size_t)256)

void texts_init(struct texts *texts, size_t memory, bool fold)
{
	*texts = (struct texts){.memory = memory, .fold = fold};
}

void texts_deinit(struct texts *texts)
{
	free(texts->entries);
	free(texts->bytes);
	*texts = (struct texts){0};
}

static bool entry_is(
	const struct texts *texts, const struct texts_entry *entry, const struct text *text)
{
	return entry->hash == text->hash && entry->length == text->length &&
	       entry->check == text->check && entry->cut_before == text->cut_before &&
	       entry->cut_after == text->cut_after &&
	       text_compare(texts->bytes + entry->at, entry->size, text->bytes, text->size,
		       texts->fold) == 0;
}

// The entry of a text, or the free one where it belongs.
static struct texts_entry *texts_find(const struct texts *texts, const struct text *text)
{
	size_t at = text->hash & (texts->slots - 1);
	while (texts->entries[at].count != 0 && !entry_is(texts, &texts->entries[at], text))
		at = (at + 1) & (texts->slots - 1);
	return &texts->entries[at];
}

// Twice as many slots; while they are filled both tables exist. False: that does not fit.
static bool texts_widen(struct texts *texts)
{
	const size_t slots = texts->slots > 0 ? 2 * texts->slots : SLOTS_MIN;
	const size_t both = (slots + texts->slots) * sizeof *texts->entries;
	if (both + texts->bytes_size > texts->memory)
		return false;
	struct texts_entry *wider = calloc(slots, sizeof *wider);
	if (wider == NULL)
		return false;
	for (size_t i = 0; i < texts->slots; i++) {
		const struct texts_entry *entry = &texts->entries[i];
		if (entry->count == 0)
			continue;
		// All are different: the first free slot is right.
		size_t at = entry->hash & (slots - 1);
		while (wider[at].count != 0)
			at = (at + 1) & (slots - 1);
		wider[at] = *entry;
	}
	free(texts->entries);
	texts->entries = wider;
	texts->slots = slots;
	return true;
}

// Room for size more bytes; while they are moved both copies may exist.
static bool texts_reserve(struct texts *texts, size_t size)
{
	if (texts->bytes != NULL && texts->bytes_size - texts->bytes_used >= size)
		return true;
	const size_t table = texts->slots * sizeof *texts->entries;
	size_t wanted = max_u64(2 * texts->bytes_size, (size_t)16 * 1024);
	while (wanted - texts->bytes_used < size)
		wanted *= 2;
	if (table + texts->bytes_size + wanted > texts->memory)
		return false;
	unsigned char *grown = realloc(texts->bytes, wanted);
	if (grown == NULL)
		return false;
	texts->bytes = grown;
	texts->bytes_size = wanted;
	return true;
}

void texts_add(struct texts *texts, const struct text *text, uint64_t count)
{
	struct texts_entry *entry = texts->slots > 0 ? texts_find(texts, text) : NULL;
	if (entry != NULL && entry->count != 0) {
		entry->count += count;
		if (text->address < entry->address) {
			// Of texts that differ in their letters' case the first one is shown.
			entry->address = text->address;
			memcpy(texts->bytes + entry->at, text->bytes, text->size);
		}
		return;
	}
	// Three quarters: probes stay short.
	const bool crowded = texts->used >= texts->slots / 4 * 3;
	if (texts->full || (crowded && !texts_widen(texts)) || !texts_reserve(texts, text->size)) {
		texts->full = true;
		texts->rest += count;
		return;
	}
	entry = texts_find(texts, text);
	*entry = (struct texts_entry){
		.count = count,
		.hash = text->hash,
		.length = text->length,
		.check = text->check,
		.address = text->address,
		.size = (uint32_t)text->size,
		.cut_before = text->cut_before,
		.cut_after = text->cut_after,
		.at = texts->bytes_used,
	};
	memcpy(texts->bytes + entry->at, text->bytes, text->size);
	texts->bytes_used += text->size;
	texts->used++;
}

void texts_merge(struct texts *texts, struct texts *other)
{
	for (size_t i = 0; i < other->slots; i++) {
		const struct texts_entry *entry = &other->entries[i];
		if (entry->count == 0)
			continue;
		const struct text text = {
			.bytes = other->bytes + entry->at,
			.size = entry->size,
			.length = entry->length,
			.check = entry->check,
			.hash = entry->hash,
			.address = entry->address,
			.cut_before = entry->cut_before,
			.cut_after = entry->cut_after,
		};
		texts_add(texts, &text, entry->count);
	}
	texts->rest += other->rest;
	texts->full = texts->full || other->full;
	texts_deinit(other);
}

static int entry_compare(const void *left, const void *right, void *context)
{
	const struct texts_entry *a = left, *b = right;
	const struct texts *texts = context;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	const int order = text_compare(
		texts->bytes + a->at, a->size, texts->bytes + b->at, b->size, texts->fold);
	if (order != 0)
		return order;
	if (a->length != b->length)
		return a->length < b->length ? -1 : 1;
	return a->address < b->address ? -1 : a->address > b->address;
}

size_t texts_rank(struct texts *texts, size_t top, uint64_t min_count)
{
	size_t count = 0;
	for (size_t i = 0; i < texts->slots; i++)
		if (texts->entries[i].count >= min_count)
			texts->entries[count++] = texts->entries[i];
	if (count > 0)
		qsort_r(texts->entries, count, sizeof *texts->entries, entry_compare, texts);
	texts->used = min_u64(count, top);
	return texts->used;
}
