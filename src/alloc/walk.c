// SPDX-License-Identifier: MIT
//
// A chain can be followed only from its beginning, but a chain that is entered in the middle is the
// same from there on. So regions are cut into pieces, which threads take one by one: each looks for
// a chain in its piece by itself. When all are done, the pieces are joined in order: where the
// chain of the pieces before does not come out at the very chunk at which the next piece was
// entered, that piece is walked again from the right one. So the result does not depend on where
// threads happened to begin.
#include <pthread.h>
#include <stdlib.h>

#include "alloc/chunks.h"
#include "alloc/glibc.h"
#include "alloc/lists.h"
#include "alloc/pointers.h"

// A piece's bits are whole words of the bitmap, whatever the unit. Long enough that entering it
// costs nothing, short enough to keep threads busy.
#define PIECE_SIZE ((uint64_t)8 << 20)

// Where no chunk is known, and why.
enum gap { GAP_NONE, GAP_BROKEN, GAP_FOREIGN, GAP_MISSING };

struct piece {
	const struct heap_region *region;
	struct stretch stretch;
	uint64_t first; // chunk of the region
	uint64_t start, end;
	uint64_t entry; // address of its first chunk; 0: it has none
	// How it is left: to a chunk that begins at next or, if there is a gap, to be looked for
	// from next on.
	enum gap gap;
	uint64_t next;
	uint64_t gap_start;
	struct heap_tally in_use, binned;
	uint64_t overhead, foreign, broken, missing;
	struct heap_break *breaks; // owned
	size_t break_count, break_capacity, breaks_more;
	struct addresses caches; // list owned
	struct addresses gaps;	 // where each begins and ends, in turn; list owned
};

struct walk {
	const struct chains *chains;
	const struct heap_options *options;
	struct heap *heap;
	struct pointers pointers;
	pointers_mark *mark;  // NULL: what objects point at is not noted
	struct piece *pieces; // owned
	size_t piece_count;
	atomic_size_t taken;
	atomic_bool failed; // memory ran out
};

// One thread's walk through one piece.
struct walker {
	struct walk *walk;
	struct piece *piece;
	struct window window;
	// The current chunk, whose header is sound, and its size field. It is not tallied yet.
	uint64_t at, field;
	// Which words of the window may be pointers, and where it was when they were looked at.
	uint64_t *marks; // owned
	uint64_t marks_address;
	size_t marks_size;
	struct target_writer writer;
	size_t hint; // region
	pthread_t thread;
};

static void piece_reset(struct walk *walk, struct piece *piece)
{
	const struct heap *heap = walk->heap;
	const size_t first = chunk_slot(piece->region, piece->start) / 64;
	const size_t last = (chunk_slot(piece->region, piece->end) + 63) / 64;
	// What was not touched takes no memory.
	for (size_t i = first; piece->entry != 0 && i < last; i++) {
		heap->cells[i] = (struct heap_cell){0};
		heap->targets.leaves[i] = heap->targets.listed[i] = 0;
	}
	free(piece->breaks);
	free(piece->caches.list);
	free(piece->gaps.list);
	piece->breaks = NULL;
	piece->caches = piece->gaps = (struct addresses){0};
	piece->in_use = piece->binned = (struct heap_tally){0};
	piece->break_count = piece->break_capacity = piece->breaks_more = 0;
	piece->overhead = piece->foreign = piece->broken = piece->missing = 0;
	piece->entry = 0;
}

static void break_add(struct walker *walker, uint64_t chunk, uint64_t address)
{
	struct piece *piece = walker->piece;
	if (piece->break_count == HEAP_BREAKS_MAX) {
		piece->breaks_more++;
		return;
	}
	if (piece->break_count == piece->break_capacity) {
		const size_t wanted = 2 * piece->break_capacity + 4;
		struct heap_break *breaks = reallocarray(piece->breaks, wanted, sizeof *breaks);
		if (breaks == NULL) {
			atomic_store(&walker->walk->failed, true);
			return;
		}
		piece->breaks = breaks;
		piece->break_capacity = wanted;
	}
	piece->breaks[piece->break_count++] =
		(struct heap_break){.chunk = chunk, .address = address};
}

