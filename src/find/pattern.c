// SPDX-License-Identifier: MIT
#include "find/pattern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "find/find.h"

// No address worth looking for has fewer.
#define ADDRESS_DIGITS 6

// A whole text of digits as a number.
static bool digits_parse(const char *text, int base, uint64_t *ret)
{
	const char *digits = base == 16 ? "0123456789abcdefABCDEF" : "0123456789";
	if (text[0] == '\0' || text[strspn(text, digits)] != '\0')
		return false;
	errno = 0;
	*ret = strtoull(text, NULL, base);
	return true;
}

bool pattern_parse(const char *argument, bool bare_hex, struct error *err, struct pattern *ret)
{
	static const char prefix[] = "text:";
	const bool hex = argument[0] == '0' && (argument[1] | 0x20) == 'x';
	*ret = (struct pattern){0};
	if (digits_parse(argument + (hex ? 2 : 0), 16, &ret->word) && (hex || bare_hex))
		return errno == 0 || error_usage(err, "--find %s: wider than 64 bits", argument);
	ret->text = argument;
	if (strncmp(argument, prefix, sizeof prefix - 1) == 0)
		ret->text += sizeof prefix - 1;
	const size_t length = strlen(ret->text);
	if (length == 0 || length > FIND_TEXT_MAX)
		return error_usage(err, "--find: a text has 1 to %zu bytes", FIND_TEXT_MAX);
	return true;
}

bool pattern_may_be_number(const struct pattern *pattern, uint64_t *ret)
{
	const char *text = pattern->text;
	if (text == NULL)
		return false;
	const bool address = strlen(text) >= ADDRESS_DIGITS && strpbrk(text, "0123456789") != NULL;
	return (digits_parse(text, 10, ret) || (address && digits_parse(text, 16, ret))) &&
	       errno == 0;
}
