// SPDX-License-Identifier: MIT
//
// Where a text occurs, in each encoding, and the characters around it.
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"
#include "find/find.h"
#include "find/run.h"
#include "find/search.h"

// Of templates, FIND_CONTEXT characters of them; that is mostly within so many bytes of memory, a
// multiple of 2. One character more on each side shows whether there are more.
#define TEMPLATE_CONTEXT ((size_t)480)
#define TEMPLATE_MARGIN (TEMPLATE_CONTEXT + 8)
// UTF-8 or whatever the text is, UTF-16 of both orders, Latin-1.
#define FORMS_MAX 4

// The text in one encoding.
struct form {
	struct search search;
	enum encoding encoding;
	unsigned char *bytes; // owned; NULL: the text itself
};

struct context {
	struct form forms[FORMS_MAX];
	size_t form_count;
	bool templates;
};

// ---- the text in other encodings

// The code point that UTF-8 begins with; its size is known.
static uint32_t code_point(const unsigned char *bytes, size_t size)
{
	if (size == 1)
		return bytes[0];
	uint32_t code = bytes[0] & (0xffU >> (size + 1));
	for (size_t i = 1; i < size; i++)
		code = code << 6 | (bytes[i] & 0x3f);
	return code;
}

static size_t form_put(unsigned char *target, uint16_t unit, enum encoding encoding)
{
	if (encoding == ENCODING_LATIN1) {
		target[0] = (unsigned char)unit;
		return 1;
	}
	target[encoding == ENCODING_UTF16BE] = (unsigned char)unit;
	target[encoding == ENCODING_UTF16LE] = (unsigned char)(unit >> 8);
	return 2;
}

// *ret becomes the length in memory, 0 if the text cannot be in that encoding.
static bool form_encode(
	struct form *form, const char *text, size_t length, struct error *err, size_t *ret)
{
	const unsigned char *bytes = (const unsigned char *)text;
	const bool latin1 = form->encoding == ENCODING_LATIN1;
	size_t used = 0;
	*ret = 0;
	form->bytes = malloc(2 * length);
	if (form->bytes == NULL)
		return error_memory(err);
	for (size_t at = 0; at < length;) {
		const size_t size =
			bytes[at] < 0x80 ? 1 : escape_printable(bytes + at, length - at);
		const uint32_t code = size > 0 ? code_point(bytes + at, size) : UINT32_MAX;
		if (size == 0 || (latin1 && code > 0xff))
			return true;
		if (code > 0xffff)
			used += form_put(form->bytes + used,
				(uint16_t)(0xd800 + ((code - 0x10000) >> 10)), form->encoding);
		used += form_put(form->bytes + used,
			(uint16_t)(code > 0xffff ? 0xdc00 | (code & 0x3ff) : code), form->encoding);
		at += size;
	}
	*ret = used;
	return true;
}

// One character of UTF-16 is also that of a string of bytes before a NUL.
static bool context_init(struct context *context, const char *text, size_t length,
	const struct find_options *options, struct error *err)
{
	static const enum encoding others[] = {ENCODING_UTF16LE, ENCODING_UTF16BE, ENCODING_LATIN1};
	*context = (struct context){.form_count = 1, .templates = options->templates};
	search_init(&context->forms[0].search, text, length, options->fold);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct form *form = &context->forms[context->form_count];
		size_t size;
		form->encoding = others[i];
		if (!form_encode(form, text, length, err, &size))
			return false;
		if (size <= 2 || (others[i] == ENCODING_LATIN1 && size == length)) {
			free(form->bytes);
			form->bytes = NULL;
			continue;
		}
		search_init(&form->search, (const char *)form->bytes, size, options->fold);
		context->form_count++;
	}
	return true;
}

static void context_deinit(struct context *context)
{
	for (size_t i = 0; i < FORMS_MAX; i++)
		free(context->forms[i].bytes);
}

// ---- what is around a place

// A place in a window, and which characters around it belong to the text.
struct place {
	const struct sweep_window *window;
	const struct text_pass *pass;
	bool templates;
	enum encoding encoding;
	size_t at, end; // of what was looked for
	size_t from, to;
	bool cut_before, cut_after;
};

// Most characters are plain ones.
static inline bool is_ascii(unsigned char byte)
{
	return byte >= 0x20 && byte < 0x7f;
}

static inline size_t step_back(const struct place *place, size_t at)
{
	const unsigned char *bytes = place->window->bytes;
	if (place->encoding == ENCODING_BYTES && at > 0 && is_ascii(bytes[at - 1]))
		return 1;
	if (place->encoding == ENCODING_BYTES)
		return chars_before(bytes, at, place->window->size);
	return at >= 2 && unit_is_text(unit_at(bytes, at - 2, place->encoding)) ? 2 : 0;
}

static inline size_t step_on(const struct place *place, size_t at)
{
	const unsigned char *bytes = place->window->bytes;
	const size_t left = place->window->size - at;
	if (place->encoding == ENCODING_BYTES && left > 0 && is_ascii(bytes[at]))
		return 1;
	if (place->encoding == ENCODING_BYTES)
		return left > 0 ? chars_at(bytes, at, place->window->size) : 0;
	return left >= 2 && unit_is_text(unit_at(bytes, at, place->encoding)) ? 2 : 0;
}

// Up to so many bytes of memory on each side.
static void place_widen(struct place *place, size_t limit)
{
	size_t size;
	place->from = place->at;
	place->to = place->end;
	while ((size = step_back(place, place->from)) > 0 &&
		place->at - place->from + size <= limit)
		place->from -= size;
	place->cut_before = size > 0;
	while ((size = step_on(place, place->to)) > 0 && place->to - place->end + size <= limit)
		place->to += size;
	place->cut_after = size > 0;
}

