// SPDX-License-Identifier: MIT
//
// The addresses of programs and libraries: a word that is one of them may be the vtable pointer or
// the method table of an object.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/module.h"

// Programs lie in one or two stretches of the address space. More only cost time.
#define STRETCHES_MAX 3

// Addresses from the first module of a stretch to the last one, and what lies between them.
struct stretch {
	uint64_t start, length;
	unsigned shift; // a bit of the map stands for 2^shift bytes
	uint64_t *map;	// whether a module has any of them; owned
};

struct ranges {
	struct stretch stretches[STRETCHES_MAX];
	size_t count;
	const struct modules *modules;
};

// modules must live as long. False only if there is no memory.
bool ranges_init(struct ranges *ranges, const struct modules *modules, struct error *err);
void ranges_deinit(struct ranges *ranges);

// Whether a value is in a module, or so near that it may be.
bool ranges_have(const struct ranges *ranges, uint64_t value);
