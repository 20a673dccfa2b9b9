// SPDX-License-Identifier: MIT
//
// The objects of managed languages as rows of the table of types.
#pragma once

#include <stdbool.h>

#include "image/places.h"
#include "runtime/runtime.h"
#include "types/types.h"

// Add the classes of runtimes to result, which is complete. What was taken for structs and classes
// of the runtime's own program, in memory that is its objects', goes; of what it compiles with, one
// row is left.
bool types_add_objects(struct types_result *result, const struct runtimes *runtimes,
	const struct places *places, struct error *err);
