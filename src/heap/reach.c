// SPDX-License-Identifier: MIT
#include "heap/reach.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "heap/exact.h"
#include "heap/lookup.h"
#include "heap/roots.h"

// Units of a tile, as a power of two.
#define TILE_BITS 13
#define TILE_SLOTS ((size_t)1 << TILE_BITS)
#define TILE_CELLS (TILE_SLOTS / 64)
// From so many objects on a tile is read at once: a read of a megabyte takes as long as some dozens
// of small ones.
#define TILE_DENSE 32
// What is read at once of roots and large objects.
#define PIECE_SIZE ((size_t)256 * 1024)
// Pointers that are looked up together, so that their cells come from memory at the same time.
#define BATCH 64
#define NO_TILE SIZE_MAX

struct state {
	_Atomic uint64_t marked;
	// While marking: its words are to be looked at. Later: another lost object points at it.
	_Atomic uint64_t pending;
};

// Tiles that have something pending, each at most once.
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t *ring; // owned
	size_t first, count, capacity;
	unsigned active; // threads that may add more
	bool done;
};

struct worker;

struct reach {
	const struct image *image;
	const struct heap *heap;
	struct reach_options options;
	struct lookup lookup;
	struct roots roots;
	struct exact exact;
	struct state *states; // one for each cell; owned
	size_t tile_count;
	_Atomic bool *queued; // for each tile; owned
	struct queue queue;
	pthread_mutex_t roots_lock; // for the next two
	size_t root;		    // that is being scanned
	uint64_t root_at;	    // so many bytes of it have been handed out
	_Atomic size_t tile;	    // the next one, in passes over all of them
	_Atomic uint64_t unread;
	reach_visit *visit;
	void *context;
	void (*work)(struct worker *worker);
	bool linking;
};

// A pointer that may point into the heap.
struct candidate {
	uint64_t pointer;
	size_t source; // the slot of the object it is in
	size_t slot;
	const struct heap_region *region;
};

struct worker {
	struct reach *reach;
	unsigned number;
	unsigned char *tile, *piece; // owned
	uint16_t *stack;	     // slots of the tile that are to be looked at; owned
	size_t depth;
	size_t current; // tile; NO_TILE: none
	bool loaded;	// the buffer has it
	struct candidate batch[BATCH];
	size_t batched;
	size_t source;
	size_t hint; // region
	bool linking;
	pthread_t thread;
};

static bool reach_stopped(const struct reach *reach)
{
	return reach->options.stop != NULL && atomic_load(reach->options.stop) != 0;
}

static void reach_progress(const struct reach *reach, uint64_t bytes)
{
	if (reach->options.watch.add != NULL)
		reach->options.watch.add(reach->options.watch.context, bytes);
}

// ---- reading

