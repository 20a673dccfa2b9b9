// SPDX-License-Identifier: MIT
#include "graph/reach.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/huge.h"
#include "graph/internal.h"

bool reach_stopped(const struct reach *reach)
{
	return reach->options.stop != NULL && atomic_load(reach->options.stop) != 0;
}

void reach_progress_begin(const struct reach *reach, bool roots)
{
	uint64_t bytes = (uint64_t)reach->heap->slot_count << reach->heap->unit_bits;
	for (size_t i = 0; roots && i < reach->roots.count; i++)
		bytes += reach->roots.list[i].end - reach->roots.list[i].start;
	if (reach->options.watch.begin != NULL)
		reach->options.watch.begin(reach->options.watch.context, bytes);
}

void reach_progress(const struct reach *reach, uint64_t bytes)
{
	if (reach->options.watch.add != NULL)
		reach->options.watch.add(reach->options.watch.context, bytes);
}

// It is told of so many objects at once.
#define PROGRESS_STEP 4096

void worker_progress(struct worker *worker)
{
	if (++worker->followed < PROGRESS_STEP)
		return;
	worker->followed = 0;
	reach_progress(worker->reach, (uint64_t)(PROGRESS_STEP * worker->reach->share));
}

static double reach_share(const struct heap *heap)
{
	uint64_t objects = 0;
	for (size_t cell = 0; cell < (heap->slot_count + 63) / 64; cell++)
		objects += (unsigned)__builtin_popcountll(
			heap->cells[cell].used & ~heap->targets.leaves[cell]);
	return (double)((uint64_t)heap->slot_count << heap->unit_bits) /
	       (double)max_u64(objects, 1);
}

// ---- reading

// Read memory, with zeros for what is not there.
static void reach_read(struct reach *reach, uint64_t address, unsigned char *buffer, size_t size)
{
	size_t done = 0;
	while (done < size) {
		const size_t got =
			image_read(reach->image, address + done, buffer + done, size - done);
		done += got;
		if (done == size)
			break;
		const uint64_t page = 4096 - (address + done) % 4096;
		const size_t gap = (size_t)min_u64(page, size - done);
		memset(buffer + done, 0, gap);
		atomic_fetch_add_explicit(&reach->unread, gap, memory_order_relaxed);
		done += gap;
	}
}

// Where what a region has of the current tile begins in its buffer. Regions of smaller units leave
// some of it free behind them.
static size_t tile_base(const struct worker *worker, const struct heap_region *region)
{
	const size_t first = worker->current << TILE_BITS;
	return (size_t)(max_u64(region->slot, first) - first) << worker->reach->heap->unit_bits;
}

// Where a slot of the current tile is in its buffer.
static size_t tile_offset(
	const struct worker *worker, const struct heap_region *region, size_t slot)
{
	const size_t first = (size_t)max_u64(region->slot, worker->current << TILE_BITS);
	return tile_base(worker, region) + ((slot - first) << region->unit_bits);
}

// Read what regions have of the slots from `from` to `to` of the current tile.
static void tile_read(struct worker *worker, size_t from, size_t to)
{
	const struct lookup *lookup = &worker->reach->lookup;
	const struct heap *heap = worker->reach->heap;
	const size_t end = min_u64(to, heap->slot_count);
	const struct heap_region *region = lookup_slot_region(lookup, from, &worker->slot_hint);
	const struct heap_region *last = heap->regions + heap->region_count;
	for (; region < last && region->slot < end; region++) {
		const size_t begin = max_u64(from, region->slot);
		const uint64_t address = region_address(region, begin);
		const uint64_t room = (uint64_t)(end - begin) << region->unit_bits;
		if (address < region->end)
			reach_read(worker->reach, address,
				worker->tile + tile_offset(worker, region, begin),
				(size_t)min_u64(room, region->end - address));
	}
}

size_t tile_end_cell(const struct reach *reach, size_t tile)
{
	return (size_t)min_u64((tile + 1) * TILE_CELLS, (reach->heap->slot_count + 63) / 64);
}

