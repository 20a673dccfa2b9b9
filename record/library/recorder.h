// SPDX-License-Identifier: MIT
//
// What is done with an allocation: the way of the hooks that is not the quick one.
#pragma once

#include "base.h"
#include "capture.h"

struct allocator;

// Sets everything up at the first call; does nothing while that goes on.
void recorder_init(void);

// A free() of an address looks closer if (address & recorder_free_mask) is at most this: sampled
// blocks begin at a page, or as far behind it as the header of a mapped block of glibc.
#define MARK_MOST 0x10U
extern uintptr_t recorder_free_mask;

static inline bool is_marked(const void *block)
{
	return ((uintptr_t)block & (PAGE - 1)) <= MARK_MOST;
}

// Enters the recorder: NULL if the thread is in it already or nothing is recorded. Leave it again.
struct thread *recorder_enter(void);
static inline void recorder_leave(void)
{
	local.busy = 0;
}

// An allocation of size bytes, for which local.left was too little.
// alignment: 0 if any will do.
void *recorder_allocate(const struct allocator *allocator, size_t alignment, size_t size, bool zero,
	struct cursor from);
void *recorder_reallocate(
	const struct allocator *allocator, void *old, size_t size, struct cursor from);
void recorder_free(const struct allocator *allocator, void *block);

// Notes a block, or the end of it, from anywhere but an allocator; from inside the recorder.
void recorder_note(
	struct thread *thread, uint64_t address, uint64_t size, uint32_t flags, struct cursor from);
bool recorder_forget(struct thread *thread, uint64_t address, struct record_block *ret);
