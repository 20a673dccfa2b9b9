// SPDX-License-Identifier: MIT
//
// What can be told of a program before it runs.
#pragma once

#include <stdbool.h>

// The file that execvp() would run; allocated. NULL if there is none.
char *program_find(const char *name);

// False if the library cannot be loaded into it, and says why on stderr. Warns of what it will
// miss.
bool program_check(const char *path, bool quiet);
