// SPDX-License-Identifier: MIT
#include "find/texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define SLOTS_MIN ((size_t)256)

void texts_init(struct texts *texts, size_t memory, bool fold, bool templates)
{
	*texts = (struct texts){.memory = memory, .fold = fold, .templates = templates};
}

void texts_deinit(struct texts *texts)
{
	free(texts->entries);
	free(texts->bytes);
	*texts = (struct texts){0};
}

unsigned char *texts_bytes(const struct texts *texts, const struct texts_entry *entry)
{
	return texts->bytes + entry->at + entry->widths + entry->template;
}

// Two hashes of 64 bits tell templates apart; other texts are compared.
static bool entry_is(
	const struct texts *texts, const struct texts_entry *entry, const struct text *text)
{
	return entry->hash == text->hash && entry->check == text->check &&
	       entry->encoding == text->encoding && entry->cut_before == text->cut_before &&
	       entry->cut_after == text->cut_after &&
	       (texts->templates || (entry->length == text->length &&
					    text_compare(texts_bytes(texts, entry), entry->size,
						    text->bytes, text->size, texts->fold) == 0));
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

// The sketch of an entry's different texts, with those that it has; NULL: there is no memory.
static unsigned char *entry_sketch(struct texts *texts, struct texts_entry *entry)
{
	struct distinct *distinct = &entry->distinct;
	if (distinct->sketch == 0) {
		if (!texts_reserve(texts, SKETCH_SIZE))
			return NULL;
		unsigned char *sketch = texts->bytes + texts->bytes_used;
		memset(sketch, 0, SKETCH_SIZE);
		if (distinct->first != 0)
			sketch_add(sketch, distinct->first);
		if (distinct->second != 0)
			sketch_add(sketch, distinct->second);
		texts->bytes_used += SKETCH_SIZE;
		distinct->sketch = texts->bytes_used - SKETCH_SIZE + 1;
	}
	return texts->bytes + distinct->sketch - 1;
}

// Note the hash of one of an entry's texts. False: there is no memory.
static bool entry_note(struct texts *texts, struct texts_entry *entry, uint64_t hash)
{
	struct distinct *distinct = &entry->distinct;
	if (hash == 0 ||
		(distinct->sketch == 0 && (hash == distinct->first || hash == distinct->second)))
		return true;
	if (distinct->sketch == 0 && (distinct->first == 0 || distinct->second == 0)) {
		*(distinct->first == 0 ? &distinct->first : &distinct->second) = hash;
		return true;
	}
	unsigned char *sketch = entry_sketch(texts, entry);
	if (sketch != NULL)
		sketch_add(sketch, hash);
	return sketch != NULL;
}

// What is counted: a text so many times. Of templates, the widths of its marks, and the different
// texts: their hashes, or a sketch of them.
struct addition {
	const struct text *text;
	uint64_t count, bytes;
	const uint8_t *widths;
	size_t width_count;
	const unsigned char *template; // if it has marks
	size_t template_size;
	uint64_t distinct[2];
	const unsigned char *sketch;
};

// The text at the lowest address is the one that is shown: of texts that differ in their letters'
// case, and of templates.
static bool entry_show(struct texts *texts, struct texts_entry *entry, const struct text *text)
{
	if (text->size > entry->room) {
		const size_t before = (size_t)entry->widths + entry->template;
		if (!texts_reserve(texts, before + text->size))
			return false;
		memcpy(texts->bytes + texts->bytes_used, texts->bytes + entry->at, before);
		entry->at = texts->bytes_used;
		entry->room = (uint32_t)text->size;
		texts->bytes_used += before + text->size;
	}
	entry->address = text->address;
	entry->length = text->length;
	entry->size = (uint32_t)text->size;
	memcpy(texts_bytes(texts, entry), text->bytes, text->size);
	return true;
}

static bool entry_add(
	struct texts *texts, struct texts_entry *entry, const struct addition *addition)
{
	bool ok = true;
	entry->count += addition->count;
	entry->bytes += addition->bytes;
	if (addition->text->address < entry->address) {
		ok = entry_show(texts, entry, addition->text);
		// It may differ in the case of letters.
		if (ok && entry->template > 0)
			memcpy(texts->bytes + entry->at + entry->widths, addition->template,
				entry->template);
	}
	template_widen(texts->bytes + entry->at, addition->widths, entry->widths);
	if (addition->sketch != NULL) {
		unsigned char *sketch = entry_sketch(texts, entry);
		if (sketch == NULL)
			return false;
		sketch_merge(sketch, addition->sketch);
	}
	for (size_t i = 0; i < 2; i++)
		ok = entry_note(texts, entry, addition->distinct[i]) && ok;
	return ok;
}

static void texts_put(struct texts *texts, const struct addition *addition)
{
	const struct text *text = addition->text;
	struct texts_entry *entry = texts->slots > 0 ? texts_find(texts, text) : NULL;
	if (entry != NULL && entry->count != 0) {
		if (!entry_add(texts, entry, addition))
			texts->full = true;
		return;
	}
	// Three quarters: probes stay short.
	const bool crowded = texts->used >= texts->slots / 4 * 3;
	if (texts->full || (crowded && !texts_widen(texts)) ||
		!texts_reserve(
			texts, addition->width_count + addition->template_size + text->size)) {
		texts->full = true;
		texts->rest += addition->count;
		return;
	}
	entry = texts_find(texts, text);
	*entry = (struct texts_entry){
		.hash = text->hash,
		.length = text->length,
		.check = text->check,
		.address = text->address,
		.size = (uint32_t)text->size,
		.room = (uint32_t)text->size,
		.template = (uint16_t)addition->template_size,
		.widths = (uint8_t)addition->width_count,
		.encoding = (uint8_t)text->encoding,
		.cut_before = text->cut_before,
		.cut_after = text->cut_after,
		.at = texts->bytes_used,
	};
	if (addition->width_count > 0) {
		unsigned char *kept = texts->bytes + entry->at;
		memcpy(kept, addition->widths, addition->width_count);
		memcpy(kept + addition->width_count, addition->template, addition->template_size);
	}
	memcpy(texts_bytes(texts, entry), text->bytes, text->size);
	texts->bytes_used += addition->width_count + addition->template_size + text->size;
	texts->used++;
	if (!entry_add(texts, entry, addition))
		texts->full = true;
}

void texts_add(struct texts *texts, const struct text *text, uint64_t count)
{
	const struct addition addition = {
		.text = text, .count = count, .bytes = count * text->length};
	texts_put(texts, &addition);
}

uint64_t texts_template(const struct text *text, uint64_t seed, bool fold, struct template *ret)
{
	template_make(text->bytes, text->size, ret);
	struct text_hash hash = text_hash_begin(seed, fold);
	text_hash_add(&hash, ret->bytes, ret->size);
	const bool cut = text->cut_after || ret->used < text->size;
	return text_hash_vary(text_hash_end(&hash), text->encoding, text->cut_before, cut);
}

void texts_add_template(struct texts *texts, const struct text *text,
	const struct template *template, uint64_t hash, uint64_t count)
{
	struct text_hash check = text_hash_begin(UINT64_MAX, texts->fold);
	text_hash_add(&check, template->bytes, template->size);
	struct text shown = *text;
	shown.size = template->used;
	shown.cut_after = text->cut_after || template->used < text->size;
	shown.hash = hash;
	shown.check = text_hash_end(&check);
	const struct addition addition = {
		.text = &shown,
		.count = count,
		.bytes = count * text->length,
		.widths = template->widths,
		.width_count = template->width_count,
		.template = template->bytes,
		.template_size = template->width_count > 0 ? template->size : 0,
		.distinct = {text->hash},
	};
	texts_put(texts, &addition);
}

uint64_t texts_distinct(const struct texts *texts, const struct texts_entry *entry)
{
	const struct distinct *distinct = &entry->distinct;
	if (distinct->sketch == 0)
		return (uint64_t)(distinct->first != 0) + (distinct->second != 0);
	return min_u64(sketch_estimate(texts->bytes + distinct->sketch - 1), entry->count);
}

void texts_merge(struct texts *texts, struct texts *other)
{
	for (size_t i = 0; i < other->slots; i++) {
		const struct texts_entry *entry = &other->entries[i];
		if (entry->count == 0)
			continue;
		const struct text text = {
			.bytes = texts_bytes(other, entry),
			.size = entry->size,
			.length = entry->length,
			.check = entry->check,
			.hash = entry->hash,
			.address = entry->address,
			.encoding = entry->encoding,
			.cut_before = entry->cut_before,
			.cut_after = entry->cut_after,
		};
		const size_t sketch = entry->distinct.sketch;
		const struct addition addition = {
			.text = &text,
			.count = entry->count,
			.bytes = entry->bytes,
			.widths = other->bytes + entry->at,
			.width_count = entry->widths,
			.template = other->bytes + entry->at + entry->widths,
			.template_size = entry->template,
			.distinct = {entry->distinct.first, entry->distinct.second},
			.sketch = sketch != 0 ? other->bytes + sketch - 1 : NULL,
		};
		texts_put(texts, &addition);
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
		texts_bytes(texts, a), a->size, texts_bytes(texts, b), b->size, texts->fold);
	if (order != 0)
		return order;
	if (a->length != b->length)
		return a->length < b->length ? -1 : 1;
	if (a->encoding != b->encoding)
		return a->encoding < b->encoding ? -1 : 1;
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
