// SPDX-License-Identifier: MIT
//
// The bytes of a dump on disk.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct file {
	int fd;
	uint64_t size; // bytes
	const char *path;
};

// Open a regular file or a block device for reading; nothing else (a FIFO would hang). On success
// the caller must close it with file_close.
bool file_open(const char *path, struct error *err, struct file *ret);
void file_close(struct file *file);

// Read exactly size bytes at offset. What lies past the end of the file is an error: callers check
// against file->size before, so that only a file that shrinks gets there.
bool file_read(
	const struct file *file, uint64_t offset, void *buffer, size_t size, struct error *err);

// Find out whether there is data at offset. *ret becomes the end of the run of data or of the hole,
// at most limit. True: data, and always where the file system cannot tell.
bool file_has_data(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret);
