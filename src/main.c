// SPDX-License-Identifier: MIT
//
// The whole way: options -> dump -> answer -> report. What a question does is in answer/.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "answer/answer.h"
#include "base/cpu.h"
#include "cli/options.h"
#include "count/count.h"
#include "image/binary.h"
#include "report/report.h"

enum { EXIT_USAGE = 2 };

// More files than the programs of any dump need.
#define FILES_MAX ((rlim_t)65536)

// The signal that asked to stop, or 0. A handler can reach nothing else.
static atomic_int stop_signal;

static void stop_handle(int number)
{
	atomic_store(&stop_signal, number);
}

// SIGINT and SIGTERM end with what was found so far; the second one ends at once. They do not
// interrupt the writing of it. A closed pipe ends quietly, even where the parent ignores SIGPIPE.
static void signals_init(void)
{
	struct sigaction action = {
		.sa_handler = stop_handle, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_DFL);
}

// If one of the standard descriptors is closed, a dump that is opened would take its place.
static bool descriptors_init(struct error *err)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (fd == 1)
			return error_set(err, "stdout is closed: there is nowhere to print to");
		if (open("/dev/null", O_RDWR) < 0)
			return error_set(err, "/dev/null: %s", strerror(errno));
	}
	return true;
}

// Each program that gives names keeps two files open. 500 libraries would be too many for the usual
// soft limit, and those beyond it would have no names.
static void files_init(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= FILES_MAX)
		return;
	limit.rlim_cur = limit.rlim_max < FILES_MAX ? limit.rlim_max : FILES_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
}

// Answer for one dump of the program exe; NULL: not given.
static bool dump_answer(const char *path, const char *exe, const struct options *options,
	struct diag *diag, struct report *report, struct error *err)
{
	struct dump dump = {.options = options, .stop = &stop_signal, .diag = diag};
	const bool watched =
		options->progress == WHEN_ALWAYS ||
		(options->progress == WHEN_AUTO && !options->quiet && isatty(STDERR_FILENO));
	progress_init(&dump.progress, watched ? stderr : NULL);
	bool ok;
	if (options->stacks)
		ok = stacks_together(options) ? answer_stacks_together(&dump, exe, report, err)
					      : answer_stacks(&dump, path, exe, report, err);
	else if (table_is_saved(options, path))
		ok = options->leaks ? answer_saved_leaks(&dump, path, report, err)
				    : answer_saved_types(&dump, path, report, err);
	else if ((ok = dump_open(&dump, path, exe, err)))
		ok = options->types	   ? answer_types(&dump, report, err)
		     : options->leaks	   ? answer_leaks(&dump, report, err)
		     : options->owners	   ? answer_owners(&dump, report, err)
		     : options->heap	   ? answer_heap(&dump, report, err)
		     : options->path_given ? answer_path(&dump, report, err)
		     : find_asked(options) ? answer_find(&dump, report, err)
					   : answer_words(&dump, report, err);
	progress_clear(&dump.progress);
	ok = ok && (dump.image == NULL || image_unchanged(dump.image, err));
	dump_close(&dump);
	return ok;
}

// A program before a core is its --exe.
static bool is_exe(const struct options *options, size_t index)
{
	return !options->raw && index + 1 < options->file_count &&
	       binary_is_program(options->files[index]);
}

static bool dumps_answer(
	const struct options *options, struct diag *diag, struct report *report, struct error *err)
{
	const char *exe = NULL;
	bool ok = true;
	for (size_t i = 0; i < options->file_count; i++) {
		if (is_exe(options, i)) {
			exe = options->files[i];
			if (is_exe(options, i + 1))
				diag_warn(
					diag, "%s: a program that no dump follows: not used", exe);
			continue;
		}
		const bool answered =
			dump_answer(options->files[i], exe, options, diag, report, err);
		// Without a place to print to the other files are of no use; a wrong wish stays
		// one.
		if (ferror(stdout) || (!answered && err->usage))
			return false;
		const bool stopped = atomic_load(&stop_signal) != 0;
		if (answered && stacks_together(options))
			return ok;
		if (!answered) {
			diag_error(diag, err);
			err->text[0] = '\0';
		}
		// What a signal has ended is partial, not wrong.
		ok = ok && (answered || stopped);
		if (stopped) {
			if (i + 1 < options->file_count)
				diag_warn(diag, "%s: interrupted: not read", options->files[i + 1]);
			break;
		}
	}
	return ok;
}

