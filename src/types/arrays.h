// SPDX-License-Identifier: MIT
//
// Arrays outside of known chunks, by the runs of their elements and the sizes that the allocator
// has: what is left over at the end of an array's block cannot be seen, but follows from the sizes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "types/facts.h"
#include "types/sizeclass.h"

struct arrays {
	uint64_t elements; // in arrays
	uint64_t bytes;	   // that their blocks take
};

// From the FACT_RUN facts of one candidate; size: of an element, or of a single object. An array is
//  - what its number of elements stands before,
//  - all runs, if the allocator has no blocks of this size, so that single objects have another
//    distance,
//  - else runs that, rounded up, end before the next object, if nearly all do, and if they are
//  long:
//    single objects with free places among them do not.
struct arrays arrays_find(
	const struct size_classes *classes, const struct fact *facts, size_t count, uint64_t size);
