// SPDX-License-Identifier: MIT
#include "alloc/chunks.h"

#include <stdlib.h>

// So many sound chunks in a row are no coincidence.
#define SOUND_CHUNKS 20

bool window_init(struct window *window, const struct chains *chains)
{
	*window = (struct window){.chains = chains, .bytes = malloc(WINDOW_SIZE)};
	return window->bytes != NULL;
}

void window_deinit(struct window *window)
{
	free(window->bytes);
}

bool window_move(struct window *window, uint64_t address)
{
	window->address = address;
	window->size = image_read(window->chains->image, address, window->bytes, WINDOW_SIZE);
	return window->size >= 2 * (size_t)window->chains->word;
}

bool window_word(const struct window *window, uint64_t address, uint64_t *ret)
{
	const struct chains *chains = window->chains;
	const uint64_t inside = address - window->address;
	if (inside < window->size && window->size - inside >= chains->word) {
		*ret = chains_load(chains, window->bytes + inside);
		return true;
	}
	return image_read_word(chains->image, address, ret);
}

// ---- chains

bool chunk_read(const struct window *window, const struct stretch *stretch, uint64_t address,
	uint64_t *field)
{
	const size_t word = window->chains->word;
	if (address >= stretch->end || stretch->end - address < 4 * (uint64_t)word ||
		!window_word(window, address + word, field))
		return false;
	const uint64_t size = chunk_size(*field);
	if (size < 4 * (uint64_t)word || size % (2 * word) != 0 || size > stretch->end - address)
		return false;
	// In a further arena, those that are free have the flag or not.
	return (*field & (IS_MMAPPED | NON_MAIN_ARENA) & ~stretch->arena) == 0;
}

uint64_t fence_size(const struct window *window, const struct stretch *stretch, uint64_t address)
{
	const size_t word = window->chains->word;
	const uint64_t header = 2 * (uint64_t)word, fence = header | PREV_INUSE;
	uint64_t first, second, third;
	if (address >= stretch->end || stretch->end - address < 2 * header ||
		!window_word(window, address + word, &first))
		return 0;
	if (stretch->arena != 0) {
		// At the end of a heap of a further arena, but for what alignment leaves.
		const uint64_t size = first & ~(uint64_t)PREV_INUSE;
		return (size == header || size == 2 * header) &&
				       window_word(window, address + size + word, &second) &&
				       second == PREV_INUSE && stretch->end - address < 5 * header
			       ? stretch->end - address
			       : 0;
	}
	if ((first & ~(uint64_t)PREV_INUSE) != header ||
		!window_word(window, address + header + word, &second) || second != fence)
		return 0;
	return window_word(window, address + 2 * header + word, &third) && third == fence
		       ? 3 * header
		       : 2 * header;
}

bool chunk_follows(const struct window *window, const struct stretch *stretch, uint64_t address,
	uint64_t field, uint64_t before)
{
	uint64_t size;
	if ((field & PREV_INUSE) != 0)
		return (before & NON_MAIN_ARENA) == stretch->arena;
	return window_word(window, address, &size) && size == chunk_size(before);
}

bool chain_begins(const struct window *window, const struct stretch *stretch, uint64_t address,
	unsigned least)
{
	uint64_t field, next;
	if (!chunk_read(window, stretch, address, &field) || (field & PREV_INUSE) == 0)
		return false;
	for (unsigned i = 1; i < SOUND_CHUNKS; i++) {
		if (addresses_have(&window->chains->tops, address))
			return true;
		address += chunk_size(field);
		if (address == stretch->end)
			return i >= least;
		if (!chunk_read(window, stretch, address, &next))
			return i >= least && fence_size(window, stretch, address) > 0 &&
			       window_word(window, address + window->chains->word, &next) &&
			       chunk_follows(window, stretch, address, next, field);
		if (!chunk_follows(window, stretch, address, next, field))
			return false;
		field = next;
	}
	return true;
}

// Let the window begin at *address, or at the first place behind, at a multiple of unit, that is
// worth it: what is not there, and holes of the file, are skipped. False if that is not below
// limit.
static bool window_seek(struct window *window, uint64_t *address, uint64_t unit, uint64_t limit)
{
	while (*address < limit) {
		// At once: in a hostile dump terabytes are not there.
		uint64_t next = image_next(window->chains->image, *address) / unit * unit;
		if (next <= *address) {
			if (window_move(window, *address))
				return true;
			next = (*address + PAGE) / PAGE * PAGE;
		}
		if (next <= *address)
			return false;
		*address = next;
	}
	return false;
}

bool chain_search(struct window *window, const struct stretch *stretch, uint64_t from,
	uint64_t limit, uint64_t *ret)
{
	const uint64_t unit = 2 * window->chains->word;
	uint64_t at = (from + unit - 1) / unit * unit;
	limit = min_u64(limit, stretch->end);
	for (; at >= from && at < limit; at += unit) {
		const uint64_t inside = at - window->address;
		if ((inside >= window->size || window->size - inside < unit) &&
			!window_seek(window, &at, unit, limit))
			return false;
		if (chain_begins(window, stretch, at, 2)) {
			*ret = at;
			return true;
		}
	}
	return false;
}

bool chain_end(
	struct window *window, const struct stretch *stretch, uint64_t address, uint64_t *ret)
{
	uint64_t field, before = 0, fence;
	for (; chunk_read(window, stretch, address, &field); before = field) {
		if (before != 0 && !chunk_follows(window, stretch, address, field, before))
			break;
		*ret = address + chunk_size(field);
		if (addresses_have(&window->chains->tops, address))
			return true;
		address = *ret;
		if (address - window->address >= window->size)
			window_move(window, address);
	}
	fence = fence_size(window, stretch, address);
	*ret = address + fence;
	return before != 0 && fence > 0;
}
