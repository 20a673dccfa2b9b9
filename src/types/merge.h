// SPDX-License-Identifier: MIT
//
// What all threads have seen, as one result.
#pragma once

#include "types/hits.h"
#include "types/survey.h"

// Add up candidates, facts and words in ret, which is empty; the facts of the threads are released.
// On failure the caller must still release ret with survey_result_deinit.
bool hits_merge(struct hits *const *hits, unsigned threads, const struct candidates *candidates,
	struct error *err, struct survey_result *ret);
