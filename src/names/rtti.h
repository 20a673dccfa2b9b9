// SPDX-License-Identifier: MIT
//
// The class of a vtable from what the C++ run time type information in memory says: no symbols
// needed. Itanium C++ ABI, sections 2.5.2 (virtual tables) and 2.9.5 (typeinfo), as gcc and clang
// have it on all systems but Windows.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "image/module.h"

struct rtti {
	char *type; // the mangled name of the class, without a "*" before it; owned
	uint64_t
		base; // minus the offset to top: where the base with this vtable lies in the object
	// The address is that of the symbol "vtable for" and two words: the primary vtable of a
	// class without virtual bases, whose vtable has nothing before the offset to top.
	bool primary;
};

// Whether address is where a vtable pointer points; all that it leads to must lie in modules. On
// success the caller must free ret->type.
bool rtti_find(const struct image *image, const struct modules *modules, uint64_t address,
	struct rtti *ret);

// Call visit for each address in the modules that rtti_find takes for a vtable's, in ascending
// order, until it returns false, and return that; or true.
bool rtti_each(const struct image *image, const struct modules *modules,
	bool (*visit)(void *context, uint64_t address), void *context);
