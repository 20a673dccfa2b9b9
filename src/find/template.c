// SPDX-License-Identifier: MIT
#include "find/template.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#define HEX_MIN 8
#define HEX_INSIDE_MIN 16
#define SPACES_MIN 8
// ASCII's own, for what would be a mark: only what a user looks for can have such bytes.
#define SUBSTITUTE 0x1a
#define BASE64_MIN 24

// Classes of bytes, as bits.
enum { DIGIT = 1, HEX_LOWER = 2, HEX_UPPER = 4, LOWER = 8, UPPER = 16, SIGN = 32 };
#define ALNUM (DIGIT | HEX_LOWER | HEX_UPPER | LOWER | UPPER)

static const uint8_t classes[256] = {
	['0' ... '9'] = DIGIT,
	['a' ... 'f'] = HEX_LOWER,
	['g' ... 'z'] = LOWER,
	['A' ... 'F'] = HEX_UPPER,
	['G' ... 'Z'] = UPPER,
	['+'] = SIGN,
	['/'] = SIGN,
};

static inline bool is_hex_set(unsigned set)
{
	return (set & ~(unsigned)(DIGIT | HEX_LOWER)) == 0 ||
	       (set & ~(unsigned)(DIGIT | HEX_UPPER)) == 0;
}

// What is left of a text.
struct rest {
	const unsigned char *at, *end;
};

// The word that it begins with: its length, and the classes of its characters.
static inline size_t word_length(struct rest rest, unsigned *set)
{
	const unsigned char *at = rest.at;
	*set = 0;
	while (at < rest.end && (classes[*at] & ALNUM) != 0)
		*set |= classes[*at++];
	return (size_t)(at - rest.at);
}

static size_t digits_length(const unsigned char *at, const unsigned char *end)
{
	const unsigned char *from = at;
	while (at < end && classes[*at] == DIGIT)
		at++;
	return (size_t)(at - from);
}

// Whether a text begins as a pattern says: 0 is a digit, x a hexadecimal one, others themselves.
static bool has_form(struct rest rest, const char *form)
{
	for (; *form != '\0'; form++, rest.at++) {
		if (rest.at == rest.end)
			return false;
		const unsigned set = classes[*rest.at];
		if (*form == '0'       ? set != DIGIT
			: *form == 'x' ? (set & (DIGIT | HEX_LOWER | HEX_UPPER)) == 0
				       : *rest.at != (unsigned char)*form)
			return false;
	}
	return true;
}

static bool word_goes_on(const unsigned char *at, const unsigned char *end)
{
	return at < end && (classes[*at] & ALNUM) != 0;
}

static unsigned two_digits(const unsigned char *at)
{
	return (unsigned)(at[0] - '0') * 10 + (unsigned)(at[1] - '0');
}

// The zone behind a time: Z, +00:00, +0000.
static const unsigned char *zone_end(const unsigned char *at, const unsigned char *end)
{
	if (at < end && *at == 'Z')
		return at + 1;
	if (at == end || (*at != '+' && *at != '-'))
		return at;
	const struct rest rest = {at + 1, end};
	return has_form(rest, "00:00") ? at + 6 : has_form(rest, "0000") ? at + 5 : at;
}

// The length of the date that a text begins with, 0 if there is none.
static size_t date_length(struct rest rest)
{
	if (!has_form(rest, "0000-00-00"))
		return 0;
	const unsigned century = two_digits(rest.at);
	const unsigned month = two_digits(rest.at + 5), day = two_digits(rest.at + 8);
	const unsigned char *at = rest.at + 10;
	if ((century != 19 && century != 20) || month < 1 || month > 12 || day < 1 || day > 31)
		return 0;
	if (at < rest.end && (*at == 'T' || *at == ' ') &&
		has_form((struct rest){at + 1, rest.end}, "00:00:00")) {
		at += 9;
		if (at < rest.end && (*at == '.' || *at == ','))
			at += digits_length(at + 1, rest.end) > 0
				      ? 1 + digits_length(at + 1, rest.end)
				      : 0;
		at = zone_end(at, rest.end);
	}
	return word_goes_on(at, rest.end) ? 0 : (size_t)(at - rest.at);
}

static size_t uuid_length(struct rest rest)
{
	static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
	const size_t size = sizeof form - 1;
	return has_form(rest, form) && !word_goes_on(rest.at + size, rest.end) ? size : 0;
}

