// SPDX-License-Identifier: MIT
//
// Where the functions of a module begin, from the tables that programs keep in memory to unwind
// their stacks. They are there in stripped programs, too.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"
#include "image/module.h"

// A function, by offsets from the base of its table.
struct function_start {
	int64_t start;
	int64_t description; // of its frame description entry; not of Go
};

struct function_table {
	uint64_t base;
	struct function_start *list; // sorted by start; owned
	size_t count;
};

struct functions {
	struct function_table frames; // Linux Standard Base, Core, 10.6.2: .eh_frame_hdr
	struct function_table go;     // Go's pclntab; the last one is where the code ends
};

// Read what module has of them; none is no failure. False if there is no memory.
bool functions_load(const struct image *image, const struct modules *modules,
	const struct module *module, struct functions *ret);
void functions_deinit(struct functions *functions);

enum function_place { FUNCTION_UNKNOWN, FUNCTION_BEGINS, FUNCTION_INSIDE, FUNCTION_BETWEEN };

// What is at address. Of FUNCTION_BETWEEN also where the one before ends and the next one begins.
// Thread-safe.
enum function_place functions_look(const struct functions *functions, const struct image *image,
	uint64_t address, uint64_t *before, uint64_t *next);
