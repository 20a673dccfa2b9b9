// SPDX-License-Identifier: MIT
//
// Texts in memory, and hashes of them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "find/chars.h"

// A text as it was found, in UTF-8.
struct text {
	const unsigned char *bytes; // may be the beginning only
	size_t size;		    // of bytes
	uint64_t length;	    // of the whole text as it lies in memory, in bytes
	uint64_t check; // a second hash of the whole text if bytes is not all of it; or 0
	uint64_t hash;
	uint64_t address;
	enum encoding encoding;	    // a part of the text: others have other hashes
	bool cut_before, cut_after; // there are more characters in memory
};

// A hash of bytes that come piece by piece. It depends on the bytes only, not on the pieces.
struct text_hash {
	uint64_t state, factor;
	uint64_t length;
	unsigned char rest[8]; // length % 8 bytes that are not in the state yet
	bool fold;	       // letters A to Z count as a to z
};

// Hashes of one seed are the same in every run, of different seeds independent.
struct text_hash text_hash_begin(uint64_t seed, bool fold);
void text_hash_add(struct text_hash *hash, const unsigned char *bytes, size_t size);
// 0 if there were no bytes.
uint64_t text_hash_end(const struct text_hash *hash);

// The hash of a text of which more is known than its characters: how it lies in memory, and whether
// there are more. Without any of that it stays as it is.
static inline uint64_t text_hash_vary(
	uint64_t hash, enum encoding encoding, bool cut_before, bool cut_after)
{
	return hash ^ (uint64_t)cut_before << 1 ^ cut_after ^ (uint64_t)encoding << 60;
}

// Order of two texts byte by byte; fold: letters A to Z count as a to z.
int text_compare(
	const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size, bool fold);

// The printable characters next to bytes[index], before it and from it on: how many bytes they
// have. Characters are taken whole, up to limit bytes; *cut: there are more.
size_t text_before(const unsigned char *bytes, size_t index, size_t limit, bool *cut);
size_t text_after(const unsigned char *bytes, size_t index, size_t size, size_t limit, bool *cut);
