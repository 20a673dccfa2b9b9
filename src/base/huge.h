// SPDX-License-Identifier: MIT
//
// Tables so large that most accesses miss the TLB, unless their pages are large too.
#pragma once

#include <stddef.h>

// Memory of size bytes, all zero, to be released with free. NULL: there is none.
void *huge_alloc(size_t size);
// The same, but what is never touched takes no memory.
void *huge_reserve(size_t size);
