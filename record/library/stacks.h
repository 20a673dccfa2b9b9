// SPDX-License-Identifier: MIT
//
// Stacks and the tree of their frames: RECORD_STACKS and RECORD_NODES.
#pragma once

#include "base.h"

struct frame;

// False if there is no memory.
bool stacks_init(void);

// The stack with these frames, the outermost first, and flags (RECORD_STACK_*); added if it is new.
// hash: of the frames. 0: there is no room.
uint32_t stack_for(uint64_t hash, uint32_t flags, const struct frame *frames, uint32_t count);

extern struct record_stack *stacks; // RECORD_STACKS
