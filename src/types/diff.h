// SPDX-License-Identifier: MIT
//
// What grew between two dumps of a program. Types are matched by their names and modules, never by
// addresses, which differ from run to run.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "types/types.h"

struct growth {
	const struct type *now, *old; // one of them may be NULL
	int64_t count, bytes;	      // now minus old
};

// The types that are not as they were, in *ret, which the caller must free. Both results must live
// as long.
bool types_compare(const struct types_result *now, const struct types_result *old,
	enum type_sort sort, struct error *err, struct growth **ret, size_t *count);
