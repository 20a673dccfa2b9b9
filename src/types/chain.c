// SPDX-License-Identifier: MIT
#include "types/chain.h"

// So many sound chunks in a row are no coincidence.
#define SOUND_CHUNKS 20
#define PAGE ((uint64_t)4096)
// How far behind the start of a segment, of an arena, or behind a break, every place is tried: an
// arena and the first chunks of a heap that was damaged are not longer.
#define PATIENCE ((uint64_t)64 << 10)

enum { PREV_INUSE = 1, IS_MMAPPED = 2, NON_MAIN_ARENA = 4, FLAGS = 7 };

void chain_begin(struct chain *chain, const struct image_info *info, uint64_t start, uint64_t end)
{
	const unsigned word = info->word_size;
	*chain = (struct chain){
		.word = word,
		.order = info->order,
		.end = end,
		.next = (start + 2 * word - 1) / (2 * word) * (2 * word),
		.patience = add_saturated(start, PATIENCE),
	};
}

static bool view_word(
	const struct chain *chain, const struct view *view, uint64_t address, uint64_t *ret)
{
	const uint64_t inside = address - view->address;
	if (inside < view->size && view->size - inside >= chain->word) {
		*ret = word_load(view->bytes + inside, chain->word, chain->order);
		return true;
	}
	return view->image != NULL && image_read_word(view->image, address, ret);
}

// The size field of a chunk at address, if it can be one.
static bool header_read(
	const struct chain *chain, const struct view *view, uint64_t address, uint64_t *ret)
{
	uint64_t field;
	if (address >= chain->end || chain->end - address < 4 * (uint64_t)chain->word ||
		!view_word(chain, view, address + chain->word, &field))
		return false;
	const uint64_t size = field & ~(uint64_t)FLAGS;
	if (size < 4 * (uint64_t)chain->word || size % (2 * chain->word) != 0 ||
		size > chain->end - address)
		return false;
	*ret = field;
	return true;
}

static bool header_is_mapped(
	const struct chain *chain, const struct view *view, uint64_t address, uint64_t field)
{
	uint64_t before;
	return (field & FLAGS) == IS_MMAPPED && address % PAGE == 0 &&
	       (field & ~(uint64_t)FLAGS) % PAGE == 0 && view_word(chain, view, address, &before) &&
	       before < PAGE;
}

// Whether a sound header of a heap's chunk follows one of size.
static bool header_follows(const struct chain *chain, const struct view *view, uint64_t address,
	uint64_t size, uint64_t arena, uint64_t *field)
{
	uint64_t before;
	if (!header_read(chain, view, address, field) || (*field & IS_MMAPPED) != 0 ||
		(*field & NON_MAIN_ARENA) != arena)
		return false;
	return (*field & PREV_INUSE) != 0 || !view_word(chain, view, address, &before) ||
	       before == size;
}

// Whether a chain of sound chunks begins at address.
static bool chain_begins(
	const struct chain *chain, const struct view *view, uint64_t address, uint64_t field)
{
	const uint64_t arena = field & NON_MAIN_ARENA;
	if ((field & PREV_INUSE) == 0)
		return false;
	for (unsigned i = 1; i < SOUND_CHUNKS; i++) {
		const uint64_t size = field & ~(uint64_t)FLAGS;
		address += size;
		if (address == chain->end)
			return i > 1;
		if (!header_follows(chain, view, address, size, arena, &field))
			return false;
	}
	return true;
}

// Make the chunk at address the current one.
static void chain_enter(
	struct chain *chain, const struct view *view, uint64_t address, uint64_t field)
{
	uint64_t behind;
	chain->chunk = address;
	chain->size = field & ~(uint64_t)FLAGS;
	chain->next = address + chain->size;
	chain->arena = field & NON_MAIN_ARENA;
	chain->known = true;
	if ((field & IS_MMAPPED) != 0)
		chain->used = true;
	else if (chain->next == chain->end)
		chain->used = false; // the top
	else
		// What a cut has taken away was in use more likely than not.
		chain->used = !view_word(chain, view, chain->next + chain->word, &behind) ||
			      (behind & PREV_INUSE) != 0;
}

// The place to try after next. glibc, malloc/arena.c: arenas are aligned to HEAP_MAX_SIZE.
static uint64_t chain_step(struct chain *chain)
{
	const uint64_t arena = chain->word == 8 ? (uint64_t)64 << 20 : (uint64_t)1 << 20;
	const uint64_t next = chain->next + 2 * chain->word;
	if (next < chain->patience)
		return next;
	const uint64_t page = (next + PAGE - 1) / PAGE * PAGE;
	if (page % arena == 0)
		chain->patience = add_saturated(page, PATIENCE);
	return page;
}

// Look for a chunk at or behind next, up to limit.
static void chain_search(struct chain *chain, const struct view *view, uint64_t limit)
{
	chain->size = 0;
	for (; chain->next < limit; chain->next = chain_step(chain)) {
		uint64_t field;
		if (!header_read(chain, view, chain->next, &field))
			continue;
		if (header_is_mapped(chain, view, chain->next, field) ||
			((field & IS_MMAPPED) == 0 &&
				chain_begins(chain, view, chain->next, field))) {
			chain_enter(chain, view, chain->next, field);
			return;
		}
	}
}

void chain_advance(struct chain *chain, const struct view *view, uint64_t address)
{
	// An object reaches a word into the next chunk.
	while (chain->end != 0 && chain->next + chain->word <= address) {
		uint64_t field;
		if (chain->next >= chain->end) {
			chain->end = 0;
			chain->size = 0;
		} else if (chain->known && header_follows(chain, view, chain->next, chain->size,
						   chain->arena, &field)) {
			chain_enter(chain, view, chain->next, field);
		} else {
			if (chain->known)
				chain->patience = add_saturated(chain->next, PATIENCE);
			chain->known = false;
			chain_search(chain, view, min_u64(address, chain->end));
			if (!chain->known)
				break;
		}
	}
}

void chain_skip(struct chain *chain, uint64_t end)
{
	const uint64_t step = 2 * chain->word;
	if (chain->end == 0 || chain->next >= end)
		return;
	// No header is zero.
	chain->known = false;
	chain->size = 0;
	chain->next = (end + step - 1) / step * step;
	chain->patience = add_saturated(end, PATIENCE);
}
