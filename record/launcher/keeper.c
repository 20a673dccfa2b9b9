// SPDX-License-Identifier: MIT
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch.h"
#include "saving.h"
#include "triggers.h"

#define LOOK_INTERVAL 100 // milliseconds: the resolution of ages

struct process {
	pid_t pid;
	int handle; // from pidfd_open(); -1: there is none, it is asked for by its id
	struct record_header *header; // its memory
	uint64_t size;
	struct series series;
	struct triggers triggers;
};

struct keeper {
	const struct options *options;
	int listener;
	pid_t child; // 0: has ended
	int status;
	bool seen; // the child was recorded
	struct process *processes;
	size_t count;
	struct pollfd *polls; // the listener's, then the processes'
};

static volatile sig_atomic_t asked_to_save, passed_on;

static void save_signal(int signal)
{
	(void)signal;
	asked_to_save = 1;
}

static void pass_signal(int signal)
{
	passed_on = signal;
}

static void child_signal(int signal)
{
	(void)signal;
}

static uint64_t milliseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int keeper_listen(char ret_name[64])
{
	uint64_t random = milliseconds();
	if (syscall(SYS_getrandom, &random, sizeof random, 0) < 0)
		random ^= (uint64_t)getpid() << 32;
	snprintf(ret_name, 64, "topleak-record-%d-%016llx", getpid(), (unsigned long long)random);
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const size_t length = strlen(ret_name);
	memcpy(address.sun_path + 1, ret_name, length);
	const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	if (listener < 0 || bind(listener, (const struct sockaddr *)&address, size) ||
		listen(listener, 4096))
		return -1;
	return listener;
}

static char *file_name(const struct keeper *keeper, pid_t pid)
{
	const char *pattern =
		keeper->options->output ? keeper->options->output : "topleak-record.%p";
	return saving_name(pattern, pid);
}

// Without %p there is one file: it is the program's own.
static bool is_wanted(const struct keeper *keeper, pid_t pid)
{
	return pid == keeper->child ||
	       (keeper->options->output && strstr(keeper->options->output, "%p"));
}

static void process_save(struct keeper *keeper, struct process *process, bool ended)
{
	struct source source = {.header = process->header,
		.size = process->size,
		.series = process->series.count ? &process->series : NULL,
		.ended = ended,
		.status_known = ended && process->pid == keeper->child,
		.status = keeper->status};
	if (!is_wanted(keeper, process->pid))
		return;
	char *name = file_name(keeper, process->pid);
	if (saving_write(&source, name) && !keeper->options->quiet)
		fprintf(stderr, "topleak-record: %s: %s%s%s\n", name,
			process->header->mode == RECORD_FULL ? "every block" : "sampled",
			ended ? "" : ", so far", "; topleak --stacks reads it");
	free(name);
	if (ended && process->pid == keeper->child && keeper->options->log)
		saving_finish_log(&source, keeper->options->log, keeper->options->log_size);
}

static void process_drop(struct keeper *keeper, size_t index)
{
	struct process *process = &keeper->processes[index];
	munmap(process->header, process->size);
	if (process->handle >= 0)
		close(process->handle);
	series_deinit(&process->series);
	*process = keeper->processes[--keeper->count];
}

static void process_map(struct keeper *keeper, pid_t pid, int memory, uint64_t size)
{
	struct stat status;
	if (fstat(memory, &status) || status.st_size < (off_t)sizeof(struct record_header) ||
		(uint64_t)status.st_size != size)
		return;
	void *start =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory, 0);
	if (start == MAP_FAILED)
		return;
	madvise(start, size, MADV_DONTDUMP);
	// It runs another program now; or it is another process with the same id.
	for (size_t i = 0; i < keeper->count; i++)
		if (keeper->processes[i].pid == pid)
			process_drop(keeper, i--);
	keeper->processes =
		realloc(keeper->processes, (keeper->count + 1) * sizeof *keeper->processes);
	if (!keeper->processes)
		abort();
	struct process *process = &keeper->processes[keeper->count++];
	*process = (struct process){.pid = pid,
		.handle = (int)syscall(SYS_pidfd_open, pid, 0),
		.header = start,
		.size = size,
		.series = {.interval = keeper->options->snapshot}};
	if (process->handle >= 0)
		fcntl(process->handle, F_SETFD, FD_CLOEXEC);
	keeper->seen = keeper->seen || pid == keeper->child;
}

