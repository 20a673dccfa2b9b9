// SPDX-License-Identifier: MIT
//
// See ptrace(2). PTRACE_SEIZE, unlike PTRACE_ATTACH, sends no signal, and leaves a process that is
// stopped as it is. The thread that traces does nothing else, and ends: with it ends the tracing of
// whatever did not stop in time, also if this program is killed.
#include "image/registers.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/guard.h"
#include "image/internal.h"

// Where a thread's stack pointer is among the general registers, in bytes; the size of a register.
// From each architecture's struct user_regs_struct or struct pt_regs
// (arch/*/include/uapi/asm/ptrace.h).
struct stack_register {
	uint16_t machine;
	uint8_t elf_class;
	uint8_t size;
	uint16_t offset;
};

static const struct stack_register stack_registers[] = {
	{EM_X86_64, 64, 8, 19 * 8},
	{EM_X86_64, 32, 8, 19 * 8}, // x32
	{EM_386, 32, 4, 15 * 4},
	{EM_AARCH64, 64, 8, 31 * 8},
	{EM_ARM, 32, 4, 13 * 4},
	{EM_PPC64, 64, 8, 1 * 8},
	{EM_PPC, 32, 4, 1 * 4},
	{EM_S390, 64, 8, 16 + 15 * 8},
	{EM_S390, 32, 4, 8 + 15 * 4},
	{EM_RISCV, 64, 8, 2 * 8},
	{EM_RISCV, 32, 4, 2 * 4},
	{EM_MIPS, 64, 8, 29 * 8},
	{EM_MIPS, 32, 4, (6 + 29) * 4},
	{EM_LOONGARCH, 64, 8, 3 * 8},
};

uint64_t registers_stack_pointer(
	const struct image_info *info, const unsigned char *registers, size_t size)
{
	for (size_t i = 0; i < sizeof stack_registers / sizeof *stack_registers; i++) {
		const struct stack_register *reg = &stack_registers[i];
		if (reg->machine == info->machine && reg->elf_class == info->elf_class &&
			size >= (size_t)reg->offset + reg->size)
			return word_load(registers + reg->offset, reg->size, info->elf_order);
	}
	return 0;
}

// ---- of a live process

// What a core has of a thread: the general registers, and those in which compilers keep pairs of
// pointers, too.
static const uint32_t sets[] = {
	NT_PRSTATUS,
#if defined __x86_64__ || defined __i386__
	NT_X86_XSTATE,
#else
	NT_PRFPREG,
#endif
};
#define SETS (sizeof sets / sizeof *sets)
// Bytes of one set that are taken: more is only in registers that hold no pointers.
#define SET_MAX ((size_t)4096)
// Of more threads than this they would take too much memory, and time.
#define THREADS_MAX ((size_t)16384)
// A thread in a call that nothing interrupts does not stop. So long it is waited for one, and for
// all together, in nanoseconds.
#define WAIT_ONE UINT64_C(50000000)
#define WAIT_ALL UINT64_C(1000000000)
// So often it is looked at without a pause: that it stops takes some microseconds.
#define EAGER_LOOKS 1000

struct taker {
	struct image *image;
	size_t capacity; // bytes of image->registers
	size_t size;	 // of these, used
	uint64_t waited; // nanoseconds, for threads that did not stop
	size_t late;	 // threads that did not stop
	size_t refused;
	int reason;  // errno of a refusal
	bool failed; // memory ran out
};

static uint64_t nanoseconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Wait until the thread is stopped. False if it has ended, or does not stop.
static bool thread_await(struct taker *taker, pid_t thread, int *status)
{
	const uint64_t begin = nanoseconds_now();
	const uint64_t most = min_u64(WAIT_ONE, WAIT_ALL - min_u64(WAIT_ALL, taker->waited));
	for (unsigned looks = 0;; looks++) {
		const pid_t found = waitpid(thread, status, __WALL | WNOHANG);
		if (found != 0)
			return found == thread && WIFSTOPPED(*status);
		const uint64_t waited = nanoseconds_now() - begin;
		if (looks < EAGER_LOOKS) {
			sched_yield();
		} else if (waited < most) {
			usleep(200);
		} else {
			taker->waited += waited;
			taker->late++;
			return false;
		}
	}
}

// Room for one more set of registers.
static unsigned char *taker_room(struct taker *taker)
{
	struct image *image = taker->image;
	if (taker->capacity - taker->size < SET_MAX) {
		const size_t wanted = 2 * taker->capacity + 16 * SET_MAX;
		unsigned char *grown = realloc(image->registers, wanted);
		if (grown == NULL) {
			taker->failed = true;
			return NULL;
		}
		image->registers = grown;
		taker->capacity = wanted;
	}
	return image->registers + taker->size;
}