// Read memory, with zeros for what is not there.
static void reach_read(struct reach *reach, uint64_t address, unsigned char *buffer, size_t size)
{
	size_t done = 0;
	while (done < size) {
		const size_t got = image_read(reach->image, address + done, buffer + done, size - done);
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

// Read the parts of regions that are in the current tile.
static void tile_load(struct worker *worker)
{
	const struct lookup *lookup = &worker->reach->lookup;
	const struct heap *heap = worker->reach->heap;
	const size_t first = worker->current << TILE_BITS;
	const size_t end = min_u64(first + TILE_SLOTS, heap->slot_count);
	const struct heap_region *region = lookup_slot_region(lookup, first);
	const struct heap_region *last = heap->regions + heap->region_count;
	for (; region < last && region->slot < end; region++) {
		const size_t from = max_u64(first, region->slot);
		const uint64_t address = lookup_address(lookup, region, from);
		const uint64_t room = (uint64_t)(end - from) << lookup->unit_bits;
		if (address < region->end)
			reach_read(worker->reach, address,
				worker->tile + ((from - first) << lookup->unit_bits),
				(size_t)min_u64(room, region->end - address));
	}
	worker->loaded = true;
	reach_progress(worker->reach, TILE_SLOTS << lookup->unit_bits);
}

// ---- what becomes of a pointer

static bool queue_init(struct queue *queue, size_t capacity)
{
	queue->ring = calloc(capacity + 1, sizeof *queue->ring);
	queue->capacity = capacity;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
	return queue->ring != NULL;
}

static void queue_deinit(struct queue *queue)
{
	free(queue->ring);
	pthread_mutex_destroy(&queue->lock);
	pthread_cond_destroy(&queue->changed);
}

static void queue_push(struct queue *queue, size_t tile)
{
	pthread_mutex_lock(&queue->lock);
	queue->ring[(queue->first + queue->count++) % queue->capacity] = tile;
	pthread_cond_signal(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

// Take the next tile, when the last one is done. False if there will be none.
static bool queue_pop(struct queue *queue, size_t *ret)
{
	bool more = false;
	pthread_mutex_lock(&queue->lock);
	queue->active--;
	while (queue->count == 0 && queue->active > 0 && !queue->done)
		pthread_cond_wait(&queue->changed, &queue->lock);
	if (queue->count > 0 && !queue->done) {
		*ret = queue->ring[queue->first];
		queue->first = (queue->first + 1) % queue->capacity;
		queue->count--;
		queue->active++;
		more = true;
	} else {
		queue->done = true;
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return more;
}

// Another thread that takes the tile clears `queued` before it looks for what is pending: either it
// sees this object, or this thread sees that it must queue the tile again.
static void reach_postpone(struct reach *reach, size_t slot)
{
	const size_t tile = slot >> TILE_BITS;
	atomic_fetch_or(&reach->states[slot / 64].pending, UINT64_C(1) << (slot % 64));
	if (!atomic_load(&reach->queued[tile]) && !atomic_exchange(&reach->queued[tile], true))
		queue_push(&reach->queue, tile);
}

// An object is reached.
static void worker_mark(struct worker *worker, size_t slot)
{
	struct state *state = &worker->reach->states[slot / 64];
	const uint64_t bit = UINT64_C(1) << (slot % 64);
	if ((atomic_load_explicit(&state->marked, memory_order_relaxed) & bit) != 0 ||
		(atomic_fetch_or_explicit(&state->marked, bit, memory_order_relaxed) & bit) != 0)
		return;
	// Each object gets here once, so the stack has room for all of a tile.
	if (slot >> TILE_BITS == worker->current)
		worker->stack[worker->depth++] = (uint16_t)(slot % TILE_SLOTS);
	else
		reach_postpone(worker->reach, slot);
}

// A lost object points at an object.
static void worker_link(struct worker *worker, size_t source, size_t slot)
{
	struct state *state = &worker->reach->states[slot / 64];
	const uint64_t bit = UINT64_C(1) << (slot % 64);
	if (source != slot && (atomic_load_explicit(&state->marked, memory_order_relaxed) & bit) == 0 &&
		(atomic_load_explicit(&state->pending, memory_order_relaxed) & bit) == 0)
		atomic_fetch_or_explicit(&state->pending, bit, memory_order_relaxed);
}

// Look up the pointers that were collected.
static void worker_flush(struct worker *worker)
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
		worker->batch[kept++] = *candidate;
	}
	worker->batched = 0;
	for (size_t i = 0; i < kept; i++) {
		const struct candidate *candidate = &worker->batch[i];
		size_t slot;
		if (!lookup_resolve(lookup, candidate->pointer, candidate->region, candidate->slot,
			    &slot) ||
			(reach->options.exact &&
				!exact_points(&reach->exact, candidate->pointer,
					lookup_address(lookup, candidate->region, slot) +
						reach->heap->header)))
			continue;
		if (worker->linking)
			worker_link(worker, candidate->source, slot);
		else
			worker_mark(worker, slot);
	}
}

// ---- words

static inline void worker_scan_as(struct worker *worker, const unsigned char *bytes, size_t size,
	unsigned word, enum byte_order order)
{
	const uint64_t mask = worker->reach->options.mask;
	const struct extent a = worker->reach->lookup.extents[0],
			    b = worker->reach->lookup.extents[1];
	for (size_t at = 0; at + word <= size; at += word) {
		const uint64_t value = word_load(bytes + at, word, order) & mask;
		if (value - a.start >= a.size && value - b.start >= b.size)
			continue;
		worker->batch[worker->batched++] =
			(struct candidate){.pointer = value, .source = worker->source};
		if (worker->batched == BATCH)
			worker_flush(worker);
	}
}

// Look at all words.
static void worker_scan(struct worker *worker, const unsigned char *bytes, size_t size)
{
	const struct image_info *info = image_info(worker->reach->image);
	// Each with constants of its own.
	if (info->word_size == 8 && info->order == ORDER_LITTLE)
		worker_scan_as(worker, bytes, size, 8, ORDER_LITTLE);
	else if (info->word_size == 8)
		worker_scan_as(worker, bytes, size, 8, ORDER_BIG);
	else if (info->order == ORDER_LITTLE)
		worker_scan_as(worker, bytes, size, 4, ORDER_LITTLE);
	else
		worker_scan_as(worker, bytes, size, 4, ORDER_BIG);
}

static void worker_scan_memory(struct worker *worker, uint64_t address, uint64_t size)
{
	while (size > 0) {
		const size_t piece = (size_t)min_u64(size, PIECE_SIZE);
		reach_read(worker->reach, address, worker->piece, piece);
		worker_scan(worker, worker->piece, piece);
		address += piece;
		size -= piece;
	}
}

// An object in memory.
struct object {
	uint64_t chunk, end;   // addresses of the chunk and behind it
	uint64_t start, limit; // of the object and behind it
	size_t slot;
};

static struct object worker_object(const struct worker *worker, size_t slot)
{
	const struct lookup *lookup = &worker->reach->lookup;
	const struct heap *heap = worker->reach->heap;
	const struct heap_region *region = lookup_slot_region(lookup, slot);
	const size_t last = lookup_region_end(lookup, region);
	const size_t next = lookup_next(lookup, slot, last);
	struct object ret = {.slot = slot};
	ret.chunk = lookup_address(lookup, region, slot);
	ret.end = next == last ? region->end : lookup_address(lookup, region, next);
	ret.start = ret.chunk + heap->header;
	ret.limit = region->kind == HEAP_MAPPED
			    ? ret.end
			    : min_u64(ret.end + lookup->word, region->end);
	if (ret.limit < ret.start)
		ret.limit = ret.start;
	return ret;
}

// The beginning of an object in the loaded tile; *size: bytes that are there.
static const unsigned char *worker_loaded(
	const struct worker *worker, const struct object *object, size_t *size)
{
	const unsigned bits = worker->reach->lookup.unit_bits;
	const size_t at = ((object->slot % TILE_SLOTS) << bits) + worker->reach->heap->header;
	const size_t room = TILE_SLOTS << bits;
	*size = at < room ? (size_t)min_u64(room - at, object->limit - object->start) : 0;
	return worker->tile + at;
}

static void worker_scan_object(struct worker *worker, const struct object *object)
{
	size_t size = 0;
	if (worker->loaded) {
		const unsigned char *bytes = worker_loaded(worker, object, &size);
		worker_scan(worker, bytes, size);
	}
	worker_scan_memory(
		worker, object->start + size, object->limit - object->start - size);
}

// ---- marking

static void worker_do_tile(struct worker *worker, size_t tile)
{
	struct reach *reach = worker->reach;
	const size_t first = tile * TILE_CELLS;
	const size_t end = min_u64(first + TILE_CELLS, (reach->heap->slot_count + 63) / 64);
	worker->current = tile;
	worker->loaded = false;
	worker->depth = 0;
	atomic_store(&reach->queued[tile], false);
	// The lowest comes last on the stack, and so first.
	for (size_t cell = end; cell-- > first;) {
		if (atomic_load(&reach->states[cell].pending) == 0)
			continue;
		uint64_t bits = atomic_exchange(&reach->states[cell].pending, 0);
		while (bits != 0) {
			const unsigned bit = 63 - (unsigned)__builtin_clzll(bits);
			bits ^= UINT64_C(1) << bit;
			worker->stack[worker->depth++] = (uint16_t)((cell - first) * 64 + bit);
		}
	}
	if (worker->depth >= TILE_DENSE)
		tile_load(worker);
	for (size_t done = 0; worker->depth > 0; done++) {
		if (done == TILE_DENSE && !worker->loaded)
			tile_load(worker);
		const size_t slot = (tile << TILE_BITS) + worker->stack[--worker->depth];
		const struct object object = worker_object(worker, slot);
		worker_scan_object(worker, &object);
		if (worker->depth == 0)
			worker_flush(worker);
	}
	worker->current = NO_TILE;
}

// Take the next piece of a root.
static bool reach_next_root(struct reach *reach, uint64_t *address, uint64_t *size)
{
	bool more = false;
	pthread_mutex_lock(&reach->roots_lock);
	while (!more && reach->root < reach->roots.count) {
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
		if (!data && end - *address > PIECE_SIZE) {
			*size = (end - *address) & ~(uint64_t)7;
			reach->root_at += *size;
			continue;
		}
		reach->root_at += *size;
		more = true;
	}
	pthread_mutex_unlock(&reach->roots_lock);
	return more;
}

static void worker_mark_all(struct worker *worker)
{
	struct reach *reach = worker->reach;
	uint64_t address, size;
	size_t tile;
	while (!reach_stopped(reach) && reach_next_root(reach, &address, &size))
		worker_scan_memory(worker, address, size);
	worker_flush(worker);
	while (queue_pop(&reach->queue, &tile))
		if (!reach_stopped(reach))
			worker_do_tile(worker, tile);
}

// Registers are few: one thread looks at all of them.
static void worker_mark_registers(struct worker *worker)
{
	struct reach *reach = worker->reach;
	const struct image_process *process = &image_info(reach->image)->process;
	for (size_t i = 0; i < process->registers_count; i++) {
		const size_t size =
			image_read_registers(reach->image, i, worker->piece, PIECE_SIZE);
		worker_scan(worker, worker->piece, size);
	}
	worker_flush(worker);
}

// ---- lost objects

static uint64_t reach_lost_bits(const struct reach *reach, size_t cell)
{
	return reach->heap->cells[cell].used &
	       ~atomic_load_explicit(&reach->states[cell].marked, memory_order_relaxed);
}

static void worker_visit_object(struct worker *worker, size_t slot)
{
	struct reach *reach = worker->reach;
	const struct object object = worker_object(worker, slot);
	const uint64_t length = object.limit - object.start;
	size_t size = 0;
	const unsigned char *bytes = worker->piece;
	if (worker->loaded)
		bytes = worker_loaded(worker, &object, &size);
	// A visitor wants no more than the beginning.
	if (size < min_u64(length, 256)) {
		bytes = worker->piece;
		size = (size_t)min_u64(length, worker->linking ? PIECE_SIZE : 256);
		reach_read(reach, object.start, worker->piece, size);
	}
	const uint64_t pending = atomic_load_explicit(
		&reach->states[slot / 64].pending, memory_order_relaxed);
	const struct reach_object visited = {
		.address = object.start,
		.size = object.end - object.chunk,
		.bytes = bytes,
		.available = size,
		.direct = (pending >> (slot % 64) & 1) == 0,
	};
	if (reach->visit != NULL)
		reach->visit(reach->context, worker->number, &visited);
	if (!worker->linking)
		return;
	worker->source = slot;
	worker_scan(worker, bytes, size);
	worker_scan_memory(worker, object.start + size, length - size);
}

static void worker_visit_tile(struct worker *worker, size_t tile)
{
	const struct reach *reach = worker->reach;
	const size_t first = tile * TILE_CELLS;
	const size_t end = min_u64(first + TILE_CELLS, (reach->heap->slot_count + 63) / 64);
	size_t count = 0;
	for (size_t cell = first; cell < end; cell++)
		count += (size_t)__builtin_popcountll(reach_lost_bits(reach, cell));
	worker->current = tile;
	worker->loaded = false;
	if (count >= TILE_DENSE)
		tile_load(worker);
	else
		reach_progress(reach, TILE_SLOTS << reach->lookup.unit_bits);
	for (size_t cell = first; count > 0 && cell < end; cell++)
		for (uint64_t bits = reach_lost_bits(reach, cell); bits != 0; bits &= bits - 1)
			worker_visit_object(
				worker, cell * 64 + (unsigned)__builtin_ctzll(bits));
	worker->current = NO_TILE;
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

static bool worker_init(struct worker *worker, struct reach *reach, unsigned number)
{
	worker->reach = reach;
	worker->number = number;
	worker->current = NO_TILE;
	worker->linking = reach->linking;
	worker->tile = malloc(TILE_SLOTS * reach->heap->unit);
	worker->piece = malloc(PIECE_SIZE);
	worker->stack = malloc(TILE_SLOTS * sizeof *worker->stack);
	return worker->tile != NULL && worker->piece != NULL && worker->stack != NULL;
}

static void worker_deinit(struct worker *worker)
{
	free(worker->tile);
	free(worker->piece);
	free(worker->stack);
}

// Let all threads do the work.
static bool reach_work(
	struct reach *reach, void (*work)(struct worker *worker), struct error *err)
{
	const unsigned threads = reach->options.threads;
	struct worker *workers = calloc(threads, sizeof *workers);
	unsigned running = 1;
	bool ok = workers != NULL;
	if (reach->options.watch.begin != NULL)
		reach->options.watch.begin(reach->options.watch.context,
			(uint64_t)reach->heap->slot_count * reach->heap->unit);
	reach->work = work;
	for (unsigned i = 0; ok && i < threads; i++)
		ok = worker_init(&workers[i], reach, i);
	reach->queue.active = 1;
	reach->queue.done = false;
	if (ok && work == worker_mark_all)
		worker_mark_registers(&workers[0]);
	// Threads that cannot be had are no error: one is enough.
	for (; ok && running < threads; running++) {
		pthread_mutex_lock(&reach->queue.lock);
		reach->queue.active++;
		pthread_mutex_unlock(&reach->queue.lock);
		if (pthread_create(&workers[running].thread, NULL, worker_run, &workers[running]) == 0)
			continue;
		pthread_mutex_lock(&reach->queue.lock);
		reach->queue.active--;
		pthread_mutex_unlock(&reach->queue.lock);
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
	reach->states = calloc((heap->slot_count + 63) / 64 + 1, sizeof *reach->states);
	reach->queued = calloc(reach->tile_count + 1, sizeof *reach->queued);
	pthread_mutex_init(&reach->roots_lock, NULL);
	exact_init(&reach->exact, image, modules);
	const bool memory = queue_init(&reach->queue, reach->tile_count + 1) &&
			    reach->states != NULL && reach->queued != NULL;
	if ((!memory && !error_memory(err)) ||
		!lookup_init(&reach->lookup, heap, image_info(image)->word_size, err) ||
		!roots_init(image, modules, places, heap, err, &reach->roots) ||
		!reach_work(reach, worker_mark_all, err)) {
		reach_destroy(reach);
		return false;
	}
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
	free((void *)reach->queued);
	free(reach);
}

uint64_t reach_unread(const struct reach *reach)
{
	return atomic_load(&reach->unread);
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
	reach->linking = true;
	const bool ok = reach_visit_lost(reach, visit, context, err);
	reach->linking = false;
	return ok;
}