static void chunk_used(struct walker *walker, uint64_t address, uint64_t size)
{
	struct walk *walk = walker->walk;
	const size_t slot = chunk_slot(walker->piece->region, address);
	heap_mark_used(walk->heap, slot);
	walker->piece->in_use.count++;
	walker->piece->in_use.bytes += size;
}

// What is not in use begins at address, in the piece.
static void start_mark(struct walker *walker, uint64_t address)
{
	struct heap *heap = walker->walk->heap;
	if (address < walker->piece->end)
		heap_mark_start(heap, chunk_slot(walker->piece->region, address));
}

static void chunk_free(struct walker *walker, uint64_t address, uint64_t size)
{
	start_mark(walker, address);
	walker->piece->binned.count++;
	walker->piece->binned.bytes += size;
}

// Note the chunk if it may be a thread's cache.
static __attribute__((noinline)) void cache_offer(
	struct walker *walker, uint64_t address, uint64_t size)
{
	const struct chains *chains = walker->window.chains;
	const struct window *window = &walker->window;
	unsigned char buffer[CACHE_BYTES_MAX];
	const uint64_t inside = address - window->address, bytes = size + chains->word;
	const unsigned char *chunk = buffer;
	if (size < CACHE_SIZE_MIN || size > CACHE_SIZE_MAX)
		return;
	if (inside < window->size && window->size - inside >= bytes)
		chunk = window->bytes + inside;
	else if (image_read(chains->image, address, buffer, (size_t)bytes) != bytes)
		return;
	if (cache_is_likely(chains, chunk, size) && !addresses_add(&walker->piece->caches, address))
		atomic_store(&walker->walk->failed, true);
}

// Leave the piece for what is beyond its end, or for a gap that begins at address.
static bool piece_leave(struct walker *walker, enum gap gap, uint64_t address, uint64_t next)
{
	walker->piece->gap = gap;
	walker->piece->gap_start = address;
	walker->piece->next = next;
	return false;
}

static void gap_count(struct piece *piece, enum gap gap, uint64_t bytes)
{
	*(gap == GAP_BROKEN	     ? &piece->broken
		: gap == GAP_FOREIGN ? &piece->foreign
				     : &piece->missing) += bytes;
}

// No chunk is known from address on. Go on with the one at found, 0: none was found in the piece.
static bool gap_cross(struct walker *walker, enum gap gap, uint64_t address, uint64_t found)
{
	struct piece *piece = walker->piece;
	uint64_t field;
	if (found == 0)
		return piece_leave(walker, gap, address, max_u64(address, piece->end));
	gap_count(piece, gap, found - address);
	start_mark(walker, address);
	if (found > address &&
		(!addresses_add(&piece->gaps, address) || !addresses_add(&piece->gaps, found)))
		atomic_store(&walker->walk->failed, true);
	if (gap == GAP_BROKEN && piece->break_count > 0)
		piece->breaks[piece->break_count - 1].resumed = found;
	if (!chunk_read(&walker->window, &piece->stretch, found, &field))
		return piece_leave(walker, gap, found, max_u64(found, piece->end));
	walker->at = found;
	walker->field = field;
	return true;
}

static bool gap_search(struct walker *walker, enum gap gap, uint64_t address)
{
	struct piece *piece = walker->piece;
	uint64_t found = 0;
	if (address >= piece->end)
		return piece_leave(walker, gap, address, address);
	chain_search(&walker->window, &piece->stretch, address, piece->end, &found);
	return gap_cross(walker, gap, address, found);
}

// If the size of the current chunk is wrong, a chain that begins inside it leads on beyond the
// place where the next one should be. Returns where it begins, 0 if there is none.
static uint64_t inner_chain(struct walker *walker, uint64_t next)
{
	const struct stretch *stretch = &walker->piece->stretch;
	const uint64_t least = 4 * (uint64_t)walker->window.chains->word;
	const uint64_t limit = min_u64(next, walker->piece->end);
	uint64_t from = walker->at + least, found;
	while (from < limit && chain_search(&walker->window, stretch, from, limit, &found)) {
		uint64_t field, at = found;
		while (at < next && chunk_read(&walker->window, stretch, at, &field)) {
			at += chunk_size(field);
			if (at - walker->window.address >= walker->window.size)
				window_move(&walker->window, at);
		}
		if (at > next)
			return found;
		from = max_u64(at, found + least);
	}
	return 0;
}

