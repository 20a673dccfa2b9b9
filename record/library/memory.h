// SPDX-License-Identifier: MIT
//
// The one mapping that holds the recording: reserved whole, opened section by section as it fills.
// It is shared memory without a name, so it outlives the process as long as the launcher has it
// open, and kernels and debuggers dump it as they dump anonymous memory. What is only reserved
// is kept out of dumps: gdb's gcore would write it as zeros.
#pragma once

#include "base.h"

struct settings;

// Creates it and fills the header but for its magic. False if there is no room. *ret_file is to be
// handed to the launcher and closed; -1 if the memory is private.
bool memory_create(const struct settings *settings, int *ret_file);

struct record_section *memory_section(enum record_kind kind);
void *memory_start(enum record_kind kind);

// Makes the first count entries of a section usable. False if there is no room. Call it with the
// lock of whoever fills the section.
bool memory_grow(enum record_kind kind, uint64_t count);

// Private memory that is not part of the recording, zeroed; NULL if there is none.
void *memory_private(uint64_t bytes);

// Adds a text to RECORD_STRINGS. Returns its offset, 0 if there is no room.
uint64_t memory_text(const char *text, size_t length);

// Nanoseconds since the recording began: exact, or by a clock that is cheap to read and up to 4 ms
// late. Both leave it in the header.
uint64_t memory_now(void);
uint64_t memory_now_about(void);

// Before fork(): a copy for the child, -1 if it cannot be or need not be.
int memory_copy(void);
// Whether the memory is shared: then children need a copy.
void memory_share(void);
// In the child: makes the copy its memory, at the same address. False: the child must not touch
// what is there, it is its parent's.
bool memory_adopt(int copy);
