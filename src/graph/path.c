// SPDX-License-Identifier: MIT
//
// The shortest way to an object: breadth first from all roots, level by level, by one thread. Of
// each object in use the one that it was first reached from is kept, by its number among all of
// them.
#include <inttypes.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "graph/holders.h"
#include "graph/internal.h"

// Of an object that a root holds.
#define NO_PARENT UINT32_MAX
// More objects than this cannot be numbered.
#define OBJECTS_MAX ((uint64_t)UINT32_MAX - 1)

// Tiles of a level.
struct level {
	size_t *tiles; // owned
	size_t count;
	uint64_t *bits; // of objects, one for each cell; owned
	bool *queued;	// for each tile; owned
};

struct search {
	struct reach *reach;
	struct worker worker;
	uint32_t *before;  // objects in use before each cell; owned
	uint32_t *parents; // of each object in use; owned
	struct level levels[2];
	struct level *next; // the one that is being filled
	size_t target;
	bool found;
	// While the way is told: the next object, and the pointer that is looked for.
	uint32_t step;
	size_t wanted;
	bool seen;
	uint64_t where;
	size_t source;
};

static uint32_t object_number(const struct search *search, size_t slot)
{
	const uint64_t used = search->reach->heap->cells[slot / 64].used;
	return search->before[slot / 64] +
	       (uint32_t)__builtin_popcountll(used & ((UINT64_C(1) << (slot % 64)) - 1));
}

static size_t object_slot(const struct search *search, uint32_t number)
{
	const struct heap *heap = search->reach->heap;
	size_t low = 0, high = (heap->slot_count + 63) / 64;
	while (high - low > 1) {
		const size_t middle = low + (high - low) / 2;
		if (search->before[middle] <= number)
			low = middle;
		else
			high = middle;
	}
	uint64_t used = heap->cells[low].used;
	for (uint32_t i = search->before[low]; i < number; i++)
		used &= used - 1;
	return low * 64 + (unsigned)__builtin_ctzll(used);
}

static bool search_init(struct search *search, struct reach *reach)
{
	const struct heap *heap = reach->heap;
	const size_t cells = (heap->slot_count + 63) / 64;
	uint64_t count = 0;
	*search = (struct search){.reach = reach};
	search->before = calloc(cells + 1, sizeof *search->before);
	for (size_t i = 0; i < 2; i++) {
		struct level *level = &search->levels[i];
		level->tiles = calloc(reach->tile_count + 1, sizeof *level->tiles);
		level->bits = calloc(cells + 1, sizeof *level->bits);
		level->queued = calloc(reach->tile_count + 1, sizeof *level->queued);
		if (level->tiles == NULL || level->bits == NULL || level->queued == NULL)
			return false;
	}
	if (search->before == NULL)
		return false;
	for (size_t i = 0; i < cells && count <= OBJECTS_MAX; i++) {
		search->before[i] = (uint32_t)count;
		count += (unsigned)__builtin_popcountll(heap->cells[i].used);
	}
	if (count <= OBJECTS_MAX)
		search->parents = malloc((count + 1) * sizeof *search->parents);
	return search->parents != NULL;
}

static void search_deinit(struct search *search)
{
	for (size_t i = 0; i < 2; i++) {
		free(search->levels[i].tiles);
		free(search->levels[i].bits);
		free(search->levels[i].queued);
	}
	free(search->before);
	free(search->parents);
}

// ---- there

static void search_take(struct worker *worker, const struct candidate *candidate, size_t slot)
{
	struct search *search = worker->search;
	struct state *state = &worker->reach->states[slot / 64];
	const uint64_t bit = UINT64_C(1) << (slot % 64);
	const size_t tile = slot >> TILE_BITS;
	// The marks of the first search are bits that this one clears.
	if ((atomic_load_explicit(&state->marked, memory_order_relaxed) & bit) == 0)
		return;
	atomic_fetch_and_explicit(&state->marked, ~bit, memory_order_relaxed);
	search->parents[object_number(search, slot)] =
		candidate->source == NO_SOURCE ? NO_PARENT
					       : object_number(search, candidate->source);
	search->found |= slot == search->target;
	if (targets_none(&worker->reach->heap->targets, slot))
		return;
	search->next->bits[slot / 64] |= bit;
	if (!search->next->queued[tile])
		search->next->tiles[search->next->count++] = tile;
	search->next->queued[tile] = true;
}

static void search_tile(struct worker *worker, struct level *level, size_t tile)
{
	tile_begin(worker, tile);
	level->queued[tile] = false;
	for (size_t cell = tile * TILE_CELLS; cell < tile_end_cell(worker->reach, tile); cell++) {
		uint64_t bits = level->bits[cell];
		level->bits[cell] = 0;
		for (; bits != 0; bits &= bits - 1) {
			const struct object object =
				worker_object(worker, cell * 64 + (unsigned)__builtin_ctzll(bits));
			worker_scan_object(worker, &object);
			worker_progress(worker);
		}
	}
	worker_flush(worker);
	worker->current = NO_TILE;
}