// The chunk behind the current one, at next, is not sound.
static bool step_broken(struct walker *walker, uint64_t next)
{
	const uint64_t inner = inner_chain(walker, next);
	break_add(walker, walker->at, next);
	if (inner == 0) {
		chunk_used(walker, walker->at, chunk_size(walker->field));
		return gap_search(walker, GAP_BROKEN, next);
	}
	chunk_used(walker, walker->at, inner - walker->at);
	return gap_cross(walker, GAP_BROKEN, inner, inner);
}

// Go on behind the current chunk where it is not followed by another one of the chain, or the
// window ends. False if the piece is done.
static bool step_odd(struct walker *walker)
{
	struct piece *piece = walker->piece;
	const struct stretch *stretch = &piece->stretch;
	struct window *window = &walker->window;
	const uint64_t size = chunk_size(walker->field), next = walker->at + size;
	uint64_t field, fence = fence_size(window, stretch, walker->at);
	if (fence > 0) {
		piece->overhead += fence;
		start_mark(walker, walker->at);
		return piece_leave(walker, GAP_NONE, stretch->end, stretch->end);
	}
	if (next >= stretch->end || addresses_have(&window->chains->tops, walker->at)) {
		chunk_free(walker, walker->at, size);
		if (next >= stretch->end)
			return piece_leave(walker, GAP_NONE, next, next);
		return gap_search(walker, GAP_FOREIGN, next);
	}
	if (!window_word(window, next + window->chains->word, &field)) {
		// What a cut has taken away was in use more likely than not.
		chunk_used(walker, walker->at, size);
		return gap_search(walker, GAP_MISSING, next);
	}
	if (!chunk_follows(window, stretch, next, field, walker->field))
		return step_broken(walker, next);
	fence = fence_size(window, stretch, next);
	if (fence == 0 && !chunk_read(window, stretch, next, &field))
		return step_broken(walker, next);
	if ((field & PREV_INUSE) != 0) {
		chunk_used(walker, walker->at, size);
		cache_offer(walker, walker->at, size);
	} else {
		chunk_free(walker, walker->at, size);
	}
	if (fence > 0) {
		start_mark(walker, next);
		piece->overhead += fence;
		if (next + fence >= stretch->end)
			return piece_leave(walker, GAP_NONE, stretch->end, stretch->end);
		return gap_search(walker, GAP_FOREIGN, next + fence);
	}
	walker->at = next;
	walker->field = field;
	return true;
}

// ---- what objects point at

// Find out which words of the window may be pointers, if that is not known.
static void marks_update(struct walker *walker)
{
	const struct walk *walk = walker->walk;
	const struct window *window = &walker->window;
	if (walk->mark == NULL ||
		(walker->marks_address == window->address && walker->marks_size == window->size))
		return;
	walk->mark(
		&walk->pointers, window->bytes, window->size / window->chains->word, walker->marks);
	walker->marks_address = window->address;
	walker->marks_size = window->size;
}

// The first of the words from first on and before last that may be a pointer; last, if none.
static inline size_t marks_next(const uint64_t *marks, size_t first, size_t last)
{
	while (first < last) {
		const uint64_t bits = marks[first / 64] >> first % 64;
		if (bits != 0)
			return (size_t)min_u64(last, first + (unsigned)__builtin_ctzll(bits));
		first = (first / 64 + 1) * 64;
	}
	return last;
}

// List what the object of the chunk from at to next points at, of which the words of the window
// from index on and before last may be pointers. Those to itself do not matter.
static __attribute__((noinline)) void targets_list(
	struct walker *walker, uint64_t at, uint64_t next, size_t slot, size_t index, size_t last)
{
	struct heap *heap = walker->walk->heap;
	const struct chains *chains = walker->window.chains;
	uint32_t *list = targets_begin(&heap->targets, &walker->writer, slot);
	size_t count = 0;
	for (; index < last; index = marks_next(walker->marks, index + 1, last)) {
		const uint64_t address =
			chains_load(chains, walker->window.bytes + index * chains->word) &
			walker->walk->pointers.mask;
		if (address - walker->piece->region->lead - at < next - at)
			continue;
		const struct heap_region *region = heap_region_near(heap, address, &walker->hint);
		if (region == NULL)
			continue;
		const size_t target = region_slot(region, address);
		if (list == NULL || count == TARGETS_MAX || target > TARGET_SLOT)
			return;
		const bool late = region_in_slack(region, address);
		const uint32_t entry = (uint32_t)target | (late ? TARGET_LATE : 0);
		if (count == 0 || list[count - 1] != entry)
			list[count++] = entry;
	}
	targets_end(&heap->targets, &walker->writer, slot, count);
}

