// SPDX-License-Identifier: MIT
//
// The answer to --types: types -> report.
#pragma once

#include "cli/options.h"
#include "report/report.h"
#include "types/types.h"

// Report the rows that the options ask for. head is complete but for its types, and its mode.
bool types_answer(struct types_result *result, const struct options *options,
	struct report_head *head, struct report *report, struct error *err);
