// SPDX-License-Identifier: MIT
//
// What is kept of each thread: counts that are not passed on yet, and its last stack.
//
// The peak. header.peak_number counts its moves. What a stack had at the peak is what it has now,
// as long as it did not change since; before it changes, that is noted (stack_note_peak). Exact
// with one thread, whose counts are passed on as soon as there is a new peak; several hold back
// 1/2048 of the peak together at most.
#pragma once

#include "base.h"
#include "capture.h"
#include "stacks.h"

#define CHUNKS_AT_HAND 4

struct thread {
	struct record_thread record;	 // must be first
	int64_t live_bytes, live_blocks; // changes that the header does not have yet
	uint64_t allocated;		 // bytes, likewise
	int64_t room;			 // pass them on when live_bytes is more
	uint64_t random;
	uint64_t newest;      // address of the block that was allocated last
	uint64_t now;	      // header.now, when it was looked at
	uint32_t born;	      // the same in units of RECORD_BORN_UNIT
	uint32_t until_clock; // events until the clock is read
	struct {
		uint64_t granule;
		struct record_slot *slots;
	} chunk[CHUNKS_AT_HAND];
	struct thread_frames frames;
};

// Threads that use the recorder.
extern uint32_t threads_running;

void threads_init(void);
// The calling thread's, which is made if there is none; NULL if there is no room.
struct thread *thread_begin(void);
// In the child after fork(): the others are gone, but for what they counted.
void threads_keep_only(struct thread *own);

// Passes a thread's changes of live bytes on to the header.
void thread_pass_on(struct thread *thread);
// Passes a change on to its stack, and empties it.
void change_flush(struct record_change *change);
void change_note_peak(struct record_change *change);
// Before a stack changes: notes what it had at the peak.
void stack_note_peak(struct record_stack *stack);
// Live bytes have changed by these; notes whether that is the peak.
void live_change(int64_t bytes, int64_t blocks);

uint64_t thread_random(struct thread *thread);

void thread_clock(struct thread *thread);

// The thread's changes of a stack, ready to be changed.
static inline struct record_change *thread_change(struct thread *thread, uint32_t stack)
{
	struct record_change *change = &thread->record.changes[stack % RECORD_CHANGES];
	if (UNLIKELY(change->stack != stack)) {
		change_flush(change);
		change->stack = stack;
	}
	if (UNLIKELY(change->peak_number != LOAD(&header->peak_number)))
		change_note_peak(change);
	return change;
}

static inline void thread_event(struct thread *thread)
{
	if (UNLIKELY(!thread->until_clock--) ||
		UNLIKELY(LOAD(&header->now) - thread->now > 50000000))
		thread_clock(thread);
}

static inline void thread_allocated(struct thread *thread, uint32_t stack, uint64_t size)
{
	struct record_change *change = thread_change(thread, stack);
	change->blocks++;
	change->bytes += size;
	if (size > change->largest)
		change->largest = size;
	thread->live_blocks++;
	thread->allocated += size;
	thread->live_bytes += (int64_t)size;
	if (UNLIKELY(thread->live_bytes > thread->room))
		thread_pass_on(thread);
}

static inline void thread_freed(
	struct thread *thread, uint32_t stack, uint64_t size, uint64_t address)
{
	struct record_change *change = thread_change(thread, stack);
	change->freed_blocks++;
	change->freed_bytes += size;
	change->temporary += address == thread->newest;
	thread->live_blocks--;
	thread->live_bytes -= (int64_t)size;
	if (UNLIKELY(thread->live_bytes < -(64 << 10)))
		thread_pass_on(thread);
}
