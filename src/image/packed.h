// SPDX-License-Identifier: MIT
//
// Unpacks a compressed file or pipe while it is read. One level: what is in it is handed out as it
// is. libarchive does the work and is used here only.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/input.h"

struct packed;

// Prepare to unpack input, from its beginning; it must live as long. Fails if this build, or the
// libarchive it runs with, cannot do it. On success *ret is the caller's, to be released with
// packed_close.
bool packed_open(struct input *input, enum packing packing, struct error *err, struct packed **ret);
void packed_close(struct packed *packed);
// Begin anew; the input must be a file.
bool packed_rewind(struct packed *packed, struct error *err);

// The next bytes, valid until the next call. Returns their number, 0 at the end, -1 on an error.
// Damage is the end, too: see packed_fault. libarchive gives out whole blocks, so that up to one
// block (128 KiB at most, lz4: 4 MiB) that comes before the fault may be lost.
ssize_t packed_next(struct packed *packed, const void **bytes, struct error *err);
// What is wrong with the compressed data, in words, after packed_next has come to the end; NULL:
// nothing.
const char *packed_fault(const struct packed *packed);
