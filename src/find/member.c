// SPDX-License-Identifier: MIT
#include "find/member.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

// clang-format off
static const struct member types[] = {
	{0, "uint8", MEMBER_UNSIGNED, 1}, {0, "uint16", MEMBER_UNSIGNED, 2},
	{0, "uint32", MEMBER_UNSIGNED, 4}, {0, "uint64", MEMBER_UNSIGNED, 8},
	{0, "int8", MEMBER_SIGNED, 1}, {0, "int16", MEMBER_SIGNED, 2},
	{0, "int32", MEMBER_SIGNED, 4}, {0, "int64", MEMBER_SIGNED, 8},
	{0, "float", MEMBER_FLOAT, 4}, {0, "double", MEMBER_FLOAT, 8},
	{0, "ptr", MEMBER_WORD, 0}, {0, "word", MEMBER_WORD, 0}, {0, "text", MEMBER_TEXT, 0},
};
// clang-format on

#define TYPE_COUNT (sizeof types / sizeof *types)

static bool type_parse(const char *name, size_t length, struct member *ret)
{
	for (size_t i = 0; i < TYPE_COUNT; i++)
		if (strlen(types[i].type) == length && memcmp(types[i].type, name, length) == 0) {
			*ret = types[i];
			return true;
		}
	return false;
}

// A whole text of length bytes: a sign, then decimal digits, or 0x and hexadecimal ones.
static bool offset_parse(const char *text, size_t length, int64_t *ret)
{
	const bool negative = length > 0 && text[0] == '-';
	const size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
	const bool hex = length > sign + 2 && text[sign] == '0' && (text[sign + 1] | 0x20) == 'x';
	const char *digits = text + sign + (hex ? 2 : 0);
	const size_t run = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
	if (run == 0 || digits + run != text + length)
		return false;
	errno = 0;
	const uint64_t number = strtoull(digits, NULL, hex ? 16 : 10);
	if (errno != 0 || number > MEMBER_OFFSET_MAX)
		return false;
	*ret = negative ? -(int64_t)number : (int64_t)number;
	return true;
}

// One field, of the texts [offset, colon) and [colon + 1, end).
static bool member_parse(
	const char *text, size_t length, const char *option, struct error *err, struct member *ret)
{
	const char *colon = memchr(text, ':', length);
	const size_t offset = colon != NULL ? (size_t)(colon - text) : length;
	type_parse("word", 4, ret);
	if (colon != NULL && !type_parse(colon + 1, length - offset - 1, ret))
		return error_usage(err,
			"%s: '%.*s' is no type: uint8, uint16, uint32, uint64, int8, int16, int32, "
			"int64, float, double, ptr, text",
			option, (int)(length - offset - 1), colon + 1);
	if (!offset_parse(text, offset, &ret->offset))
		return error_usage(err, "%s: '%.*s' is no offset from -%d to %d", option,
			(int)offset, text, MEMBER_OFFSET_MAX, MEMBER_OFFSET_MAX);
	return true;
}

bool members_parse(const char *text, const char *option, struct error *err, struct members *ret)
{
	ret->count = 0;
	for (;;) {
		const size_t length = strcspn(text, ",");
		if (ret->count == MEMBERS_MAX)
			return error_usage(err, "%s: at most %d fields", option, MEMBERS_MAX);
		if (!member_parse(text, length, option, err, &ret->list[ret->count++]))
			return false;
		if (text[length] == '\0')
			return true;
		text += length + 1;
	}
}

bool members_set(const char *offset, const char *type, struct error *err, struct members *ret)
{
	ret->count = 1;
	if (!member_parse(offset != NULL ? offset : "0", strlen(offset != NULL ? offset : "0"),
		    "--memberOffset", err, &ret->list[0]))
		return false;
	const int64_t at = ret->list[0].offset;
	if (type != NULL && !type_parse(type, strlen(type), &ret->list[0]))
		return error_usage(err,
			"--memberType: '%s' is no type: uint8, uint16, uint32, uint64, int8, "
			"int16, "
			"int32, int64, float, double, ptr, text",
			type);
	ret->list[0].offset = at;
	return true;
}

void members_fit(struct members *members, unsigned word_size)
{
	for (size_t i = 0; i < members->count; i++)
		if (members->list[i].form == MEMBER_WORD)
			members->list[i].size = word_size;
}

struct member_text member_describe(const struct member *member, uint64_t value)
{
	struct member_text ret = {""};
	if (member->form == MEMBER_FLOAT && member->size == 4) {
		const uint32_t bits = (uint32_t)value;
		float number;
		memcpy(&number, &bits, sizeof number);
		snprintf(ret.text, sizeof ret.text, "%.9g", (double)number);
	} else if (member->form == MEMBER_FLOAT) {
		double number;
		memcpy(&number, &value, sizeof number);
		snprintf(ret.text, sizeof ret.text, "%.17g", number);
	} else if (member->form == MEMBER_SIGNED) {
		const unsigned unused = 64 - 8 * member->size;
		snprintf(ret.text, sizeof ret.text, "%" PRId64,
			(int64_t)(value << unused) >> unused);
	} else {
		snprintf(ret.text, sizeof ret.text, "%" PRIu64, value);
	}
	return ret;
}
