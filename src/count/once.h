// SPDX-License-Identifier: MIT
//
// One pass over a stream: intervals.
#pragma once

#include "count/count.h"

// As count_words, in one pass of one thread.
bool once_count(const struct count_source *source, const struct count_options *options,
	struct error *err, struct count_result *ret);
