// SPDX-License-Identifier: MIT
//
// Reading the memory of a dump that comes as a stream: a thread of its own fetches (and unpacks)
// what comes next while others count what is there. All ranges that cover the bytes at hand are
// handed out before these are dropped, so that nothing is needed twice, however ranges overlap.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "image/image.h"

struct sequence;

// The memory that one takes, in bytes.
#define SEQUENCE_MEMORY (8 * IMAGE_CHUNK_SIZE)

// Begin to read image, whose file is read in order, in whole aligned words of so many bytes; 1: all
// bytes. sample: only what is kept of its beginning. *ret is the caller's, to be released with
// sequence_close.
bool sequence_open(const struct image *image, unsigned word_size, bool sample, struct error *err,
	struct sequence **ret);
void sequence_close(struct sequence *sequence);
// See image_scan_next.
int sequence_next(
	struct sequence *sequence, void *buffer, struct image_chunk *ret, struct error *err);
