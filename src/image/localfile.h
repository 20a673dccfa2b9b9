// SPDX-License-Identifier: MIT
//
// Regular files on this machine that a dump may have named: opened when needed, and read only as
// long as they are the files that were verified.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "image/elf.h"

struct local_file {
	char *path; // owned
	dev_t device;
	ino_t inode;
	struct timespec changed;
	uint64_t size;	// bytes
	bool shared;	// others than its owner, root and this user may write to it
	_Atomic int fd; // -1: not open
};

// Open path if it is a regular file that is not empty: no device, no FIFO is touched. *ret is the
// caller's, to be released with local_file_destroy; NULL if there is no such file.
struct local_file *local_file_create(const char *path);
void local_file_destroy(struct local_file *file);

// A descriptor for pread, owned by file; -1 if the file can no longer be opened or is another one.
// Thread-safe.
int local_file_descriptor(struct local_file *file);
// Let go of the descriptor; the next read opens the file again. Not thread-safe.
void local_file_release(struct local_file *file);
// Read up to size bytes at offset. Returns how many there are. Thread-safe.
size_t local_file_read(struct local_file *file, uint64_t offset, void *buffer, size_t size);
// For the functions of image/elf.h; lives as long as file.
struct elf_source local_file_source(struct local_file *file);
