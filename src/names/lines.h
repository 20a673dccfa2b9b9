// SPDX-License-Identifier: MIT
//
// Line tables: which line of source code an address comes from.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A function that an instruction is part of.
struct line_frame {
	const char *function; // as in the file, mangled if it has such a name; NULL: not known
	const char *file;     // as above; NULL: not known
	int line;	      // in it: of the instruction, or of the call that was inlined
};

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

// The functions that the instruction at an address of the file is part of: the innermost inlined
// one first, that which has the code last. Returns their number, at most most; 0: nothing is known.
// Texts live as long as lines.
size_t lines_frames(struct lines *lines, uint64_t address, struct line_frame *ret, size_t most);
#endif