void tile_begin(struct worker *worker, size_t tile)
{
	worker->current = tile;
	worker->reads = 0;
	worker->depth = 0;
}

void tile_load(struct worker *worker)
{
	const size_t first = worker->current << TILE_BITS;
	if (worker->reads == TILE_LOADED)
		return;
	tile_read(worker, first, first + TILE_SLOTS);
	worker->reads = TILE_LOADED;
}

// Make sure that so many bytes of an object are there, which begins in the current tile.
static void tile_need(struct worker *worker, const struct object *object, size_t size)
{
	const unsigned bits = object->region->unit_bits;
	if (worker->reads == TILE_LOADED || size == 0)
		return;
	if (worker->reads++ == TILE_READS)
		tile_load(worker);
	else
		tile_read(worker, object->slot,
			object->slot + ((size + ((size_t)1 << bits) - 1) >> bits));
}

// ---- what becomes of a pointer

// An object is reached.
static void worker_mark(struct worker *worker, const struct candidate *candidate, size_t slot)
{
	(void)candidate;
	struct state *state = &worker->reach->states[slot / 64];
	const uint64_t bit = UINT64_C(1) << (slot % 64);
	if ((atomic_load_explicit(&state->marked, memory_order_relaxed) & bit) != 0 ||
		(atomic_fetch_or_explicit(&state->marked, bit, memory_order_relaxed) & bit) != 0)
		return;
	if (targets_none(&worker->reach->heap->targets, slot))
		return;
	// Each object gets here once, so the stack has room for all of a tile.
	if (slot >> TILE_BITS == worker->current) {
		worker->stack[worker->depth++] = (uint16_t)(slot % TILE_SLOTS);
		return;
	}
	// A thread that takes the tile looks at the bits after that: it sees this one, or the tile
	// waits again.
	atomic_fetch_or(&state->pending, bit);
	queue_add(&worker->reach->queue, slot >> TILE_BITS);
}

// A lost object points at an object.
static void worker_link(struct worker *worker, const struct candidate *candidate, size_t slot)
{
	struct state *state = &worker->reach->states[slot / 64];
	const uint64_t bit = UINT64_C(1) << (slot % 64);
	if (candidate->source != slot &&
		(atomic_load_explicit(&state->marked, memory_order_relaxed) & bit) == 0 &&
		(atomic_load_explicit(&state->pending, memory_order_relaxed) & bit) == 0)
		atomic_fetch_or_explicit(&state->pending, bit, memory_order_relaxed);
}

// Look up the pointers that were collected.
void worker_flush(struct worker *worker)
{
	const struct reach *reach = worker->reach;
	const struct lookup *lookup = &reach->lookup;
	const size_t count = worker->batched;
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		struct candidate *candidate = &worker->batch[i];
		if (!lookup_locate(lookup, candidate->pointer, &worker->hint, &candidate->region,
			    &candidate->slot))
			continue;
		__builtin_prefetch(&reach->heap->cells[candidate->slot / 64]);
		__builtin_prefetch(&reach->states[candidate->slot / 64]);
		__builtin_prefetch(&reach->heap->targets.leaves[candidate->slot / 64]);
		worker->batch[kept++] = *candidate;
	}
	worker->batched = 0;
	for (size_t i = 0; i < kept; i++) {
		const struct candidate *candidate = &worker->batch[i];
		size_t slot;
		if (!lookup_resolve(lookup, candidate->pointer, candidate->region, candidate->slot,
			    &slot) ||
			(reach->options.exact && !exact_points(&reach->exact, candidate->pointer,
							 region_address(candidate->region, slot))))
			continue;
		worker->take(worker, candidate, slot);
	}
}

// ---- words

// From so many words on they are looked at in one go.
#define MARKED_MIN 64

static inline void worker_scan_word(struct worker *worker, uint64_t value, uint64_t where)
{
	worker->batch[worker->batched++] =
		(struct candidate){.pointer = value, .source = worker->source, .where = where};
	if (worker->batched == BATCH)
		worker_flush(worker);
}

