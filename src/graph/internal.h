// SPDX-License-Identifier: MIT
//
// What the files that follow pointers share; see reach.h.
#pragma once

#include <pthread.h>

#include "alloc/lookup.h"
#include "alloc/pointers.h"
#include "graph/exact.h"
#include "graph/holders.h"
#include "graph/queue.h"
#include "graph/reach.h"
#include "graph/roots.h"

// Units of a tile, as a power of two.
#define TILE_BITS 13
#define TILE_SLOTS ((size_t)1 << TILE_BITS)
#define TILE_CELLS (TILE_SLOTS / 64)
// A tile with so many objects to look at is read at once: that takes as long as some dozens of
// small reads. Of others the objects are read one by one, as long as these are no more than so
// many.
#define TILE_DENSE 16
#define TILE_READS 8
#define TILE_LOADED UINT32_MAX
// What is read at once of roots and large objects.
#define PIECE_SIZE ((size_t)256 * 1024)
// Pointers that are looked up together, so that their cells come from memory at the same time.
#define BATCH 64
// What is scanned is no object.
#define NO_SOURCE SIZE_MAX

struct state {
	_Atomic uint64_t marked;
	// While marking: its words are to be looked at. Later: another lost object points at it.
	_Atomic uint64_t pending;
};

struct worker;
struct candidate;
struct search;

// What becomes of a pointer to the object in use that begins at slot.
typedef void worker_take(struct worker *worker, const struct candidate *candidate, size_t slot);

struct reach {
	const struct image *image;
	const struct heap *heap;
	struct reach_options options;
	struct lookup lookup;
	struct pointers pointers;
	pointers_mark *mark;
	struct roots roots;
	bool lacks_roots;
	struct exact exact;
	struct state *states; // one for each cell; owned
	size_t tile_count;
	struct queue queue;
	pthread_mutex_t roots_lock; // for the next two
	size_t root;		    // that is being scanned
	uint64_t root_at;	    // so many bytes of it have been handed out
	_Atomic size_t tile;	    // the next one, in passes over all of them
	size_t *lost_before;	    // lost objects before each tile; owned
	_Atomic uint64_t unread;
	double share; // bytes of the heap for each object that may point at others
	reach_visit *visit;
	reach_hold *hold;
	reach_select *select;
	_Atomic uint64_t selected, selected_lost;
	void *context;
	void (*work)(struct worker *worker);
	worker_take *take;
};

// A pointer that may point into the heap.
struct candidate {
	uint64_t pointer;
	size_t source;	// the slot of the object it is in
	uint64_t where; // address of it in memory, or offset among the registers
	size_t slot;
	const struct heap_region *region;
};

struct worker {
	struct reach *reach;
	unsigned number;
	unsigned char *tile, *piece; // owned
	uint64_t *marks;	     // of the words of a piece; owned
	uint16_t *stack;	     // slots of the tile that are to be looked at; owned
	size_t depth;
	struct hand hand;
	size_t followed; // objects that reach_progress was not told of
	size_t current;	 // tile; NO_TILE: none
	uint32_t reads;	 // of parts of it; TILE_LOADED: the buffer has all of it
	struct candidate batch[BATCH];
	size_t batched;
	size_t source;
	size_t hint;	  // region of a pointer
	size_t slot_hint; // of a slot
	uint64_t where;	  // address of what is scanned
	worker_take *take;
	struct search *search;		    // see path.c
	const struct root *root;	    // that is scanned; NULL: none
	const struct reach_object *visited; // that is scanned; NULL: none
	pthread_t thread;
};

// An object in memory.
struct object {
	uint64_t start, limit; // addresses of it and behind it
	uint64_t size;	       // bytes that it costs, with what the allocator keeps for it
	size_t slot;
	const struct heap_region *region;
};

bool reach_stopped(const struct reach *reach);
// A pass begins, over the heap and maybe all roots; so many bytes more are done.
void reach_progress_begin(const struct reach *reach, bool roots);
void reach_progress(const struct reach *reach, uint64_t bytes);
// An object that may point at others was looked at, in a pass that follows pointers: how many bytes
// of the heap that takes is not known, but how many such objects there are.
void worker_progress(struct worker *worker);

bool worker_init(struct worker *worker, struct reach *reach, unsigned number);
void worker_deinit(struct worker *worker);
// Let all threads do the work.
bool reach_work(struct reach *reach, void (*work)(struct worker *worker), struct error *err);

// Make a tile the current one, of which nothing is loaded yet; or load all of it.
void tile_begin(struct worker *worker, size_t tile);
void tile_load(struct worker *worker);
size_t tile_end_cell(const struct reach *reach, size_t tile);

struct object worker_object(struct worker *worker, size_t slot);
// The beginning of an object, from the current tile; *size: bytes that are there, if they are in
// the tile, but not more than `most`.
const unsigned char *worker_bytes(
	struct worker *worker, const struct object *object, size_t most, size_t *size);
// Collect the pointers in bytes, which are at worker->where, in an object, or in memory. What was
// collected is taken when there is enough of it, and by worker_flush.
void worker_scan(struct worker *worker, const unsigned char *bytes, size_t size);
void worker_scan_object(struct worker *worker, const struct object *object);
void worker_scan_memory(struct worker *worker, uint64_t address, uint64_t size);
void worker_flush(struct worker *worker);
// The registers of all threads. tell: worker->source becomes the index of each.
void worker_scan_registers(struct worker *worker, bool tell);

// Take the next piece of a root. NULL: there are no more.
const struct root *reach_next_root(struct reach *reach, uint64_t *address, uint64_t *size);
