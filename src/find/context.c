// SPDX-License-Identifier: MIT
//
// Where a text occurs, and the printable characters around it.
#include <string.h>

#include "base/bytes.h"
#include "find/find.h"
#include "find/search.h"

// One character more on each side shows whether there are more.
#define MARGIN (FIND_CONTEXT + 4)

// A place's text, of the pieces around it.
static struct text context_at(const struct search *search, const struct sweep_window *window,
	size_t place, const struct text_pass *pass)
{
	struct text text = {0};
	const size_t end = place + search->length;
	const size_t before = text_before(window->bytes, place, FIND_CONTEXT, &text.cut_before);
	const size_t after =
		text_after(window->bytes, end, window->size, FIND_CONTEXT, &text.cut_after);
	text.bytes = window->bytes + place - before;
	text.size = before + search->length + after;
	text.length = text.size;
	text.address = window->address + place;
	struct text_hash hash = text_hash_begin(pass->seed, pass->fold);
	text_hash_add(&hash, text.bytes, text.size);
	text.hash = text_hash_end(&hash) ^ (uint64_t)text.cut_before << 1 ^ text.cut_after;
	return text;
}

static void context_visit(
	void *context, const struct text_pass *pass, const struct sweep_window *window)
{
	const struct search *search = context;
	size_t place = window->from;
	while ((place = search_find(search, window->bytes, window->size, place, window->to)) <
		window->to) {
		const struct text text = context_at(search, window, place, pass);
		pass->sink(pass->context, &text, 1);
		place++;
	}
}

bool find_text(const char *text, size_t length, const struct find_options *options,
	struct error *err, struct text_result *ret)
{
	struct search search;
	search_init(&search, text, length, options->fold);
	// Windows that are large compared with what they share.
	const size_t chunk = (max_u64(SWEEP_CHUNK, 4 * length) + 63) / 64 * 64;
	const struct text_finder finder = {
		.bytes = true,
		.before = MARGIN,
		.after = length + MARGIN,
		.chunk = chunk,
		// The text may begin at every byte, and the last window has MARGIN more.
		.hash_chunk = HASHES_MAX - 128,
		.context = &search,
		.visit = context_visit,
	};
	return texts_count(&finder, options, err, ret);
}
