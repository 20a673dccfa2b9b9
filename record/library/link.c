// SPDX-License-Identifier: MIT
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base.h"
#include "launch.h"
#include "memory.h"

#define ATTEMPTS 500 // 2 ms apart

static bool connect_to(int end, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const size_t length = strlen(name);
	if (length + 1 > sizeof address.sun_path)
		return false;
	memcpy(address.sun_path + 1, name, length);
	const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		if (!connect(end, (const struct sockaddr *)&address, size))
			return true;
		if (errno != EAGAIN && errno != EINTR)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
	return false;
}

static bool send_file(int end, int file)
{
	struct launch_hello hello = {
		.version = LAUNCH_VERSION, .pid = (uint32_t)getpid(), .size = header->size};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.room = {0}};
	struct iovec data = {&hello, sizeof hello};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof control.room};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof file);
	memcpy(CMSG_DATA(head), &file, sizeof file);
	return sendmsg(end, &message, MSG_NOSIGNAL) == (ssize_t)sizeof hello;
}

void link_send(int file)
{
	const char *name = getenv(LAUNCH_ADDRESS);
	if (name) {
		const int end = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (end >= 0 && connect_to(end, name))
			send_file(end, file);
		if (end >= 0)
			close(end);
	}
	close(file);
	memory_share();
}
