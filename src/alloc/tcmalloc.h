// SPDX-License-Identifier: MIT
//
// tcmalloc of gperftools, 2.7 and later.
#pragma once

#include "alloc/slabs.h"
#include "alloc/walker.h"

// Add what it has to slabs. Nothing if there is none. False if memory runs out.
bool tcmalloc_walk(const struct walker_input *input, struct slabs *slabs);
