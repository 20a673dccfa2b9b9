// SPDX-License-Identifier: MIT
//
// Many small reads of an image at places all over: lines of memory are kept. Not thread-safe; each
// thread has a reader of its own.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/image.h"

struct reader {
	const struct image *image;
	uint64_t *lines; // address of each line that is kept, and how much of it there is; owned
	unsigned char *bytes; // owned
};

// False if there is no memory; reader_deinit is allowed then, too.
bool reader_init(struct reader *reader, const struct image *image);
void reader_deinit(struct reader *reader);

// Read exactly size bytes; false if the dump has not all of them.
bool reader_get(struct reader *reader, uint64_t address, void *buffer, size_t size);
// The same for numbers of little-endian memory, as all of these runtimes have it; 0 if they are not
// there.
uint64_t reader_word(struct reader *reader, uint64_t address);
uint32_t reader_u32(struct reader *reader, uint64_t address);
uint16_t reader_u16(struct reader *reader, uint64_t address);
uint8_t reader_u8(struct reader *reader, uint64_t address);
// A text that ends with a zero byte, at most size - 1 of its bytes; "" if it is not there.
void reader_text(struct reader *reader, uint64_t address, char *buffer, size_t size);