static inline void worker_scan_as(struct worker *worker, const unsigned char *bytes, size_t count,
	unsigned word, enum byte_order order)
{
	const struct pointers *pointers = &worker->reach->pointers;
	const uint64_t mask = pointers->mask;
	if (count < MARKED_MIN) {
		for (size_t i = 0; i < count; i++) {
			const uint64_t value = word_load(bytes + i * word, word, order) & mask;
			if (pointers_have(pointers, value))
				worker_scan_word(worker, value, worker->where + i * word);
		}
		return;
	}
	worker->reach->mark(pointers, bytes, count, worker->marks);
	for (size_t i = 0; i < (count + 63) / 64; i++)
		for (uint64_t bits = worker->marks[i]; bits != 0; bits &= bits - 1) {
			const size_t at = (i * 64 + (unsigned)__builtin_ctzll(bits)) * word;
			worker_scan_word(worker, word_load(bytes + at, word, order) & mask,
				worker->where + at);
		}
}

// Look at all words, which are no more than those of a piece.
void worker_scan(struct worker *worker, const unsigned char *bytes, size_t size)
{
	const struct pointers *pointers = &worker->reach->pointers;
	const size_t count = size / pointers->word;
	// Each with constants of its own.
	if (pointers->word == 8 && pointers->order == ORDER_LITTLE)
		worker_scan_as(worker, bytes, count, 8, ORDER_LITTLE);
	else if (pointers->word == 8)
		worker_scan_as(worker, bytes, count, 8, ORDER_BIG);
	else if (pointers->order == ORDER_LITTLE)
		worker_scan_as(worker, bytes, count, 4, ORDER_LITTLE);
	else
		worker_scan_as(worker, bytes, count, 4, ORDER_BIG);
}

void worker_scan_memory(struct worker *worker, uint64_t address, uint64_t size)
{
	while (size > 0) {
		const size_t piece = (size_t)min_u64(size, PIECE_SIZE);
		reach_read(worker->reach, address, worker->piece, piece);
		worker->where = address;
		worker_scan(worker, worker->piece, piece);
		address += piece;
		size -= piece;
	}
}

struct object worker_object(struct worker *worker, size_t slot)
{
	const struct lookup *lookup = &worker->reach->lookup;
	const struct heap_region *region = lookup_slot_region(lookup, slot, &worker->slot_hint);
	const size_t last = region_end_slot(region);
	const size_t next = lookup_next(lookup, slot, last);
	struct object ret = {.slot = slot, .region = region, .start = region_address(region, slot)};
	const uint64_t end =
		next == last ? region->end + region->lead : region_address(region, next);
	ret.size = end - ret.start;
	ret.limit = next == last ? region->end : end - region->slack;
	return ret;
}

// The beginning of an object, from the current tile; *size: bytes that are there, if they are in
// the tile, but not more than `most`.
const unsigned char *worker_bytes(
	struct worker *worker, const struct object *object, size_t most, size_t *size)
{
	const size_t room = (TILE_SLOTS - object->slot % TILE_SLOTS) << object->region->unit_bits;
	*size = (size_t)min_u64(min_u64(room, most), object->limit - object->start);
	tile_need(worker, object, *size);
	return worker->tile + tile_offset(worker, object->region, object->slot);
}

void worker_scan_object(struct worker *worker, const struct object *object)
{
	size_t size;
	const unsigned char *bytes = worker_bytes(worker, object, SIZE_MAX, &size);
	worker->source = object->slot;
	worker->where = object->start;
	worker_scan(worker, bytes, size);
	worker_scan_memory(worker, object->start + size, object->limit - object->start - size);
}

// ---- marking

