// SPDX-License-Identifier: MIT
//
// Bytes that come in order: from a pipe, or unpacked from a compressed file or pipe. The beginning
// is kept in memory, and of the rest the pieces that stream_keep was told of, from the first time
// that they come by. A stream that ends within its beginning is a file like any other.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/file.h"
#include "image/input.h"

struct stream;

// Make a stream of file, which has the descriptor of input, and read its beginning: at most half of
// memory (bytes) is used for that. On success the descriptor belongs to the stream.
bool stream_open(struct file *file, const struct input *input, enum packing packing, size_t memory,
	struct error *err);

// What it is packed with.
enum packing stream_packing(const struct stream *stream);
// Bytes that unpacking takes, about: the window of what it is packed with.
uint64_t stream_unpack_memory(const struct stream *stream);
// Whether it can be read from its beginning to its end only once.
bool stream_once(const struct stream *stream);
// The number of bytes at its beginning that are kept.
uint64_t stream_head(const struct stream *stream);
// Its size in bytes; FILE_SIZE_UNKNOWN as long as the end has not been seen.
uint64_t stream_size(const struct stream *stream);
// The number of bytes that have come by, as long as the size is not known.
uint64_t stream_seen(const struct stream *stream);
// What is wrong with its data, as far as it was read; NULL: nothing.
const char *stream_fault(const struct stream *stream);

// See file_extent.
bool stream_extent(struct stream *stream, uint64_t end, struct error *err, uint64_t *ret);

// A part that is to be kept. offset + size is below FILE_SIZE_UNKNOWN.
struct stream_part {
	uint64_t offset;
	uint64_t size;
};
// Keep these parts, which may overlap. Call it once, before the stream is read; from then on the
// stream moves only by stream_start and stream_next. count parts are copied.
bool stream_keep(
	struct stream *stream, const struct stream_part *parts, size_t count, struct error *err);

// Begin to read from the beginning.
bool stream_start(struct stream *stream, struct error *err);
// Fill buffer with the next size bytes. *ret is less at the end only. Not thread-safe.
bool stream_next(struct stream *stream, void *buffer, size_t size, struct error *err, size_t *ret);
// Let a stream_next that waits in another thread end as if the stream did; or no longer.
void stream_cancel(struct stream *stream, bool cancel);
