// SPDX-License-Identifier: MIT
//
// The kind of a word, from its value and from what lies where in the address space; nothing else.
// The first that applies:
//   zero    0
//   code    an address in an executable part of a mapped file
//   data    an address in another part of a mapped file
//           (of low addresses, such as numbers and texts have, only the beginnings of functions, of
//           static objects and their members, and return addresses that are on a stack)
//   text    printable characters that fill the word
//   heap, stack, anon   an address in such memory
//   text    printable characters and NULs behind them, at least half a word of characters
//   number  a small or medium integer
//   other   the rest
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "image/places.h"
#include "names/pointers.h"

// "zero", "number", ...: as in --kind and JSON.
const char *kind_name(enum kind kind);

// A set of kinds: the bit 1 << kind for each.
typedef uint32_t kind_set;

// Of these kinds are addresses in the memory of the process.
#define KINDS_ADDRESS                                                                              \
	((kind_set)1 << KIND_CODE | (kind_set)1 << KIND_DATA | (kind_set)1 << KIND_HEAP |          \
		(kind_set)1 << KIND_STACK | (kind_set)1 << KIND_ANON)

struct kinds {
	unsigned word_size;
	enum byte_order order;
	uint64_t address_mask;	  // bits of a word that make the address
	const struct span *spans; // sorted, without overlaps
	size_t span_count;
	// Tells numbers and texts from addresses of programs where these are as low; NULL: there
	// are no such, or nothing is known.
	bool (*occurs)(const struct pointers *pointers, uint64_t address);
	const struct pointers *pointers;
};

// Up to a trillion a word is shown in decimal: the sizes, counters, timestamps in milliseconds and
// identifiers that people know by heart lie below, pointers of 64-bit systems above.
#define KINDS_NUMBER_MAX UINT64_C(1000000000000)

// Negative numbers have the word's own width.
static inline bool kinds_is_number(uint64_t value, unsigned word_size)
{
	const uint64_t number = word_size == 8 ? value : (uint64_t)(int32_t)value;
	return number + KINDS_NUMBER_MAX <= 2 * KINDS_NUMBER_MAX;
}

// The kind of a word, by its value.
enum kind kinds_of(const struct kinds *kinds, uint64_t value);
// The length of the text that a word is, in bytes as they lie in memory; 0 if it is none.
size_t kinds_text(const struct kinds *kinds, uint64_t value, unsigned char bytes[static 8]);
