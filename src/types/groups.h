// SPDX-License-Identifier: MIT
//
// Blocks in use whose type nothing at their beginning says. They are grouped by size; a group is
// then split, or named, by what most of its blocks have in common: a pointer to a function or to a
// static object at one offset, a constant, a text, or where the pointers to them are.
//
// What is common is found in a sample of each group, which depends on the addresses of its blocks
// alone; counts and bytes are of all blocks.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/lookup.h"
#include "base/error.h"
#include "image/image.h"
#include "names/names.h"
#include "types/claims.h"
#include "types/survey.h"
#include "types/types.h"

struct groups_options {
	const struct heap *heap;
	const struct claims *claims; // blocks that are in rows already
	unsigned threads;
	const atomic_int *stop; // not zero: end soon, with what was found so far
	bool redact;		// texts and constants are not shown
	struct survey_watch watch;
};

// Add a row for each group to result, which has the rows of all other blocks. On failure result is
// still to be released.
bool groups_add(const struct image *image, struct names *names,
	const struct groups_options *options, struct error *err, struct types_result *result);
