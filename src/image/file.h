// SPDX-License-Identifier: MIT
//
// The bytes of a dump, wherever they come from: a file on disk, or a stream (stream.h): a pipe, or
// what is unpacked from a compressed file or pipe. A live process poses as one, too (live.h).
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/error.h"

struct file;

// The operations of one kind of source, as file_read, file_has_data and file_close say below.
struct file_ops {
	bool (*read)(const struct file *file, uint64_t offset, void *buffer, size_t size,
		struct error *err);
	bool (*has_data)(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret);
	void (*close)(struct file *file);
};

// The size of a source whose end has not been seen yet; all offsets are below it.
#define FILE_SIZE_UNKNOWN ((uint64_t)INT64_MAX)

struct mapping;

struct file {
	const struct file_ops *ops;
	const char *path; // for messages
	uint64_t size;	  // bytes, or FILE_SIZE_UNKNOWN
	uint64_t on_disk; // bytes that it takes there, without its holes; 0: not known
	bool piped;	  // from standard input or a pipe
	bool in_order;	  // only its beginning can be read at an offset, all of it as a stream only
	struct stream *stream;	  // NULL: none; owned
	struct mapping *mapping;  // of all of fd, for small reads; NULL: none; owned
	int fd;			  // what is read; closed with the file; -1: none
	uint64_t base;		  // in fd, where the dump begins
	struct timespec modified; // when it was opened, the time of the last change
	void *context;		  // of other sources
};

struct file_options {
	size_t memory;		// bytes that may be kept of the beginning of a stream
	const atomic_int *stop; // not zero: streams end where they are; NULL: never
};

// Open a file, a block device, a pipe, or standard input ("-") for reading, and unpack it if it is
// compressed. path names it in messages. On success the caller must close it with file_close.
bool file_open(
	const char *path, const struct file_options *options, struct error *err, struct file *ret);
void file_close(struct file *file);

// Read exactly size bytes at offset. What lies past the end of the file is an error: callers check
// against file->size before, so that only a file that shrinks gets there, and a stream.
bool file_read(
	const struct file *file, uint64_t offset, void *buffer, size_t size, struct error *err);

// Whether a file on disk has been written to since it was opened.
bool file_changed(const struct file *file);

// How many of the bytes before end the file has. With a stream this reads on to find out; false: it
// failed, or the stream cannot come back from there.
bool file_extent(const struct file *file, uint64_t end, struct error *err, uint64_t *ret);

// How a file on disk will be read from now on: in order, or here and there, where to read ahead is
// a waste.
void file_expect(const struct file *file, bool in_order);

// Find out whether there is data at offset. *ret becomes the end of the run of data or of the hole,
// at most limit. True: data, and always where the file system cannot tell.
bool file_has_data(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret);