static void hello_take(struct keeper *keeper, int end)
{
	struct launch_hello hello;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec data = {&hello, sizeof hello};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof control.room};
	struct ucred peer;
	socklen_t size = sizeof peer;
	struct pollfd wait = {end, POLLIN, 0};
	if (getsockopt(end, SOL_SOCKET, SO_PEERCRED, &peer, &size) || poll(&wait, 1, 1000) != 1)
		return;
	const ssize_t got = recvmsg(end, &message, MSG_CMSG_CLOEXEC);
	const struct cmsghdr *head = got == (ssize_t)sizeof hello ? CMSG_FIRSTHDR(&message) : NULL;
	if (!head || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
		return;
	int memory;
	memcpy(&memory, CMSG_DATA(head), sizeof memory);
	if (hello.version == LAUNCH_VERSION &&
		(peer.uid == geteuid() || geteuid() == 0 || peer.uid == 0))
		process_map(keeper, peer.pid, memory, hello.size);
	close(memory);
}

static void hellos_take(struct keeper *keeper)
{
	for (int end; (end = accept4(keeper->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
		hello_take(keeper, end);
		close(end);
	}
}

static void process_look(struct keeper *keeper, struct process *process)
{
	struct record_header *header = process->header;
	const uint64_t now = milliseconds() * 1000000;
	if (now > header->start_clock)
		__atomic_store_n(&header->now, now - header->start_clock, __ATOMIC_RELAXED);
	struct series *series = &process->series;
	const uint64_t resident = triggers_resident(process->pid);
	bool add = triggers_look(&process->triggers, keeper->options, header, resident);
	if (series->interval && milliseconds() >= series->next) {
		series->next = (series->next ? series->next : milliseconds()) + series->interval;
		add = true;
	}
	if (add)
		series_add(series, header, process->size, resident);
}

static bool has_ended(const struct process *process)
{
	if (process->handle < 0)
		return kill(process->pid, 0) && errno == ESRCH;
	struct pollfd wait = {process->handle, POLLIN, 0};
	return poll(&wait, 1, 0) == 1;
}

static void ended_take(struct keeper *keeper)
{
	for (size_t i = 0; i < keeper->count;) {
		struct process *process = &keeper->processes[i];
		// The child is saved when its status is known.
		if (process->pid == keeper->child || !has_ended(process)) {
			i++;
			continue;
		}
		process_save(keeper, process, true);
		process_drop(keeper, i);
	}
}

static void child_take(struct keeper *keeper)
{
	hellos_take(keeper);
	for (size_t i = 0; i < keeper->count; i++) {
		if (keeper->processes[i].pid != keeper->child)
			continue;
		process_save(keeper, &keeper->processes[i], true);
		process_drop(keeper, i);
		break;
	}
	if (!keeper->seen)
		fprintf(stderr, "topleak-record: nothing was recorded: the program did not load "
				"the library\n");
	keeper->child = 0;
}

static void wait_for_something(struct keeper *keeper)
{
	keeper->polls = realloc(keeper->polls, (keeper->count + 1) * sizeof *keeper->polls);
	if (!keeper->polls)
		abort();
	keeper->polls[0] = (struct pollfd){keeper->listener, POLLIN, 0};
	for (size_t i = 0; i < keeper->count; i++)
		keeper->polls[i + 1] = (struct pollfd){keeper->processes[i].handle, POLLIN, 0};
	poll(keeper->polls, keeper->count + 1, LOOK_INTERVAL);
}

static void signals_take(struct keeper *keeper)
{
	if (asked_to_save) {
		asked_to_save = 0;
		for (size_t i = 0; i < keeper->count; i++)
			process_save(keeper, &keeper->processes[i], false);
	}
	if (passed_on && keeper->child)
		kill(keeper->child, passed_on);
	passed_on = 0;
}

static void signals_set(void)
{
	// The terminal sends these to the program, too; it decides.
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); // then a file that grows too large is an error
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = pass_signal}, NULL);
	sigaction(SIGHUP, &(struct sigaction){.sa_handler = pass_signal}, NULL);
	sigaction(SIGUSR1, &(struct sigaction){.sa_handler = save_signal, .sa_flags = SA_RESTART},
		NULL);
	// So that poll() ends when the child does.
	sigaction(SIGCHLD, &(struct sigaction){.sa_handler = child_signal}, NULL);
}

int keeper_run(const struct options *options, int listener, pid_t child, const sigset_t *mask)
{
	struct keeper keeper = {.options = options, .listener = listener, .child = child};
	signals_set();
	sigprocmask(SIG_SETMASK, mask, NULL);
	while (keeper.child || keeper.count) {
		wait_for_something(&keeper);
		signals_take(&keeper);
		hellos_take(&keeper);
		for (size_t i = 0; i < keeper.count; i++)
			process_look(&keeper, &keeper.processes[i]);
		ended_take(&keeper);
		if (!keeper.child || waitpid(child, &keeper.status, WNOHANG) != child)
			continue;
		child_take(&keeper);
		ended_take(&keeper);
		// What still runs is kept in the background.
		if (keeper.count && is_wanted(&keeper, -1)) {
			if (fork() != 0)
				break;
			setsid();
		} else if (keeper.count) {
			break;
		}
	}
	return keeper.status;
}
