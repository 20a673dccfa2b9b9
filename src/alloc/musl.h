// SPDX-License-Identifier: MIT
//
// The malloc of musl, 1.2.1 and later (mallocng).
#pragma once

#include "alloc/slabs.h"
#include "alloc/walker.h"

// Add what it has to slabs. Nothing if there is none. False if memory runs out.
bool musl_walk(const struct walker_input *input, struct slabs *slabs);
