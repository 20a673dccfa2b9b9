// SPDX-License-Identifier: MIT
#include "names/debuginfod.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LIBRARY "libdebuginfod.so.1"
// Seconds in all: an answer that takes longer is not worth waiting for.
// Seconds, in all. Later libraries (0.192) do not ask the progress function while a server is
// silent, so they are told as well.
#define TIME_MAX 10
#define TIME_TEXT(seconds) TIME_TEXT_(seconds)
#define TIME_TEXT_(seconds) #seconds

// As in elfutils/debuginfod.h, which is not needed to build.
typedef struct debuginfod_client client;
typedef client *begin_function(void);
typedef void end_function(client *);
typedef int progress_function(client *, long, long);
typedef void set_progress_function(client *, progress_function *);
typedef int find_function(client *, const unsigned char *id, int size, char **path);
typedef void set_user_data_function(client *, void *);
typedef void *get_user_data_function(client *);

struct debuginfod {
	client *client;
	end_function *end;
	find_function *find[2]; // by enum debuginfod_type
	double left;		// seconds
	double started;		// the present request
};

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Called again and again during a request; not 0 ends it.
static int progress(client *session, long a, long b)
{
	(void)a;
	(void)b;
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	if (library == NULL)
		return 1;
	get_user_data_function *get_user_data =
		(get_user_data_function *)dlsym(library, "debuginfod_get_user_data");
	dlclose(library);
	const struct debuginfod *debuginfod = get_user_data != NULL ? get_user_data(session) : NULL;
	return debuginfod == NULL || seconds_now() - debuginfod->started > debuginfod->left;
}

static bool session_begin(struct debuginfod *debuginfod)
{
	// Never closed: some of the libraries that it brings along do not like to be unloaded.
	void *library = dlopen(LIBRARY, RTLD_LAZY);
	if (library == NULL)
		return false;
	begin_function *begin = (begin_function *)dlsym(library, "debuginfod_begin");
	set_progress_function *set_progress =
		(set_progress_function *)dlsym(library, "debuginfod_set_progressfn");
	set_user_data_function *set_user_data =
		(set_user_data_function *)dlsym(library, "debuginfod_set_user_data");
	debuginfod->end = (end_function *)dlsym(library, "debuginfod_end");
	debuginfod->find[DEBUGINFOD_SYMBOLS] =
		(find_function *)dlsym(library, "debuginfod_find_debuginfo");
	debuginfod->find[DEBUGINFOD_PROGRAM] =
		(find_function *)dlsym(library, "debuginfod_find_executable");
	if (begin == NULL || set_progress == NULL || set_user_data == NULL ||
		debuginfod->end == NULL || debuginfod->find[DEBUGINFOD_SYMBOLS] == NULL ||
		debuginfod->find[DEBUGINFOD_PROGRAM] == NULL)
		return false;
	debuginfod->client = begin();
	if (debuginfod->client == NULL)
		return false;
	set_user_data(debuginfod->client, debuginfod);
	set_progress(debuginfod->client, progress);
	return true;
}

struct debuginfod *debuginfod_create(struct diag *diag)
{
	if (TOPLEAK_STATIC) {
		diag_warn(diag, "--debuginfod: a static build of topleak cannot ask servers; use "
				"an ordinary one, or fetch the debug file and use --debug-dir");
		return NULL;
	}
	const char *servers = getenv("DEBUGINFOD_URLS");
	if (servers == NULL || servers[0] == '\0') {
		diag_warn(diag, "--debuginfod: DEBUGINFOD_URLS names no server; set it");
		return NULL;
	}
	// What the user has set stays. No thread is running yet.
	setenv("DEBUGINFOD_TIMEOUT", TIME_TEXT(TIME_MAX), 0);
	setenv("DEBUGINFOD_RETRY_LIMIT", "0", 0);
	struct debuginfod *debuginfod = calloc(1, sizeof *debuginfod);
	if (debuginfod == NULL)
		return NULL;
	debuginfod->left = TIME_MAX;
	if (session_begin(debuginfod))
		return debuginfod;
	diag_warn(diag, "--debuginfod: %s cannot be loaded; install it", LIBRARY);
	free(debuginfod);
	return NULL;
}

void debuginfod_destroy(struct debuginfod *debuginfod)
{
	if (debuginfod == NULL)
		return;
	debuginfod->end(debuginfod->client);
	free(debuginfod);
}

char *debuginfod_find(
	struct debuginfod *debuginfod, const struct build_id *id, enum debuginfod_type type)
{
	char *path = NULL;
	if (debuginfod->left <= 0 || id->size == 0)
		return NULL;
	debuginfod->started = seconds_now();
	const int fd = debuginfod->find[type](debuginfod->client, id->bytes, (int)id->size, &path);
	debuginfod->left -= seconds_now() - debuginfod->started;
	if (fd < 0)
		return NULL;
	close(fd);
	return path;
}
