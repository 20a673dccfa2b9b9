// SPDX-License-Identifier: MIT
//
// A child of fork() goes on in its own copy of the recording. A process that came to be without
// the handlers (by the system call, or _Fork()) records nothing: the memory is its parent's.
#pragma once

#include "base.h"

// In the recorder's start, and in the constructor.
void fork_init(void);
void fork_watch(void);

// A page that the kernel empties in children: 1 in the process that the memory belongs to.
extern uint32_t *fork_page;
static inline bool fork_is_ours(void)
{
	return LIKELY(LOAD(fork_page));
}
