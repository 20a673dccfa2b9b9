// SPDX-License-Identifier: MIT
#include "recorder.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "blocks.h"
#include "chosen.h"
#include "fork.h"
#include "guard.h"
#include "link.h"
#include "lock.h"
#include "log.h"
#include "mappings.h"
#include "memory.h"
#include "modules.h"
#include "real.h"
#include "rules.h"
#include "sampling.h"
#include "settings.h"
#include "shadow.h"
#include "threads.h"

// Sampled blocks of more than this are mapped by glibc, and begin near a page without more ado.
#define MAPPED_LEAST (128U << 10)
// Larger ones are not moved to a page by copying: they are left alone if they are not near one.
#define MOVED_MOST (8U << 20)

uintptr_t recorder_free_mask = PAGE - 1;

static bool is_ready;
static bool all_frees; // recorder_free_mask is 0 from the start

static bool start(const struct settings *settings)
{
	int file = -1;
	if (settings->mode == RECORD_OFF || !memory_create(settings, &file))
		return false;
	if (!stacks_init() || !blocks_init() || !shadow_init() || !rules_init() ||
		!memory_grow(RECORD_THREADS, 1))
		return false;
	capture_init();
	sampling_init(settings);
	chosen_init(settings);
	guard_init(settings);
	log_init(settings);
	mappings_init(settings);
	all_frees = settings->mode == RECORD_FULL || settings->guard || chosen_any;
	if (all_frees)
		recorder_free_mask = 0;
	fork_init();
	memcpy(header->magic, RECORD_MAGIC, sizeof header->magic);
	if (file >= 0)
		link_send(file);
	return true;
}

void recorder_init(void)
{
	static uint32_t begun;
	if (__atomic_exchange_n(&begun, 1, __ATOMIC_ACQ_REL))
		return;
	const uintptr_t busy = local.busy;
	const int error = errno;
	local.busy = (uintptr_t)__builtin_frame_address(0);
	static struct settings settings;
	settings_read(&settings);
	real_find();
	if (start(&settings))
		STORE_RELEASE(&is_ready, true);
	local.busy = busy;
	errno = error;
}

__attribute__((constructor)) static void constructor(void)
{
	recorder_init();
	threads_init();
	fork_watch();
}

// The frame that entered the recorder has gone, by longjmp() out of a handler: we are further out
// on the same stack. With a lock held that cannot be.
static bool is_stale(uintptr_t busy)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	return !local.locks && here > busy && here - busy < 1U << 20;
}

static NOINLINE struct thread *enter_slowly(void)
{
	if (!LOAD_ACQUIRE(&is_ready) || !fork_is_ours())
		return NULL;
	if (local.busy && !is_stale(local.busy))
		return NULL;
	local.busy = 0;
	if (local.thread)
		return local.thread;
	const int error = errno;
	struct thread *thread = thread_begin();
	errno = error;
	return thread;
}

struct thread *recorder_enter(void)
{
	struct thread *thread = local.thread;
	if (UNLIKELY(!thread || local.busy || !fork_is_ours())) {
		thread = enter_slowly();
		if (!thread)
			return NULL;
	}
	local.busy = (uintptr_t)__builtin_frame_address(0);
	thread->record.used = 1;
	thread_event(thread);
	return thread;
}

// Full mode, if the launcher asked for it since.
static void mode_change(void)
{
	const uint32_t mode = LOAD(&header->mode);
	if (mode == RECORD_FULL && recorder_free_mask) {
		recorder_free_mask = 0;
		local.rest = 0;
	}
	if (mode == RECORD_FULL)
		local.left = 0;
}

static struct record_slot *slot_of(struct thread *thread, uint64_t address, bool make)
{
	const uint64_t granule = address >> RECORD_GRANULE_BITS;
	const size_t way = granule % CHUNKS_AT_HAND;
	if (UNLIKELY(thread->chunk[way].granule != granule || !thread->chunk[way].slots)) {
		struct record_slot *slots = shadow_chunk(address, make);
		if (!slots)
			return NULL;
		thread->chunk[way].granule = granule;
		thread->chunk[way].slots = slots;
	}
	return &thread->chunk[way].slots[(address >> 4) % RECORD_SLOTS];
}

static bool slot_clear(
	struct thread *thread, struct record_slot *slot, uint64_t address, struct record_block *ret)
{
	const struct record_slot old = *slot;
	if (!old.stack)
		return false;
	*slot = (struct record_slot){0};
	*ret = (struct record_block){.address = address, .size = old.size, .stack = old.stack};
	thread_freed(thread, old.stack, old.size, address);
	return true;
}

