// SPDX-License-Identifier: MIT
//
// What the questions about the objects of the heap share.
#pragma once

#include "alloc/heap.h"
#include "answer/answer.h"
#include "graph/reach.h"
#include "image/leftout.h"
#include "types/types.h"

// What is found in one dump.
struct leaks {
	struct heap heap;
	struct reach *reach;
	struct types_result result;
	struct left_outs left_outs;
};

// Walk the heap and find out what can be reached, for an option. *leaks, empty before, must be
// released with leaks_deinit, also after a failure.
bool leaks_reach(struct dump *dump, const char *option, struct error *err, struct leaks *leaks);
void leaks_deinit(struct leaks *leaks);