// The length of base64 that a text begins with, 0 if there is none. Of random characters of it two
// in three neighbours are of different classes; of names and paths, one in three or less.
static size_t base64_length(struct rest rest)
{
	unsigned set = 0, last = 0;
	size_t changes = 0, signs = 0;
	const unsigned char *at = rest.at;
	for (; at < rest.end && classes[*at] != 0; at++) {
		unsigned class = classes[*at];
		class = class & (HEX_LOWER | LOWER)   ? LOWER
			: class & (HEX_UPPER | UPPER) ? UPPER
						      : class;
		changes += class != last && last != 0;
		signs += class == SIGN;
		set |= class;
		last = class;
	}
	const size_t length = (size_t)(at - rest.at);
	if (length < BASE64_MIN || (set & (LOWER | UPPER | DIGIT)) != (LOWER | UPPER | DIGIT) ||
		signs > length / 8 || changes * 20 < length * 9)
		return 0;
	for (unsigned i = 0; i < 2 && at < rest.end && *at == '='; i++)
		at++;
	return (size_t)(at - rest.at);
}

// How many digits, decimal or hexadecimal in lower case, a text begins with.
static size_t hex_length(struct rest rest, bool *letters)
{
	const unsigned char *at = rest.at;
	*letters = false;
	for (; at < rest.end && (classes[*at] & (DIGIT | HEX_LOWER)) != 0; at++)
		*letters |= classes[*at] == HEX_LOWER;
	return (size_t)(at - rest.at);
}

// Whether there are so many of them somewhere in a word that they are a mark of their own.
static bool has_hex_inside(struct rest word)
{
	while (word.end - word.at >= HEX_INSIDE_MIN) {
		bool letters;
		const size_t length = hex_length(word, &letters);
		if (length >= HEX_INSIDE_MIN)
			return true;
		word.at += length + 1;
	}
	return false;
}

// What the word that a text begins with is as a whole, *length its bytes; 0: nothing.
static enum mark word_mark(struct rest rest, unsigned set, size_t *length)
{
	const size_t size = *length;
	if (size == 4 && set == DIGIT && (*length = date_length(rest)) > 0)
		return MARK_DATE;
	if (size == HEX_MIN && (set & (LOWER | UPPER)) == 0 && (*length = uuid_length(rest)) > 0)
		return MARK_UUID;
	*length = size;
	if (set == DIGIT && size < HEX_INSIDE_MIN)
		return MARK_DIGITS;
	if (size >= HEX_MIN && is_hex_set(set))
		return MARK_HEX;
	if (has_hex_inside((struct rest){rest.at, rest.at + size}))
		return 0;
	if ((set & DIGIT) != 0 || size >= BASE64_MIN) {
		*length = base64_length(rest);
		return *length > 0 ? MARK_BASE64 : 0;
	}
	return 0;
}

static void template_mark(struct template *ret, enum mark mark, size_t width, bool letters)
{
	ret->bytes[ret->size++] = (unsigned char)mark;
	if (ret->width_count < TEMPLATE_WIDTHS_MAX)
		ret->widths[ret->width_count++] =
			(uint8_t)(min_u64(width, WIDTH_VARIES) | (letters ? WIDTH_LETTERS : 0));
}

// A word that is nothing as a whole: each run of digits in it is a mark, and the digits behind 0x.
// Returns where it went on to.
static const unsigned char *template_word(struct template *ret, struct rest rest)
{
	const size_t size = (size_t)(rest.end - rest.at);
	unsigned set;
	if (size > 2 && rest.at[0] == '0' && rest.at[1] == 'x' && TEMPLATE_MAX - ret->size >= 3) {
		const size_t length = word_length((struct rest){rest.at + 2, rest.end}, &set);
		if (is_hex_set(set)) {
			ret->bytes[ret->size++] = '0';
			ret->bytes[ret->size++] = 'x';
			template_mark(ret, MARK_HEX, length, true);
			return rest.end;
		}
	}
	while (rest.at < rest.end && ret->size < TEMPLATE_MAX) {
		bool letters = false;
		size_t length = size >= HEX_INSIDE_MIN ? hex_length(rest, &letters) : 0;
		const bool hex = length >= HEX_INSIDE_MIN;
		if (!hex)
			length = digits_length(rest.at, rest.end);
		if (length > 0)
			template_mark(ret, hex ? MARK_HEX : MARK_DIGITS, length, letters);
		else
			ret->bytes[ret->size++] = *rest.at;
		rest.at += length > 0 ? length : 1;
	}
	return rest.at;
}

