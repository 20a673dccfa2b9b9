// SPDX-License-Identifier: MIT
//
// mimalloc 2.
#pragma once

#include "alloc/slabs.h"
#include "alloc/walker.h"

// Add what it has to slabs. Nothing if there is none. False if memory runs out.
bool mimalloc_walk(const struct walker_input *input, struct slabs *slabs);
