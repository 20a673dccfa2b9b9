// SPDX-License-Identifier: MIT
//
// For a last row that is rare and more words than fit any table: in few bits for each word, find
// those that may be better than the bar.
#pragma once

#include "count/counter.h"

// Counts above the bar are told apart up to here.
#define SIFT_BAR_MAX 14

// Whether a pass with this bar can rule words out.
bool sift_useful(const struct count_row *bar);
// Close all but cells of words that may be better than counter->bar, of those below `end` in the
// order of hash_second: about `words` are in open cells. As many passes as the memory makes it
// take. *ret becomes about how many words are in open cells then; 0: no cell is open.
bool counter_sift(
	struct counter *counter, uint64_t end, uint64_t words, struct error *err, uint64_t *ret);
