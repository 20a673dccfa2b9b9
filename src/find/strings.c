// SPDX-License-Identifier: MIT
//
// Runs of characters, in three ways to read memory: bytes, and UTF-16 of both orders. Those inside
// a window are found by its thread; those that touch its ends are put together in the order of
// windows.
#include <string.h>

#include "base/bytes.h"
#include "find/find.h"
#include "find/run.h"

#define TRACKS ((size_t)3)

struct strings {
	uint64_t min_length;
	const struct find_gap *gaps; // sorted
	size_t gap_count;
	struct run open[TRACKS]; // that end where the last window did
};

// Bits of what can be looked at in one go.
#define WORDS (SWEEP_CHUNK / 64 + 4)

// One window, as one track reads it.
struct view {
	const struct strings *strings;
	const struct text_pass *pass;
	const struct sweep_window *window;
	const unsigned char *bytes;
	enum encoding track;
	size_t step;	 // bytes of a unit
	size_t from, to; // where what is its own begins; of UTF-16, even addresses
};

static struct view view_of(const struct strings *strings, const struct text_pass *pass,
	const struct sweep_window *window, enum encoding track)
{
	struct view view = {
		.strings = strings,
		.pass = pass,
		.window = window,
		.bytes = window->bytes,
		.track = track,
		.step = track == ENCODING_BYTES ? 1 : 2,
		.from = window->from,
		.to = window->to,
	};
	if (track != ENCODING_BYTES) {
		view.from += (window->address + view.from) & 1;
		view.to += (window->address + view.to) & 1;
		if (view.to > window->size)
			view.to -= view.to >= 2 ? 2 : view.to;
		if (view.to < view.from)
			view.to = view.from;
	}
	return view;
}

// ---- runs that are put together

// Append what is from begin on, and before end.
static void view_append(const struct view *view, struct run *run, size_t begin, size_t end)
{
	if (begin >= end)
		return;
	if (run->length == 0)
		run_begin(run, view->pass->seed, view->pass->fold, view->window->address + begin);
	run_append(run, view->bytes, view->window->size, begin, end, view->track);
}

// End a run, and count it if it is a text.
static void view_close(const struct view *view, struct run *run)
{
	if (run->length > 0 && run->chars >= view->strings->min_length &&
		run->accented <= run->chars / 2) {
		const struct text text = run_text(run, view->track);
		view->pass->sink(view->pass->context, &text, 1);
	}
	run->length = 0;
}

// ---- masks: a bit for each byte or unit

struct masks {
	uint64_t text[WORDS];
	uint64_t starts[WORDS], latin1[WORDS]; // of bytes only
	bool wide;			       // there is more than ASCII
};

static uint64_t bits_below(size_t count)
{
	return count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
}

// Clear the bits from `from` on, below `to`.
static void bits_clear(uint64_t *bits, size_t from, size_t to)
{
	for (size_t at = from; at < to;) {
		const size_t end = min_u64(to, (at / 64 + 1) * 64);
		bits[at / 64] &= ~(bits_below(end - at) << at % 64);
		at = end;
	}
}

static size_t bits_count(const uint64_t *bits, size_t from, size_t to)
{
	size_t count = 0;
	for (size_t at = from; at < to;) {
		const size_t end = min_u64(to, (at / 64 + 1) * 64);
		count += (size_t)__builtin_popcountll(
			bits[at / 64] >> at % 64 & bits_below(end - at));
		at = end;
	}
	return count;
}

// The first of at least `least` (up to 8) bits in a row, from `at` on; end if there are none. The
// bit before `at` is not set. There is a word behind the last one.
static size_t bits_run(const uint64_t *bits, size_t at, size_t end, unsigned least)
{
	uint64_t mask = ~bits_below(at % 64);
	for (size_t i = at / 64; i * 64 < end; i++, mask = UINT64_MAX) {
		if ((bits[i] & mask) == 0)
			continue;
		unsigned __int128 row = (unsigned __int128)bits[i + 1] << 64 | (bits[i] & mask);
		for (unsigned done = 1, step; done < least; done += step) {
			step = done < least - done ? done : least - done;
			row &= row >> step;
		}
		if ((uint64_t)row != 0)
			return i * 64 + (size_t)__builtin_ctzll((uint64_t)row);
	}
	return end;
}

// Where the bits in a row end.
static size_t bits_end(const uint64_t *bits, size_t at, size_t end)
{
	uint64_t others = ~bits[at / 64] & ~bits_below(at % 64);
	for (size_t i = at / 64; i * 64 < end; others = ~bits[++i])
		if (others != 0)
			return min_u64(end, i * 64 + (size_t)__builtin_ctzll(others));
	return end;
}

// ---- what is left out