// Some file systems say only when a file is closed that it could not be written.
static bool output_close(struct error *err)
{
	const bool failed = ferror(stdout) != 0;
	errno = 0;
	if (fclose(stdout) == 0 && !failed)
		return true;
	return error_set(err, "cannot write the output: %s",
		errno != 0 ? strerror(errno) : "an earlier write failed");
}

static unsigned processors(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

// NO_COLOR: see no-color.org.
static bool wants_color(const struct options *options)
{
	const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
	if (options->color != WHEN_AUTO)
		return options->color == WHEN_ALWAYS;
	return isatty(STDOUT_FILENO) && (none == NULL || none[0] == '\0') && terminal != NULL &&
	       strcmp(terminal, "dumb") != 0;
}

// A folder that is not there would only show in names that are missing.
static bool folder_check(const char *option, const char *path, struct error *err)
{
	struct stat status;
	if (path == NULL)
		return true;
	if (stat(path, &status) != 0)
		return error_set(err, "%s: %s: %s", option, path, strerror(errno));
	return S_ISDIR(status.st_mode) ||
	       error_set(err, "%s: %s: is not a directory", option, path);
}

static int run(const struct options *options, struct diag *diag)
{
	static const enum report_format formats[] = {
		[OUTPUT_TEXT] = REPORT_TEXT,
		[OUTPUT_JSON] = REPORT_JSON,
		[OUTPUT_CSV] = REPORT_CSV,
		[OUTPUT_GDB] = REPORT_GDB,
		[OUTPUT_FOLDED] = REPORT_FOLDED,
		[OUTPUT_PPROF] = REPORT_PPROF,
		[OUTPUT_SPEEDSCOPE] = REPORT_SPEEDSCOPE,
	};
	struct error err = {0};
	struct report report;
	size_t dumps = 0;
	for (size_t i = 0; i < options->file_count; i++)
		dumps += !is_exe(options, i);
	const size_t needed = count_memory_needed(options->top);
	bool ok = false;
	if (options->memory < needed)
		error_usage(&err, "--top %" PRIu64 ": does not fit --memory; use -m %zuM or more",
			options->top, (needed + (1 << 20) - 1) >> 20);
	else if ((options->output == OUTPUT_FOLDED || options->output == OUTPUT_PPROF ||
			 options->output == OUTPUT_SPEEDSCOPE) &&
		 dumps > 1)
		error_usage(&err, "--output %s: takes one file or folder, not %zu",
			options->output == OUTPUT_FOLDED  ? "folded"
			: options->output == OUTPUT_PPROF ? "pprof"
							  : "speedscope",
			dumps);
	else if (options->output == OUTPUT_GDB && dumps > 1)
		error_usage(
			&err, "--output gdb: takes one file, not %zu; gdb reads one core", dumps);
	else
		ok = folder_check("--sysroot", options->sysroot, &err) &&
		     folder_check("--debug-dir", options->debug_dir, &err) &&
		     report_init(&report, stdout, formats[options->output], dumps > 1,
			     wants_color(options), &err) &&
		     dumps_answer(options, diag, &report, &err) && output_close(&err);
	int status = ok ? EXIT_SUCCESS : err.usage ? EXIT_USAGE : EXIT_FAILURE;
	if (err.text[0] != '\0')
		diag_error(diag, &err);
	const int number = atomic_load(&stop_signal);
	return number != 0 && status == EXIT_SUCCESS ? 128 + number : status;
}

static int information(const struct options *options, struct diag *diag)
{
	struct error err;
	if (options->help)
		options_help(stdout);
	else
		options_version(stdout);
	if (output_close(&err))
		return EXIT_SUCCESS;
	diag_error(diag, &err);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct diag diag;
	struct error err = {0};
	struct options options = {0};
	int status;
	signals_init();
	files_init();
#ifdef M_MMAP_THRESHOLD
	// A large block goes back to the system when it is freed: --memory bounds what is in use.
	mallopt(M_MMAP_THRESHOLD, 256 * 1024);
#endif
	diag_init(&diag, stderr);
	if (descriptors_init(&err) && options_parse(argc, argv, &err, &options) &&
		cpu_choose(getenv("TOPLEAK_SIMD"), &err, &options.level)) {
		if (options.threads == 0)
			options.threads = processors();
		status = options.help || options.version ? information(&options, &diag)
							 : run(&options, &diag);
	} else {
		diag_error(&diag, &err);
		status = err.usage ? EXIT_USAGE : EXIT_FAILURE;
	}
	options_deinit(&options);
	diag_deinit(&diag);
	return status;
}
