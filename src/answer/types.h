// SPDX-License-Identifier: MIT
//
// The answer to --types: types -> report.
#pragma once

#include "cli/options.h"
#include "report/report.h"
#include "types/types.h"

// The other side of --diff.
struct old_types {
	const struct types_result *result; // NULL: there is none
	struct report_old report;
};

// Report the rows that the options ask for. head is complete but for its types, and its mode.
bool types_answer(struct types_result *result, const struct old_types *old,
	const struct options *options, struct report_head *head, struct report *report,
	struct error *err);
