// SPDX-License-Identifier: MIT
//
// --guard: some sampled blocks end (or begin) at a page that cannot be touched, and stay unmapped
// for a while after they are freed. What touches them stops there, and is told.
#pragma once

#include "base.h"

struct settings;
struct thread;

void guard_init(const struct settings *settings);

// A guarded block; NULL if this one is not to be guarded.
void *guard_allocate(struct thread *thread, size_t alignment, size_t size, uint32_t stack);
bool guard_owns(const void *block);
// What was asked for.
size_t guard_size(const void *block);
// True if it was one. Stops the program if it was freed before.
bool guard_free(void *block);
