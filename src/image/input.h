// SPDX-License-Identifier: MIT
//
// The bytes of a file or a pipe as the system gives them, in order.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/magic.h"

struct input {
	const char *path;
	int fd;
	bool pipe;			 // can be read once only
	bool blocks;			 // read may block
	uint64_t base;			 // of a file: where its bytes begin in fd
	uint64_t limit;			 // of a file: how many there are
	uint64_t at;			 // the next one
	const atomic_int *stop;		 // not zero: that was the end; NULL: never
	const atomic_bool *cancel;	 // the same, for another reason; NULL: none
	unsigned char first[MAGIC_SIZE]; // of a pipe: read ahead by input_peek
	size_t first_size;
};

// Read the first bytes of a pipe, as many as it has, without moving on.
bool input_peek(struct input *input, struct error *err);
// Read up to size bytes. Returns their number, 0 at the end, -1 on an error.
ssize_t input_read(struct input *input, void *buffer, size_t size, struct error *err);