// Look at what an object points at, as far as the walk has listed it.
static bool worker_scan_listed(struct worker *worker, size_t slot)
{
	const struct reach *reach = worker->reach;
	const struct heap *heap = reach->heap;
	const uint32_t *target = targets_of(&heap->targets, slot);
	// What is listed is not exact.
	if (target == NULL || reach->options.exact)
		return false;
	for (bool last = false; !last; target++) {
		const size_t to = *target & TARGET_SLOT;
		const struct heap_region *region =
			lookup_slot_region(&reach->lookup, to, &worker->slot_hint);
		const uint64_t late = ((uint64_t)1 << region->unit_bits) - region->slack;
		worker_scan_word(worker,
			region_address(region, to) + ((*target & TARGET_LATE) != 0 ? late : 0), 0);
		last = (*target & TARGET_LAST) != 0;
	}
	return true;
}

static void worker_mark_object(struct worker *worker, size_t slot)
{
	struct reach *reach = worker->reach;
	worker_progress(worker);
	if (worker_scan_listed(worker, slot))
		return;
	struct object object = worker_object(worker, slot);
	const uint64_t tile_limit = object.start + (TILE_SLOTS << object.region->unit_bits);
	// What lies beyond a tile is for all threads.
	if (object.limit > tile_limit && object.limit - tile_limit > LARGE_SIZE &&
		queue_add_large(&reach->queue, tile_limit, object.limit))
		object.limit = tile_limit;
	worker_scan_object(worker, &object);
}

static void worker_mark_tile(struct worker *worker, size_t tile)
{
	struct reach *reach = worker->reach;
	const size_t first = tile * TILE_CELLS;
	const uint64_t *listed = reach->heap->targets.listed;
	size_t reads = 0;
	tile_begin(worker, tile);
	// The lowest comes last on the stack, and so first.
	for (size_t cell = tile_end_cell(reach, tile); cell-- > first;) {
		if (atomic_load(&reach->states[cell].pending) == 0)
			continue;
		uint64_t bits = atomic_exchange(&reach->states[cell].pending, 0);
		reads += (size_t)__builtin_popcountll(bits & ~(listed != NULL ? listed[cell] : 0));
		while (bits != 0) {
			const unsigned bit = 63 - (unsigned)__builtin_clzll(bits);
			bits ^= UINT64_C(1) << bit;
			worker->stack[worker->depth++] = (uint16_t)((cell - first) * 64 + bit);
		}
	}
	if (reads >= TILE_DENSE)
		tile_load(worker);
	while (worker->depth > 0) {
		worker_mark_object(worker, (tile << TILE_BITS) + worker->stack[--worker->depth]);
		if (worker->depth == 0)
			worker_flush(worker);
	}
	worker->current = NO_TILE;
}

const struct root *reach_next_root(struct reach *reach, uint64_t *address, uint64_t *size)
{
	const struct root *found = NULL;
	pthread_mutex_lock(&reach->roots_lock);
	while (found == NULL && reach->root < reach->roots.count) {
		const struct root *root = &reach->roots.list[reach->root];
		*address = root->start + reach->root_at;
		if (*address >= root->end) {
			reach->root++;
			reach->root_at = 0;
			continue;
		}
		// Holes are skipped, in whole words.
		uint64_t end;
		const bool data = image_has_data(reach->image, *address, root->end, &end);
		*size = min_u64(PIECE_SIZE, root->end - *address);
		if (!data && end - *address > PIECE_SIZE)
			*size = (end - *address) & ~(uint64_t)7;
		else
			found = root;
		reach->root_at += *size;
		reach_progress(reach, *size);
	}
	pthread_mutex_unlock(&reach->roots_lock);
	return found;
}

// Of a live process: what roots pointed at before the walk, and what was made since. Where the
// pointers to that are may not have been seen.
static void worker_mark_live(struct worker *worker)
{
	const struct reach *reach = worker->reach;
	const struct heap *heap = reach->heap;
	const struct addresses *early = reach->options.early;
	worker->source = NO_SOURCE;
	for (size_t i = 0; early != NULL && i < early->count; i++)
		worker_scan_word(worker, early->list[i], 0);
	worker_flush(worker);
	for (size_t i = 0; i < heap->young_count; i++) {
		const struct heap_range *young = &heap->young[i];
		const struct heap_region *region = heap_region_at(heap, young->start);
		if (region == NULL)
			continue;
		const size_t end = region_end_slot(region);
		for (size_t slot = region_slot(region, young->start); slot < end; slot++)
			if (heap_is_used(heap, slot))
				worker_mark(worker, NULL, slot);
	}
}

