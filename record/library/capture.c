// SPDX-License-Identifier: MIT
#include "capture.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "rules.h"

// Stacks that are no thread's own (coroutines, signal stacks) are followed so far at most.
#define FOREIGN_MOST (1U << 20)
#define LEAST_PC 4096

extern char **environ;
#pragma weak __libc_stack_end
extern void *__libc_stack_end;

static uint64_t first_stack_end;

void capture_init(void)
{
	uint64_t end = (uintptr_t)__builtin_frame_address(0) + (16U << 10);
	// The program's arguments and environment are above all frames.
	if ((uintptr_t)environ > end)
		end = (uintptr_t)environ;
	if (&__libc_stack_end && (uintptr_t)__libc_stack_end > end)
		end = (uintptr_t)__libc_stack_end;
	first_stack_end = end;
}

// A stack, or the part of it that is known to be readable.
struct walk {
	struct cursor at;
	bool is_exact;
	bool is_foreign;
	uint64_t readable; // end of what is known to be readable; the stack's end, if it is not
			   // foreign
	uint64_t link;	   // AArch64: the link register, after a signal's frame
};

static void walk_enter_stack(struct walk *walk)
{
	const uint64_t self = (uint64_t)pthread_self(), sp = walk->at.sp;
	walk->is_foreign = false;
	// glibc and musl keep what describes a thread above its stack.
	if (sp < self && self - sp < 1ULL << 32)
		walk->readable = self;
	else if (sp <= first_stack_end && first_stack_end - sp < 1ULL << 32)
		walk->readable = first_stack_end;
	else {
		walk->is_foreign = true;
		walk->readable = sp;
	}
}

// Whether a page can be read: the kernel looks at the set of signals before it looks at what to do
// with it.
static bool page_is_readable(uint64_t page)
{
	const int how = -1;
#ifdef __aarch64__
	register long number __asm__("x8") = SYS_rt_sigprocmask;
	register long first __asm__("x0") = how;
	register uint64_t second __asm__("x1") = page;
	register long third __asm__("x2") = 0, fourth __asm__("x3") = 8;
	__asm__ volatile("svc 0"
			 : "+r"(first)
			 : "r"(number), "r"(second), "r"(third), "r"(fourth)
			 : "memory");
	return first != -14;
#else
	long result;
	register long fourth __asm__("r10") = 8;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(SYS_rt_sigprocmask), "D"((long)how), "S"(page), "d"(0L), "r"(fourth)
			 : "rcx", "r11", "memory");
	return result != -14; // EFAULT
#endif
}

static bool walk_can_read(struct walk *walk, uint64_t address)
{
	if (address < walk->at.sp || address & 7)
		return false;
	if (LIKELY(address + 8 <= walk->readable))
		return true;
	if (!walk->is_foreign || address - walk->at.sp > FOREIGN_MOST)
		return false;
	uint64_t page = walk->readable & ~(uint64_t)(PAGE - 1);
	while (page < address + 8) {
		if (!page_is_readable(page))
			return false;
		page += PAGE;
	}
	walk->readable = page;
	return true;
}

static uint64_t word_at(uint64_t address)
{
	return *(const uint64_t *)(uintptr_t)address;
}

static uint64_t pc_strip(uint64_t pc)
{
#ifdef __aarch64__
	// Pointer authentication keeps its code in the bits above the address.
	register uint64_t link __asm__("x30") = pc;
	__asm__("hint 7" : "+r"(link)); // xpaclri
	return link;
#else
	return pc;
#endif
}

// The registers that the kernel stored for a handler: linux/arch/*/kernel/signal.c.
static bool step_signal(struct walk *walk)
{
#ifdef __aarch64__
	const uint64_t at = walk->at.sp + 128; // struct rt_sigframe: siginfo, then ucontext
#else
	const uint64_t at = walk->at.sp;
#endif
	if (!walk_can_read(walk, at) || !walk_can_read(walk, at + sizeof(ucontext_t) - 8))
		return false;
	const mcontext_t *stored = &((const ucontext_t *)(uintptr_t)at)->uc_mcontext;
#ifdef __aarch64__
	walk->at = (struct cursor){stored->pc, stored->sp, stored->regs[29]};
	walk->link = stored->regs[30];
#else
	walk->at = (struct cursor){(uint64_t)stored->gregs[REG_RIP],
		(uint64_t)stored->gregs[REG_RSP], (uint64_t)stored->gregs[REG_RBP]};
#endif
	walk->is_exact = true;
	walk_enter_stack(walk);
	return walk->at.pc > LEAST_PC;
}

// Without information: the frame pointer, if it points at a pair of frame pointer and return
// address.
static bool step_frame_pointer(struct walk *walk, struct frame *frame)
{
	const uint64_t at = walk->at.fp;
	if (!walk_can_read(walk, at) || !walk_can_read(walk, at + 8))
		return false;
	frame->ra_at = at + 8;
	frame->fp_at = at;
	walk->at = (struct cursor){pc_strip(word_at(at + 8)), at + 16, word_at(at)};
	walk->is_exact = false;
	return walk->at.pc > LEAST_PC;
}

static bool frame_end(struct walk *walk, const struct rule *rule, uint64_t *ret)
{
	uint64_t end = walk->at.sp + (uint64_t)(int64_t)rule->cfa;
	if (rule->kind != RULE_SP)
		end = walk->at.fp + (uint64_t)(int64_t)rule->cfa;
	if (rule->kind == RULE_FP_AT) {
		if (!walk_can_read(walk, end))
			return false;
		end = word_at(end);
	}
	*ret = end;
#ifdef __aarch64__
	if (end == walk->at.sp) // a leaf without a frame
		return true;
#endif
	return end > walk->at.sp && walk_can_read(walk, end - 8);
}

