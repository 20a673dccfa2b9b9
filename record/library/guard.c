// SPDX-License-Identifier: MIT
//
// The pool: SLOTS pages for one block each, with pages between them that are never accessible. What
// a block leaves of its page is filled, and looked at when it is freed: an access that stays in the
// page is found then.
#include "guard.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "lock.h"
#include "memory.h"
#include "modules.h"
#include "recorder.h"
#include "settings.h"
#include "threads.h"

#define SLOTS 512U
#define FILL 0xa5
#define FRAMES 32U

enum state { STATE_EMPTY, STATE_USED, STATE_FREED };

struct slot {
	char *block;
	size_t size;
	enum state state;
	uint32_t allocated; // its stack
	uint32_t freed_count;
	uint64_t freed[FRAMES]; // pcs, the innermost first
};

static char *pool; // NULL: no block is guarded
static struct slot *slots;
static uint64_t one_in;
static uint32_t next; // of the ring: the one that was freed longest ago, about
static struct thread_frames *reported;
static struct sigaction before;

static char *page_of(uint32_t slot)
{
	return pool + (2 * (size_t)slot + 1) * PAGE;
}

bool guard_owns(const void *block)
{
	return pool && (uintptr_t)block - (uintptr_t)pool < (2 * SLOTS + 1) * PAGE;
}

static uint32_t slot_of(const void *address)
{
	const size_t page = (size_t)((const char *)address - pool) / PAGE;
	return page ? (uint32_t)((page - 1) / 2) : 0;
}

size_t guard_size(const void *block)
{
	return slots[slot_of(block)].size;
}

static void put(const char *text)
{
	(void)!write(STDERR_FILENO, text, strlen(text));
}

static void put_number(uint64_t value, unsigned base)
{
	char digits[24], *at = digits + sizeof digits - 1;
	*at = '\0';
	do
		*--at = "0123456789abcdef"[value % base];
	while (value /= base);
	put(base == 16 ? "0x" : "");
	put(at);
}

static void put_pc(uint64_t pc)
{
	struct unwind_info info;
	const uint32_t module = module_at(pc - 1, &info);
	put("    ");
	put_number(pc, 16);
	if (module) {
		const struct record_module *of =
			(const struct record_module *)memory_start(RECORD_MODULES) + module - 1;
		put("  ");
		put((const char *)memory_start(RECORD_STRINGS) + of->path);
		put("+");
		put_number(pc - of->bias, 16);
	}
	put("\n");
}

static void put_allocated(const struct slot *slot)
{
	const struct record_node *nodes = memory_start(RECORD_NODES);
	uint32_t node = stacks[slot->allocated].node;
	put("  allocated at\n");
	for (unsigned i = 0; node && i < FRAMES; i++, node = nodes[node].parent)
		put_pc(nodes[node].pc);
	if (slot->state != STATE_FREED)
		return;
	put("  freed at\n");
	for (uint32_t i = 0; i < slot->freed_count; i++)
		put_pc(slot->freed[i]);
}

// Says what is wrong, about the block nearest to the address.
static void report(
	const char *what, const void *address, const struct slot *slot, struct cursor from)
{
	put("topleak-record: ");
	put(what);
	put(" at ");
	put_number((uintptr_t)address, 16);
	put(", block of ");
	put_number(slot->size, 10);
	put(" bytes at ");
	put_number((uintptr_t)slot->block, 16);
	put("\n  by\n");
	capture(reported, from);
	for (uint32_t i = reported->count; i > 0 && reported->count - i < FRAMES; i--)
		put_pc(reported->frame[i - 1].pc);
	put_allocated(slot);
}

static const char *name_of(const struct slot *slot, const char *address)
{
	if (slot->state == STATE_FREED)
		return "use after free";
	return address < slot->block ? "underrun" : "overrun";
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	const char *address = info->si_addr;
	if (guard_owns(address)) {
		const mcontext_t *stored = &((const ucontext_t *)context)->uc_mcontext;
#ifdef __aarch64__
		const struct cursor from = {stored->pc + 1, stored->sp, stored->regs[29]};
#else
		const struct cursor from = {(uint64_t)stored->gregs[REG_RIP] + 1,
			(uint64_t)stored->gregs[REG_RSP], (uint64_t)stored->gregs[REG_RBP]};
#endif
		uint32_t slot = slot_of(address);
		// A page between two slots: the nearer block is meant.
		const uint64_t page = (uint64_t)(address - pool) / PAGE;
		if (page % 2 == 0 && slot + 1 < SLOTS && page &&
			(uintptr_t)address % PAGE > PAGE / 2)
			slot++;
		local.busy = (uintptr_t)__builtin_frame_address(0);
		report(name_of(&slots[slot], address), address, &slots[slot], from);
	}
	// Back to what there was: the access is made again, and dumps.
	sigaction(number, &before, NULL);
}

