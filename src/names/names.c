// SPDX-License-Identifier: MIT
#include "names/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/escape.h"

// Up to a trillion a word is shown in decimal: the sizes, counters, timestamps in milliseconds and
// identifiers that people know by heart lie below, pointers of 64-bit systems above.
#define NUMBER_MAX UINT64_C(1000000000000)

struct names {
	unsigned word_size;
	enum byte_order order;
	char text[64];
};

const char *kind_name(enum kind kind)
{
	static const char *const name[KIND_COUNT] = {"zero", "number", "text", "other"};
	return name[kind];
}

bool names_create(const struct image *image, const struct names_options *options, struct diag *diag,
	struct error *err, struct names **ret)
{
	(void)options;
	(void)diag;
	const struct image_info *info = image_info(image);
	struct names *names = calloc(1, sizeof *names);
	if (names == NULL)
		return error_memory(err);
	names->word_size = info->word_size;
	names->order = info->order;
	*ret = names;
	return true;
}

void names_destroy(struct names *names)
{
	free(names);
}

// A text fills the word but for NULs at its end, and is at least half as long as the word.
static bool names_text(struct names *names, uint64_t value)
{
	unsigned char bytes[8];
	word_store(bytes, value, names->word_size, names->order);
	size_t length = names->word_size;
	while (length > 0 && bytes[length - 1] == 0)
		length--;
	if (length < names->word_size / 2)
		return false;
	for (size_t i = 0; i < length;) {
		const size_t size = escape_printable(bytes + i, length - i);
		if (size == 0)
			return false;
		i += size;
	}
	char quoted[4 * sizeof bytes + 1];
	escape(quoted, sizeof quoted, (const char *)bytes, length, ESCAPE_QUOTED);
	snprintf(names->text, sizeof names->text, "\"%s\"", quoted);
	return true;
}

// glibc, malloc/malloc.c: the word before an object is its chunk's size, a multiple of two words
// and at least four, with PREV_INUSE in bit 0.
static bool is_chunk_size(uint64_t value, unsigned word_size)
{
	const uint64_t size = value & ~(uint64_t)7;
	return (value & 7) == 1 && size >= 4 * (uint64_t)word_size &&
	       size % (2 * (uint64_t)word_size) == 0 && size < 128 * 1024;
}

static bool names_number(struct names *names, uint64_t value)
{
	// Negative numbers of the word's own width.
	const int64_t number = names->word_size == 8 ? (int64_t)value : (int32_t)(uint32_t)value;
	if (number > (int64_t)NUMBER_MAX || number < -(int64_t)NUMBER_MAX)
		return false;
	int length = snprintf(names->text, sizeof names->text, "%" PRId64, number);
	if (is_chunk_size(value, names->word_size))
		snprintf(names->text + length, sizeof names->text - (size_t)length,
			", or malloc size %" PRIu64, value & ~(uint64_t)7);
	return true;
}

struct name names_describe(struct names *names, uint64_t value)
{
	if (value == 0)
		return (struct name){KIND_ZERO, "zero"};
	if (names_text(names, value))
		return (struct name){KIND_TEXT, names->text};
	if (names_number(names, value))
		return (struct name){KIND_NUMBER, names->text};
	return (struct name){KIND_OTHER, ""};
}
