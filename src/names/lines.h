// SPDX-License-Identifier: MIT
//
// Line tables: which line of source code an address comes from.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#if HAVE_LIBDW
#include <libelf.h>

struct lines;

// Read which compilation unit has which addresses. elf must live as long; path is where it was
// read from, NULL if from memory. The caller must release the result with lines_destroy; NULL only
// if there is no memory.
struct lines *lines_create(Elf *elf, const char *path);
void lines_destroy(struct lines *lines);

// The line for an address of the file. *file is the last component of the source file's name and
// lives as long as lines.
bool lines_find(struct lines *lines, uint64_t address, const char **file, int *line);
#endif
