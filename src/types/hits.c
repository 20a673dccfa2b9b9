// SPDX-License-Identifier: MIT
//
// This runs for each word that may be a pointer to a program, some tens of millions for each
// gigabyte: no step depends on a branch that a processor cannot foresee, and most hits touch one
// tally and one fact.
#include "types/hits.h"

#include <stdlib.h>

// Distances up to here are noted: no farther back is looked.
#define DISTANCE_MAX ((uint64_t)CONTEXT)
// An object that holds another begins at most so far before it, where no chunk says it.
#define BEHIND_MAX ((uint64_t)512)
// System V ABI, AMD64 supplement, 3.2.2: the memory below the stack pointer that is in use.
#define RED_ZONE 128

// Positions count bytes as addresses do, but places in different pieces are far from each other: a
// difference of up to DISTANCE_MAX is one between addresses in one piece or its context.
#define POSITION_BITS 20
_Static_assert(((uint64_t)1 << POSITION_BITS) > IMAGE_CHUNK_SIZE + CONTEXT + DISTANCE_MAX,
	"pieces are apart");

static uint64_t piece_position(const struct piece *piece)
{
	return ((piece->number + 1) << POSITION_BITS) + CONTEXT;
}

#define ALWAYS_INLINE inline __attribute__((always_inline))

// ---- what one hit tells

static inline void fact_add(struct hits *hits, uint64_t who, uint64_t what, uint64_t times)
{
	hits->full |= !facts_count(&hits->facts, who, what, times);
}

static bool example_is_later(const struct example *a, const struct example *b)
{
	return a->is_static != b->is_static ? a->is_static : a->order > b->order;
}

void example_add(struct examples *examples, const struct example *example)
{
	struct example *list = examples->list;
	uint32_t at = examples->count;
	if (at == EXAMPLES_MAX && !example_is_later(&list[at - 1], example))
		return;
	if (at < EXAMPLES_MAX)
		examples->count++;
	else
		at--;
	for (; at > 0 && example_is_later(&list[at - 1], example); at--)
		list[at] = list[at - 1];
	list[at] = *example;
}

// A thread gets pieces in order: once the list is full no better ones will come.
static inline bool examples_sated(const struct examples *examples)
{
	return examples->count == EXAMPLES_MAX && !examples->list[EXAMPLES_MAX - 1].is_static;
}

static __attribute__((noinline)) void example_offer(
	const struct piece *piece, struct tally *tally, bool is_static, uint64_t address)
{
	example_add(&tally->examples,
		&(struct example){address, (uint32_t)piece->number, 0, is_static});
}

void opener_add_alone(struct openers *openers, const struct example *example)
{
	if (openers->has_alone && openers->alone.order <= example->order)
		return;
	openers->alone = *example;
	openers->has_alone = true;
}

void opener_add(struct openers *openers, const struct example *example)
{
	struct example *list = openers->list;
	uint32_t at = openers->count;
	while (at > 0 && list[at - 1].offset > example->offset)
		at--;
	if (at > 0 && list[at - 1].offset == example->offset) {
		if (list[at - 1].order > example->order)
			list[at - 1] = *example;
		return;
	}
	// Of many offsets the lowest ones are kept, whatever comes first.
	if (at == EXAMPLE_OFFSETS)
		return;
	if (openers->count < EXAMPLE_OFFSETS)
		openers->count++;
	for (uint32_t i = openers->count - 1; i > at; i--)
		list[i] = list[i - 1];
	list[at] = *example;
}

// The id of a candidate, new or known. False if it is not to be counted.
static bool value_identify(struct hits *hits, uint64_t value, uint32_t *ret)
{
	const struct hits_shared *shared = hits->shared;
	struct candidates *candidates = shared->candidates;
	if (candidates_find(candidates, value, ret))
		return true;
	const bool counts = ranges_have(shared->ranges, value) &&
			    (shared->pointers == NULL || pointers_can_be(shared->pointers, value));
	if (!counts && (shared->pointers == NULL || !pointers_unloaded(shared->pointers, value)))
		return false;
	if (candidates->bar > 0 &&
		candidates->cells[candidate_cell(shared->hash, value)] < candidates->bar)
		return false;
	if (candidates_add(candidates, value, ret))
		return true;
	hits->full = true;
	return false;
}

