// SPDX-License-Identifier: MIT
//
// How to record, as the launcher says it in the environment, or who preloads the library by hand.
#pragma once

#include "base.h"

#include <limits.h>

struct settings {
	enum record_mode mode;
	uint64_t mean;	       // bytes from one sample to the next, on average
	uint64_t all_above;    // record all blocks of this size and more; 0: none
	uint64_t guard;	       // guard one of this many samples; 0: none
	uint64_t log_size;     // most bytes of the log's file
	uint64_t seed;	       // for tests: the same samples in each run; 0: other ones
	bool mappings;	       // mmap() and the like, too
	char log[PATH_MAX];    // file of the log; "": none
	char chosen[PATH_MAX]; // file with the ranges of --all-of; "": none
};

void settings_read(struct settings *ret);
