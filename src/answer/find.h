// SPDX-License-Identifier: MIT
//
// Answers to --strings, --find and --type: find -> names -> report.
#pragma once

#include <stdatomic.h>

#include "cli/options.h"
#include "image/image.h"
#include "report/report.h"

// Whether the options ask for one of these.
bool find_asked(const struct options *options);

// Find and report it. head is complete but for what has been found out here. False, or *partial if
// stopped.
bool find_answer(struct image *image, const struct options *options, struct report_head *head,
	const atomic_int *stop, struct diag *diag, struct report *report, struct error *err);
