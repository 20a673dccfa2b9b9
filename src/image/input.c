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

// Standard input may block, and is not only ours, so that its flags are left alone: it is read only
// when poll says that there is something. A FIFO that nobody writes to is at its end at once, but
// poll would wait for its first writer.
static ssize_t pipe_read(const struct input *input, void *buffer, size_t size, struct error *err)
{
	bool ready = !input->blocks;
	while (!input_stopped(input)) {
		const ssize_t got = ready ? read(input->fd, buffer, size) : -1;
		if (got >= 0)
			return got;
		if (ready && errno != EINTR && errno != EAGAIN)
			return input_fail(input, err);
		struct pollfd waiting = {.fd = input->fd, .events = POLLIN};
		const int found = poll(&waiting, 1, WAIT_MILLISECONDS);
		if (found < 0 && errno != EINTR)
			return input_fail(input, err);
		ready = found > 0;
	}
	return 0;
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
