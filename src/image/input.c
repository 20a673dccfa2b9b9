// SPDX-License-Identifier: MIT
#include "image/input.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"

// How long a pipe with nothing in it is waited for before the wish to stop is looked at again.
#define WAIT_MILLISECONDS 100

static bool input_stopped(const struct input *input)
{
	return (input->stop != NULL && atomic_load(input->stop) != 0) ||
	       (input->cancel != NULL && atomic_load(input->cancel));
}

static ssize_t input_fail(const struct input *input, struct error *err)
{
	error_set(err, "%s: cannot read at offset %" PRIu64 ": %s", input->path, input->at,
		strerror(errno));
	return -1;
}

static ssize_t pipe_read(const struct input *input, void *buffer, size_t size, struct error *err)
{
	for (;;) {
		struct pollfd waiting = {.fd = input->fd, .events = POLLIN};
		if (input_stopped(input))
			return 0;
		const int ready = poll(&waiting, 1, WAIT_MILLISECONDS);
		if (ready == 0 || (ready < 0 && errno == EINTR))
			continue;
		const ssize_t got = ready < 0 ? -1 : read(input->fd, buffer, size);
		if (got >= 0)
			return got;
		if (errno != EINTR && errno != EAGAIN)
			return input_fail(input, err);
	}
}

static ssize_t disk_read(const struct input *input, void *buffer, size_t size, struct error *err)
{
	size = (size_t)min_u64(size, input->limit - input->at);
	for (;;) {
		const ssize_t got =
			pread(input->fd, buffer, size, (off_t)(input->base + input->at));
		if (got >= 0)
			return got;
		if (errno != EINTR)
			return input_fail(input, err);
	}
}

bool input_peek(struct input *input, struct error *err)
{
	while (input->first_size < sizeof input->first) {
		const ssize_t got = pipe_read(input, input->first + input->first_size,
			sizeof input->first - input->first_size, err);
		if (got < 0)
			return false;
		if (got == 0)
			break;
		input->first_size += (size_t)got;
	}
	return true;
}

ssize_t input_read(struct input *input, void *buffer, size_t size, struct error *err)
{
	ssize_t got;
	if (input->at < input->first_size) {
		got = (ssize_t)min_u64(size, input->first_size - input->at);
		memcpy(buffer, input->first + input->at, (size_t)got);
	} else {
		got = input->pipe ? pipe_read(input, buffer, size, err)
				  : disk_read(input, buffer, size, err);
	}
	if (got > 0)
		input->at += (uint64_t)got;
	return got;
}
