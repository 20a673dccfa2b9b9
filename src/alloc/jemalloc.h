// SPDX-License-Identifier: MIT
//
// jemalloc, 5.0 and later.
#pragma once

#include "alloc/slabs.h"
#include "alloc/walker.h"

// Add what it has to slabs. Nothing if there is none. False if memory slabs out.
bool jemalloc_walk(const struct walker_input *input, struct slabs *slabs);