// Note what the object in use of the chunk from at to next points at, of which the window has the
// end, if it has all of it.
static inline void targets_note(
	struct walker *walker, uint64_t at, uint64_t next, size_t slot, unsigned word)
{
	const struct window *window = &walker->window;
	if (walker->walk->mark == NULL || at < window->address ||
		(at - window->address) % word != 0)
		return;
	const size_t first = (size_t)(at + 2 * (uint64_t)word - window->address) / word;
	const size_t last = (size_t)(next + word - window->address) / word;
	const size_t index = marks_next(walker->marks, first, last);
	if (index == last)
		walker->walk->heap->targets.leaves[slot / 64] |= (uint64_t)1 << slot % 64;
	else
		targets_list(walker, at, next, slot, index, last);
}

// Go on as long as one sound chunk follows the other in the window: nearly always, so this is what
// must be quick.
static inline void steps_run(struct walker *walker, unsigned word, enum byte_order order)
{
	struct piece *piece = walker->piece;
	const struct window *window = &walker->window;
	struct heap *heap = walker->walk->heap;
	const uint64_t end = piece->stretch.end, limit = piece->end;
	const uint64_t unit = 2 * (uint64_t)word, least = 2 * unit;
	const uint64_t region_start = piece->region->start - piece->region->lead;
	const uint64_t arena = piece->stretch.arena;
	// Bits of a size field that must not be set.
	const uint64_t wrong = ((unit - 1) & ~(uint64_t)PREV_INUSE) & ~arena;
	const size_t region_slot = piece->region->slot;
	const unsigned char *bytes = window->bytes;
	uint64_t at = walker->at, field = walker->field;
	uint64_t used = 0, used_bytes = 0, unused = 0, unused_bytes = 0;
	while (at < limit) {
		const uint64_t size = chunk_size(field), next = at + size;
		const uint64_t offset = next - window->address;
		if (offset >= window->size || window->size - offset < unit || next >= end)
			break;
		const uint64_t behind = word_load(bytes + offset + word, word, order);
		if ((behind & wrong) != 0 || behind < least || chunk_size(behind) > end - next)
			break;
		const size_t slot = region_slot + (size_t)((at - region_start) / unit);
		if ((behind & PREV_INUSE) != 0) {
			if ((field & NON_MAIN_ARENA) != arena)
				break;
			heap_mark_used(heap, slot);
			targets_note(walker, at, next, slot, word);
			used++;
			used_bytes += size;
			if (size - CACHE_SIZE_MIN <= CACHE_SIZE_MAX - CACHE_SIZE_MIN)
				cache_offer(walker, at, size);
		} else if (word_load(bytes + offset, word, order) == size) {
			heap_mark_start(heap, slot);
			unused++;
			unused_bytes += size;
		} else {
			break;
		}
		at = next;
		field = behind;
	}
	walker->at = at;
	walker->field = field;
	piece->in_use.count += used;
	piece->in_use.bytes += used_bytes;
	piece->binned.count += unused;
	piece->binned.bytes += unused_bytes;
}

// Whether the window has the fields of a chunk at address.
static bool window_has(const struct window *window, uint64_t address)
{
	const uint64_t offset = address - window->address;
	return offset < window->size && window->size - offset >= 2 * (size_t)window->chains->word;
}

