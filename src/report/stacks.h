// SPDX-License-Identifier: MIT
//
// The table of call stacks as text. Each does nothing if the answer is another one.
#pragma once

#include "report/report.h"

void stacks_begin(struct report *report);
void stacks_row(struct report *report, const struct report_stack *row);
void stacks_end(struct report *report);
