// SPDX-License-Identifier: MIT
#include "threads.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock.h"
#include "memory.h"
#include "sampling.h"

__thread struct local local;
uint32_t threads_running;

#define EVENTS_TO_CLOCK 64
#define HELD_BACK_MOST (64 << 10)

static pthread_key_t key;
static bool has_key;
static uint32_t peak_lock;

// Counters are written by one thread only, or by several at once.
static void count(uint64_t *counter, uint64_t by)
{
	if (LOAD(&threads_running) <= 1)
		STORE(counter, *counter + by);
	else
		ADD(counter, by);
}

static void thread_end(void *ended)
{
	struct thread *thread = ended;
	local.busy = (uintptr_t)__builtin_frame_address(0);
	for (size_t i = 0; i < RECORD_CHANGES; i++)
		change_flush(&thread->record.changes[i]);
	thread_pass_on(thread);
	local.thread = NULL;
	local.left = 0;
	STORE_RELEASE(&thread->record.used, 0);
	ADD(&threads_running, (uint32_t)-1);
	local.busy = 0;
}

void threads_init(void)
{
	has_key = !pthread_key_create(&key, thread_end);
}

static struct thread *entry_take(void)
{
	struct thread *all = memory_start(RECORD_THREADS), *thread = NULL;
	struct record_section *section = memory_section(RECORD_THREADS);
	lock_take(LOCK_THREADS);
	for (uint64_t i = 0; i < section->used && !thread; i++)
		if (!LOAD_ACQUIRE(&all[i].record.used))
			thread = &all[i];
	if (!thread && memory_grow(RECORD_THREADS, section->used + 1)) {
		thread = &all[section->used];
		section->used++;
	}
	if (thread) {
		thread->record.id = (uint32_t)syscall(SYS_gettid);
		STORE_RELEASE(&thread->record.used, 1);
	}
	lock_release(LOCK_THREADS);
	return thread;
}

struct thread *thread_begin(void)
{
	local.busy = (uintptr_t)__builtin_frame_address(0);
	struct thread *thread = entry_take();
	if (thread) {
		thread->frames.count = 0;
		thread->live_bytes = thread->live_blocks = thread->room = 0;
		thread->newest = 0;
		memset(thread->chunk, 0, sizeof thread->chunk);
		thread->random = mix(sampling_seed() + thread->record.id * 0x9e3779b97f4a7c15U) | 1;
		if (ADD(&threads_running, 1) == 2) {
			// The other one may hold back more than it may from now on.
			struct thread *all = memory_start(RECORD_THREADS);
			for (uint64_t i = 0; i < memory_section(RECORD_THREADS)->used; i++)
				STORE(&all[i].room, 0);
		}
		thread_clock(thread);
		local.thread = thread;
		sampling_begin(thread);
		if (has_key)
			pthread_setspecific(key, thread);
	}
	local.busy = 0;
	return thread;
}

void threads_keep_only(struct thread *own)
{
	struct thread *all = memory_start(RECORD_THREADS);
	const uint64_t count_of_all = memory_section(RECORD_THREADS)->used;
	STORE(&threads_running, 1);
	STORE(&peak_lock, 0);
	for (uint64_t t = 0; t < count_of_all; t++) {
		if (&all[t] == own || !all[t].record.used)
			continue;
		for (size_t i = 0; i < RECORD_CHANGES; i++)
			change_flush(&all[t].record.changes[i]);
		thread_pass_on(&all[t]);
		all[t].record.used = 0;
	}
	if (own)
		own->record.id = (uint32_t)syscall(SYS_gettid);
}

void live_change(int64_t bytes, int64_t blocks)
{
	count(&header->live_blocks, (uint64_t)blocks);
	count(&header->live_bytes, (uint64_t)bytes);
	const uint64_t live = LOAD(&header->live_bytes);
	if (live > LOAD(&header->peak_bytes) && live < UINT64_MAX / 2) {
		STORE(&header->peak_bytes, live);
		STORE(&header->peak_time, LOAD(&header->now));
		count(&header->peak_number, 1);
	}
}

void thread_pass_on(struct thread *thread)
{
	live_change(thread->live_bytes, thread->live_blocks);
	count(&header->allocated_bytes, thread->allocated);
	thread->allocated = 0;
	thread->live_bytes = thread->live_blocks = 0;
	const uint64_t live = LOAD(&header->live_bytes), peak = LOAD(&header->peak_bytes);
	const uint32_t running = LOAD(&threads_running);
	int64_t room = peak > live ? (int64_t)(peak - live) : 0;
	if (running > 1)
		room = (int64_t)(peak / 2048 / running);
	thread->room = room < HELD_BACK_MOST ? room : HELD_BACK_MOST;
}

static void peak_lock_take(void)
{
	while (LOAD(&threads_running) > 1 && __atomic_exchange_n(&peak_lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void peak_lock_release(void)
{
	STORE_RELEASE(&peak_lock, 0);
}

// With the peak's lock.
static void peak_note(struct record_stack *stack, uint64_t number)
{
	if (stack->peak_number == number)
		return;
	stack->peak_bytes = stack->bytes - stack->freed_bytes;
	stack->peak_blocks = stack->blocks - stack->freed_blocks;
	stack->peak_number = number;
}

void stack_note_peak(struct record_stack *stack)
{
	const uint64_t number = LOAD(&header->peak_number);
	if (LOAD(&stack->peak_number) == number)
		return;
	peak_lock_take();
	peak_note(stack, number);
	peak_lock_release();
}

static void change_pass_on(struct record_change *change, struct record_stack *stack)
{
	if (change->blocks) {
		count(&stack->blocks, change->blocks);
		count(&stack->bytes, change->bytes);
		STORE(&stack->last, LOAD(&header->now));
		if (change->largest > LOAD(&stack->largest))
			STORE(&stack->largest, change->largest);
	}
	if (change->freed_blocks) {
		count(&stack->freed_blocks, change->freed_blocks);
		count(&stack->freed_bytes, change->freed_bytes);
	}
	if (change->temporary)
		count(&stack->temporary, change->temporary);
	const uint64_t number = change->peak_number;
	*change = (struct record_change){.stack = change->stack, .peak_number = number};
}

void change_note_peak(struct record_change *change)
{
	const uint64_t number = LOAD(&header->peak_number);
	struct record_stack *stack = &stacks[change->stack];
	peak_lock_take();
	peak_note(stack, number);
	// What the thread has held back since before the peak was in use there.
	count(&stack->peak_bytes, change->bytes - change->freed_bytes);
	count(&stack->peak_blocks, (uint64_t)change->blocks - change->freed_blocks);
	change_pass_on(change, stack);
	change->peak_number = number;
	peak_lock_release();
}

void change_flush(struct record_change *change)
{
	if (!change->stack)
		return;
	struct record_stack *stack = &stacks[change->stack];
	if (change->peak_number != LOAD(&header->peak_number)) {
		change_note_peak(change);
	} else {
		stack_note_peak(stack);
		change_pass_on(change, stack);
	}
	change->stack = 0;
}

uint64_t thread_random(struct thread *thread)
{
	uint64_t random = thread->random;
	random ^= random << 13;
	random ^= random >> 7;
	random ^= random << 17;
	return thread->random = random;
}

void thread_clock(struct thread *thread)
{
	thread->now = memory_now_about();
	thread->until_clock = EVENTS_TO_CLOCK;
	const uint64_t born = thread->now / (RECORD_BORN_UNIT * 1000000ULL);
	thread->born = born < (1U << 26) ? (uint32_t)born : (1U << 26) - 1;
}
