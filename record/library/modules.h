// SPDX-License-Identifier: MIT
//
// The programs and shared objects that stacks lead through, as RECORD_MODULES has them, and what is
// needed to unwind in them. They are added when they are first met, never through a lock of the
// dynamic linker where it offers a way without (glibc 2.35).
#pragma once

#include "base.h"

struct unwind_info {
	const uint8_t *eh_frame_hdr; // NULL: none
	const uint8_t *end;	     // of the module's memory
};

// Index plus 1 of the module at pc; 0: none. *ret is filled if there is one. Takes LOCK_MODULES.
uint32_t module_at(uint64_t pc, struct unwind_info *ret);

// After dlclose(): marks what has gone. True if anything has.
bool modules_check(void);

// Counts the ranges that another module took over: stacks through them are other stacks since.
extern uint32_t modules_generation;
