// SPDX-License-Identifier: MIT
//
// Runs of printable ASCII characters. Those inside a window are found by its thread; those that
// touch its ends are put together in the order of windows.
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/bytes.h"
#include "find/find.h"

struct strings {
	uint64_t min_length;
	// The run that ends where the last window did; of two hashes, as text_hash.
	uint64_t length, address;
	struct text_hash hash, check;
	unsigned char bytes[FIND_TEXT_KEPT]; // its beginning
};

static inline bool is_string_byte(unsigned char byte)
{
	return (byte >= 0x20 && byte < 0x7f) || byte == '\t';
}

// A bit for each of 64 bytes: is it part of a string?
static inline uint64_t strings_mask(const unsigned char *bytes)
{
	uint64_t mask = 0;
#if defined(__SSE2__)
	for (unsigned i = 0; i < 64; i += 16) {
		const __m128i vector = _mm_loadu_si128((const __m128i *)(bytes + i));
		// Signed: bytes above 0x7f are below 0x20, too.
		const __m128i printable =
			_mm_andnot_si128(_mm_cmpeq_epi8(vector, _mm_set1_epi8(0x7f)),
				_mm_cmpgt_epi8(vector, _mm_set1_epi8(0x1f)));
		const __m128i tab = _mm_cmpeq_epi8(vector, _mm_set1_epi8('\t'));
		const unsigned bits = (unsigned)_mm_movemask_epi8(_mm_or_si128(printable, tab));
		mask |= (uint64_t)bits << i;
	}
#else
	for (unsigned i = 0; i < 64; i++)
		mask |= (uint64_t)is_string_byte(bytes[i]) << i;
#endif
	return mask;
}

// Where the run that begins at `at` ends.
static size_t run_end(const unsigned char *bytes, size_t at, size_t size)
{
	for (; size - at >= 64; at += 64) {
		const uint64_t others = ~strings_mask(bytes + at);
		if (others != 0)
			return at + (size_t)__builtin_ctzll(others);
	}
	while (at < size && is_string_byte(bytes[at]))
		at++;
	return at;
}

// The first run of at least `least` (up to 8) bytes from `at` on; size if there is none. What is
// before `at` is no part of a run.
static size_t run_begin(const unsigned char *bytes, size_t at, size_t size, unsigned least)
{
	// Bit i of starts: a run of `least` bytes begins there. Those that reach out of a block are
	// found as the next block begins 8 bytes before its end.
	for (; size - at >= 64; at += 56) {
		const uint64_t mask = strings_mask(bytes + at);
		uint64_t starts = mask;
		for (unsigned done = 1, step; done < least; done += step) {
			step = done < least - done ? done : least - done;
			starts &= starts >> step;
		}
		if (starts != 0)
			return at + (size_t)__builtin_ctzll(starts);
	}
	for (; at < size; at++)
		if (is_string_byte(bytes[at])) {
			const size_t end = run_end(bytes, at, size);
			if (end - at >= least)
				return at;
			at = end;
		}
	return size;
}

static void string_emit(
	const struct text_pass *pass, const unsigned char *bytes, size_t size, uint64_t address)
{
	struct text_hash hash = text_hash_begin(pass->seed, pass->fold);
	text_hash_add(&hash, bytes, size);
	struct text text = {
		.bytes = bytes,
		.size = min_u64(size, FIND_TEXT_KEPT),
		.length = size,
		.hash = text_hash_end(&hash),
		.address = address,
		.cut_after = size > FIND_TEXT_KEPT,
	};
	if (text.cut_after) {
		struct text_hash check = text_hash_begin(~pass->seed, pass->fold);
		text_hash_add(&check, bytes, size);
		text.check = text_hash_end(&check);
	}
	pass->sink(pass->context, &text, 1);
}

// The runs that touch neither end of the window.
static void strings_visit(
	void *context, const struct text_pass *pass, const struct sweep_window *window)
{
	const struct strings *strings = context;
	const unsigned char *bytes = window->bytes;
	const unsigned least = (unsigned)min_u64(strings->min_length, 8);
	size_t at = run_end(bytes, window->lead, window->size);
	while (at < window->size) {
		const size_t begin = run_begin(bytes, at, window->size, least);
		at = run_end(bytes, begin, window->size);
		if (at - begin >= strings->min_length && at < window->size)
			string_emit(pass, bytes + begin, at - begin, window->address + begin);
	}
}

// Append to the run that is open; `from` is where it goes on.
static void strings_append(struct strings *strings, const struct text_pass *pass,
	const unsigned char *bytes, size_t size, uint64_t address)
{
	if (size == 0)
		return;
	if (strings->length == 0) {
		strings->address = address;
		strings->hash = text_hash_begin(pass->seed, pass->fold);
		strings->check = text_hash_begin(~pass->seed, pass->fold);
	}
	if (strings->length < FIND_TEXT_KEPT)
		memcpy(strings->bytes + strings->length, bytes,
			min_u64(size, FIND_TEXT_KEPT - strings->length));
	text_hash_add(&strings->hash, bytes, size);
	text_hash_add(&strings->check, bytes, size);
	strings->length += size;
}

static void strings_close(struct strings *strings, const struct text_pass *pass)
{
	if (strings->length >= strings->min_length) {
		const bool cut = strings->length > FIND_TEXT_KEPT;
		const struct text text = {
			.bytes = strings->bytes,
			.size = min_u64(strings->length, FIND_TEXT_KEPT),
			.length = strings->length,
			.hash = text_hash_end(&strings->hash),
			.check = cut ? text_hash_end(&strings->check) : 0,
			.address = strings->address,
			.cut_after = cut,
		};
		pass->sink(pass->context, &text, 1);
	}
	strings->length = 0;
}

static void strings_commit(
	void *context, const struct text_pass *pass, const struct sweep_window *window)
{
	struct strings *strings = context;
	const unsigned char *bytes = window->bytes;
	const size_t lead = window->lead, size = window->size;
	const size_t head = run_end(bytes, lead, size);
	strings_append(strings, pass, bytes + lead, head - lead, window->address + lead);
	if (head < size) {
		strings_close(strings, pass);
		size_t tail = size;
		while (is_string_byte(bytes[tail - 1]))
			tail--;
		strings_append(strings, pass, bytes + tail, size - tail, window->address + tail);
	}
	if (window->last)
		strings_close(strings, pass);
}

static void strings_begin(void *context)
{
	struct strings *strings = context;
	strings->length = 0;
}

bool find_strings(uint64_t min_length, const struct find_options *options, struct error *err,
	struct text_result *ret)
{
	struct strings strings = {.min_length = min_length};
	const struct text_finder finder = {
		.bytes = true,
		// Nothing is needed around, but segments that touch are to be one piece.
		.after = 1,
		.chunk = SWEEP_CHUNK,
		// Every second byte may end a string, and one that is open.
		.hash_chunk = 2 * HASHES_MAX - 64,
		.context = &strings,
		.begin = strings_begin,
		.visit = strings_visit,
		.commit = strings_commit,
	};
	return texts_count(&finder, options, err, ret);
}
