// SPDX-License-Identifier: MIT
#include "find/run.h"

#include <string.h>

#include "base/bytes.h"

void run_begin(struct run *run, uint64_t seed, bool fold, uint64_t address)
{
	run->address = address;
	run->length = run->chars = run->accented = run->size = 0;
	run->kept = 0;
	run->latin1 = false;
	run->hash = text_hash_begin(seed, fold);
	run->check = text_hash_begin(~seed, fold);
}

// Append UTF-8: ASCII, or one character.
static void run_put(struct run *run, const unsigned char *bytes, size_t size)
{
	if (run->kept == run->size) {
		const size_t fits = min_u64(size, FIND_TEXT_KEPT - run->kept);
		if (fits == size || bytes[0] < 0x80) {
			memcpy(run->bytes + run->kept, bytes, fits);
			run->kept += fits;
		}
	}
	text_hash_add(&run->hash, bytes, size);
	text_hash_add(&run->check, bytes, size);
	run->size += size;
}

static void run_append_bytes(
	struct run *run, const unsigned char *bytes, size_t size, size_t begin, size_t end)
{
	for (size_t at = begin; at < end;) {
		size_t plain = at;
		while (plain < end && bytes[plain] < 0x80)
			plain++;
		if (plain > at) {
			run_put(run, bytes + at, plain - at);
			run->chars += plain - at;
			at = plain;
			continue;
		}
		const size_t length = chars_at(bytes, at, size);
		if (length == 0) { // the rest of a character that began before
			at++;
			continue;
		}
		unsigned char utf8[3];
		const bool latin1 = chars_is_latin1(bytes, at, length);
		if (latin1)
			run_put(run, utf8, utf8_write(bytes[at], utf8));
		else
			run_put(run, bytes + at, length);
		run->latin1 |= latin1;
		run->chars++;
		at += length;
	}
}

static void run_append_units(struct run *run, const unsigned char *bytes, size_t begin, size_t end,
	enum encoding encoding)
{
	unsigned char utf8[256];
	size_t used = 0;
	for (size_t at = begin; at < end; at += 2) {
		const uint16_t unit = unit_at(bytes, at, encoding);
		unsigned char wide[3];
		run->chars++;
		run->accented += unit_is_accented(unit);
		if (unit < 0x80)
			utf8[used++] = (unsigned char)unit;
		if (used > 0 && (unit >= 0x80 || used == sizeof utf8 || at + 2 >= end)) {
			run_put(run, utf8, used);
			used = 0;
		}
		if (unit >= 0x80)
			run_put(run, wide, utf8_write(unit, wide));
	}
}

void run_append(struct run *run, const unsigned char *bytes, size_t size, size_t begin, size_t end,
	enum encoding encoding)
{
	run->length += end - begin;
	if (encoding == ENCODING_BYTES)
		run_append_bytes(run, bytes, size, begin, end);
	else
		run_append_units(run, bytes, begin, end, encoding);
}

struct text run_text(const struct run *run, enum encoding encoding)
{
	const bool cut = run->size > run->kept;
	const enum encoding whole = run->latin1 ? ENCODING_LATIN1 : encoding;
	return (struct text){
		.bytes = run->bytes,
		.size = run->kept,
		.length = run->length,
		.hash = text_hash_vary(text_hash_end(&run->hash), whole, false, false),
		.check = cut ? text_hash_end(&run->check) : 0,
		.address = run->address,
		.encoding = whole,
		.cut_after = cut,
	};
}
