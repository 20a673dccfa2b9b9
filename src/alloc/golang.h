// SPDX-License-Identifier: MIT
//
// The allocator of Go, 1.18 and later.
#pragma once

#include "alloc/slabs.h"
#include "alloc/walker.h"

// Add what it has to slabs. Nothing if there is none. False if memory runs out.
bool golang_walk(const struct walker_input *input, struct slabs *slabs);
