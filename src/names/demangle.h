// SPDX-License-Identifier: MIT
//
// Names of C++, Rust and D symbols as people wrote them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The longest name given. A short mangled name can unfold to gigabytes.
#define DEMANGLE_MAX ((size_t)64 * 1024)

// Whether this build can demangle.
#define DEMANGLE_AVAILABLE HAVE_LIBIBERTY

// Demangle a symbol's name. NULL if it is not mangled, not well-formed, or too long; *too_long
// tells the latter, before or after. The caller must free the result.
char *demangle(const char *symbol, bool *too_long);
// Demangle the name in a typeinfo object, such as "N2NS5ClassE".
char *demangle_type(const char *type, bool *too_long);