// The word before address in the view or its context; 0: it is in neither.
static inline uint64_t word_before(
	const struct hits *hits, const struct piece *piece, uint64_t address)
{
	const struct image_info *info = hits->shared->info;
	const unsigned word = info->word_size;
	const uint64_t inside = address - piece->view.address;
	if (inside + piece->context < word)
		return 0;
	return word_load(piece->view.bytes + inside - word, word, info->order);
}

// The size in a header, if it may be one; else 0.
static inline uint64_t header_size(uint64_t field, unsigned word)
{
	const uint64_t size = field & ~(uint64_t)7;
	return (field & 2) == 0 && size >= 4 * (uint64_t)word && size % (2 * (uint64_t)word) == 0 &&
			       size <= (uint64_t)1 << 30
		       ? size
		       : 0;
}

// Of runs, the number of a piece.
static uint32_t piece_number(const struct piece *piece)
{
	return (uint32_t)(piece->number + 1);
}

// ---- places

static uint64_t stack_pointer(const struct image_info *info, int64_t thread)
{
	for (size_t i = 0; i < info->process.thread_count; i++)
		if (info->process.threads[i].id == thread)
			return info->process.threads[i].stack_pointer;
	return 0;
}

static __attribute__((noinline)) void cursor_move(
	struct cursor *cursor, const struct hits_shared *shared, uint64_t address)
{
	const struct places *places = shared->places;
	size_t index;
	if (!places_find(places, address, &index)) {
		const uint64_t end =
			index < places->count ? places->spans[index].start : UINT64_MAX;
		*cursor =
			(struct cursor){.start = address, .size = end - address, .site = SITE_ANON};
		return;
	}
	const struct span *span = &places->spans[index];
	*cursor = (struct cursor){
		.start = span->start, .size = span->end - span->start, .site = SITE_ANON};
	const struct place *place = &places->list[index];
	if (span->kind == KIND_CODE || span->kind == KIND_DATA) {
		cursor->site = SITE_DATA;
		cursor->place = place->type == PLACE_MODULE ? place->module + 1 : PLACES_MANY;
	} else if (span->kind == KIND_HEAP) {
		cursor->site = SITE_HEAP;
	} else if (span->kind == KIND_STACK) {
		const uint64_t pointer = stack_pointer(shared->info, place->thread);
		cursor->site = SITE_STACK;
		cursor->place = (only_place)index + 1;
		cursor->stale = pointer - min_u64(pointer, RED_ZONE);
	}
}

static inline bool site_is_static(enum site site)
{
	return site >= SITE_STACK;
}

static inline enum site site_of(struct hits *hits, uint64_t address)
{
	struct cursor *cursor = &hits->cursor;
	if (address - cursor->start >= cursor->size)
		cursor_move(cursor, hits->shared, address);
	return cursor->site;
}

// ---- hits

// The id of a word. False if it is not to be counted.
static inline bool word_identify(struct hits *hits, uint64_t value, uint32_t *ret)
{
	struct recent *recent = &hits->recent[(value >> 3 ^ value >> 12) % RECENT];
	if (recent->value != value) {
		uint32_t id;
		*recent = (struct recent){value, value_identify(hits, value, &id) ? id : NO_ID};
	}
	*ret = recent->id;
	return recent->id != NO_ID;
}

static void hit_static(struct hits *hits, const struct piece *piece, struct tally *tally,
	enum site site, uint64_t address)
{
	if (address < hits->cursor.stale)
		return;
	tally->sites[site]++;
	only_place_add(site == SITE_STACK ? &tally->stack : &tally->module, hits->cursor.place);
	if (tally->examples.count < EXAMPLES_MAX)
		example_offer(piece, tally, true, address);
}

