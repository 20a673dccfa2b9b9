// SPDX-License-Identifier: MIT
//
// topleak-record: runs a program with the recording library, and keeps what it recorded.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "functions.h"
#include "keeper.h"
#include "launch.h"
#include "living.h"
#include "options.h"
#include "program.h"
#include "saving.h"

#define LIBRARY "libtopleak-record.so"
#define SETTINGS_MOST (4 * PATH_MAX)

// Where the library is: beside this program, as it is built, or where it is installed. Allocated.
static char *library_find(void)
{
	static const char *const places[] = {"", "../lib/topleak/"};
	char self[PATH_MAX];
	const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
	if (length <= 0)
		return NULL;
	self[length] = '\0';
	strrchr(self, '/')[1] = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		char whole[PATH_MAX + 64];
		snprintf(whole, sizeof whole, "%s%s" LIBRARY, self, places[i]);
		char *found = realpath(whole, NULL);
		if (found)
			return found;
	}
	fprintf(stderr, "topleak-record: " LIBRARY
			" is neither beside the program nor in ../lib/topleak\n");
	return NULL;
}

// Appends KEY=NAME to settings; see library/settings.c for how names are written.
static void name_append(char *settings, const char *key, const char *name)
{
	char *to = settings + strlen(settings);
	to += sprintf(to, " %s=", key);
	for (; *name && to < settings + SETTINGS_MOST - 8; name++) {
		if (*name == ' ' || *name == '%')
			to += sprintf(to, "%%%02X", *name);
		else
			*to++ = *name;
	}
	*to = '\0';
}

static bool library_preload(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	if (strpbrk(library, " :")) {
		fprintf(stderr,
			"topleak-record: %s: LD_PRELOAD takes no path with a space or a colon\n",
			library);
		return false;
	}
	char *all = malloc(strlen(library) + (others ? strlen(others) : 0) + 2);
	if (!all)
		return false;
	sprintf(all, "%s%s%s", library, others ? ":" : "", others ? others : "");
	const bool done = !setenv("LD_PRELOAD", all, 1);
	free(all);
	return done;
}

// The environment of the program.
static bool environment_set(
	const struct options *options, const char *address, const char *log, const char *chosen)
{
	char settings[SETTINGS_MOST];
	snprintf(settings, sizeof settings,
		"mode=%s mean=%llu above=%llu guard=%llu mmap=%d seed=%llu log-size=%llu",
		options->full ? "full" : "sample", (unsigned long long)options->sample,
		(unsigned long long)options->above, (unsigned long long)options->guard,
		options->mappings, (unsigned long long)options->seed,
		(unsigned long long)options->log_size);
	if (log)
		name_append(settings, "log", log);
	if (chosen)
		name_append(settings, "chosen", chosen);
	return !setenv(LAUNCH_SETTINGS, settings, 1) && !setenv(LAUNCH_ADDRESS, address, 1);
}

// An empty log, by its absolute path. NULL: says why on stderr.
static char *log_create(const char *path)
{
	const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	char *whole = file < 0 ? NULL : realpath(path, NULL);
	if (!whole)
		fprintf(stderr, "topleak-record: %s: %s\n", path, strerror(errno));
	if (file >= 0)
		close(file);
	return whole;
}

static pid_t program_start(char *const *arguments, const char *path, const sigset_t *mask)
{
	const pid_t child = fork();
	if (child)
		return child;
	sigprocmask(SIG_SETMASK, mask, NULL);
	execv(path, arguments);
	if (errno == ENOEXEC)
		execvp(arguments[0], arguments);
	fprintf(stderr, "topleak-record: %s: %s\n", path, strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static int record(struct options *options)
{
	char address[64], *log = NULL, *chosen = NULL;
	char *library = library_find(), *path = program_find(options->program[0]);
	if (!library)
		return 1;
	if (!path) {
		fprintf(stderr, "topleak-record: %s: no such program\n", options->program[0]);
		return 127;
	}
	if (!program_check(path, options->quiet))
		return 126;
	if (options->log && !(log = log_create(options->log)))
		return 1;
	if (options->chosen_count && !(chosen = functions_find(options, path)))
		return 1;
	options->log = log;
	const int listener = keeper_listen(address);
	if (listener < 0 || !environment_set(options, address, log, chosen) ||
		!library_preload(library)) {
		perror("topleak-record: cannot start");
		return 1;
	}
	// Signals wait until the child is known.
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	const pid_t child = program_start(options->program, path, &before);
	if (child < 0) {
		perror("topleak-record: fork");
		return 1;
	}
	const int status = keeper_run(options, listener, child, &before);
	if (chosen)
		unlink(chosen);
	free(library);
	free(path);
	free(log);
	free(chosen);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	struct options options;
	options_read(argc, argv, &options);
	if (!options.pid)
		return record(&options);
	char *name =
		saving_name(options.output ? options.output : "topleak-record.%p", options.pid);
	const bool done = living_save(options.pid, name);
	if (done && !options.quiet)
		fprintf(stderr, "topleak-record: %s; topleak --stacks reads it\n", name);
	free(name);
	return !done;
}
