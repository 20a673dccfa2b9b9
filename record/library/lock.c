// SPDX-License-Identifier: MIT
#include "lock.h"
#include "base.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

// linux/futex.h, which not every compiler's headers have.
enum { FUTEX_WAIT_PRIVATE = 128, FUTEX_WAKE_PRIVATE = 129 };

// 0: free, 1: taken, 2: taken, and somebody waits.
static uint32_t locks[LOCK_COUNT];

static void signals_block(void)
{
	uint64_t all = ~0ull;
	if (local.locks++ == 0) {
		local.saved_errno = errno;
		syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &local.saved_mask, sizeof all);
	}
}

static void signals_restore(void)
{
	if (--local.locks == 0) {
		uint64_t mask = local.saved_mask;
		int error = local.saved_errno;
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
		errno = error;
	}
}

void lock_take(enum lock lock)
{
	signals_block();
	uint32_t *word = &locks[lock], free = 0;
	if (__atomic_compare_exchange_n(word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(word, 2, __ATOMIC_ACQUIRE) != 0)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void lock_release(enum lock lock)
{
	if (__atomic_exchange_n(&locks[lock], 0, __ATOMIC_RELEASE) == 2)
		syscall(SYS_futex, &locks[lock], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	signals_restore();
}

void lock_take_all(void)
{
	for (enum lock lock = 0; lock < LOCK_COUNT; lock++)
		lock_take(lock);
}

void lock_release_all(void)
{
	for (enum lock lock = LOCK_COUNT; lock-- > 0;)
		lock_release(lock);
}
