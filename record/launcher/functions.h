// SPDX-License-Identifier: MIT
//
// --all-of: the places that names stand for, found in the symbols of the program and the libraries
// that it needs.
#pragma once

#include "options.h"

// Writes them to a file for the library (library/chosen.h), whose name is allocated. NULL: says why
// on stderr.
char *functions_find(const struct options *options, const char *program);
