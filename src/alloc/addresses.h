// SPDX-License-Identifier: MIT
//
// A list of addresses. Zero it to begin; the owner frees list.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct addresses {
	uint64_t *list;
	size_t count, capacity;
};

// False if memory runs out.
bool addresses_add(struct addresses *addresses, uint64_t address);
void addresses_sort(struct addresses *addresses);
void addresses_unite(struct addresses *addresses); // sorted: of those that are alike, keep one
bool addresses_have(const struct addresses *addresses, uint64_t address); // sorted
