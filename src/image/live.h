// SPDX-License-Identifier: MIT
//
// A live process as if it were a dump: the segments that its core would have, each at a file offset
// that is its address. The process is not stopped and changes while it is read; for its registers
// see registers.h.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

// Fill image->info and image->file from the process. On failure image holds what image_close must
// release.
bool live_load(struct image *image, int64_t pid, struct error *err);

struct file;
// Read what can be read of size bytes at offset, up to the first page that is not there.
size_t live_read_part(const struct file *file, uint64_t offset, void *buffer, size_t size);
// A page could not be read: count it. Returns the offset of the next one. Thread-safe.
uint64_t live_skip_page(const struct file *file, uint64_t offset);
// What was skipped so far: the number of mappings; *ret becomes the number of bytes.
size_t live_skipped(const struct file *file, uint64_t *ret);
