// SPDX-License-Identifier: MIT
//
// Names of C++, Rust and D symbols as people wrote them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// The longest name given. A short mangled name can unfold to gigabytes.
#define DEMANGLE_MAX ((size_t)64 * 1024)

// The demanglers give up on longer names themselves.
#define DEMANGLE_LONG ((size_t)1000)
// Whether this build can demangle.
#define DEMANGLE_AVAILABLE HAVE_LIBIBERTY

// Demangle a symbol's name. NULL if it is not mangled, not well-formed, or longer than
// DEMANGLE_MAX. The caller must free the result. Not what a type's own name needs: see
// demangle_type.
char *demangle(const char *symbol);
// Demangle the name in a typeinfo object, such as "N2NS5ClassE".
char *demangle_type(const char *type);