static void worker_mark_all(struct worker *worker)
{
	struct reach *reach = worker->reach;
	uint64_t address, size;
	size_t tile;
	struct part part;
	while (!reach_stopped(reach) && reach_next_root(reach, &address, &size) != NULL)
		worker_scan_memory(worker, address, size);
	worker_flush(worker);
	while (queue_pop(&reach->queue, &worker->hand, &tile, &part)) {
		if (reach_stopped(reach))
			continue;
		if (tile != NO_TILE) {
			worker_mark_tile(worker, tile);
		} else {
			worker_scan_memory(worker, part.start, part.end - part.start);
			worker_flush(worker);
		}
	}
}

// In malloc, which may have been interrupted, there is no pointer to the block yet.
static void worker_scan_headers(struct worker *worker, const unsigned char *bytes, size_t size)
{
	const struct pointers *pointers = &worker->reach->pointers;
	for (size_t i = 0; i + pointers->word <= size; i += pointers->word) {
		const uint64_t block = heap_block_behind(worker->reach->heap,
			word_load(bytes + i, pointers->word, pointers->order) & pointers->mask);
		if (block != 0)
			worker_scan_word(worker, block, worker->where + i);
	}
}

void worker_scan_registers(struct worker *worker, bool tell)
{
	struct reach *reach = worker->reach;
	const struct image_process *process = &image_info(reach->image)->process;
	worker->where = 0;
	for (size_t i = 0; i < process->registers_count; i++) {
		const size_t size =
			image_read_registers(reach->image, i, worker->piece, PIECE_SIZE);
		worker->source = tell ? process->registers[i].thread : NO_SOURCE;
		worker_scan(worker, worker->piece, size);
		worker_scan_headers(worker, worker->piece, size);
	}
	worker_flush(worker);
}

// ---- lost objects

static uint64_t reach_lost_bits(const struct reach *reach, size_t cell)
{
	return reach->heap->cells[cell].used &
	       ~atomic_load_explicit(&reach->states[cell].marked, memory_order_relaxed);
}

// A visitor wants no more of an object than so many bytes.
#define VISIT_SIZE 256

static void worker_visit_object(struct worker *worker, size_t slot, size_t number)
{
	struct reach *reach = worker->reach;
	const struct object object = worker_object(worker, slot);
	const uint64_t length = object.limit - object.start;
	const bool scans = worker->take != NULL && !targets_none(&reach->heap->targets, slot);
	size_t size;
	const unsigned char *bytes =
		worker_bytes(worker, &object, scans ? SIZE_MAX : VISIT_SIZE, &size);
	if (size < min_u64(length, VISIT_SIZE)) {
		// It lies across two tiles.
		bytes = worker->piece;
		size = (size_t)min_u64(length, scans ? PIECE_SIZE : VISIT_SIZE);
		reach_read(reach, object.start, worker->piece, size);
	}
	const uint64_t pending =
		atomic_load_explicit(&reach->states[slot / 64].pending, memory_order_relaxed);
	const struct reach_object visited = {
		.address = object.start,
		.size = object.size,
		.bytes = bytes,
		.available = size,
		.direct = (pending >> (slot % 64) & 1) == 0,
		.number = number,
		.tile = worker->current,
	};
	if (reach->visit != NULL)
		reach->visit(reach->context, worker->number, &visited);
	if (!scans)
		return;
	worker->source = slot;
	worker->where = object.start;
	worker_scan(worker, bytes, size);
	worker_scan_memory(worker, object.start + size, length - size);
}

static size_t tile_lost(const struct reach *reach, size_t tile)
{
	size_t count = 0;
	for (size_t cell = tile * TILE_CELLS; cell < tile_end_cell(reach, tile); cell++)
		if (lookup_has_starts(&reach->lookup, cell))
			count += (size_t)__builtin_popcountll(reach_lost_bits(reach, cell));
	return count;
}

