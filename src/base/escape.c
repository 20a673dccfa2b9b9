// SPDX-License-Identifier: MIT
#include "base/escape.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

// Decode one sequence of two to four bytes; 0 if it is not well-formed.
static size_t utf8_decode(const unsigned char *source, size_t length, uint32_t *ret)
{
	const unsigned char lead = source[0];
	const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
	static const uint32_t smallest[] = {[2] = 0x80, [3] = 0x800, [4] = 0x10000};
	if (lead < 0xc2 || lead > 0xf4 || length < size)
		return 0;
	uint32_t code = lead & (0x7fU >> size);
	for (size_t i = 1; i < size; i++) {
		if ((source[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (source[i] & 0x3fU);
	}
	if (code < smallest[size] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret = code;
	return size;
}

size_t escape_printable(const unsigned char *source, size_t length)
{
	if (length == 0)
		return 0;
	if (source[0] < 0x80)
		return source[0] >= 0x20 && source[0] != 0x7f;
	uint32_t code;
	const size_t size = utf8_decode(source, length, &code);
	if (size == 0 || code < 0xa0 || (code >= 0x2028 && code <= 0x202e) ||
		(code >= 0x2066 && code <= 0x2069))
		return 0;
	return size;
}

// The escape sequence for one byte that cannot stand as it is.
static size_t escape_byte(char sequence[static 5], unsigned char byte)
{
	static const char plain[] = "\n\t\r\033\"\\", letter[] = "ntre\"\\";
	const char *found = byte != 0 ? strchr(plain, byte) : NULL;
	if (found == NULL)
		return (size_t)snprintf(sequence, 5, "\\x%02x", byte);
	sequence[0] = '\\';
	sequence[1] = letter[found - plain];
	return 2;
}

size_t escape(char *target, size_t size, const char *source, size_t length, enum escape_style style)
{
	const unsigned char *bytes = (const unsigned char *)source;
	size_t written = 0;
	for (size_t i = 0; i < length;) {
		size_t used = escape_printable(bytes + i, length - i);
		char sequence[5];
		const char *piece = source + i;
		size_t piece_size = used;
		if (used == 0 ||
			(style == ESCAPE_QUOTED && (bytes[i] == '"' || bytes[i] == '\\'))) {
			piece_size = escape_byte(sequence, bytes[i]);
			piece = sequence;
			used = 1;
		}
		if (piece_size >= size - written)
			break;
		memcpy(target + written, piece, piece_size);
		written += piece_size;
		i += used;
	}
	target[written] = '\0';
	return written;
}