// A block that counts as it is.
static void note_exact(struct thread *thread, uint64_t address, uint64_t size, uint32_t stack)
{
	if (!stack) {
		ADD(&header->blocks_lost, 1);
		ADD(&header->bytes_lost, size);
		return;
	}
	struct record_block old;
	struct record_slot *slot = slot_of(thread, address, true);
	// What was here is not: it was freed where the recorder could not see it.
	if (slot)
		slot_clear(thread, slot, address, &old);
	if (slot && size <= SHADOW_SIZE_MOST) {
		*slot = (struct record_slot){.stack = stack & 0x3fffffU,
			.size = size & 0xffffU,
			.born = thread->born & 0x3ffffffU};
	} else {
		lock_take(LOCK_BLOCKS);
		const bool is_there = block_remove(address, &old),
			   done = block_add(address, size, stack);
		lock_release(LOCK_BLOCKS);
		if (is_there)
			thread_freed(thread, old.stack, old.size, address);
		if (!done) {
			ADD(&header->blocks_lost, 1);
			ADD(&header->bytes_lost, size);
			return;
		}
	}
	thread_allocated(thread, stack, size);
	thread->newest = address;
}

// With LOCK_BLOCKS. by: 1 or -1.
static void sampled_count(uint32_t index, uint64_t size, int by, bool temporary)
{
	struct record_stack *stack = &stacks[index];
	const double weight = sampling_weight(size);
	const uint64_t blocks = (uint64_t)(weight + 0.5),
		       bytes = (uint64_t)(weight * (double)size + 0.5);
	stack_note_peak(stack);
	if (by > 0) {
		ADD(&stack->blocks, blocks);
		ADD(&stack->bytes, bytes);
		if (size > stack->largest)
			stack->largest = size;
		stack->last = header->now;
		ADD(&header->allocated_bytes, bytes);
		live_change((int64_t)bytes, (int64_t)blocks);
	} else {
		ADD(&stack->freed_blocks, blocks);
		ADD(&stack->freed_bytes, bytes);
		if (temporary)
			ADD(&stack->temporary, blocks);
		live_change(-(int64_t)bytes, -(int64_t)blocks);
	}
}

static bool is_sampled(uint32_t stack)
{
	return !(stacks[stack].flags & RECORD_STACK_FULL) && header->sample_mean;
}

static void note_sampled(struct thread *thread, uint64_t address, uint64_t size, uint32_t stack)
{
	memory_now();
	lock_take(LOCK_BLOCKS);
	struct record_block old;
	if (block_remove(address, &old))
		sampled_count(old.stack, old.size, -1, false);
	if (stack && block_add(address, size, stack)) {
		sampled_count(stack, size, 1, false);
		thread->newest = address;
	} else {
		ADD(&header->blocks_lost, 1);
		ADD(&header->bytes_lost, size);
	}
	lock_release(LOCK_BLOCKS);
}

bool recorder_forget(struct thread *thread, uint64_t address, struct record_block *ret)
{
	if (!recorder_free_mask) {
		struct record_slot *slot = slot_of(thread, address, false);
		if (slot && slot_clear(thread, slot, address, ret))
			return true;
	}
	if (!block_may_be(address))
		return false;
	lock_take(LOCK_BLOCKS);
	const bool found = block_remove(address, ret);
	const bool sampled = found && is_sampled(ret->stack);
	if (sampled)
		sampled_count(ret->stack, ret->size, -1, address == thread->newest);
	lock_release(LOCK_BLOCKS);
	if (found && !sampled)
		thread_freed(thread, ret->stack, ret->size, address);
	return found;
}

// The stack, for blocks that count as they are, or as sampled ones.
static uint32_t stack_here(struct thread *thread, struct cursor from, bool exact, uint32_t flags)
{
	capture(&thread->frames, from);
	const uint32_t count = thread->frames.count;
	if (exact && header->sample_mean)
		flags |= RECORD_STACK_FULL;
	return stack_for(count ? thread->frames.frame[count - 1].hash : 0, flags,
		thread->frames.frame, count);
}

void recorder_note(
	struct thread *thread, uint64_t address, uint64_t size, uint32_t flags, struct cursor from)
{
	const uint32_t stack = stack_here(thread, from, true, flags);
	note_exact(thread, address, size, stack);
	log_allocate(thread, stack, size, address);
}

enum choice { CHOICE_NOT, CHOICE_SAMPLE, CHOICE_EXACT };

// Whether a block is recorded, and how. Captures the stack where it is.
static enum choice choose(
	struct thread *thread, size_t size, struct cursor from, uint32_t *ret_stack)
{
	mode_change();
	if (LOAD(&header->mode) == RECORD_FULL) {
		*ret_stack = stack_here(thread, from, true, 0);
		return CHOICE_EXACT;
	}
	bool exact = sampling_is_large(size);
	if (chosen_any && !exact) {
		capture(&thread->frames, from);
		exact = thread->frames.count &&
			thread->frames.frame[thread->frames.count - 1].chosen;
	}
	if (!exact && !sampling_take(thread, size))
		return CHOICE_NOT;
	*ret_stack = stack_here(thread, from, exact, 0);
	return exact ? CHOICE_EXACT : CHOICE_SAMPLE;
}

