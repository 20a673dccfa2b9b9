// SPDX-License-Identifier: MIT
#include "image/stream.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/memory.h"
#include "image/packed.h"

// A pipe cannot come back: what is needed from its beginning (program headers, notes) is kept, if
// it is not more than this.
#define PIPE_HEAD_MAX ((size_t)64 << 20)
// How often headers may point back before a stream is settled: each time it is read anew.
#define REWINDS_MAX 16
// Bytes read at once where they only pass by.
#define STEP ((size_t)64 * 1024)

struct kept {
	struct stream_part part;
	uint64_t filled; // bytes
	unsigned char *bytes;
};

struct stream {
	const char *path;
	struct input input;
	atomic_bool cancel;
	enum packing packing;
	struct packed *packed;	   // NULL: bytes are taken as they come
	const unsigned char *left; // what packed_next gave and nobody took yet
	size_t left_size;
	uint64_t pulled; // offset of the next byte that the source gives
	uint64_t at;	 // offset of the next byte that stream_next gives
	uint64_t size;	 // FILE_SIZE_UNKNOWN: not known
	unsigned char *head;
	size_t head_size;
	struct kept *kept; // sorted by offset
	size_t kept_count;
	size_t kept_first; // the ones before are filled
	bool settled;	   // stream_keep was called
	unsigned rewinds;  // before
	bool passed;	   // all that is kept has come by
	uint64_t unpack_memory;
	pthread_mutex_t lock; // for reading it all just to fill what is kept
};

// ---- the source

