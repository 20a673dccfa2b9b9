// SPDX-License-Identifier: MIT
//
// The call stack of a thread. What a thread had at the last call is kept, with the places where
// each return address was read; frames that are still there are verified, two loads each, and
// only what is new is unwound.
#pragma once

#include "base.h"

#define FRAMES_MOST 256

struct frame {
	uint64_t pc, sp, fp;
	uint64_t ra_at;	   // where the caller's pc was read; 0: elsewhere, never verified
	uint64_t fp_at;	   // where the caller's frame pointer was read; 0: it is in its register
	uint64_t fp_check; // as fp_at, if a frame further out was found by what was read there
	uint64_t hash;	   // of the pcs from the outermost frame to here
	bool is_exact;	   // pc is no return address: a signal came there
	bool chosen;	   // --all-of has this frame, or one further out
};

// Where a hook was called from.
struct cursor {
	uint64_t pc, sp, fp;
};

// The caller of the function that this is used in, which must not be inlined.
#ifdef __aarch64__
#define CURSOR_HERE()                                                                              \
	(struct cursor)                                                                            \
	{                                                                                          \
		.pc = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)),       \
		.sp = (uintptr_t)__builtin_dwarf_cfa(),                                            \
		.fp = *(uint64_t *)__builtin_frame_address(0)                                      \
	}
#else
#define CURSOR_HERE()                                                                              \
	(struct cursor)                                                                            \
	{                                                                                          \
		.pc = ((uint64_t *)__builtin_frame_address(0))[1],                                 \
		.sp = (uintptr_t)__builtin_frame_address(0) + 16,                                  \
		.fp = ((uint64_t *)__builtin_frame_address(0))[0]                                  \
	}
#endif

// Too large for the stack of a signal handler: a part of what is kept of a thread.
struct thread_frames {
	uint32_t count;
	struct frame frame[FRAMES_MOST]; // the outermost first
	struct frame new[FRAMES_MOST];	 // while they are unwound, the innermost first
};

// Fills frames from where the cursor is.
void capture(struct thread_frames *frames, struct cursor from);

// To be called once in the first thread: where its stack ends.
void capture_init(void);