static void note(
	struct thread *thread, enum choice choice, void *block, size_t size, uint32_t stack)
{
	if (choice == CHOICE_SAMPLE) {
		note_sampled(thread, (uintptr_t)block, size, stack);
	} else {
		note_exact(thread, (uintptr_t)block, size, stack);
		log_allocate(thread, stack, size, (uintptr_t)block);
	}
}

static void *allocate_really(
	const struct allocator *allocator, size_t alignment, size_t size, bool zero)
{
	// Blocks below 16 bytes can be 8 bytes apart: two of them in one slot.
	if (!recorder_free_mask && !real_is_libc && size < 16)
		size = 16;
	if (alignment)
		return allocator->memalign(alignment, size);
	return zero ? allocator->calloc(1, size) : allocator->malloc(size);
}

// A block that free() will look at; NULL if there is none.
static void *allocate_marked(
	const struct allocator *allocator, size_t alignment, size_t size, bool zero)
{
	if (!recorder_free_mask)
		return allocate_really(allocator, alignment, size, zero);
	if (size >= MAPPED_LEAST && alignment <= 16) {
		void *block = allocate_really(allocator, alignment, size, zero);
		if (!block || is_marked(block))
			return block;
		allocator->free(block);
	}
	void *block = allocator->memalign(alignment > PAGE ? alignment : PAGE, size);
	if (block && zero)
		memset(block, 0, size);
	return block;
}

void *recorder_allocate(const struct allocator *allocator, size_t alignment, size_t size, bool zero,
	struct cursor from)
{
	struct thread *thread = recorder_enter();
	if (!thread)
		return allocate_really(allocator, alignment, size, zero);
	uint32_t stack = 0;
	const enum choice choice = choose(thread, size, from, &stack);
	void *block = NULL;
	if (choice == CHOICE_SAMPLE)
		block = guard_allocate(thread, alignment, size, stack);
	if (!block)
		block = choice == CHOICE_NOT ? allocate_really(allocator, alignment, size, zero)
					     : allocate_marked(allocator, alignment, size, zero);
	if (block && choice != CHOICE_NOT)
		note(thread, choice, block, size, stack);
	recorder_leave();
	return block;
}

// realloc() of what was not moved near a page: moves it, so that free() will look at it.
static void *move_marked(const struct allocator *allocator, void *block, size_t size)
{
	if (!recorder_free_mask || is_marked(block) || size > MOVED_MOST)
		return block;
	void *marked = allocator->memalign(PAGE, size);
	if (!marked)
		return block;
	memcpy(marked, block, size);
	allocator->free(block);
	return marked;
}

static void note_again(struct thread *thread, const struct record_block *old)
{
	if (is_sampled(old->stack))
		note_sampled(thread, old->address, old->size, old->stack);
	else
		note_exact(thread, old->address, old->size, old->stack);
}

void *recorder_reallocate(
	const struct allocator *allocator, void *old, size_t size, struct cursor from)
{
	struct thread *thread = recorder_enter();
	if (!thread)
		return allocator->realloc(old, size);
	uint32_t stack = 0;
	struct record_block before;
	// Forgotten first: after it is freed the address can be another thread's.
	const bool known = old && (!recorder_free_mask || is_marked(old)) &&
			   recorder_forget(thread, (uintptr_t)old, &before);
	const enum choice choice = choose(thread, size, from, &stack);
	if (!recorder_free_mask && !real_is_libc && size && size < 16)
		size = 16;
	void *block = allocator->realloc(old, size);
	if (!block && size && known)
		note_again(thread, &before);
	if (block || !size) {
		if (known)
			log_free(thread, (uintptr_t)old);
	}
	if (block && choice != CHOICE_NOT) {
		block = move_marked(allocator, block, size);
		if (!recorder_free_mask || is_marked(block))
			note(thread, choice, block, size, stack);
	}
	recorder_leave();
	return block;
}

void recorder_free(const struct allocator *allocator, void *block)
{
	if (recorder_free_mask && !block_may_be((uintptr_t)block)) {
		allocator->free(block);
		return;
	}
	struct thread *thread = recorder_enter();
	if (thread) {
		struct record_block old;
		if (recorder_forget(thread, (uintptr_t)block, &old))
			log_free(thread, (uintptr_t)block);
		recorder_leave();
	}
	if (!guard_free(block))
		allocator->free(block);
}
