// SPDX-License-Identifier: MIT
#include "fork.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "link.h"
#include "lock.h"
#include "log.h"
#include "memory.h"
#include "threads.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

static uint32_t always = 1;
uint32_t *fork_page = &always;

static int copy = -1;
static uintptr_t busy_before;

void fork_init(void)
{
	uint32_t *page = memory_private(PAGE);
	if (!page)
		return;
	*page = 1;
	// Kernels before 4.14 cannot.
	if (madvise(page, PAGE, MADV_WIPEONFORK))
		munmap(page, PAGE);
	else
		fork_page = page;
}

static void prepare(void)
{
	if (!header)
		return;
	busy_before = local.busy;
	local.busy = (uintptr_t)__builtin_frame_address(0);
	lock_take_all();
	copy = fork_is_ours() ? memory_copy() : -1;
}

static void finish(void)
{
	lock_release_all();
	local.busy = busy_before;
}

static void parent(void)
{
	if (!header)
		return;
	if (copy >= 0)
		close(copy);
	copy = -1;
	finish();
}

static void child(void)
{
	if (!header)
		return;
	if (memory_adopt(copy)) {
		header->pid = (uint32_t)getpid();
		*fork_page = 1;
		threads_keep_only(local.thread);
		log_forked();
		if (copy >= 0)
			link_send(copy);
	} else {
		if (copy >= 0)
			close(copy);
		*fork_page = 0;
	}
	copy = -1;
	finish();
}

void fork_watch(void)
{
	pthread_atfork(prepare, parent, child);
}
