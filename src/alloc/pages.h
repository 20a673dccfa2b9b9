// SPDX-License-Identifier: MIT
//
// Reading small structures that lie near each other, without a call to the system for each.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "image/image.h"

// Where an allocator's structures are tried page by page; larger pages are multiples of it.
#define PAGES_STEP 4096

struct pages {
	const struct image *image;
	unsigned word; // bytes
	enum byte_order order;
	uint64_t address;     // of the first byte
	size_t size;	      // bytes that are there
	size_t capacity;      // bytes
	unsigned char *bytes; // owned
};

// capacity: how much to read at once, a multiple of PAGES_STEP. False if memory slabs out.
bool pages_init(struct pages *pages, const struct image *image, size_t capacity);
void pages_deinit(struct pages *pages);

// size bytes of memory at address, at most capacity - PAGES_STEP; NULL if the dump has not all of
// them. They are there until the next call.
const unsigned char *pages_get(struct pages *pages, uint64_t address, size_t size);
// What the dump has from address on, at most capacity - PAGES_STEP bytes; 0: nothing.
size_t pages_some(struct pages *pages, uint64_t address, const unsigned char **ret);

static inline uint64_t pages_load(const struct pages *pages, const unsigned char *bytes)
{
	return word_load(bytes, pages->word, pages->order);
}

// A word, and integers of a certain size, at address; false if the dump has not all of it.
static inline bool pages_word(struct pages *pages, uint64_t address, uint64_t *ret)
{
	const unsigned char *bytes = pages_get(pages, address, pages->word);
	if (bytes != NULL)
		*ret = pages_load(pages, bytes);
	return bytes != NULL;
}

// Calls found for each stretch from start to end of writable memory that the dump has, and of which
// the file has more than a hole. False as soon as it returns false.
typedef bool pages_found(void *context, uint64_t start, uint64_t end);
bool pages_each_data(
	const struct image *image, uint64_t start, uint64_t end, pages_found *found, void *context);