// Walk from the chunk at entry on; 0: look for one from address from on.
static void piece_walk(struct walker *walker, struct piece *piece, uint64_t entry, uint64_t from)
{
	struct window *window = &walker->window;
	const struct chains *chains = window->chains;
	uint64_t field, next;
	walker->piece = piece;
	walker->writer.cell = 0;
	piece_reset(walker->walk, piece);
	piece_leave(walker, GAP_FOREIGN, piece->end, piece->end);
	if (entry == 0 && !chain_search(window, &piece->stretch, from, piece->end, &entry))
		return;
	if (!chunk_read(window, &piece->stretch, entry, &field))
		return;
	piece->entry = walker->at = entry;
	walker->field = field;
	do {
		next = walker->at + chunk_size(walker->field);
		if (!window_has(window, next) && next < piece->stretch.end)
			window_move(window, next);
		marks_update(walker);
		// The loop is made for the usual case, and for the rest.
		if (chains->word == 8 && chains->order == ORDER_NATIVE)
			steps_run(walker, 8, ORDER_NATIVE);
		else
			steps_run(walker, (unsigned)chains->word, chains->order);
		if (walker->at >= piece->end) {
			piece_leave(walker, GAP_NONE, walker->at, walker->at);
			return;
		}
		next = walker->at + chunk_size(walker->field);
		// It may have been only the end of the window.
	} while ((!window_has(window, next) && next < piece->stretch.end &&
			 window_move(window, next)) ||
		 step_odd(walker));
}

static void *walker_run(void *argument)
{
	struct walker *walker = argument;
	struct walk *walk = walker->walk;
	for (;;) {
		const size_t index = atomic_fetch_add(&walk->taken, 1);
		if (index >= walk->piece_count || atomic_load(walk->options->stop) != 0 ||
			atomic_load(&walk->failed))
			return NULL;
		struct piece *piece = &walk->pieces[index];
		const bool first = piece->start == piece->first;
		piece_walk(walker, piece, first ? piece->start : 0, piece->start);
		if (walk->options->watch.add != NULL)
			walk->options->watch.add(
				walk->options->watch.context, piece->end - piece->start);
	}
}

// ---- the whole

static bool tally_merge(struct walk *walk, struct piece *piece, struct addresses *ret)
{
	struct heap *heap = walk->heap;
	heap->in_use.count += piece->in_use.count;
	heap->in_use.bytes += piece->in_use.bytes;
	heap->binned.count += piece->binned.count;
	heap->binned.bytes += piece->binned.bytes;
	heap->overhead += piece->overhead;
	heap->foreign += piece->foreign;
	heap->broken += piece->broken;
	heap->missing += piece->missing;
	for (size_t i = 0; i < piece->break_count; i++) {
		if (heap->break_count < HEAP_BREAKS_MAX)
			heap->breaks[heap->break_count] = piece->breaks[i];
		heap->break_count++;
	}
	heap->break_count += piece->breaks_more;
	for (size_t i = 0; i < piece->caches.count; i++)
		if (!addresses_add(ret, piece->caches.list[i]))
			return false;
	for (size_t i = 0; i < piece->gaps.count; i += 2)
		if (!heap_add_range(&heap->gaps, &heap->gap_count, &heap->gap_capacity,
			    piece->gaps.list[i], piece->gaps.list[i + 1]))
			return false;
	return true;
}

// How the pieces joined so far are left.
struct joint {
	enum gap gap;
	uint64_t next, gap_start;
};

// The gap goes up to end: of the region, or where a chunk begins.
static bool gap_close(struct heap *heap, const struct joint *joint, uint64_t end, bool last)
{
	const struct heap_region *region = chunk_region(heap, joint->gap_start, heap->word);
	if (joint->gap == GAP_NONE || end <= joint->gap_start)
		return true;
	if (region != NULL)
		heap_mark_start(heap, chunk_slot(region, joint->gap_start));
	*(joint->gap == GAP_BROKEN	    ? &heap->broken
		: joint->gap == GAP_MISSING ? &heap->missing
		: last			    ? &heap->outside
					    : &heap->foreign) += end - joint->gap_start;
	if (joint->gap == GAP_BROKEN && heap->break_count <= HEAP_BREAKS_MAX)
		heap->breaks[heap->break_count - 1].resumed = end;
	return heap_add_range(
		&heap->gaps, &heap->gap_count, &heap->gap_capacity, joint->gap_start, end);
}

static bool piece_join(
	struct walker *walker, struct piece *piece, struct joint *joint, struct addresses *ret)
{
	const bool known = joint->gap == GAP_NONE;
	if (joint->next >= piece->end) {
		piece_reset(walker->walk, piece);
		return true;
	}
	if (known ? piece->entry != joint->next : joint->next > piece->start)
		piece_walk(walker, piece, known ? joint->next : 0, joint->next);
	if (piece->entry == 0)
		return true;
	if (!gap_close(walker->walk->heap, joint, piece->entry, false))
		return false;
	*joint = (struct joint){piece->gap, piece->next, piece->gap_start};
	return tally_merge(walker->walk, piece, ret);
}

