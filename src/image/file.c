// SPDX-License-Identifier: MIT
#include "image/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"

static bool file_measure(struct file *file, struct error *err)
{
	struct stat status;
	if (fstat(file->fd, &status) != 0)
		return error_set(err, "%s: %s", file->path, strerror(errno));
	if (S_ISDIR(status.st_mode))
		return error_set(err, "%s: is a directory, not a dump", file->path);
	if (S_ISREG(status.st_mode)) {
		file->size = (uint64_t)status.st_size;
		return true;
	}
	if (S_ISBLK(status.st_mode)) {
		const off_t end = lseek(file->fd, 0, SEEK_END);
		if (end < 0)
			return error_set(
				err, "%s: cannot find its size: %s", file->path, strerror(errno));
		file->size = (uint64_t)end;
		return true;
	}
	return error_set(err,
		"%s: is neither a regular file nor a block device; save the dump to a file first",
		file->path);
}

bool file_open(const char *path, struct error *err, struct file *ret)
{
	// A FIFO without a writer would block in open.
	*ret = (struct file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	if (ret->fd < 0)
		return error_set(err, "%s: %s", path, strerror(errno));
	if (!file_measure(ret, err)) {
		file_close(ret);
		return false;
	}
	return true;
}

void file_close(struct file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

bool file_read(
	const struct file *file, uint64_t offset, void *buffer, size_t size, struct error *err)
{
	for (size_t done = 0; done < size;) {
		const ssize_t got =
			pread(file->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
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

bool file_has_data(const struct file *file, uint64_t offset, uint64_t limit, uint64_t *ret)
{
	*ret = limit;
	const off_t data = lseek(file->fd, (off_t)offset, SEEK_DATA);
	if (data < 0)
		return errno != ENXIO; // ENXIO: a hole up to the end of the file
	if ((uint64_t)data > offset) {
		*ret = min_u64(limit, (uint64_t)data);
		return false;
	}
	const off_t hole = lseek(file->fd, (off_t)offset, SEEK_HOLE);
	if (hole > 0)
		*ret = min_u64(limit, (uint64_t)hole);
	return true;
}