static size_t spaces_length(struct rest rest)
{
	const unsigned char *at = rest.at;
	while (at < rest.end && *at == ' ')
		at++;
	return (size_t)(at - rest.at);
}

void template_make(const unsigned char *text, size_t size, struct template *ret)
{
	struct rest rest = {text, text + size};
	ret->size = ret->width_count = 0;
	while (rest.at < rest.end && ret->size < TEMPLATE_MAX) {
		unsigned set;
		size_t length = word_length(rest, &set);
		if (length == 0) {
			const size_t spaces = spaces_length(rest);
			if (spaces >= SPACES_MIN)
				template_mark(ret, MARK_SPACES, spaces, false);
			else
				ret->bytes[ret->size++] =
					*rest.at <= MARK_SPACES ? SUBSTITUTE : *rest.at;
			rest.at += spaces >= SPACES_MIN ? spaces : 1;
			continue;
		}
		const struct rest word = {rest.at, rest.at + length};
		if ((set & DIGIT) == 0 && length < HEX_MIN) {
			// Most words.
			const size_t fits = min_u64(length, TEMPLATE_MAX - ret->size);
			memcpy(ret->bytes + ret->size, rest.at, fits);
			ret->size += fits;
			rest.at += fits;
			continue;
		}
		const enum mark mark = word_mark(rest, set, &length);
		if (mark == 0) {
			rest.at = template_word(ret, word);
			continue;
		}
		template_mark(ret, mark, length, mark == MARK_HEX && set != DIGIT);
		rest.at += length;
	}
	// Characters stay whole.
	if (rest.at < rest.end)
		while (ret->size > 0 && (*rest.at & 0xc0) == 0x80) {
			ret->size--;
			rest.at--;
		}
	ret->used = (size_t)(rest.at - text);
}

void template_widen(uint8_t *widths, const uint8_t *others, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (widths[i] != others[i]) {
			const unsigned letters = (widths[i] | others[i]) & WIDTH_LETTERS;
			const bool same = ((widths[i] ^ others[i]) & WIDTH_VARIES) == 0;
			widths[i] = (uint8_t)(letters |
					      (same ? widths[i] & WIDTH_VARIES : WIDTH_VARIES));
		}
}

size_t template_room(const unsigned char *text, size_t size, bool more, size_t limit, bool backward)
{
	size_t used = 0;
	for (size_t cost = 0; used < size && cost < limit;) {
		size_t length = 0;
		unsigned set = 0;
		for (; used + length < size; length++) {
			const size_t at = used + length;
			const unsigned class = classes[text[backward ? size - 1 - at : at]] & ALNUM;
			if (class == 0)
				break;
			set |= class;
		}
		const bool number = (set & DIGIT) != 0 || is_hex_set(set);
		const size_t added = length == 0 || number ? 1 : length;
		// A word that is cut by what can be seen may be a part of a number.
		const bool whole = (used + length < size || !more) && cost + added <= limit;
		if (length > 0 && !whole && used > 0)
			break;
		used += length == 0 ? 1 : whole || number ? length : min_u64(length, limit);
		cost += added;
	}
	return used;
}

struct mark_shown mark_show(enum mark mark, uint8_t width)
{
	static const char *const names[] = {
		[MARK_DIGITS] = "digits",
		[MARK_HEX] = "hex",
		[MARK_UUID] = "uuid",
		[MARK_DATE] = "date",
		[MARK_BASE64] = "base64",
		[MARK_SPACES] = "spaces",
	};
	static const char digits[] = "####################";
	struct mark_shown ret;
	const uint8_t length = width & WIDTH_VARIES;
	const bool varies = length == WIDTH_VARIES;
	if (mark == MARK_HEX && (width & WIDTH_LETTERS) == 0)
		mark = MARK_DIGITS;
	if (mark == MARK_DIGITS && (varies || length < sizeof digits))
		snprintf(ret.text, sizeof ret.text, "%.*s", varies ? 1 : length, digits);
	else if (varies || mark == MARK_UUID || mark == MARK_DATE)
		snprintf(ret.text, sizeof ret.text, "<%s>", names[mark]);
	else
		snprintf(ret.text, sizeof ret.text, "<%u %s>", length, names[mark]);
	return ret;
}
