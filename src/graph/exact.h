// SPDX-License-Identifier: MIT
//
// Whether a pointer is one that a program keeps of an object, if it keeps none to its inside.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "image/image.h"
#include "image/module.h"

struct exact {
	const struct image *image;
	const struct modules *modules;
};

void exact_init(struct exact *exact, const struct image *image, const struct modules *modules);

// Whether pointer is that of the object at start: its beginning, a base class in it, or the first
// element of an array that the number of elements stands before.
bool exact_points(const struct exact *exact, uint64_t pointer, uint64_t start);