// The first gap that ends behind an address.
static size_t gap_after(const struct strings *strings, uint64_t address)
{
	size_t low = 0, high = strings->gap_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (strings->gaps[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// How far from index `at` on, up to `to`, nothing is left out.
static size_t gap_limit(const struct view *view, size_t at, size_t to)
{
	const struct strings *strings = view->strings;
	const uint64_t address = view->window->address + at;
	const size_t gap = gap_after(strings, address);
	if (gap == strings->gap_count || strings->gaps[gap].start - address >= to - at)
		return gap < strings->gap_count && strings->gaps[gap].start <= address ? at : to;
	return at + (size_t)(strings->gaps[gap].start - address);
}

static void masks_leave_out(const struct view *view, uint64_t *bits)
{
	const struct strings *strings = view->strings;
	const uint64_t start = view->window->address + view->from;
	const uint64_t end = view->window->address + view->to;
	for (size_t i = gap_after(strings, start);
		i < strings->gap_count && strings->gaps[i].start < end; i++) {
		const uint64_t first = max_u64(strings->gaps[i].start, start) - start;
		const uint64_t last = min_u64(strings->gaps[i].end, end) - start;
		const size_t base = view->track == ENCODING_BYTES ? view->from : 0;
		bits_clear(bits, base + (size_t)first / view->step,
			base + (size_t)(last + view->step - 1) / view->step);
	}
}

// ---- inside a window

static void emit_plain(const struct view *view, size_t begin, size_t end)
{
	const unsigned char *bytes = view->bytes + begin;
	const size_t size = end - begin;
	const struct text_pass *pass = view->pass;
	struct text_hash hash = text_hash_begin(pass->seed, pass->fold);
	text_hash_add(&hash, bytes, size);
	struct text text = {
		.bytes = bytes,
		.size = min_u64(size, FIND_TEXT_KEPT),
		.length = size,
		.hash = text_hash_end(&hash),
		.address = view->window->address + begin,
		.cut_after = size > FIND_TEXT_KEPT,
	};
	if (text.cut_after) {
		struct text_hash check = text_hash_begin(~pass->seed, pass->fold);
		text_hash_add(&check, bytes, size);
		text.check = text_hash_end(&check);
		while ((bytes[text.size] & 0xc0) == 0x80)
			text.size--;
	}
	pass->sink(pass->context, &text, 1);
}

static void emit(const struct view *view, size_t begin, size_t end)
{
	struct run run;
	run.length = 0;
	view_append(view, &run, begin, end);
	view_close(view, &run);
}

static void visit_bytes(const struct view *view)
{
	const uint64_t min_length = view->strings->min_length;
	const unsigned least = (unsigned)min_u64(min_length, 8);
	struct masks masks;
	const size_t first = view->from / 64, end = (view->to + 63) / 64;
	masks.wide = false;
	for (size_t i = first; i < end; i++) {
		masks.text[i] = chars_mask(view->bytes, i * 64, view->window->size,
			&masks.starts[i], &masks.latin1[i]);
		masks.wide |= masks.starts[i] != masks.text[i] || masks.latin1[i] != 0;
	}
	masks.text[end] = 0;
	bits_clear(masks.text, first * 64, view->from);
	bits_clear(masks.text, view->to, end * 64);
	masks_leave_out(view, masks.text);
	for (size_t at = view->from; at < view->to;) {
		const size_t begin = bits_run(masks.text, at, view->to, least);
		if (begin == view->to)
			return;
		at = bits_end(masks.text, begin, view->to);
		if (begin == view->from || at == view->to)
			continue; // it may go on in another window
		if (!masks.wide) {
			if (at - begin >= min_length)
				emit_plain(view, begin, at);
		} else if (bits_count(masks.starts, begin, at) >= min_length) {
			if (bits_count(masks.latin1, begin, at) > 0)
				emit(view, begin, at);
			else
				emit_plain(view, begin, at);
		}
	}
}

// Of units that may be characters, leave those that are: of runs that are long enough, and at the
// ends.
static void units_refine(const struct view *view, uint64_t *bits, size_t begin, size_t end)
{
	for (size_t i = begin; i < end; i++)
		if (!unit_is_text(unit_at(view->bytes, view->from + 2 * i, view->track)))
			bits_clear(bits, i, i + 1);
}

static void visit_units(const struct view *view)
{
	const uint64_t min_length = view->strings->min_length;
	const unsigned least = (unsigned)min_u64(min_length, 8);
	const size_t count = (view->to - view->from) / 2, words = (count + 63) / 64;
	uint64_t bits[WORDS / 2 + 2] = {0};
	for (size_t i = 0; i < 2 * words; i++) {
		const size_t at = view->from + i * 64;
		unsigned char last[64] = {0};
		if (at >= view->to)
			break;
		const unsigned char *bytes = view->bytes + at;
		if (view->window->size - at < sizeof last)
			bytes = memcpy(last, bytes, view->window->size - at);
		bits[i / 2] |= (uint64_t)units_mask(bytes, 0, view->track) << 32 * (i % 2);
	}
	bits_clear(bits, count, words * 64);
	masks_leave_out(view, bits);
	for (size_t at = 0; at < count;) {
		const size_t begin = bits_run(bits, at, count, least);
		if (begin == count)
			return;
		const size_t end = bits_end(bits, begin, count);
		units_refine(view, bits, begin, end);
		for (at = begin; at < end;) {
			const size_t from = bits_run(bits, at, end, least);
			if (from >= end)
				break;
			at = bits_end(bits, from, end);
			if (from > 0 && at < count)
				emit(view, view->from + 2 * from, view->from + 2 * at);
		}
		at = end;
	}
}

// The runs that touch neither end of the window.
static void strings_visit(
	void *context, const struct text_pass *pass, const struct sweep_window *window)
{
	if (window->zeros > 0)
		return;
	for (enum encoding track = 0; track < TRACKS; track++) {
		const struct view view = view_of(context, pass, window, track);
		if (track == ENCODING_BYTES)
			visit_bytes(&view);
		else
			visit_units(&view);
	}
}

// ---- at the ends of windows

// Whether a character that began before index `at` goes on there; *begin becomes where it began.
static bool char_spans(const struct view *view, size_t at, size_t *begin)
{
	const unsigned char *bytes = view->bytes;
	*begin = at;
	if (at >= view->window->size || (bytes[at] & 0xc0) != 0x80)
		return false;
	for (size_t back = 1; back <= 3 && back <= at; back++) {
		if ((bytes[at - back] & 0xc0) == 0x80)
			continue;
		if (chars_at(bytes, at - back, view->window->size) <= back)
			return false;
		*begin = at - back;
		return true;
	}
	return false;
}

// Where the characters that the window begins with end.
static size_t head_end(const struct view *view)
{
	const size_t limit = gap_limit(view, view->from, view->to);
	size_t at = view->from, begin, size = 1;
	if (view->track != ENCODING_BYTES) {
		while (at < limit && unit_is_text(unit_at(view->bytes, at, view->track)))
			at += 2;
		return min_u64(at, limit);
	}
	if (at < limit && char_spans(view, at, &begin))
		at = begin + chars_at(view->bytes, begin, view->window->size);
	for (; at < limit && size > 0; at += size)
		size = chars_at(view->bytes, at, view->window->size);
	return min_u64(at, limit);
}

// Where those begin that it ends with, behind `from`.
static size_t tail_begin(const struct view *view, size_t from)
{
	size_t at = view->to, size = 1;
	if (view->track != ENCODING_BYTES) {
		while (at > from && unit_is_text(unit_at(view->bytes, at - 2, view->track)))
			at -= 2;
	} else {
		char_spans(view, at, &at);
		for (; at > from && size > 0; at -= size)
			size = chars_before(view->bytes, at, view->window->size);
		at = max_u64(at, from);
	}
	// Behind the last thing that is left out.
	while (at < view->to && gap_limit(view, at, view->to) < view->to) {
		const uint64_t address = view->window->address + gap_limit(view, at, view->to);
		const size_t gap = gap_after(view->strings, address);
		at = (size_t)min_u64(
			view->strings->gaps[gap].end - view->window->address, view->to);
	}
	return at;
}

static void strings_commit(
	void *context, const struct text_pass *pass, const struct sweep_window *window)
{
	struct strings *strings = context;
	for (enum encoding track = 0; track < TRACKS; track++) {
		const struct view view = view_of(strings, pass, window, track);
		struct run *run = &strings->open[track];
		if (window->zeros == 0 && view.from < view.to) {
			const size_t head = head_end(&view);
			view_append(&view, run, view.from, head);
			if (head < view.to) {
				view_close(&view, run);
				view_append(&view, run, tail_begin(&view, head), view.to);
			}
		}
		if (window->last || window->zeros > 0)
			view_close(&view, run);
	}
}

static void strings_begin(void *context)
{
	struct strings *strings = context;
	for (size_t i = 0; i < TRACKS; i++)
		strings->open[i].length = 0;
}

bool find_strings(const struct find_strings *query, const struct find_options *options,
	struct error *err, struct text_result *ret)
{
	struct strings strings = {
		.min_length = query->min_length,
		.gaps = query->gaps,
		.gap_count = query->gap_count,
	};
	const struct text_finder finder = {
		.bytes = true,
		// What tells whether a byte is a part of a character.
		.before = 8,
		.after = 8,
		.chunk = SWEEP_CHUNK,
		// Every second byte may end a text, every second unit those of UTF-16, and one of
		// each that is open.
		.hash_chunk = HASHES_MAX - 128,
		.context = &strings,
		.begin = strings_begin,
		.visit = strings_visit,
		.commit = strings_commit,
	};
	return texts_count(&finder, options, err, ret);
}