static void search_run(struct worker *worker)
{
	struct search *search = worker->search;
	struct reach *reach = worker->reach;
	uint64_t address, size;
	size_t now = 0;
	search->next = &search->levels[now];
	worker->source = NO_SOURCE;
	worker_scan_registers(worker, false);
	while (!reach_stopped(reach) && reach_next_root(reach, &address, &size) != NULL)
		worker_scan_memory(worker, address, size);
	worker_flush(worker);
	while (!search->found && !reach_stopped(reach) && search->levels[now].count > 0) {
		struct level *level = &search->levels[now];
		now = 1 - now;
		search->next = &search->levels[now];
		for (size_t i = 0; i < level->count; i++)
			search_tile(worker, level, level->tiles[i]);
		level->count = 0;
	}
}

// ---- and back

static void search_look(struct worker *worker, const struct candidate *candidate, size_t slot)
{
	struct search *search = worker->search;
	if (search->seen || slot != search->wanted)
		return;
	search->seen = true;
	search->where = candidate->where;
	search->source = candidate->source;
}

// The offset in an object of the first pointer to the one that begins at slot.
static uint64_t step_offset(struct worker *worker, const struct object *from, size_t slot)
{
	struct search *search = worker->search;
	search->wanted = slot;
	search->seen = false;
	tile_begin(worker, from->slot >> TILE_BITS);
	worker_scan_object(worker, from);
	worker_flush(worker);
	worker->current = NO_TILE;
	return search->where - from->start;
}

// Turn the way around: from now on, parents lead from the first object on it to the target. Returns
// the number of the first one.
static uint32_t path_reverse(struct search *search)
{
	uint32_t now = object_number(search, search->target), after = NO_PARENT;
	for (;;) {
		const uint32_t before = search->parents[now];
		search->parents[now] = after;
		if (before == NO_PARENT)
			return now;
		after = now;
		now = before;
	}
}

bool reach_path_next(struct reach_path *path, struct reach_step *ret)
{
	struct search *search = path->search;
	if (!path->found || search->step == NO_PARENT)
		return false;
	const struct object object =
		worker_object(&search->worker, object_slot(search, search->step));
	search->step = search->parents[search->step];
	*ret = (struct reach_step){
		.address = object.start, .size = object.size, .last = search->step == NO_PARENT};
	if (!ret->last)
		ret->offset =
			step_offset(&search->worker, &object, object_slot(search, search->step));
	return true;
}

// Data of programs tell most, then stacks, then registers.
static void path_tell_root(struct worker *worker, size_t slot, struct reach_path *ret)
{
	static const enum root_type order[] = {ROOT_MODULE, ROOT_STACK, ROOT_MEMORY, ROOT_HEAP};
	struct search *search = worker->search;
	struct reach *reach = worker->reach;
	search->wanted = slot;
	search->seen = false;
	for (size_t k = 0; k < sizeof order / sizeof *order; k++)
		for (size_t i = 0; i < reach->roots.count; i++) {
			const struct root *root = &reach->roots.list[i];
			if (root->type != order[k])
				continue;
			worker_scan_memory(worker, root->start, root->end - root->start);
			worker_flush(worker);
			if (!search->seen)
				continue;
			ret->root = root;
			ret->where = search->where;
			return;
		}
	worker_scan_registers(worker, true);
	ret->thread = (uint32_t)search->source;
}

static void path_find(struct search *search, struct reach_path *ret)
{
	struct worker *worker = &search->worker;
	worker->take = search_take;
	worker->reach->root = 0;
	worker->reach->root_at = 0;
	search_run(worker);
	ret->found = search->found;
	if (!search->found)
		return;
	worker->take = search_look;
	search->step = path_reverse(search);
	path_tell_root(worker, object_slot(search, search->step), ret);
}

bool reach_path_init(
	struct reach *reach, uint64_t address, struct error *err, struct reach_path *ret)
{
	const struct heap_region *region;
	size_t slot, target, hint = 0;
	*ret = (struct reach_path){0};
	if (!lookup_locate(&reach->lookup, address, &hint, &region, &slot) ||
		!lookup_resolve(&reach->lookup, address, region, slot, &target))
		return error_set(err, "%s: 0x%" PRIx64 " is not in an object in use",
			image_info(reach->image)->path, address);
	struct search *search = calloc(1, sizeof *search);
	if (search == NULL)
		return error_memory(err);
	ret->search = search;
	if (!search_init(search, reach) || !worker_init(&search->worker, reach, 0)) {
		reach_path_deinit(ret);
		return error_memory(err);
	}
	search->target = target;
	search->worker.search = search;
	reach_progress_begin(reach, true);
	path_find(search, ret);
	return true;
}

void reach_path_deinit(struct reach_path *path)
{
	if (path->search != NULL) {
		worker_deinit(&path->search->worker);
		search_deinit(path->search);
		free(path->search);
	}
	*path = (struct reach_path){0};
}
