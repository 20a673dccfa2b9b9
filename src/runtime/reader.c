// SPDX-License-Identifier: MIT
#include "runtime/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define LINE_SIZE ((size_t)512)
// 8 MiB of short lines: objects that point at each other were mostly made at about the same time,
// but not all of them.
#define LINE_COUNT ((size_t)16384)
#define NO_LINE UINT64_MAX

bool reader_init(struct reader *reader, const struct image *image)
{
	*reader = (struct reader){.image = image};
	reader->lines = malloc(2 * LINE_COUNT * sizeof *reader->lines);
	reader->bytes = malloc(LINE_COUNT * LINE_SIZE);
	if (reader->lines == NULL || reader->bytes == NULL)
		return false;
	for (size_t i = 0; i < LINE_COUNT; i++)
		reader->lines[2 * i] = NO_LINE;
	return true;
}

void reader_deinit(struct reader *reader)
{
	free(reader->lines);
	free(reader->bytes);
	*reader = (struct reader){0};
}

// The bytes that are there of the line which begins at address.
static const unsigned char *line_find(struct reader *reader, uint64_t address, size_t *ret)
{
	const size_t slot = (size_t)(address / LINE_SIZE * 0x9e3779b97f4a7c15u >> 53) % LINE_COUNT;
	uint64_t *line = &reader->lines[2 * slot];
	unsigned char *bytes = reader->bytes + slot * LINE_SIZE;
	if (line[0] != address) {
		line[0] = address;
		line[1] = image_read(reader->image, address, bytes, LINE_SIZE);
	}
	*ret = (size_t)line[1];
	return bytes;
}

bool reader_get(struct reader *reader, uint64_t address, void *buffer, size_t size)
{
	size_t done = 0;
	while (done < size) {
		const uint64_t at = address + done;
		const size_t skipped = (size_t)(at % LINE_SIZE);
		const size_t piece = (size_t)min_u64(size - done, LINE_SIZE - skipped);
		size_t there;
		const unsigned char *bytes = line_find(reader, at - skipped, &there);
		if (skipped + piece <= there)
			memcpy((char *)buffer + done, bytes + skipped, piece);
		// A segment may begin inside of a line.
		else if (image_read(reader->image, at, (char *)buffer + done, piece) != piece)
			return false;
		done += piece;
	}
	return true;
}

uint64_t reader_word(struct reader *reader, uint64_t address)
{
	unsigned char bytes[8];
	return reader_get(reader, address, bytes, 8) ? word_load(bytes, 8, ORDER_LITTLE) : 0;
}

uint32_t reader_u32(struct reader *reader, uint64_t address)
{
	unsigned char bytes[4];
	return reader_get(reader, address, bytes, 4) ? load_u32(bytes, ORDER_LITTLE) : 0;
}

uint16_t reader_u16(struct reader *reader, uint64_t address)
{
	unsigned char bytes[2];
	return reader_get(reader, address, bytes, 2) ? load_u16(bytes, ORDER_LITTLE) : 0;
}

uint8_t reader_u8(struct reader *reader, uint64_t address)
{
	unsigned char byte;
	return reader_get(reader, address, &byte, 1) ? byte : 0;
}

void reader_text(struct reader *reader, uint64_t address, char *buffer, size_t size)
{
	size_t length = 0;
	while (length + 1 < size && address + length >= address) {
		const uint8_t byte = reader_u8(reader, address + length);
		if (byte == 0)
			break;
		buffer[length++] = (char)byte;
	}
	buffer[length] = '\0';
}