// Goes out by one frame and fills in frame where that was read. *ret_by_fp: the frame pointer was
// needed. False: there is no frame further out.
static bool step(struct walk *walk, const struct rule *rule, struct frame *frame, bool *ret_by_fp)
{
	uint64_t end;
	*ret_by_fp = rule->kind != RULE_SP || rule->fp == RULE_FP_IN_PLACE;
	if (rule->kind == RULE_SIGNAL)
		return step_signal(walk);
	if (rule->kind == RULE_NONE)
		return step_frame_pointer(walk, frame);
	if (rule->kind == RULE_OUTMOST || !frame_end(walk, rule, &end))
		return false;
	uint64_t fp_at = 0, ra_at = end - 8;
	if (rule->fp == RULE_FP_IN_PLACE)
		fp_at = walk->at.fp;
	else if (rule->fp)
		fp_at = end + (uint64_t)(int64_t)rule->fp;
#ifdef __aarch64__
	ra_at = rule->ra == RULE_RA_REGISTER ? 0
					     : (rule->fp ? fp_at : end) + (uint64_t)(rule->ra * 8);
#endif
	if ((fp_at && !walk_can_read(walk, fp_at)) || (ra_at && !walk_can_read(walk, ra_at)))
		return false;
	if (!ra_at && !walk->is_exact)
		return false;
	const uint64_t pc = pc_strip(ra_at ? word_at(ra_at) : walk->link);
	walk->at = (struct cursor){pc, end, fp_at ? word_at(fp_at) : walk->at.fp};
	walk->is_exact = false;
	// What is stored in a frame that aligned its stack is not verified.
	frame->ra_at = rule->kind == RULE_FP_AT ? 0 : ra_at;
	frame->fp_at = fp_at;
	return pc > LEAST_PC;
}

// The lowest of the frames up to `from` that is not verified: 0 if all are.
static uint32_t frames_verify(const struct frame *frames, uint32_t from)
{
	uint32_t i = from;
	for (; i > 0; i--) {
		const struct frame *frame = &frames[i];
		if (!frame->ra_at || pc_strip(word_at(frame->ra_at)) != frames[i - 1].pc)
			break;
		if (frame->fp_check && word_at(frame->fp_check) != frames[i - 1].fp)
			break;
	}
	return i;
}

// Copies a frame word by word: as a whole it would be loaded in larger pieces than it was stored
// just before, which stalls.
static void frame_put(struct frame *to, const struct frame *from)
{
	const uint64_t *source = (const uint64_t *)from;
	uint64_t *target = (uint64_t *)to;
	for (size_t i = 0; i < sizeof *to / sizeof *source; i++) {
		target[i] = source[i];
		__asm__ volatile("" ::: "memory");
	}
}

// Puts the new frames, the innermost first, behind the `kept` old ones.
static void frames_append(struct thread_frames *frames, uint32_t kept, uint32_t count)
{
	struct frame *new = frames->new;
	if (count > FRAMES_MOST - kept) {
		ADD(&header->stacks_cut, 1);
		kept = FRAMES_MOST - count;
	}
	uint64_t hash = kept ? frames->frame[kept - 1].hash : 0;
	bool chosen = kept && frames->frame[kept - 1].chosen;
	while (count--) {
		hash = mix(hash ^ new[count].pc);
		chosen = chosen || new[count].chosen;
		new[count].hash = hash;
		new[count].chosen = chosen;
		frame_put(&frames->frame[kept++], &new[count]);
	}
	frames->count = kept;
}

void capture(struct thread_frames *frames, struct cursor from)
{
	struct frame *old = frames->frame, *new = frames->new;
	uint32_t count = 0, with_fp = FRAMES_MOST;
	uint32_t left = frames->count; // old frames that are not passed yet
	struct walk walk = {.at = from};
	walk_enter_stack(&walk);
	for (;;) {
		while (left && old[left - 1].sp < walk.at.sp)
			left--;
		// The rest of a foreign stack may have gone since.
		const struct frame *last = left && !walk.is_foreign ? &old[left - 1] : NULL;
		if (last && last->sp == walk.at.sp && last->pc == walk.at.pc &&
			last->fp == walk.at.fp && last->is_exact == walk.is_exact) {
			const uint32_t broken = frames_verify(old, left - 1);
			if (!broken)
				break;
			for (uint32_t i = left - 1; i > broken && count < FRAMES_MOST; i--) {
				if (old[i].fp_at)
					with_fp = count;
				frame_put(&new[count++], &old[i]);
			}
			walk.at = (struct cursor){old[broken].pc, old[broken].sp, old[broken].fp};
			walk.is_exact = old[broken].is_exact;
			left = broken;
		}
		if (count == FRAMES_MOST) {
			ADD(&header->stacks_cut, 1);
			left = 0;
			break;
		}
		struct frame *frame = &new[count];
		const struct rule rule = rule_for(walk.at.pc, walk.is_exact);
		*frame = (struct frame){.pc = walk.at.pc,
			.sp = walk.at.sp,
			.fp = walk.at.fp,
			.is_exact = walk.is_exact,
			.chosen = rule.chosen};
		bool by_fp;
		const bool more = step(&walk, &rule, frame, &by_fp);
		if (by_fp && with_fp < FRAMES_MOST)
			new[with_fp].fp_check = new[with_fp].fp_at;
		if (frame->fp_at)
			with_fp = count;
		count++;
		if (!more) {
			left = 0;
			break;
		}
	}
	frames_append(frames, left, count);
}
