// SPDX-License-Identifier: MIT
//
// Locks. Signals are blocked while one is held, so that no handler can wait for the thread that it
// interrupts, nor jump out and leave the lock behind. Taken in the order of enum lock only.
#pragma once

enum lock {
	LOCK_THREADS,
	LOCK_MODULES,
	LOCK_STACKS,
	LOCK_BLOCKS,
	LOCK_RULES,
	LOCK_LOG,
	LOCK_GUARD,
	LOCK_MEMORY,
	LOCK_COUNT,
};

void lock_take(enum lock lock);
void lock_release(enum lock lock);

// Around fork(): all of them, and in the child all of them are free.
void lock_take_all(void);
void lock_release_all(void);