static void worker_visit_tile(struct worker *worker, size_t tile)
{
	const struct reach *reach = worker->reach;
	size_t number = reach->lost_before[tile];
	const size_t count = reach->lost_before[tile + 1] - number;
	tile_begin(worker, tile);
	if (count >= TILE_DENSE)
		tile_load(worker);
	for (size_t cell = tile * TILE_CELLS; count > 0 && cell < tile_end_cell(reach, tile);
		cell++)
		for (uint64_t bits = reach_lost_bits(reach, cell); bits != 0; bits &= bits - 1)
			worker_visit_object(
				worker, cell * 64 + (unsigned)__builtin_ctzll(bits), number++);
	worker->current = NO_TILE;
	reach_progress(reach, TILE_SLOTS << reach->heap->unit_bits);
}

static void worker_visit_all(struct worker *worker)
{
	struct reach *reach = worker->reach;
	size_t tile;
	while ((tile = atomic_fetch_add(&reach->tile, 1)) < reach->tile_count &&
		!reach_stopped(reach))
		worker_visit_tile(worker, tile);
	worker_flush(worker);
}

// ---- threads

static void *worker_run(void *context)
{
	struct worker *worker = context;
	worker->reach->work(worker);
	return NULL;
}

bool worker_init(struct worker *worker, struct reach *reach, unsigned number)
{
	worker->reach = reach;
	worker->number = number;
	worker->current = NO_TILE;
	hand_init(&worker->hand, &reach->queue, number);
	worker->take = reach->take;
	worker->tile = malloc(TILE_SLOTS << reach->heap->unit_bits);
	worker->piece = malloc(PIECE_SIZE);
	worker->stack = malloc(TILE_SLOTS * sizeof *worker->stack);
	worker->marks = calloc(PIECE_SIZE / reach->pointers.word / 64 + 1, sizeof *worker->marks);
	return worker->tile != NULL && worker->piece != NULL && worker->stack != NULL &&
	       worker->marks != NULL;
}

void worker_deinit(struct worker *worker)
{
	free(worker->tile);
	free(worker->piece);
	free(worker->stack);
	free(worker->marks);
}

// Let all threads do the work.
bool reach_work(struct reach *reach, void (*work)(struct worker *worker), struct error *err)
{
	const unsigned threads = reach->options.threads;
	struct worker *workers = calloc(threads, sizeof *workers);
	unsigned running = 1;
	bool ok = workers != NULL;
	reach_progress_begin(reach, reach->root < reach->roots.count);
	reach->work = work;
	for (unsigned i = 0; ok && i < threads; i++)
		ok = worker_init(&workers[i], reach, i);
	queue_begin(&reach->queue);
	if (ok && work == worker_mark_all) {
		worker_scan_registers(&workers[0], false);
		worker_mark_live(&workers[0]);
	}
	// Threads that cannot be had are no error: one is enough.
	for (; ok && running < threads; running++) {
		queue_enter(&reach->queue);
		if (pthread_create(&workers[running].thread, NULL, worker_run, &workers[running]) ==
			0)
			continue;
		queue_leave(&reach->queue);
		break;
	}
	if (ok)
		work(&workers[0]);
	for (unsigned i = 1; ok && i < running; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; workers != NULL && i < threads; i++)
		worker_deinit(&workers[i]);
	free(workers);
	return ok || error_memory(err);
}

