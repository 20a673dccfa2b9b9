// SPDX-License-Identifier: MIT
//
// The table of types as text. Each does nothing if the answer is another one.
#pragma once

#include "report/report.h"

void table_begin(struct report *report);
void table_type(struct report *report, const struct report_type *row);
void table_end(struct report *report);
