// SPDX-License-Identifier: MIT
//
// Which objects of a heap a process could still reach, and which are lost.
//
// Two bits for each unit of the heap, beside those that the walker left: an object that is reached
// is marked, and pending until its words have been looked at. Most need no look: the walker has
// noted what they point at (targets.h). The heap is dealt with in tiles of 8,192 units. A tile with
// something pending waits in a queue; a thread takes it and follows all pointers inside of it
// before the next one. What the walker has not noted is read: of a tile with much of it all, of
// others only those objects. So memory does not grow with the depth of what is reached, and a list
// that goes back and forth between tiles costs one read for each of its nodes, no more.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "base/error.h"
#include "image/image.h"
#include "image/module.h"
#include "image/places.h"

struct addresses;

struct reach_options {
	unsigned threads;
	// Only pointers to the beginning of an object count, and to a base class in it, and to the
	// first element of an array behind the number of its elements.
	bool exact;
	enum cpu_level level;	       // that the processor has
	const atomic_int *stop;	       // not zero: give up
	const struct addresses *early; // see roots_read_early; NULL: none
	struct heap_watch watch;
};

struct reach;

// Find out what can be reached from registers, stacks, and all else that is a root. image, modules,
// places and heap must live as long as the result, which is the caller's, to be released with
// reach_destroy.
bool reach_create(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, const struct reach_options *options,
	struct error *err, struct reach **ret);
void reach_destroy(struct reach *reach);

// Bytes of roots and objects that could not be read: what they point to may be taken for lost.
uint64_t reach_unread(const struct reach *reach);
// Bytes of anonymous memory in which nothing lost is found: see roots_foreign.
uint64_t reach_foreign(const struct reach *reach);
// So much that all is reached from is not in the dump: see roots_lack.
bool reach_lacks_roots(const struct reach *reach);
// It was given up.
bool reach_partial(const struct reach *reach);

// An object.
struct reach_object {
	uint64_t address;	    // of its first byte, behind the chunk's header
	uint64_t size;		    // of the chunk, with the header
	const unsigned char *bytes; // its beginning
	size_t available;	    // of these, so many are there
	bool direct;		    // of a lost one: no other lost object points at it
	bool lost;		    // nothing reaches it
	size_t number;		    // 0, 1, 2, ... of lost objects, by address
	size_t tile;		    // of the heap; one thread visits all objects in it
};

// Called by several threads at once, each with its own number below options.threads.
typedef void reach_visit(void *context, unsigned thread, const struct reach_object *object);

// The number of lost objects.
size_t reach_lost_count(const struct reach *reach);

// So many lost objects there may be to keep two bytes for each, within the memory that is allowed.
size_t reach_quick_max(const struct reach *reach);
// The number of tiles.
size_t reach_tiles(const struct reach *reach);

struct root;

// A pointer that was found in an object, or in a root; both NULL: in a register of the thread with
// the index `where`. where: its address. target: of the object it points at, or into.
typedef void reach_hold(void *context, unsigned thread, const struct reach_object *object,
	const struct root *root, uint64_t where, uint64_t target);

// Look at the pointers in all lost objects to find out which of them are lost directly. Each is
// visited, too; what they are is not known yet.
bool reach_link_lost(struct reach *reach, reach_visit *visit, void *context, struct error *err);
// Say of all lost objects, by address, whether they are lost directly, once that is known.
typedef void reach_lost_note(void *context, size_t tile, size_t number, bool direct);
void reach_each_lost(const struct reach *reach, reach_lost_note *note, void *context);
// Visit all lost objects.
bool reach_visit_lost(struct reach *reach, reach_visit *visit, void *context, struct error *err);
// The same, by address, with one thread.
bool reach_list_lost(struct reach *reach, reach_visit *visit, void *context, struct error *err);
