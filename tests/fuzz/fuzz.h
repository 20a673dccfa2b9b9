// SPDX-License-Identifier: MIT
//
// What the targets share. Each is one LLVMFuzzerTestOneInput, linked with clang's fuzzer to find
// inputs, or with replay.c to run those that are kept.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

// What is left of the input; past its end it is zeros.
struct input {
	const uint8_t *data;
	size_t size;
};

static inline uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;
	for (size_t i = 0; i < bytes && input->size > 0; i++, input->size--)
		value |= (uint64_t)*input->data++ << (8 * i);
	return value;
}

// The next bytes of the input as a part of their own.
static inline struct input take_part(struct input *input, uint64_t size)
{
	const size_t length = size < input->size ? (size_t)size : input->size;
	const struct input part = {input->data, length};
	input->data += length;
	input->size -= length;
	return part;
}

// A file that has these bytes; path is where it can be opened until the descriptor is closed.
static inline int memory_file(const uint8_t *data, size_t size, char path[static 32])
{
	const int fd = memfd_create("input", MFD_CLOEXEC);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}
