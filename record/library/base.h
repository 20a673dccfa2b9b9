// SPDX-License-Identifier: MIT
//
// What all files of the library need. It lives in other people's processes: it calls nothing that
// could allocate, lock or call back while it holds a lock of its own, and leaves errno alone.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE __attribute__((noinline))
#define EXPORT __attribute__((visibility("default")))

#define LOAD(p) __atomic_load_n(p, __ATOMIC_RELAXED)
#define LOAD_ACQUIRE(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
#define STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define STORE_RELEASE(p, v) __atomic_store_n(p, v, __ATOMIC_RELEASE)
#define ADD(p, v) __atomic_add_fetch(p, v, __ATOMIC_RELAXED)

#define PAGE 4096U

struct thread;

// What a thread has at hand. Initial-exec: no call, and no allocation at its first use.
struct local {
	// Bytes that may be allocated before the recorder looks: 0 at the start, and in full mode.
	uint64_t left;
	uint64_t rest; // more of them, which left hides so that large blocks are seen
	struct thread *thread;
	uintptr_t busy;	     // in the recorder since the frame at this address; 0: not in it
	uint32_t locks;	     // held
	int saved_errno;     // while locks are held
	uint64_t saved_mask; // signals that were blocked before the first lock
};
extern __thread struct local local __attribute__((tls_model("initial-exec")));

// The recording; NULL before it is there.
extern struct record_header *header;

static inline uint64_t mix(uint64_t value)
{
	value *= 0xd6e8feb86659fd93U;
	return value ^ value >> 32;
}