bool reach_create(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, const struct reach_options *options,
	struct error *err, struct reach **ret)
{
	struct reach *reach = calloc(1, sizeof *reach);
	if (reach == NULL)
		return error_memory(err);
	reach->image = image;
	reach->heap = heap;
	reach->options = *options;
	reach->tile_count = (heap->slot_count + TILE_SLOTS - 1) / TILE_SLOTS;
	reach->states = huge_reserve(((heap->slot_count + 63) / 64 + 1) * sizeof *reach->states);
	reach->lost_before = calloc(reach->tile_count + 1, sizeof *reach->lost_before);
	pthread_mutex_init(&reach->roots_lock, NULL);
	exact_init(&reach->exact, image, modules);
	reach->mark = pointers_mark_for(options->level);
	pointers_init(&reach->pointers, image_info(image), heap);
	reach->take = worker_mark;
	reach->share = reach_share(heap);
	const bool memory = queue_init(&reach->queue, reach->tile_count) && reach->states != NULL &&
			    reach->lost_before != NULL;
	if ((!memory && !error_memory(err)) || !lookup_init(&reach->lookup, heap, err) ||
		!roots_init(image, modules, places, heap, err, &reach->roots) ||
		!reach_work(reach, worker_mark_all, err)) {
		reach_destroy(reach);
		return false;
	}
	reach->take = NULL;
	reach->options.early = NULL;
	reach->lacks_roots = roots_lack(image, modules, places, &reach->roots);
	for (size_t i = 0; i < reach->tile_count; i++)
		reach->lost_before[i + 1] = reach->lost_before[i] + tile_lost(reach, i);
	*ret = reach;
	return true;
}

void reach_destroy(struct reach *reach)
{
	if (reach == NULL)
		return;
	queue_deinit(&reach->queue);
	pthread_mutex_destroy(&reach->roots_lock);
	lookup_deinit(&reach->lookup);
	roots_deinit(&reach->roots);
	free(reach->states);
	free(reach->lost_before);
	free(reach);
}

size_t reach_lost_count(const struct reach *reach)
{
	return reach->lost_before[reach->tile_count];
}

// Of a sixteenth of the heap and 128 MiB the bits take five eighths of the first; threads' buffers
// and what is loaded for names take some of the rest.
size_t reach_quick_max(const struct reach *reach)
{
	const size_t heap = reach->heap->slot_count << reach->heap->unit_bits;
	return (heap / 64 + ((size_t)64 << 20)) / sizeof(uint16_t);
}

size_t reach_tiles(const struct reach *reach)
{
	return reach->tile_count;
}

void reach_each_lost(const struct reach *reach, reach_lost_note *note, void *context)
{
	size_t number = 0;
	for (size_t tile = 0; tile < reach->tile_count; tile++)
		for (size_t cell = tile * TILE_CELLS;
			number < reach->lost_before[tile + 1] && cell < tile_end_cell(reach, tile);
			cell++) {
			const uint64_t linked = atomic_load_explicit(
				&reach->states[cell].pending, memory_order_relaxed);
			for (uint64_t bits = reach_lost_bits(reach, cell); bits != 0;
				bits &= bits - 1)
				note(context, tile, number++, (linked & bits & -bits) == 0);
		}
}

uint64_t reach_unread(const struct reach *reach)
{
	return atomic_load(&reach->unread);
}

uint64_t reach_foreign(const struct reach *reach)
{
	return roots_foreign(reach->image, reach->heap, &reach->roots);
}

bool reach_lacks_roots(const struct reach *reach)
{
	return reach->lacks_roots;
}

bool reach_partial(const struct reach *reach)
{
	return reach_stopped(reach);
}

bool reach_visit_lost(struct reach *reach, reach_visit *visit, void *context, struct error *err)
{
	reach->visit = visit;
	reach->context = context;
	atomic_store(&reach->tile, 0);
	return reach_work(reach, worker_visit_all, err);
}

bool reach_link_lost(struct reach *reach, reach_visit *visit, void *context, struct error *err)
{
	reach->take = worker_link;
	const bool ok = reach_visit_lost(reach, visit, context, err);
	reach->take = NULL;
	return ok;
}

bool reach_list_lost(struct reach *reach, reach_visit *visit, void *context, struct error *err)
{
	const unsigned threads = reach->options.threads;
	reach->options.threads = 1;
	const bool ok = reach_visit_lost(reach, visit, context, err);
	reach->options.threads = threads;
	return ok;
}
