// SPDX-License-Identifier: MIT
#include "types/chain.h"

// So many sound chunks in a row are no coincidence.
#define SOUND_CHUNKS 20
#define PAGE ((uint64_t)4096)
// How far behind the start of a segment, of an arena, or behind a break, every place is tried: an
// arena and the first chunks of a heap that was damaged are not longer.
#define PATIENCE ((uint64_t)1 << 20)

enum { PREV_INUSE = 1, IS_MMAPPED = 2, NON_MAIN_ARENA = 4, FLAGS = 7 };

void chain_begin(struct chain *chain, const struct image_info *info, uint64_t start, uint64_t end)
{
	const uint64_t pair = 2 * (uint64_t)info->word_size;
	uint64_t *const fields = chain->fields;
	*chain = (struct chain){
		.word = info->word_size,
		.order = info->order,
		.end = end,
		.fields = fields,
		.next = (start + pair - 1) / pair * pair,
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
	if (size < 4 * (uint64_t)chain->word || size % (2 * (uint64_t)chain->word) != 0 ||
		size > chain->end - address)
		return false;
	*ret = field;
	return true;
}

static bool header_is_mapped(
	const struct chain *chain, const struct view *view, uint64_t address, uint64_t field)
{
	// What was left free before the chunk for the sake of alignment is noted there: on i386 8
	// bytes, else none, but for memalign.
	uint64_t before;
	return (field & FLAGS) == IS_MMAPPED &&
	       (address + (field & ~(uint64_t)FLAGS)) % PAGE == 0 &&
	       view_word(chain, view, address, &before) && before == address % PAGE;
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

// Find out whether the current chunk is in use: the one behind it says so.
static void chain_settle(struct chain *chain, const struct view *view)
{
	uint64_t behind;
	if (chain->next == chain->end)
		chain->used = false; // the top
	else
		// What a cut has taken away was in use more likely than not.
		chain->used = !view_word(chain, view, chain->next + chain->word, &behind) ||
			      (behind & PREV_INUSE) != 0;
}

// Make the chunk at address the current one.
static void chain_enter(
	struct chain *chain, const struct view *view, uint64_t address, uint64_t field)
{
	chain->chunk = address;
	chain->size = field & ~(uint64_t)FLAGS;
	chain->next = address + chain->size;
	chain->arena = field & NON_MAIN_ARENA;
	// Behind a chunk that was mapped by itself there need be none.
	chain->known = (field & IS_MMAPPED) == 0;
	if (chain->known)
		chain_settle(chain, view);
	else
		chain->used = true;
}

// The place to try after next. glibc, malloc/arena.c: arenas are aligned to HEAP_MAX_SIZE.
static uint64_t chain_step(struct chain *chain)
{
	const uint64_t arena = chain->word == 8 ? (uint64_t)64 << 20 : (uint64_t)1 << 20;
	const uint64_t next = chain->next + 2 * (uint64_t)chain->word;
	if (next < chain->patience)
		return next;
	// With words of 4 bytes a chunk that was mapped by itself begins behind 8 bytes.
	if (chain->word == 4 && chain->next % PAGE == 0)
		return next;
	const uint64_t page = (next + PAGE - 1) / PAGE * PAGE;
	if (page % arena == 0)
		chain->patience = add_saturated(page, PATIENCE);
	return page;
}

// No chunk follows the current one.
static void chain_lose(struct chain *chain)
{
	chain->chunk = chain->next;
	chain->size = 0;
	chain->patience = add_saturated(chain->next, PATIENCE);
}

// Look for a chunk at or behind next, up to limit, and enter it. False if there is none.
static bool chain_search(struct chain *chain, const struct view *view, uint64_t limit)
{
	for (; chain->next < limit; chain->next = chain_step(chain)) {
		uint64_t field;
		if (!header_read(chain, view, chain->next, &field))
			continue;
		if (header_is_mapped(chain, view, chain->next, field) ||
			((field & IS_MMAPPED) == 0 &&
				chain_begins(chain, view, chain->next, field))) {
			chain_enter(chain, view, chain->next, field);
			return true;
		}
	}
	return false;
}

// The size field at an offset of a view, for the loop below.
static inline uint64_t field_at(
	const struct view *view, uint64_t offset, unsigned word, enum byte_order order)
{
	return word_load(view->bytes + offset, word, order);
}

static inline void field_count(const struct chain *chain, uint64_t field)
{
	chain->fields[field < CHAIN_FIELDS ? field : 0]++;
}

// Enter sound chunks as long as their headers are in the view: nearly all of them, so this is what
// must be quick. Stops before one that is odd in any way, and leaves used of the current one open.
// Returns whether there was any.
static inline bool chain_run(struct chain *chain, const struct view *view, struct chunks *chunks,
	unsigned word, enum byte_order order)
{
	const uint64_t arena = chain->arena, least = 4 * (uint64_t)word;
	uint64_t size = chain->size, next = chain->next;
	uint32_t *const first = chunks->list + chunks->count, *at = first;
	_Static_assert(PREV_INUSE == CHUNK_USED, "the flag is taken as it is");
	while (next - view->address < view->size &&
		view->size - (next - view->address) >= 2 * (uint64_t)word) {
		const uint64_t offset = next - view->address;
		const uint64_t field = field_at(view, offset + word, word, order);
		const uint64_t follows = field & ~(uint64_t)FLAGS;
		if ((field & (IS_MMAPPED | NON_MAIN_ARENA)) != arena || follows < least ||
			(follows & (2 * word - 1)) != 0 || follows > chain->end - next)
			break;
		if ((field & PREV_INUSE) == 0 && field_at(view, offset, word, order) != size)
			break;
		// Of the chunk before.
		if (at > first)
			at[-1] |= (uint32_t)field & CHUNK_USED;
		*at++ = (uint32_t)(offset + word);
		field_count(chain, field);
		chain->chunk = next;
		size = follows;
		next += follows;
	}
	chain->size = size;
	chain->next = next;
	chunks->count = (size_t)(at - chunks->list);
	return at > first;
}

// Enter what follows the current chunk, if it is sound, or look for a chunk from there on. False if
// there is none in the view.
static bool chain_go_on(struct chain *chain, const struct view *view, uint64_t limit)
{
	uint64_t field;
	if (chain->known &&
		header_follows(chain, view, chain->next, chain->size, chain->arena, &field)) {
		chain_enter(chain, view, chain->next, field);
		return true;
	}
	if (chain->size != 0)
		chain_lose(chain);
	chain->known = false;
	return chain_search(chain, view, min_u64(limit, chain->end));
}

void chain_follow(struct chain *chain, const struct view *view, struct chunks *chunks)
{
	const unsigned word = chain->word;
	// The first place whose size field is not in the view.
	const uint64_t limit = view->address + view->size - min_u64(view->size, word);
	while (chain->end != 0 && chain->next < limit) {
		if (chain->next >= chain->end) {
			chain_lose(chain);
			chain->end = 0;
			break;
		}
		// The loop is made for the usual case, and for the rest.
		if (!chain->known ? false
			: word == 8 && chain->order == ORDER_NATIVE
				? chain_run(chain, view, chunks, 8, ORDER_NATIVE)
				: chain_run(chain, view, chunks, word, chain->order)) {
			chain_settle(chain, view);
		} else {
			if (!chain_go_on(chain, view, limit))
				continue;
			const uint64_t offset = chain->chunk + word - view->address;
			field_count(chain, field_at(view, offset, word, chain->order));
			chunks->list[chunks->count++] = (uint32_t)offset;
		}
		chunks->list[chunks->count - 1] |= chain->used ? CHUNK_USED : 0;
	}
}

void chain_skip(struct chain *chain, uint64_t end)
{
	const uint64_t step = 2 * (uint64_t)chain->word;
	if (chain->end == 0 || chain->next >= end)
		return;
	// No header is zero.
	chain->known = false;
	if (chain->size != 0)
		chain_lose(chain);
	chain->next = (end + step - 1) / step * step;
	chain->patience = add_saturated(chain->next, PATIENCE);
}