static bool pieces_join(struct walk *walk, struct walker *walker, struct addresses *ret)
{
	for (size_t i = 0; i < walk->piece_count;) {
		const struct heap_region *region = walk->pieces[i].region;
		const uint64_t first = walk->pieces[i].first;
		struct joint joint = {GAP_NONE, first, first};
		for (; i < walk->piece_count && walk->pieces[i].region == region; i++)
			if (!piece_join(walker, &walk->pieces[i], &joint, ret))
				return false;
		if (!gap_close(walk->heap, &joint, region->end, true))
			return false;
	}
	return !atomic_load(&walk->failed);
}

static bool pieces_init(struct walk *walk, const struct chain *list, size_t chains)
{
	const struct heap *heap = walk->heap;
	const size_t word = walk->chains->word;
	const uint64_t length = PIECE_SIZE / 8 * word;
	size_t count = 0;
	for (size_t i = 0; i < heap->region_count; i++)
		count += (size_t)((heap->regions[i].end - heap->regions[i].start) / length) + 1;
	walk->pieces = calloc(count + chains, sizeof *walk->pieces);
	if (walk->pieces == NULL)
		return false;
	for (size_t i = 0; i < chains; i++) {
		const struct chain *chain = &list[i];
		const struct heap_region *region = chunk_region(heap, chain->first, word);
		// What overlaps others has none.
		if (region == NULL || region->start - region->lead != chain->first)
			continue;
		for (uint64_t at = chain->first; at < region->end; at += length)
			walk->pieces[walk->piece_count++] = (struct piece){.region = region,
				.stretch = chain->stretch,
				.first = chain->first,
				.start = at,
				.end = at + min_u64(length, region->end - at)};
	}
	return true;
}

static bool walkers_run(struct walk *walk, struct walker *walkers, unsigned count)
{
	unsigned started = 1;
	uint64_t bytes = 0;
	for (size_t i = 0; i < walk->piece_count; i++)
		bytes += walk->pieces[i].end - walk->pieces[i].start;
	if (walk->options->watch.begin != NULL)
		walk->options->watch.begin(walk->options->watch.context, bytes);
	// What cannot be started is done by the others.
	while (started < count &&
		pthread_create(&walkers[started].thread, NULL, walker_run, &walkers[started]) == 0)
		started++;
	walker_run(&walkers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(walkers[i].thread, NULL);
	return !atomic_load(&walk->failed);
}

bool chunks_walk(const struct chains *chains, const struct heap_options *options,
	const struct chain *list, size_t chain_count, struct heap *heap, struct error *err,
	struct addresses *ret)
{
	struct walk walk = {.chains = chains, .options = options, .heap = heap};
	const struct image_info *info = image_info(chains->image);
	// What lives may change between two looks.
	walk.mark = info->live || !options->targets ? NULL : pointers_mark_for(options->level);
	pointers_init(&walk.pointers, info, heap);
	struct walker *walkers = NULL;
	unsigned count = 0;
	bool ok = pieces_init(&walk, list, chain_count);
	if (ok) {
		count = (unsigned)max_u64(1, min_u64(options->threads, walk.piece_count));
		walkers = calloc(count, sizeof *walkers);
		ok = walkers != NULL;
	}
	for (unsigned i = 0; ok && i < count; i++) {
		walkers[i].walk = &walk;
		walkers[i].marks =
			calloc(WINDOW_SIZE / chains->word / 64 + 1, sizeof *walkers[i].marks);
		ok = window_init(&walkers[i].window, chains) && walkers[i].marks != NULL;
	}
	ok = ok && walkers_run(&walk, walkers, count);
	heap->partial = atomic_load(options->stop) != 0;
	ok = ok && (heap->partial || pieces_join(&walk, &walkers[0], ret));
	for (unsigned i = 0; walkers != NULL && i < count; i++) {
		window_deinit(&walkers[i].window);
		free(walkers[i].marks);
	}
	for (size_t i = 0; i < walk.piece_count; i++) {
		free(walk.pieces[i].breaks);
		free(walk.pieces[i].caches.list);
		free(walk.pieces[i].gaps.list);
	}
	free(walk.pieces);
	free(walkers);
	return ok || error_memory(err);
}
