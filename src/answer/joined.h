// SPDX-License-Identifier: MIT
//
// Which call stack allocated the objects of a type, in a dump that carries a recording.
#pragma once

#include "answer/answer.h"
#include "types/lost.h"
#include "types/types.h"

struct joined;

// Read the recording of a dump whose names are settled. *ret is NULL if it has none, or none that
// can be read, which is a warning; else to be released with joined_destroy.
bool joined_create(struct dump *dump, struct error *err, struct joined **ret);
void joined_destroy(struct joined *joined);
// Count a lost object; false: no memory.
bool joined_add(struct joined *joined, const struct lost_object *object);
// Set what allocated most of the objects that were counted of each type.
bool joined_tell(struct joined *joined, struct types_result *types);