// A hit in a block, at an offset from its beginning, that comes so far behind the last of its
// candidate; in so many blocks that are alike. Returns whether it is the first candidate there.
static bool hit_in_block(struct hits *hits, uint32_t id, const struct part *block, uint64_t offset,
	uint64_t behind, uint64_t times)
{
	struct recall *recall = &hits->recall;
	const bool near = offset <= OFFSET_MAX;
	const uint64_t what = fact_what(near ? (unsigned)offset : OFFSET_DEEP, block->size);
	if (recall->block != block->address)
		recall->opener = NO_ID;
	recall->block = block->address;
	const bool opens = near && recall->opener == NO_ID;
	if (opens) {
		recall->opener = id;
		fact_add(hits, fact_who(id, FACT_OPEN, 0), what, times);
	} else {
		fact_add(hits, fact_who(id, FACT_INNER, recall->opener), what, times);
	}
	if (behind <= min_u64(offset, DISTANCE_MAX))
		fact_add(hits, fact_who(id, FACT_DISTANCE, NO_ID), fact_what(0, behind), times);
	return opens;
}

// A hit outside of known blocks, at an offset from where they end, so far behind the last one of
// its candidate, in the place of the cursor. The word before it may be the size of a chunk that
// malloc has, if it does not point into a program itself and the place has room for it.
static void hit_alone(struct hits *hits, const struct piece *piece, uint32_t id, uint64_t address,
	uint64_t offset, uint64_t behind)
{
	const struct recall *recall = &hits->recall;
	const unsigned word = hits->shared->info->word_size;
	const uint64_t before = word_before(hits, piece, address);
	const uint64_t header = header_size(before, word);
	const uint64_t neighbour = address - recall->before_address;
	const uint64_t rest = hits->cursor.start + hits->cursor.size - address;
	if (header != 0 && header - 2 * (uint64_t)word <= rest &&
		!ranges_have(hits->shared->ranges, before))
		fact_add(hits, fact_who(id, FACT_HEADER, 0), fact_what(0, header), 1);
	if (behind <= min_u64(offset, DISTANCE_MAX))
		fact_add(hits, fact_who(id, FACT_DISTANCE, 0), fact_what(0, behind), 1);
	if (recall->before != NO_ID && neighbour <= min_u64(offset, BEHIND_MAX))
		fact_add(hits, fact_who(id, FACT_BEHIND, recall->before), fact_what(0, neighbour),
			1);
	if (hits->runs.list != NULL)
		runs_add(&hits->runs, id, piece_number(piece), address, offset >= word ? before : 0,
			offset);
}

static void hit_see(struct hits *hits, const struct piece *piece, const struct part *part,
	uint32_t id, uint64_t address)
{
	struct tally *tally = &hits->tallies[id];
	const enum site site = site_of(hits, address);
	if (site_is_static(site)) {
		hit_static(hits, piece, tally, site, address);
		return;
	}
	const uint64_t offset = address - part->address;
	const uint64_t position = piece_position(piece) + (address - piece->view.address);
	const uint64_t behind = position - tally->last;
	if (part->state == PART_NONE) {
		hit_alone(hits, piece, id, address, offset, behind);
		tally->sites[site]++;
	} else if (part->state == PART_FREE) {
		tally->freed++;
		return;
	} else if (hit_in_block(hits, id, part, offset, behind, 1)) {
		opener_add(&tally->openers, &(struct example){address, (uint32_t)piece->number,
						    (uint16_t)offset, false});
	}
	tally->last = position;
	hits->recall.before = id;
	hits->recall.before_address = address;
	if (part->state == PART_NONE && !tally->openers.has_alone)
		opener_add_alone(&tally->openers,
			&(struct example){address, (uint32_t)piece->number, 0, false});
	if (!examples_sated(&tally->examples))
		example_offer(piece, tally, false, address);
}

// ---- objects that look alike

// Whether all that an object has are candidates of which nothing but counts is wanted.
static bool object_is_dull(
	struct hits *hits, const unsigned char *object, uint64_t marks, unsigned word)
{
	const enum byte_order order = hits->shared->info->order;
	if (__builtin_popcountll(marks) > SHAPE_HITS)
		return false;
	for (; marks != 0; marks &= marks - 1) {
		uint32_t id;
		const uint64_t value =
			word_load(object + (size_t)__builtin_ctzll(marks) * word, word, order);
		if (word_identify(hits, value, &id) && !examples_sated(&hits->tallies[id].examples))
			return false;
	}
	return true;
}

