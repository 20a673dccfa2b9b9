// SPDX-License-Identifier: MIT
//
// The allocator of small objects in CPython, 3.7 and later.
#pragma once

#include "alloc/slabs.h"
#include "alloc/walker.h"

// Add what it has to slabs. Nothing if there is none. False if memory runs out.
bool pymalloc_walk(const struct walker_input *input, struct slabs *slabs);
