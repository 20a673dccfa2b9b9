// SPDX-License-Identifier: MIT
//
// The size of objects from the distances between neighbours, where no header tells it.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "types/facts.h"

struct distance {
	uint64_t size;	// 0: unknown
	uint64_t agree; // distances that are multiples of it
	uint64_t seen;	// distances in all
};

// From the FACT_DISTANCE facts of one candidate with this other. Objects of one size lie at
// multiples of it; some of their neighbours are of other types, so most distances may well be.
struct distance distance_find(const struct fact *facts, size_t count, uint32_t other);