// Tell the facts of all objects that looked like a shape.
static void shape_tell(struct hits *hits, struct shape *shape, const struct shape_rest *rest)
{
	const unsigned word = hits->shared->info->word_size;
	const enum byte_order order = hits->shared->info->order;
	const struct recall kept = hits->recall;
	const struct part block = {.size = shape->words * (uint64_t)word, .state = PART_USED};
	// Far from all positions of pieces and of other shapes.
	const uint64_t position = UINT64_C(1) << 63 | hits->told++ << POSITION_BITS;
	hits->recall = (struct recall){.opener = NO_ID, .before = NO_ID};
	unsigned i = 0;
	for (uint64_t marks = shape->count > 0 ? shape->marks : 0; marks != 0; marks &= marks - 1) {
		const uint64_t offset = (uint64_t)__builtin_ctzll(marks) * word;
		const uint64_t loaded =
			i < SHAPE_FIRST ? shape->first[i] : rest->values[i - SHAPE_FIRST];
		uint32_t id;
		i++;
		if (!word_identify(hits, word_swap(loaded, word, order), &id))
			continue;
		struct tally *tally = &hits->tallies[id];
		hit_in_block(
			hits, id, &block, offset, position + offset - tally->last, shape->count);
		tally->last = position + offset;
	}
	hits->recall = kept;
	shape->count = 0;
}

void hits_finish(struct hits *hits)
{
	for (size_t i = 0; i < SHAPES; i++)
		shape_tell(hits, &hits->shapes[i], &hits->rests[i]);
}

// ---- parts of a piece

// Words of the view that belong together.
struct slice {
	struct part part;
	uint32_t first, words; // in the view: index, and how many
	uint64_t marks;	       // those that may be candidates, if they are all of a small block
};

// The marks of up to 64 words.
static inline uint64_t marks_at(const uint64_t *marks, size_t first, uint32_t words)
{
	const uint64_t low = marks[first / 64] >> (first % 64);
	const uint64_t high = marks[first / 64 + 1] << 1 << (63 - first % 64);
	return (low | high) & (UINT64_MAX >> (64 - words));
}

// See all hits in words of the view, which are in this part.
static __attribute__((noinline)) void words_see(struct hits *hits, const struct piece *piece,
	size_t first, size_t words, const struct part *part)
{
	const unsigned word = hits->shared->info->word_size;
	const enum byte_order order = hits->shared->info->order;
	while (words > 0) {
		const uint32_t count = (uint32_t)min_u64(words, 64);
		uint64_t marks = marks_at(hits->marks, first, count);
		for (; marks != 0; marks &= marks - 1) {
			const uint64_t offset =
				(first + (size_t)__builtin_ctzll(marks)) * (uint64_t)word;
			uint32_t id;
			if (word_identify(
				    hits, word_load(piece->view.bytes + offset, word, order), &id))
				hit_see(hits, piece, part, id, piece->view.address + offset);
		}
		first += count;
		words -= count;
	}
}

// A small block in use. Most look like one that was seen before.
static ALWAYS_INLINE void block_see(
	struct hits *hits, const struct piece *piece, const struct slice *slice, unsigned word)
{
	const unsigned char *object = piece->view.bytes + (size_t)slice->first * word;
	const uint32_t size = (uint32_t)(slice->part.size / word);
	const size_t place = shape_place(hits->shared->hash, object, slice->marks, word);
	struct shape *shape = &hits->shapes[place];
	struct shape_rest *rest = &hits->rests[place];
	const bool is_static = site_is_static(site_of(hits, slice->part.address));
	if (!is_static && shape_matches(shape, rest, object, size, slice->marks, word)) {
		shape->count++;
		return;
	}
	words_see(hits, piece, slice->first, slice->words, &slice->part);
	if (is_static || !object_is_dull(hits, object, slice->marks, word) ||
		!shape_yields(shape, rest))
		return;
	shape_tell(hits, shape, rest);
	shape_learn(shape, rest, object, size, slice->marks, word);
}

// So many parts are looked at together: their memory is in the first-level cache then.
#define BATCH 64

