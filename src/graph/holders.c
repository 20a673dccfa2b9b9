// SPDX-License-Identifier: MIT
#include "graph/holders.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "graph/internal.h"

// So much of an object is shown to callers.
#define SHOWN_SIZE 256

static struct reach_object worker_show(const struct worker *worker, const struct object *object,
	const unsigned char *bytes, size_t size)
{
	return (struct reach_object){
		.address = object->start,
		.size = object->size,
		.bytes = bytes,
		.available = size,
		.tile = worker->current,
	};
}

// Call `each` for all objects in use of tiles that no other thread has taken, leaves or not.
static void worker_each(struct worker *worker, bool leaves,
	void (*each)(struct worker *worker, const struct object *object))
{
	struct reach *reach = worker->reach;
	size_t tile;
	while ((tile = atomic_fetch_add(&reach->tile, 1)) < reach->tile_count &&
		!reach_stopped(reach)) {
		size_t cell = tile << TILE_BITS >> 6;
		tile_begin(worker, tile);
		for (; cell < tile_end_cell(reach, tile); cell++)
			for (uint64_t bits = reach->heap->cells[cell].used &
					     ~(leaves ? 0 : reach->heap->targets.leaves[cell]);
				bits != 0; bits &= bits - 1) {
				const struct object object = worker_object(
					worker, cell * 64 + (unsigned)__builtin_ctzll(bits));
				tile_load(worker);
				each(worker, &object);
			}
		worker->current = NO_TILE;
		reach_progress(reach, TILE_SLOTS << reach->heap->unit_bits);
	}
}

// ---- selection

static void object_select(struct worker *worker, const struct object *object)
{
	struct reach *reach = worker->reach;
	unsigned char copy[SHOWN_SIZE];
	size_t size;
	const unsigned char *bytes = worker_bytes(worker, object, SHOWN_SIZE, &size);
	if (size < min_u64(object->limit - object->start, SHOWN_SIZE)) {
		size = image_read(reach->image, object->start, copy,
			(size_t)min_u64(object->limit - object->start, SHOWN_SIZE));
		bytes = copy;
	}
	struct reach_object shown = worker_show(worker, object, bytes, size);
	shown.lost = (atomic_load_explicit(
			      &reach->states[object->slot / 64].marked, memory_order_relaxed) >>
				     (object->slot % 64) &
			     1) == 0;
	if (!reach->select(reach->context, worker->number, &shown))
		return;
	struct state *state = &reach->states[object->slot / 64];
	const uint64_t bit = UINT64_C(1) << (object->slot % 64);
	atomic_fetch_or_explicit(&state->pending, bit, memory_order_relaxed);
	atomic_fetch_add_explicit(&reach->selected, 1, memory_order_relaxed);
	if ((atomic_load_explicit(&state->marked, memory_order_relaxed) & bit) == 0)
		atomic_fetch_add_explicit(&reach->selected_lost, 1, memory_order_relaxed);
}

static void worker_select_all(struct worker *worker)
{
	worker_each(worker, true, object_select);
}

// ---- what points at the selection

static void worker_hold(struct worker *worker, const struct candidate *candidate, size_t slot)
{
	const struct reach *reach = worker->reach;
	const uint64_t pending =
		atomic_load_explicit(&reach->states[slot / 64].pending, memory_order_relaxed);
	if ((pending >> (slot % 64) & 1) == 0 ||
		(worker->visited != NULL && candidate->source == slot))
		return;
	const uint64_t target = region_address(candidate->region, slot);
	const bool is_register = worker->visited == NULL && worker->root == NULL;
	reach->hold(reach->context, worker->number, worker->visited, worker->root,
		is_register ? candidate->source : candidate->where, target);
}

static void object_scan(struct worker *worker, const struct object *object)
{
	unsigned char copy[SHOWN_SIZE];
	size_t size;
	const unsigned char *bytes = worker_bytes(worker, object, SHOWN_SIZE, &size);
	// What follows may use the buffers anew.
	memcpy(copy, bytes, size);
	if (size < min_u64(object->limit - object->start, SHOWN_SIZE))
		size = image_read(worker->reach->image, object->start, copy,
			(size_t)min_u64(object->limit - object->start, SHOWN_SIZE));
	const struct reach_object shown = worker_show(worker, object, copy, size);
	worker->visited = &shown;
	worker_scan_object(worker, object);
	worker_flush(worker);
	worker->visited = NULL;
}

static void worker_hold_all(struct worker *worker)
{
	struct reach *reach = worker->reach;
	uint64_t address, size;
	if (worker->number == 0)
		worker_scan_registers(worker, true);
	while (!reach_stopped(reach) &&
		(worker->root = reach_next_root(reach, &address, &size)) != NULL) {
		worker_scan_memory(worker, address, size);
		worker_flush(worker);
	}
	worker_each(worker, false, object_scan);
}

bool reach_find_holders(struct reach *reach, reach_select *select, reach_hold *hold, void *context,
	struct error *err, uint64_t *selected, uint64_t *lost)
{
	reach->select = select;
	reach->hold = hold;
	reach->context = context;
	reach->take = NULL;
	atomic_store(&reach->tile, 0);
	bool ok = reach_work(reach, worker_select_all, err);
	*selected = atomic_load(&reach->selected);
	*lost = atomic_load(&reach->selected_lost);
	reach->take = worker_hold;
	reach->root = 0;
	reach->root_at = 0;
	atomic_store(&reach->tile, 0);
	ok = ok && reach_work(reach, worker_hold_all, err);
	reach->take = NULL;
	return ok;
}