// Read the registers of a thread that is stopped.
static void thread_read(struct taker *taker, size_t index, pid_t thread)
{
	struct image_process *process = &taker->image->info.process;
	for (size_t i = 0; i < SETS; i++) {
		struct iovec bytes = {.iov_base = taker_room(taker), .iov_len = SET_MAX};
		if (bytes.iov_base == NULL ||
			ptrace(PTRACE_GETREGSET, thread, (void *)(uintptr_t)sets[i], &bytes) != 0)
			return;
		if (sets[i] == NT_PRSTATUS)
			process->threads[index].stack_pointer = registers_stack_pointer(
				&taker->image->info, bytes.iov_base, bytes.iov_len);
		process->registers[process->registers_count++] = (struct image_registers){
			.thread = (uint32_t)index,
			.size = (uint32_t)bytes.iov_len,
			.offset = taker->size,
		};
		taker->size += bytes.iov_len;
	}
}

// How a thread of the process is, as in /proc/PID/stat; '\0' if there is none with this number:
// they are used again.
static char thread_state(const struct image_process *process, pid_t thread)
{
	char path[64], text[256];
	snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)process->pid, (int)thread);
	const int fd AUTO_CLOSE = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
	text[size > 0 ? size : 0] = '\0';
	// The name before it, in parentheses, may have some itself.
	const char *end = strrchr(text, ')');
	return end != NULL && end[1] == ' ' ? end[2] : '\0';
}

static void thread_take(struct taker *taker, size_t index)
{
	struct image_info *info = &taker->image->info;
	const pid_t thread = (pid_t)info->process.threads[index].id;
	int status;
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
		const int reason = errno;
		const char state = thread_state(&info->process, thread);
		if (reason == ESRCH || state == '\0' || strchr("ZX", state) != NULL)
			return;
		taker->refused++;
		taker->reason = reason;
		return;
	}
	if (thread_state(&info->process, thread) == '\0')
		return;
	const uint64_t begin = nanoseconds_now();
	if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0 ||
		!thread_await(taker, thread, &status))
		return;
	thread_read(taker, index, thread);
	// It may have stopped because a signal came: that is not to get lost.
	const int signal = status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
	ptrace(PTRACE_DETACH, thread, NULL, (void *)(intptr_t)signal);
	info->stopped_longest = max_u64(info->stopped_longest, nanoseconds_now() - begin);
	info->stopped_threads++;
}

static void *taker_run(void *context)
{
	struct taker *taker = context;
	const size_t count = taker->image->info.process.thread_count;
	for (size_t i = 0; i < count && i < THREADS_MAX && !taker->failed; i++)
		thread_take(taker, i);
	return NULL;
}

static void taker_warn(const struct taker *taker, struct diag *diag)
{
	const struct image_info *info = &taker->image->info;
	const size_t all = info->process.thread_count;
	const char *path = info->path, *seem = "what only these hold seems to be lost";
	if (taker->refused > 0)
		diag_warn(diag, "%s: the registers of %zu of %zu threads may not be read: %s%s; %s",
			path, taker->refused, all, strerror(taker->reason),
			taker->reason == EPERM ? " (is a debugger attached?)" : "", seem);
	if (taker->late > 0)
		diag_warn(diag,
			"%s: the registers of %zu of %zu threads could not be read: they did not "
			"stop "
			"in time; %s",
			path, taker->late, all, seem);
	if (all > THREADS_MAX)
		diag_warn(diag,
			"%s: only the registers of the first %zu of %zu threads were read; %s",
			path, THREADS_MAX, all, seem);
}

bool registers_take(struct image *image, struct diag *diag, struct error *err)
{
	struct image_process *process = &image->info.process;
	struct taker taker = {.image = image};
	pthread_t thread;
	process->registers = calloc(
		SETS * min_u64(process->thread_count, THREADS_MAX) + 1, sizeof *process->registers);
	if (process->registers == NULL)
		return error_memory(err);
	const int reason = pthread_create(&thread, NULL, taker_run, &taker);
	if (reason == 0) {
		pthread_join(thread, NULL);
	} else {
		taker.refused = process->thread_count;
		taker.reason = reason;
	}
	if (taker.failed)
		return error_memory(err);
	taker_warn(&taker, diag);
	return true;
}