// Take the next size bytes from the source, to buffer or, if that is NULL, nowhere. *ret is less at
// the end.
static bool stream_pull(
	struct stream *stream, void *buffer, size_t size, struct error *err, size_t *ret)
{
	char scratch[STEP];
	size_t done = 0;
	while (done < size) {
		char *target = buffer != NULL ? (char *)buffer + done : scratch;
		size_t piece = size - done;
		ssize_t got;
		if (stream->packed == NULL) {
			piece = buffer != NULL ? piece : (size_t)min_u64(piece, sizeof scratch);
			got = input_read(&stream->input, target, piece, err);
		} else if (stream->left_size > 0) {
			got = (ssize_t)min_u64(piece, stream->left_size);
			if (buffer != NULL)
				memcpy(target, stream->left, (size_t)got);
			stream->left += got;
			stream->left_size -= (size_t)got;
		} else {
			const void *bytes;
			got = packed_next(stream->packed, &bytes, err);
			if (got > 0) {
				stream->left = bytes;
				stream->left_size = (size_t)got;
				continue;
			}
		}
		if (got < 0)
			return false;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	stream->pulled += done;
	*ret = done;
	return true;
}

static bool stream_stopped(const struct stream *stream)
{
	return atomic_load(&stream->cancel) ||
	       (stream->input.stop != NULL && atomic_load(stream->input.stop) != 0);
}

// The source has come to its end.
static bool stream_end(struct stream *stream, struct error *err)
{
	if (stream_stopped(stream))
		return true;
	if (stream->size != FILE_SIZE_UNKNOWN && stream->size != stream->pulled)
		return error_set(err,
			"%s: had %" PRIu64 " bytes when first read and now has %" PRIu64
			": it changes while it is read; copy it first",
			stream->path, stream->size, stream->pulled);
	stream->size = stream->pulled;
	return true;
}

// Bring the source to offset, or to the end if that comes before.
static bool stream_seek(struct stream *stream, uint64_t offset, struct error *err)
{
	if (offset < stream->pulled) {
		if (stream->input.pipe)
			return error_set(err,
				"%s: cannot go back to offset %" PRIu64
				" of a pipe; save the dump to a file first",
				stream->path, offset);
		if (!stream->settled && stream->rewinds++ == REWINDS_MAX)
			return error_set(err, "%s: its headers point to and fro; unpack it first",
				stream->path);
		if (!packed_rewind(stream->packed, err))
			return false;
		stream->left_size = 0;
		stream->pulled = 0;
	}
	while (stream->pulled < offset && !stream_stopped(stream)) {
		const size_t piece = (size_t)min_u64(offset - stream->pulled, (size_t)1 << 20);
		size_t got;
		if (!stream_pull(stream, NULL, piece, err, &got))
			return false;
		if (got < piece)
			return stream_end(stream, err);
	}
	return true;
}

// ---- the beginning

// Let the beginning reach up to size, or to the end.
static bool stream_grow(struct stream *stream, size_t size, struct error *err)
{
	size_t got;
	unsigned char *grown = realloc(stream->head, size);
	if (grown == NULL)
		return error_memory(err);
	stream->head = grown;
	const size_t wanted = size - stream->head_size;
	if (!stream_pull(stream, grown + stream->head_size, wanted, err, &got))
		return false;
	stream->head_size += got;
	return got == wanted || stream_end(stream, err);
}

// Before it is settled a stream can still look at what is behind its beginning.
static bool stream_look(
	struct stream *stream, uint64_t offset, void *buffer, size_t size, struct error *err)
{
	size_t got = 0;
	if (stream->input.pipe) {
		if (offset + size > PIPE_HEAD_MAX)
			return error_set(err,
				"%s: what its headers point at, at offset %" PRIu64
				", is too far from its beginning for a pipe; save the dump to a "
				"file first",
				stream->path, offset);
		if (!stream_grow(stream, (size_t)offset + size, err))
			return false;
		if (offset + size <= stream->head_size) {
			memcpy(buffer, stream->head + offset, size);
			return true;
		}
	} else if (!stream_seek(stream, offset, err) ||
		   !stream_pull(stream, buffer, size, err, &got)) {
		return false;
	}
	return got == size ||
	       error_set(err, "%s: ends before offset %" PRIu64, stream->path, offset + size);
}

bool stream_extent(struct stream *stream, uint64_t end, struct error *err, uint64_t *ret)
{
	if (end > stream->head_size && stream->size == FILE_SIZE_UNKNOWN) {
		if (stream->input.pipe) {
			unsigned char byte;
			struct error ignored = {0};
			// Fails at the end, too.
			if (!stream_look(stream, end - 1, &byte, 1, &ignored) &&
				stream->size == FILE_SIZE_UNKNOWN && !stream_stopped(stream)) {
				*err = ignored;
				return false;
			}
		} else if (!stream_seek(stream, end, err)) {
			return false;
		}
	}
	*ret = min_u64(end, stream->size);
	return true;
}

// ---- what is kept

static int part_compare(const void *left, const void *right)
{
	const struct kept *a = left, *b = right;
	return a->part.offset < b->part.offset ? -1 : a->part.offset > b->part.offset;
}

bool stream_keep(
	struct stream *stream, const struct stream_part *parts, size_t count, struct error *err)
{
	stream->settled = true;
	stream->kept = calloc(count + 1, sizeof *stream->kept);
	if (stream->kept == NULL)
		return error_memory(err);
	for (size_t i = 0; i < count; i++) {
		struct kept *kept = &stream->kept[stream->kept_count];
		kept->part = parts[i];
		kept->bytes = malloc(kept->part.size);
		if (kept->bytes == NULL)
			return error_memory(err);
		stream->kept_count++;
	}
	qsort(stream->kept, count, sizeof *stream->kept, part_compare);
	return true;
}

// The size bytes at offset come by.
static void stream_fill(
	struct stream *stream, uint64_t offset, const unsigned char *bytes, size_t size)
{
	const uint64_t end = offset + size;
	for (size_t i = stream->kept_first; i < stream->kept_count; i++) {
		struct kept *kept = &stream->kept[i];
		const uint64_t next = kept->part.offset + kept->filled;
		if (kept->part.offset >= end)
			return;
		if (next >= offset && next < end && kept->filled < kept->part.size) {
			const uint64_t piece = min_u64(end - next, kept->part.size - kept->filled);
			memcpy(kept->bytes + kept->filled, bytes + (next - offset), piece);
			kept->filled += piece;
		}
		if (i == stream->kept_first && kept->filled == kept->part.size)
			stream->kept_first++;
	}
	stream->passed = stream->passed || stream->kept_first == stream->kept_count;
}

static const struct kept *kept_find(const struct stream *stream, uint64_t offset, size_t size)
{
	size_t low = 0, high = stream->kept_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (stream->kept[middle].part.offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	// Parts rarely overlap; the segments of a damaged dump do.
	for (size_t tries = 0; low-- > 0 && tries < 16; tries++) {
		const struct kept *kept = &stream->kept[low];
		if (offset - kept->part.offset < kept->part.size &&
			size <= kept->part.size - (offset - kept->part.offset))
			return kept;
	}
	return NULL;
}

// Read it all, if it has not been read yet, so that what is to be kept comes by.
static bool stream_pass(struct stream *stream, struct error *err)
{
	bool ok = true;
	pthread_mutex_lock(&stream->lock);
	if (!stream->passed && !stream->input.pipe) {
		unsigned char *buffer = malloc(STEP);
		size_t got = STEP;
		ok = buffer != NULL && stream_start(stream, err);
		while (ok && got == STEP && !stream->passed)
			ok = stream_next(stream, buffer, STEP, err, &got);
		free(buffer);
	}
	pthread_mutex_unlock(&stream->lock);
	return ok;
}

static bool stream_read(
	const struct file *file, uint64_t offset, void *buffer, size_t size, struct error *err)
{
	struct stream *stream = file->stream;
	if (offset <= stream->head_size && size <= stream->head_size - offset) {
		memcpy(buffer, stream->head + offset, size);
		return true;
	}
	if (!stream->settled)
		return stream_look(stream, offset, buffer, size, err);
	const struct kept *kept = kept_find(stream, offset, size);
	if (kept == NULL)
		return error_set(err, "%s: what is at offset %" PRIu64 " was not kept",
			stream->path, offset);
	if (!stream_pass(stream, err))
		return false;
	const uint64_t skipped = offset - kept->part.offset;
	if (skipped + size > kept->filled)
		return error_set(
			err, "%s: ends before offset %" PRIu64, stream->path, offset + size);
	memcpy(buffer, kept->bytes + skipped, size);
	return true;
}

static bool stream_has_data(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret)
{
	(void)file;
	(void)offset;
	*ret = limit;
	return true;
}

// ---- reading in order

bool stream_start(struct stream *stream, struct error *err)
{
	stream->at = 0;
	if (stream->pulled == stream->head_size || stream->size == stream->head_size)
		return true;
	return stream_seek(stream, stream->head_size, err);
}

bool stream_next(struct stream *stream, void *buffer, size_t size, struct error *err, size_t *ret)
{
	size_t got = 0;
	if (stream->at < stream->head_size) {
		got = (size_t)min_u64(size, stream->head_size - stream->at);
		memcpy(buffer, stream->head + stream->at, got);
	}
	if (got < size && stream->size != stream->head_size) {
		size_t more;
		if (!stream_pull(stream, (char *)buffer + got, size - got, err, &more))
			return false;
		got += more;
	}
	if (got < size && !stream_end(stream, err))
		return false;
	if (!stream->passed)
		stream_fill(stream, stream->at, buffer, got);
	if (got < size && !stream_stopped(stream))
		stream->passed = true;
	stream->at += got;
	*ret = got;
	return true;
}

void stream_cancel(struct stream *stream, bool cancel)
{
	atomic_store(&stream->cancel, cancel);
}

// ---- the whole

static void stream_destroy(struct stream *stream)
{
	packed_close(stream->packed);
	for (size_t i = 0; i < stream->kept_count; i++)
		free(stream->kept[i].bytes);
	free(stream->kept);
	free(stream->head);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

static void stream_close(struct file *file)
{
	close(file->stream->input.fd);
	stream_destroy(file->stream);
	file->stream = NULL;
}

static const struct file_ops stream_ops = {stream_read, stream_has_data, stream_close};

bool stream_open(struct file *file, const struct input *input, enum packing packing, size_t memory,
	struct error *err)
{
	struct stream *stream = calloc(1, sizeof *stream);
	if (stream == NULL)
		return error_memory(err);
	stream->path = file->path;
	stream->input = *input;
	stream->input.cancel = &stream->cancel;
	stream->packing = packing;
	stream->size = FILE_SIZE_UNKNOWN;
	pthread_mutex_init(&stream->lock, NULL);
	const size_t head = (size_t)max_u64(memory, STEP);
	const uint64_t before = memory_used();
	if ((packing != PACKING_NONE &&
		    !packed_open(&stream->input, packing, err, &stream->packed)) ||
		!stream_grow(stream, head, err)) {
		stream_destroy(stream);
		return false;
	}
	if (packing != PACKING_NONE)
		stream->unpack_memory = memory_since(before + head);
	const char *fault = stream_fault(stream);
	if (stream->head_size == 0 && fault != NULL) {
		error_set(err, "%s: cannot be unpacked: %s", stream->path, fault);
		stream_destroy(stream);
		return false;
	}
	if (stream->head_size == 0 && stream_stopped(stream)) {
		error_set(err, "%s: interrupted", stream->path);
		stream_destroy(stream);
		return false;
	}
	file->ops = &stream_ops;
	file->stream = stream;
	file->size = stream->size;
	file->in_order = stream->size == FILE_SIZE_UNKNOWN;
	return true;
}

enum packing stream_packing(const struct stream *stream)
{
	return stream->packing;
}

uint64_t stream_unpack_memory(const struct stream *stream)
{
	return stream->unpack_memory;
}

bool stream_once(const struct stream *stream)
{
	return stream->input.pipe && stream->size != stream->head_size;
}

uint64_t stream_head(const struct stream *stream)
{
	return stream->head_size;
}

uint64_t stream_seen(const struct stream *stream)
{
	return stream->pulled;
}

uint64_t stream_size(const struct stream *stream)
{
	return stream->size;
}

const char *stream_fault(const struct stream *stream)
{
	// A pipe that is left before its end looks as if it were cut.
	return stream->packed != NULL && !stream_stopped(stream) ? packed_fault(stream->packed)
								 : NULL;
}
