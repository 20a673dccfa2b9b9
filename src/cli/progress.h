// SPDX-License-Identifier: MIT
//
// A line on a terminal that says how far a long piece of work is. Nothing is shown before the first
// second is over, and the line is gone when the work is done.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct progress {
	FILE *stream; // NULL: show nothing
	double begin; // of the whole, in seconds of a monotonic clock
	double pass_begin;
	uint64_t total;	       // bytes of one pass; 0: unknown
	_Atomic uint64_t done; // bytes of this pass
	unsigned pass;
	atomic_flag busy; // a thread writes the line
	double shown;	  // when the line was written last; 0: never
};

// stream: NULL to show nothing.
void progress_init(struct progress *progress, FILE *stream);
// A pass over total bytes begins; 0: it is not known how many.
void progress_begin(struct progress *progress, uint64_t total);
// So many bytes more are done. Several threads may call this at once, a few thousand times a
// second.
void progress_add(struct progress *progress, uint64_t bytes);
// Erase the line. Must be called before anything else is written to a terminal.
void progress_clear(struct progress *progress);