// Of the parts from index first on, those that may have hits. Returns how many there are.
static ALWAYS_INLINE size_t slices_find(const struct hits *hits, const struct piece *piece,
	size_t first, size_t count, unsigned word, struct slice *ret)
{
	const struct parts *parts = piece->parts;
	const struct view *view = &piece->view;
	const uint32_t all = (uint32_t)(view->size / word);
	struct slice *slice = ret;
	size_t hint = parts->hint;
	for (size_t i = first; i < first + count; i++) {
		const part_mark mark = parts->list[i];
		const uint32_t offset = mark_offset(mark);
		const uint64_t length = i + 1 < parts->count
						? mark_offset(parts->list[i + 1]) - offset
						: parts->end - view->address - offset;
		slice->part = (mark & MARK_LAST) != 0
				      ? part_last(parts->heap, mark, view->address + offset, &hint)
				      : mark_part(mark, view->address + offset, length, word);
		const uint64_t words = (slice->part.limit - slice->part.address) / word;
		slice->first = offset / word;
		slice->words = (uint32_t)min_u64(words, all - slice->first);
		slice->marks = 0;
		// No branch: whether a small block has any is chance.
		if (words <= SHAPE_WORDS && words == slice->words && words > 0) {
			slice->marks = marks_at(hits->marks, slice->first, (uint32_t)words);
			slice += slice->marks != 0;
		} else {
			slice++;
		}
	}
	return (size_t)(slice - ret);
}

// ---- one piece

// What lies before the piece, as far as it matters: if a block reaches into the piece, only that;
// or else what is behind the last one. Nothing of it is counted.
static void context_feed(struct hits *hits, const struct piece *piece)
{
	const struct hits_shared *shared = hits->shared;
	const unsigned word = shared->info->word_size;
	const enum byte_order order = shared->info->order;
	const struct part *before = &piece->parts->before;
	const size_t size = piece->context;
	const unsigned char *bytes = piece->view.bytes - size;
	const uint64_t address = piece->view.address - size;
	hits->recall = (struct recall){.opener = NO_ID, .before = NO_ID};
	if (before->state == PART_FREE)
		return;
	if (before->state == PART_USED)
		hits->recall.block = before->address;
	uint32_t id;
	for (size_t i = 0; i < piece->opening_size && hits->recall.opener == NO_ID; i += word) {
		const uint64_t value = word_load(piece->opening + i, word, order);
		if (ranges_have(shared->ranges, value) && word_identify(hits, value, &id))
			hits->recall.opener = id;
	}
	struct sifted ignored = {0};
	shared->sift(shared->sifter, bytes, size / word, hits->marks, &ignored);
	for (size_t i = 0; i < MARKS_WORDS(size / word); i++)
		for (uint64_t marks = hits->marks[i]; marks != 0; marks &= marks - 1) {
			const size_t offset = (i * 64 + (size_t)__builtin_ctzll(marks)) * word;
			if (site_is_static(site_of(hits, address + offset)) ||
				!word_identify(hits, word_load(bytes + offset, word, order), &id))
				continue;
			hits->tallies[id].last = piece_position(piece) - size + offset;
			hits->recall.before = id;
			hits->recall.before_address = address + offset;
			if (hits->runs.list != NULL)
				runs_recall(&hits->runs, id, piece_number(piece), address + offset,
					word_before(hits, piece, address + offset));
		}
}

// Runs that may go on behind the piece.
static void runs_feed(struct hits *hits, const struct piece *piece)
{
	const struct view *view = &piece->view;
	const unsigned word = hits->shared->info->word_size;
	const size_t words = view->size / word, near = (size_t)RUN_NEAR / word;
	for (size_t i = words - min_u64(words, near); i < words; i++) {
		uint32_t id;
		if ((hits->marks[i / 64] >> i % 64 & 1) != 0 &&
			word_identify(hits,
				word_load(view->bytes + i * word, word, hits->shared->info->order),
				&id))
			runs_leave(
				&hits->runs, id, piece_number(piece), view->address + view->size);
	}
	hits->full |= hits->runs.full;
}

// The words of the view that the part before it has.
static void before_feed(struct hits *hits, const struct piece *piece)
{
	const unsigned word = hits->shared->info->word_size;
	const struct part *before = &piece->parts->before;
	const uint64_t address = piece->view.address;
	if (before->limit > address)
		words_see(hits, piece, 0,
			(size_t)min_u64(piece->view.size, before->limit - address) / word, before);
}

