// SPDX-License-Identifier: MIT
//
// Who points at an object: at some of a kind, or the shortest way to one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "graph/reach.h"
#include "graph/roots.h"

// Whether an object is one of those that are asked for. Called as reach_visit.
typedef bool reach_select(void *context, unsigned thread, const struct reach_object *object);

// Select objects in use, lost or not, and find all pointers at them, but for those in themselves.
// *selected, *lost: how many there are, and how many of these are lost. The bits that tell which
// objects are lost directly are used for it.
bool reach_find_holders(struct reach *reach, reach_select *select, reach_hold *hold, void *context,
	struct error *err, uint64_t *selected, uint64_t *lost);

// An object on a way.
struct reach_step {
	uint64_t address; // of the object
	uint64_t size;	  // that it costs, bytes
	bool last;	  // the way ends here
	uint64_t offset;  // of the pointer to the next one; not of the last one
};

// The shortest way from a root to an object.
struct reach_path {
	bool found; // false: the object is lost
	// What holds the first object: a root and the address of the pointer in it, or, if root is
	// NULL, a register of a thread.
	const struct root *root;
	uint64_t where;	       // address
	uint32_t thread;       // index
	struct search *search; // owned
};

// Find it for the object that address lies in. False also if it lies in none that is in use. Takes
// four bytes for each object in use. *ret is the caller's, to be released with reach_path_deinit,
// before reach.
bool reach_path_init(
	struct reach *reach, uint64_t address, struct error *err, struct reach_path *ret);
void reach_path_deinit(struct reach_path *path);
// The next object on the way, from what the root holds to the one asked for. False: there are no
// more.
bool reach_path_next(struct reach_path *path, struct reach_step *ret);
