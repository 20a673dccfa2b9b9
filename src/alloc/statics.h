// SPDX-License-Identifier: MIT
//
// Static variables that point at memory that is no program's or library's: what an allocator is
// found by.
#pragma once

#include "alloc/pages.h"
#include "alloc/walker.h"

// Calls found for each word at an address in writable data whose value lies in other writable
// memory, in ascending order; module: of one module only, or UINT32_MAX. False as soon as it
// returns false, or if memory runs out.
typedef bool statics_found(void *context, uint64_t at, uint64_t value);
bool statics_each(
	const struct walker_input *input, uint32_t module, statics_found *found, void *context);
