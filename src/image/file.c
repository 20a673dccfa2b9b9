// SPDX-License-Identifier: MIT
#include "image/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "image/magic.h"
#include "image/mapping.h"
#include "image/stream.h"

// Up to so many bytes, to copy them from where the file is mapped takes less time than a call. Of
// what is larger, reading also fetches the pages at once.
#define MAPPED_READ_MAX ((size_t)32 * 1024)

static bool disk_read(
	const struct file *file, uint64_t offset, void *buffer, size_t size, struct error *err)
{
	if (file->mapping != NULL && size <= MAPPED_READ_MAX &&
		mapping_read(file->mapping, file->base + offset, buffer, size))
		return true;
	// What is gone fails here, too, with the offset.
	for (size_t done = 0; done < size;) {
		const ssize_t got = pread(file->fd, (char *)buffer + done, size - done,
			(off_t)(file->base + offset + done));
		if (got > 0) {
			done += (size_t)got;
			continue;
		}
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_set(err, "%s: cannot read at offset %" PRIu64 ": %s",
				file->path, offset + done, strerror(errno));
		return error_set(err,
			"%s: ends at offset %" PRIu64 ", but was %" PRIu64
			" bytes long when opened: it changes while it is read; copy it first",
			file->path, offset + done, file->size);
	}
	return true;
}

static bool disk_has_data(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret)
{
	*ret = limit;
	const off_t at = (off_t)(file->base + offset);
	const off_t data = lseek(file->fd, at, SEEK_DATA);
	// ENXIO: a hole up to the end of the file; if that is no longer where it was, reading
	// fails.
	if (data < 0)
		return errno != ENXIO ||
		       lseek(file->fd, 0, SEEK_END) < (off_t)(file->base + file->size);
	if (data > at) {
		*ret = min_u64(limit, (uint64_t)data - file->base);
		return false;
	}
	const off_t hole = lseek(file->fd, at, SEEK_HOLE);
	if (hole > 0)
		*ret = min_u64(limit, (uint64_t)hole - file->base);
	return true;
}

static void disk_close(struct file *file)
{
	mapping_destroy(file->mapping);
	close(file->fd);
}

static const struct file_ops disk_ops = {disk_read, disk_has_data, disk_close};

// Find out whether bytes come through a pipe, and how many there are if not.
static bool file_measure(struct file *file, bool standard, struct error *err, bool *pipe)
{
	struct stat status;
	if (fstat(file->fd, &status) != 0)
		return error_set(err, "%s: %s", file->path, strerror(errno));
	if (S_ISDIR(status.st_mode))
		return error_set(err, "%s: is a directory, not a dump", file->path);
	file->modified = status.st_mtim;
	*pipe = S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode);
	if (*pipe) {
		file->size = FILE_SIZE_UNKNOWN;
		return true;
	}
	if (isatty(file->fd))
		return error_set(err,
			"%s: is a terminal; pipe a dump into it: zstd -dc core.zst | topleak -",
			file->path);
	if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode))
		return error_set(err,
			"%s: is neither a file, a block device nor a pipe; save the dump to a file "
			"first",
			file->path);
	const off_t at = standard ? lseek(file->fd, 0, SEEK_CUR) : 0;
	const off_t end = S_ISREG(status.st_mode) ? status.st_size : lseek(file->fd, 0, SEEK_END);
	if (at < 0 || end < 0)
		return error_set(err, "%s: cannot find its size: %s", file->path, strerror(errno));
	file->base = (uint64_t)at;
	file->on_disk = (uint64_t)status.st_blocks * 512;
	file->size = end > at ? (uint64_t)(end - at) : 0;
	return true;
}

// Make a stream of what is no plain file on disk.
static bool file_recognize(
	struct file *file, bool pipe, const struct file_options *options, struct error *err)
{
	unsigned char first[MAGIC_SIZE];
	size_t size = (size_t)min_u64(sizeof first, file->size);
	struct input input = {
		.path = file->path,
		.fd = file->fd,
		.pipe = pipe,
		.blocks = (fcntl(file->fd, F_GETFL) & O_NONBLOCK) == 0,
		.base = file->base,
		.limit = file->size,
		.stop = options->stop,
	};
	if (pipe ? !input_peek(&input, err) : !disk_read(file, 0, first, size, err))
		return false;
	const struct magic *magic =
		pipe ? magic_find(input.first, input.first_size) : magic_find(first, size);
	const enum packing packing = magic != NULL ? magic->packing : PACKING_NONE;
	if (!pipe && packing == PACKING_NONE)
		return true;
	return stream_open(file, &input, packing, options->memory, err);
}

bool file_open(
	const char *path, const struct file_options *options, struct error *err, struct file *ret)
{
	const bool standard = strcmp(path, "-") == 0;
	*ret = (struct file){
		.ops = &disk_ops,
		.path = standard ? "standard input" : path,
		// A FIFO without a writer would block in open.
		.fd = standard ? fcntl(0, F_DUPFD_CLOEXEC, 3)
			       : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK),
	};
	bool pipe = false;
	if (ret->fd < 0)
		return error_set(err, "%s: %s", ret->path, strerror(errno));
	if (!file_measure(ret, standard, err, &pipe) || !file_recognize(ret, pipe, options, err)) {
		file_close(ret);
		return false;
	}
	ret->piped = standard || pipe;
	if (ret->ops == &disk_ops)
		ret->mapping = mapping_create(ret->fd, ret->base + ret->size);
	return true;
}

void file_close(struct file *file)
{
	if (file->ops != NULL)
		file->ops->close(file);
	file->ops = NULL;
}

bool file_read(
	const struct file *file, uint64_t offset, void *buffer, size_t size, struct error *err)
{
	return file->ops->read(file, offset, buffer, size, err);
}

bool file_changed(const struct file *file)
{
	struct stat status;
	return file->fd >= 0 && fstat(file->fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       (status.st_mtim.tv_sec != file->modified.tv_sec ||
		       status.st_mtim.tv_nsec != file->modified.tv_nsec);
}

bool file_extent(const struct file *file, uint64_t end, struct error *err, uint64_t *ret)
{
	if (file->in_order)
		return stream_extent(file->stream, end, err, ret);
	*ret = min_u64(end, file->size);
	return true;
}

void file_expect(const struct file *file, bool in_order)
{
	if (file->ops == &disk_ops)
		(void)posix_fadvise(
			file->fd, 0, 0, in_order ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
}

bool file_has_data(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret)
{
	return file->ops->has_data(file, offset, limit, ret);
}