void guard_init(const struct settings *settings)
{
	if (!settings->guard || settings->mode != RECORD_SAMPLE)
		return;
	slots = memory_private(SLOTS * sizeof *slots);
	reported = memory_private(sizeof *reported);
	char *start = mmap(NULL, (2 * SLOTS + 1) * PAGE, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!slots || !reported || start == MAP_FAILED)
		return;
	madvise(slots, SLOTS * sizeof *slots, MADV_DODUMP);
	one_in = settings->guard;
	pool = start;
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	sigaction(SIGSEGV, &action, &before);
}

// An empty slot, or the one that has been free longest; NULL if all are in use. With the lock.
static struct slot *slot_take(void)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		struct slot *slot = &slots[(next + i) % SLOTS];
		if (slot->state == STATE_USED)
			continue;
		next = (next + i + 1) % SLOTS;
		return slot;
	}
	return NULL;
}

void *guard_allocate(struct thread *thread, size_t alignment, size_t size, uint32_t stack)
{
	if (!pool || size > PAGE || !size || alignment > PAGE || thread_random(thread) % one_in)
		return NULL;
	lock_take(LOCK_GUARD);
	struct slot *slot = slot_take();
	char *page = slot ? page_of((uint32_t)(slot - slots)) : NULL;
	if (!slot || mprotect(page, PAGE, PROT_READ | PROT_WRITE)) {
		lock_release(LOCK_GUARD);
		return NULL;
	}
	// At the end of the page, as near as malloc's alignment lets it, or at its beginning.
	const size_t unit = alignment > 16 ? alignment : 16;
	const bool at_end = thread_random(thread) & 1;
	slot->block = at_end ? page + ((PAGE - size) & ~(unit - 1)) : page;
	slot->size = size;
	slot->allocated = stack;
	slot->state = STATE_USED;
	memset(page, FILL, PAGE);
	memset(slot->block, 0, size);
	lock_release(LOCK_GUARD);
	return slot->block;
}

// The first byte outside of the block that is not what it was; NULL: none.
static const char *damage(const struct slot *slot, const char *page)
{
	for (const char *at = page; at < page + PAGE; at++) {
		if (at == slot->block)
			at += slot->size;
		if (at < page + PAGE && (unsigned char)*at != FILL)
			return at;
	}
	return NULL;
}

static void stop(const char *what, const void *address, const struct slot *slot, struct cursor from)
{
	local.busy = (uintptr_t)__builtin_frame_address(0);
	report(what, address, slot, from);
	abort();
}

static void note_free(struct slot *slot, struct cursor from)
{
	struct thread *thread = recorder_enter();
	slot->freed_count = 0;
	if (!thread)
		return;
	capture(&thread->frames, from);
	const struct thread_frames *frames = &thread->frames;
	for (uint32_t i = frames->count; i > 0 && slot->freed_count < FRAMES; i--)
		slot->freed[slot->freed_count++] = frames->frame[i - 1].pc;
	recorder_leave();
}

NOINLINE bool guard_free(void *block)
{
	if (LIKELY(!guard_owns(block)))
		return false;
	const struct cursor from = CURSOR_HERE();
	struct slot *slot = &slots[slot_of(block)];
	if (slot->state == STATE_FREED && slot->block == block)
		stop("double free", block, slot, from);
	if (slot->state != STATE_USED || slot->block != block)
		stop("free of what is no block", block, slot, from);
	char *page = page_of((uint32_t)(slot - slots));
	const char *damaged = damage(slot, page);
	if (damaged)
		stop(damaged < slot->block ? "underrun, found at its free,"
					   : "overrun, found at its free,",
			damaged, slot, from);
	note_free(slot, from);
	lock_take(LOCK_GUARD);
	slot->state = STATE_FREED;
	mprotect(page, PAGE, PROT_NONE);
	lock_release(LOCK_GUARD);
	return true;
}
