// SPDX-License-Identifier: MIT
#include "types/telling.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"
#include "names/pointers.h"
#include "names/rtti.h"
#include "types/remains.h"

void teller_init(struct teller *teller, const struct image *image, struct names *names)
{
	const struct image_info *info = image_info(image);
	const struct modules *modules = names_modules(names);
	*teller = (struct teller){
		.image = image,
		.modules = modules,
		.pointers = names_pointers(names),
		.kinds = {.word_size = info->word_size, .order = info->order},
	};
	const struct module_range *ranges = modules->ranges;
	const size_t count = modules->range_count;
	size_t split = 0; // ranges before the greatest gap
	uint64_t most = 0;
	for (size_t i = 1; i < count; i++)
		if (ranges[i].start - ranges[i - 1].end > most) {
			most = ranges[i].start - ranges[i - 1].end;
			split = i;
		}
	if (split > 0) {
		teller->extents[1].start = ranges[0].start;
		teller->extents[1].size = ranges[split - 1].end - ranges[0].start;
	}
	if (count > 0) {
		teller->extents[0].start = ranges[split].start;
		teller->extents[0].size = ranges[count - 1].end - ranges[split].start;
	}
}

// Whether the program's own headers say that it can be written, at first at least.
static bool module_writes(const struct module *module, uint64_t address)
{
	for (unsigned i = 0; module->loaded && i < module->elf.segment_count; i++) {
		const struct elf_segment *segment = &module->elf.segments[i];
		if (segment->type == PT_LOAD && (segment->flags & PF_W) != 0 &&
			address - module->bias - segment->address < segment->memory_size)
			return true;
	}
	return false;
}

static enum telling_kind word_kind(const struct teller *teller, uint64_t word)
{
	struct rtti rtti;
	const struct module_range *range = modules_find(teller->modules, word);
	if (range == NULL)
		return teller->pointers != NULL && pointers_unloaded(teller->pointers, word)
			       ? TELLING_POINTER
			       : TELLING_NONE;
	if (modules_range_has_data(teller->modules, range) &&
		rtti_find(teller->image, teller->modules, word, &rtti)) {
		free(rtti.type);
		return TELLING_CLASS;
	}
	if (address_is_bin(teller->image, word) ||
		(teller->pointers != NULL && !pointers_can_be(teller->pointers, word)))
		return TELLING_NONE;
	if ((range->flags & (PF_X | PF_W)) != 0)
		return TELLING_POINTER;
	return module_writes(&teller->modules->list[range->module], word) ? TELLING_POINTER
									  : TELLING_CONSTANT;
}

static enum telling_kind word_kind_cached(struct teller *teller, uint64_t word)
{
	const size_t slot = (size_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 54) % TELLING_CACHE;
	struct telling *cached = &teller->cache[slot];
	if (cached->word != word)
		*cached = (struct telling){.word = word, .kind = (uint8_t)word_kind(teller, word)};
	return (enum telling_kind)cached->kind;
}

struct telling teller_look(struct teller *teller, const unsigned char *bytes, size_t available)
{
	const unsigned word_size = teller->kinds.word_size;
	struct telling best = {0};
	for (size_t at = 0; at < TELLING_SIZE && at + word_size <= available; at += word_size) {
		const uint64_t word = word_load(bytes + at, word_size, teller->kinds.order);
		unsigned char text[8];
		enum telling_kind kind = TELLING_NONE;
		if (word - teller->extents[0].start < teller->extents[0].size ||
			word - teller->extents[1].start < teller->extents[1].size)
			kind = word_kind_cached(teller, word);
		if (kind == TELLING_NONE && best.kind == TELLING_NONE &&
			kinds_text(&teller->kinds, word, text) == word_size)
			kind = TELLING_TEXT;
		if (kind > (enum telling_kind)best.kind)
			best = (struct telling){word, (uint16_t)at, (uint8_t)kind};
		if (kind == TELLING_CLASS)
			break;
	}
	return best;
}

// "\"HTTP/1.1\" @+16"
static char *text_name(const struct image *image, const struct telling *telling, bool redact)
{
	const struct image_info *info = image_info(image);
	const struct kinds kinds = {.word_size = info->word_size, .order = info->order};
	unsigned char bytes[8];
	char escaped[4 * 8 + 1] = "";
	char *name = NULL;
	const size_t length = kinds_text(&kinds, telling->word, bytes);
	escape(escaped, sizeof escaped, (const char *)bytes, length, ESCAPE_QUOTED);
	const char *quote = redact ? "" : "\"";
	if (asprintf(&name, "%s%s%s @+%u", quote, redact ? "text" : escaped, quote,
		    (unsigned)telling->offset) < 0)
		return NULL;
	return name;
}

bool telling_name(const struct image *image, struct names *names, const struct telling *telling,
	bool redact, enum type_kind *kind, char **name, const char **module)
{
	*module = "";
	if (telling->kind == TELLING_NONE) {
		*kind = TYPE_PLAIN;
		*name = strdup("(no type)");
		return *name != NULL;
	}
	if (telling->kind == TELLING_TEXT) {
		*kind = TYPE_TEXT;
		*name = text_name(image, telling, redact);
		return *name != NULL;
	}
	const struct identity identity = names_identify(names, telling->word);
	*module = identity.module != NULL ? identity.module->name : "";
	if (identity.type == IDENTITY_CLASS || identity.type == IDENTITY_CONSTRUCTION) {
		*kind = TYPE_CLASS;
		// A base of it, or one that is part of something else.
		if (identity.offset == telling->offset)
			*name = strdup(identity.name);
		else if (asprintf(name, "%s @+%u", identity.name, (unsigned)telling->offset) < 0)
			*name = NULL;
	} else {
		*kind = identity.type == IDENTITY_NONE ? TYPE_UNNAMED : TYPE_STRUCT;
		*name = type_name_pointer(&identity, telling->word, telling->offset);
	}
	return *name != NULL;
}
