// SPDX-License-Identifier: MIT
//
// The rules of all return addresses that were met, each derived once.
#pragma once

#include "cfi.h"

// False if there is no memory.
bool rules_init(void);

// The rule of a pc. is_exact: pc is the instruction itself, not the one behind a call.
struct rule rule_for(uint64_t pc, bool is_exact);

// Forgets all: modules have gone, and others may come to their place.
void rules_clear(void);