// How many bytes of memory are left of one side, of those that place_widen has found.
static size_t place_room(
	const struct place *place, size_t from, size_t to, bool more, bool backward)
{
	const unsigned char *bytes = place->window->bytes;
	if (place->encoding == ENCODING_BYTES)
		return template_room(bytes + from, to - from, more, FIND_CONTEXT, backward);
	// A byte for each unit: words of ASCII are what matters.
	unsigned char plain[TEMPLATE_CONTEXT / 2];
	const size_t units = (to - from) / 2;
	for (size_t i = 0; i < units; i++) {
		const uint16_t unit = unit_at(bytes, from + 2 * i, place->encoding);
		plain[i] = unit < 0x80 ? (unsigned char)unit : 0x80;
	}
	return 2 * template_room(plain, units, more, FIND_CONTEXT, backward);
}

// Narrow it to what templates show.
static void place_narrow(struct place *place)
{
	const unsigned char *bytes = place->window->bytes;
	const size_t from =
		place->at - place_room(place, place->from, place->at, place->cut_before, true);
	const size_t to =
		place->end + place_room(place, place->end, place->to, place->cut_after, false);
	place->cut_before |= from > place->from;
	place->cut_after |= to < place->to;
	place->from = from;
	place->to = to;
	if (place->encoding != ENCODING_BYTES)
		return;
	// Characters stay whole.
	while (place->from < place->at && (bytes[place->from] & 0xc0) == 0x80)
		place->from++;
	while (place->to > place->end && place->to < place->window->size &&
		(bytes[place->to] & 0xc0) == 0x80)
		place->to--;
}

static bool has_latin1(const struct place *place)
{
	const unsigned char *bytes = place->window->bytes;
	for (size_t at = place->from; at < place->to; at++)
		if (bytes[at] >= 0xc0 &&
			chars_is_latin1(bytes, at, chars_at(bytes, at, place->window->size)))
			return true;
	return false;
}

// The text as it lies in memory.
static struct text place_bytes(const struct place *place)
{
	struct text text = {
		.bytes = place->window->bytes + place->from,
		.size = place->to - place->from,
		.length = place->to - place->from,
	};
	struct text_hash hash = text_hash_begin(place->pass->seed, place->pass->fold);
	text_hash_add(&hash, text.bytes, text.size);
	text.hash = text_hash_end(&hash);
	return text;
}

static void place_emit(const struct place *place)
{
	const struct text_pass *pass = place->pass;
	struct text text;
	struct run run;
	if (place->encoding == ENCODING_BYTES && !(place->templates && has_latin1(place))) {
		text = place_bytes(place);
	} else {
		run_begin(&run, pass->seed, pass->fold, 0);
		run_append(&run, place->window->bytes, place->window->size, place->from, place->to,
			place->encoding);
		text = run_text(&run, place->encoding);
	}
	text.address = place->window->address + place->at;
	text.cut_before = place->cut_before;
	text.cut_after |= place->cut_after;
	text.hash = text_hash_vary(text.hash, 0, text.cut_before, text.cut_after);
	pass->sink(pass->context, &text, 1);
}

// Characters that are not narrowed to templates are those that can be printed, without tabs.
static void place_widen_plain(struct place *place)
{
	const struct sweep_window *window = place->window;
	place->from =
		place->at - text_before(window->bytes, place->at, FIND_CONTEXT, &place->cut_before);
	place->to = place->end + text_after(window->bytes, place->end, window->size, FIND_CONTEXT,
					 &place->cut_after);
}

static void visit_form(const struct context *context, const struct form *form,
	const struct text_pass *pass, const struct sweep_window *window)
{
	const bool wide = form->encoding == ENCODING_UTF16LE || form->encoding == ENCODING_UTF16BE;
	struct place place = {
		.window = window,
		.pass = pass,
		.templates = context->templates,
		.encoding = wide ? form->encoding : ENCODING_BYTES,
	};
	size_t at = window->from;
	for (; (at = search_find(&form->search, window->bytes, window->size, at, window->to)) <
		window->to;
		at++) {
		if (wide && ((window->address + at) & 1) != 0)
			continue;
		place.at = at;
		place.end = at + form->search.length;
		if (context->templates) {
			place_widen(&place, TEMPLATE_CONTEXT);
			place_narrow(&place);
		} else if (wide) {
			place_widen(&place, 2 * FIND_CONTEXT);
		} else {
			place_widen_plain(&place);
		}
		place_emit(&place);
	}
}

static void context_visit(
	void *argument, const struct text_pass *pass, const struct sweep_window *window)
{
	const struct context *context = argument;
	for (size_t i = 0; i < context->form_count; i++)
		visit_form(context, &context->forms[i], pass, window);
}

bool find_text(const char *text, size_t length, const struct find_options *options,
	struct error *err, struct text_result *ret)
{
	struct context context;
	size_t longest = 0;
	bool ok = context_init(&context, text, length, options, err);
	for (size_t i = 0; i < context.form_count; i++)
		longest = max_u64(longest, context.forms[i].search.length);
	// Windows that are large compared with what they share.
	const size_t chunk = (max_u64(SWEEP_CHUNK, 4 * longest) + 63) / 64 * 64;
	const struct text_finder finder = {
		.bytes = true,
		.before = TEMPLATE_MARGIN,
		.after = longest + TEMPLATE_MARGIN,
		.chunk = chunk,
		// The text may begin at every byte, in one encoding at a time, and the last window
		// has a margin more.
		.hash_chunk = HASHES_MAX - 512,
		.context = &context,
		.visit = context_visit,
	};
	ok = ok && texts_count(&finder, options, err, ret);
	context_deinit(&context);
	return ok;
}