static ALWAYS_INLINE void piece_feed(struct hits *hits, const struct piece *piece, unsigned word)
{
	const struct parts *parts = piece->parts;
	struct slice slices[BATCH + 1];
	before_feed(hits, piece);
	for (size_t i = 0; i < parts->count; i += BATCH) {
		const size_t count = slices_find(
			hits, piece, i, (size_t)min_u64(BATCH, parts->count - i), word, slices);
		for (size_t k = 0; k < count; k++)
			if (slices[k].marks != 0 && slices[k].part.state == PART_USED)
				block_see(hits, piece, &slices[k], word);
			else
				words_see(hits, piece, slices[k].first, slices[k].words,
					&slices[k].part);
	}
}

void hits_feed(struct hits *hits, const struct piece *piece)
{
	const struct hits_shared *shared = hits->shared;
	const unsigned word = shared->info->word_size;
	const size_t words = piece->view.size / word;
	context_feed(hits, piece);
	hits->words += words;
	shared->sift(shared->sifter, piece->view.bytes, words, hits->marks, &hits->sifted);
	// Made for the usual case, and for the rest.
	if (word == 8)
		piece_feed(hits, piece, 8);
	else
		piece_feed(hits, piece, word);
	if (hits->runs.list != NULL)
		runs_feed(hits, piece);
}

void hits_feed_cells(struct hits *hits, const struct view *view, uint32_t *cells)
{
	const struct hits_shared *shared = hits->shared;
	const unsigned word = shared->info->word_size;
	const enum byte_order order = shared->info->order;
	const size_t words = view->size / word;
	struct sifted ignored = {0};
	shared->sift(shared->sifter, view->bytes, words, hits->marks, &ignored);
	for (size_t i = 0; i < MARKS_WORDS(words); i++)
		for (uint64_t marks = hits->marks[i]; marks != 0; marks &= marks - 1) {
			const size_t at = i * 64 + (size_t)__builtin_ctzll(marks);
			const uint64_t value = word_load(view->bytes + at * word, word, order);
			uint32_t *cell = &cells[candidate_cell(shared->hash, value)];
			*cell += *cell != UINT32_MAX && ranges_have(shared->ranges, value);
		}
}

// ---- memory

size_t hits_memory(const struct image_info *info, size_t size)
{
	return MARKS_WORDS(size / info->word_size) * sizeof(uint64_t) +
	       SHAPES * (sizeof(struct shape) + sizeof(struct shape_rest));
}

bool hits_init(struct hits *hits, const struct hits_shared *shared, size_t size, struct error *err)
{
	const size_t words = max_u64(size, CONTEXT) / shared->info->word_size;
	*hits = (struct hits){
		.shared = shared,
		.marks = calloc(MARKS_WORDS(words), sizeof *hits->marks),
		.shapes = aligned_alloc(64, SHAPES * sizeof *hits->shapes),
		.rests = calloc(SHAPES, sizeof *hits->rests),
	};
	if (hits->marks != NULL && hits->shapes != NULL && hits->rests != NULL)
		return true;
	hits_deinit(hits);
	return error_memory(err);
}

void hits_deinit(struct hits *hits)
{
	hits_forget(hits);
	free(hits->marks);
	free(hits->shapes);
	free(hits->rests);
	*hits = (struct hits){0};
}

bool hits_reset(struct hits *hits, uint32_t most, size_t memory, struct error *err)
{
	hits_forget(hits);
	memset(hits->shapes, 0, SHAPES * sizeof *hits->shapes);
	// Zeros that are not touched take no memory.
	hits->tallies = calloc((size_t)most + 1, sizeof *hits->tallies);
	if (hits->tallies == NULL)
		return error_memory(err);
	return facts_init(&hits->facts, hits->shared->hash, memory, err) &&
	       runs_init(&hits->runs, hits->shared->classes, &hits->facts, most, memory / 10, err);
}

void hits_forget(struct hits *hits)
{
	free(hits->tallies);
	facts_deinit(&hits->facts);
	runs_deinit(&hits->runs);
	hits->tallies = NULL;
	hits->full = false;
	hits->words = 0;
	hits->sifted = (struct sifted){0};
	memset(hits->recent, 0, sizeof hits->recent);
}
