// SPDX-License-Identifier: MIT
//
// A text that is put together from pieces of memory, in any encoding: its characters in UTF-8, as
// many as are kept, and the hashes of all.
#pragma once

#include "find/find.h"

struct run {
	uint64_t length; // bytes in memory; 0: there is none
	uint64_t address;
	uint64_t chars, accented; // accented: see unit_is_accented
	uint64_t size;		  // bytes of UTF-8
	bool latin1;		  // some are of Latin-1
	struct text_hash hash, check;
	size_t kept;
	unsigned char bytes[FIND_TEXT_KEPT]; // its beginning, whole characters
};

void run_begin(struct run *run, uint64_t seed, bool fold, uint64_t address);
// Append the characters that begin at the indices from begin on, below end, of bytes; `size` says
// how many bytes there are around them. All that is there are characters of the encoding: one of
// the first three.
void run_append(struct run *run, const unsigned char *bytes, size_t size, size_t begin, size_t end,
	enum encoding encoding);
// The whole. It points into run.
struct text run_text(const struct run *run, enum encoding encoding);
