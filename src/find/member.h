// SPDX-License-Identifier: MIT
//
// Fields of objects: where they are, and how their bytes are read.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/error.h"

enum member_form { MEMBER_UNSIGNED, MEMBER_SIGNED, MEMBER_FLOAT, MEMBER_WORD, MEMBER_TEXT };

struct member {
	int64_t offset;	  // bytes from the word that was found
	const char *type; // its name
	enum member_form form;
	unsigned size; // bytes; 0: a text, or a word before members_fit
};

// Fields may be so many bytes away from the word.
#define MEMBER_OFFSET_MAX 65536
#define MEMBERS_MAX 32

struct members {
	struct member list[MEMBERS_MAX];
	size_t count;
};

// "OFFSET[:TYPE],...": offsets are decimal, or hexadecimal with 0x, and may be negative; the type
// is uint8, uint16, uint32, uint64, int8, int16, int32, int64, float, double, ptr or text; a word
// if there is none. False for a usage error, which names option.
bool members_parse(const char *text, const char *option, struct error *err, struct members *ret);
// The same of one field's parts, of which one may be NULL: offset 0, a word.
bool members_set(const char *offset, const char *type, struct error *err, struct members *ret);
// Words and pointers get the size of the dump's words.
void members_fit(struct members *members, unsigned word_size);

// What a field of this form and size holds, as text for people. The value is as from member_load.
struct member_text {
	char text[32];
};
struct member_text member_describe(const struct member *member, uint64_t value);

// The number that size bytes are, without a sign.
static inline uint64_t member_load(const unsigned char *bytes, unsigned size, enum byte_order order)
{
	switch (size) {
	case 1:
		return bytes[0];
	case 2:
		return load_u16(bytes, order);
	default:
		return word_load(bytes, size, order);
	}
}
