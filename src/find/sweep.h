// SPDX-License-Identifier: MIT
//
// Going once through all memory with several threads, window by window. Windows overlap by as much
// as a question must see around what it looks for; each place belongs to one window.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

// What a window holds, but for the bytes around, unless a question wants another size.
#define SWEEP_CHUNK IMAGE_CHUNK_SIZE

struct sweep_window {
	const unsigned char *bytes;
	size_t size;
	uint64_t address; // of the first byte
	// What begins at these indices belongs to this window. From there, so many bytes before and
	// after as were asked for are in the window, unless memory ends there.
	size_t from, to;
	size_t lead;	// bytes that the window before had, too
	uint64_t zeros; // the window is a hole of so many zeros, without bytes
	bool last;	// memory ends where the window does, or a hole begins
	// There are zeros before the first byte and behind the last one, as far as a place can
	// reach.
	bool zeros_before, zeros_after;
};

// Who wants to know how far it is: begin before a pass of so many bytes, add as they come, from any
// thread.
struct sweep_watch {
	void (*begin)(void *context, uint64_t bytes);
	void (*add)(void *context, uint64_t bytes);
	void *context;
};

struct sweep {
	const struct image *image;
	const struct sweep_watch *watch; // NULL: nobody
	bool bytes;			 // look at all bytes, not only at whole aligned words
	size_t before, after; // bytes needed around a place; after includes the place itself
	size_t chunk;	      // a multiple of 64
	unsigned stride;      // of so many windows only the first; 1: all
	unsigned threads;
	const atomic_int *stop; // not zero: end soon
	void *context;
	// Called by thread number `worker` for each window, of several threads at once.
	bool (*visit)(void *context, unsigned worker, const struct sweep_window *window,
		struct error *err);
	// If not NULL, called after visit for the same window, in the order of memory.
	bool (*commit)(void *context, unsigned worker, const struct sweep_window *window,
		struct error *err);
};

// The memory that a thread's window takes, in bytes.
size_t sweep_memory(const struct sweep *sweep);

// Go through all of memory. False on an error, of reading or of a callback; true if stopped.
bool sweep_run(const struct sweep *sweep, struct error *err);

// The same, driven from outside: threads fetch windows when they want to.
struct sweep_source;

// *ret is the caller's, to be released with sweep_close. sweep must live as long.
bool sweep_open(const struct sweep *sweep, struct error *err, struct sweep_source **ret);
void sweep_close(struct sweep_source *source);
// Let visit and commit see the next window, with worker 0. context: instead of the sweep's. Returns
// 1, 0 at the end, -1 on an error.
int sweep_next(struct sweep_source *source, void *context, struct error *err);
