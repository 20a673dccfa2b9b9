// SPDX-License-Identifier: MIT
//
// All memory in order, in pieces that overlap: for what looks at more than one word at a time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

struct pieces_options {
	bool bytes;	 // all bytes, not only whole aligned words of one segment
	unsigned stride; // of so many pieces only the first is read, without a lead; 1: all
	size_t size;	 // the most that a piece has, without its lead; a multiple of 64
	// So many bytes before a piece come with it, as far as they are there without a gap; a
	// multiple of 64, at least 64. Where the file has a long hole, at least as many zeros at
	// both its ends belong to pieces of data, and more than twice as many to the hole.
	size_t lead;
};

struct piece {
	uint64_t address; // of the first byte behind the lead; of plain bytes: their number
	size_t lead;	  // bytes before address, in the buffer too
	size_t size;	  // bytes from address on
	uint64_t zeros;	  // or else: the bytes of a hole, not read; the buffer holds nothing then
	bool last;	  // the next piece of data does not begin where this one ends
	bool hole_before; // what is without a gap before this piece began behind a hole
	bool hole_after;  // a hole begins where this piece ends
	uint64_t number;  // 0, 1, 2, ...
};

struct pieces;

// Begin to read image, in the order of addresses; in the file's order if it can be read in order
// only. Segments that follow each other without a gap are one. *ret is the caller's, to be closed
// with pieces_close, before the image.
bool pieces_open(const struct image *image, const struct pieces_options *options, struct error *err,
	struct pieces **ret);
void pieces_close(struct pieces *pieces);
// Fetch the next piece into buffer, of lead + size bytes as in the options. Returns 1, 0 at the
// end, -1 on an error. Threads may share pieces: each gets other ones.
int pieces_next(struct pieces *pieces, void *buffer, struct piece *ret, struct error *err);
// The memory that one takes, in bytes, apart from the buffers.
size_t pieces_memory(const struct image *image, const struct pieces_options *options);
