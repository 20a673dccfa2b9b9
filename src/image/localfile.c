// SPDX-License-Identifier: MIT
#include "image/localfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guard.h"

// To open a device can do things, and to open a FIFO can wait for ever: look before, and look again
// at what was opened.
static int regular_open(const char *path, struct stat *ret)
{
	if (stat(path, ret) != 0 || !S_ISREG(ret->st_mode))
		return -1;
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -1;
	if (fstat(fd, ret) != 0 || !S_ISREG(ret->st_mode) || ret->st_size <= 0) {
		close(fd);
		return -1;
	}
	return fd;
}

struct local_file *local_file_create(const char *path)
{
	struct stat status;
	int fd AUTO_CLOSE = regular_open(path, &status);
	if (fd < 0)
		return NULL;
	struct local_file *file = calloc(1, sizeof *file);
	if (file == NULL)
		return NULL;
	file->path = strdup(path);
	if (file->path == NULL) {
		free(file);
		return NULL;
	}
	file->device = status.st_dev;
	file->inode = status.st_ino;
	file->changed = status.st_ctim;
	file->size = (uint64_t)status.st_size;
	file->shared = (status.st_uid != 0 && status.st_uid != geteuid()) ||
		       (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
	file->fd = fd;
	fd = -1;
	return file;
}

void local_file_release(struct local_file *file)
{
	const int fd = file->fd;
	if (fd >= 0)
		close(fd);
	file->fd = -1;
}

void local_file_destroy(struct local_file *file)
{
	if (file == NULL)
		return;
	local_file_release(file);
	free(file->path);
	free(file);
}

int local_file_descriptor(struct local_file *file)
{
	int fd = file->fd;
	if (fd >= 0)
		return fd;
	struct stat status;
	const int opened = regular_open(file->path, &status);
	if (opened < 0)
		return -1;
	if (status.st_dev != file->device || status.st_ino != file->inode ||
		(uint64_t)status.st_size != file->size ||
		status.st_ctim.tv_sec != file->changed.tv_sec ||
		status.st_ctim.tv_nsec != file->changed.tv_nsec) {
		close(opened);
		return -1;
	}
	// Another thread may have been faster.
	if (!atomic_compare_exchange_strong(&file->fd, &fd, opened)) {
		close(opened);
		return fd;
	}
	return opened;
}

size_t local_file_read(struct local_file *file, uint64_t offset, void *buffer, size_t size)
{
	const int fd = local_file_descriptor(file);
	if (fd < 0 || offset >= file->size)
		return 0;
	size = (size_t)min_u64(size, file->size - offset);
	size_t done = 0;
	while (done < size) {
		const ssize_t got =
			pread(fd, (char *)buffer + done, size - done, (off_t)(offset + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

static size_t source_read(const void *context, uint64_t offset, void *buffer, size_t size)
{
	// The source of a file is made from a file that is not const.
	return local_file_read((struct local_file *)(uintptr_t)context, offset, buffer, size);
}

struct elf_source local_file_source(struct local_file *file)
{
	return (struct elf_source){.read = source_read, .context = file};
}
