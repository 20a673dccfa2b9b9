// SPDX-License-Identifier: MIT
//
// A whole question: a command line, and what it is asked of, all hostile. The lengths of the
// command line (two bytes), of the dump and of the program (four bytes each), then these, then the
// other side of --diff. What is written is read back.
#include <getopt.h>
#include <jansson.h>

#include "answer/answer.h"
#include "base/escape.h"
#include "base/guard.h"
#include "fuzz.h"

#define ARGUMENTS_MAX 16

struct files {
	char core[32], exe[32], other[32];
	bool has_exe, has_other;
};

// As on the command line, but of files that are only in memory, and with little of the machine.
static void options_limit(struct options *options, const struct files *files)
{
	options->pid = 0;
	options->debuginfod = false;
	options->exe = files->has_exe ? files->exe : NULL;
	options->sysroot = options->debug_dir = "/nonexistent";
	options->diff = options->diff != NULL && files->has_other ? files->other : NULL;
	options->memory = (uint64_t)16 << 20;
	options->threads = 1 + options->threads % 2;
	options->top = 1 + options->top % 1000;
	options->progress = WHEN_NEVER;
	options->time = options->verbose = false;
	options->quiet = true;
}

static enum report_format format_of(uint64_t output)
{
	return output == OUTPUT_JSON  ? REPORT_JSON
	       : output == OUTPUT_CSV ? REPORT_CSV
	       : output == OUTPUT_GDB ? REPORT_GDB
				      : REPORT_TEXT;
}

// JSON is one object in one line; the rest has no control characters, and UTF-8 only.
static void output_check(enum report_format format, const char *text, size_t size)
{
	if (format == REPORT_JSON) {
		json_error_t error;
		json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
		CHECK(object != NULL && memchr(text, '\n', size) == text + size - 1);
		json_decref(object);
	}
	for (size_t i = 0; i < size;) {
		const size_t length = escape_printable((const unsigned char *)text + i, size - i);
		CHECK(length > 0 || text[i] == '\n');
		i += length > 0 ? length : 1;
	}
}

static void ask(const struct options *options, const struct files *files)
{
	static const atomic_int stop;
	const enum report_format format = format_of(options->output);
	char *text = NULL, *said = NULL;
	size_t size, said_size;
	FILE *stream = open_memstream(&text, &size), *log = open_memstream(&said, &said_size);
	struct diag diag;
	struct report report;
	struct error err = {0};
	CHECK(stream != NULL && log != NULL);
	diag_init(&diag, log);
	CHECK(report_init(&report, stream, format, false, false, &err));
	struct dump dump = {.options = options, .stop = &stop, .diag = &diag};
	progress_init(&dump.progress, NULL);
	bool ok = dump_open(&dump, files->core, NULL, &err);
	if (ok)
		ok = options->types	   ? answer_types(&dump, &report, &err)
		     : options->leaks	   ? answer_leaks(&dump, &report, &err)
		     : options->heap	   ? answer_heap(&dump, &report, &err)
		     : options->owners	   ? answer_owners(&dump, &report, &err)
		     : options->path_given ? answer_path(&dump, &report, &err)
		     : find_asked(options) ? answer_find(&dump, &report, &err)
					   : answer_words(&dump, &report, &err);
	CHECK(ok || err.text[0] != '\0');
	if (!ok)
		diag_error(&diag, &err);
	dump_close(&dump);
	diag_deinit(&diag);
	CHECK(fclose(stream) == 0 && fclose(log) == 0);
	if (ok)
		output_check(format, text, size);
	output_check(REPORT_TEXT, said, said_size);
	free(text);
	free(said);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	const uint64_t line_size = take(&input, 2), core_size = take(&input, 4),
		       exe_size = take(&input, 4);
	const struct input line = take_part(&input, line_size), core = take_part(&input, core_size),
			   exe = take_part(&input, exe_size);
	char *arguments = calloc(line.size + 1, 1);
	char *argv[ARGUMENTS_MAX + 3] = {"topleak"};
	int argc = 1;
	CHECK(arguments != NULL);
	memcpy(arguments, line.data, line.size);
	for (size_t at = 0; at < line.size && argc <= ARGUMENTS_MAX;
		at += strlen(arguments + at) + 1)
		argv[argc++] = arguments + at;
	argv[argc++] = "core";
	argv[argc] = NULL;
	struct files files = {.has_exe = exe.size > 0, .has_other = input.size > 0};
	int core_fd AUTO_CLOSE = memory_file(core.data, core.size, files.core);
	int exe_fd AUTO_CLOSE = memory_file(exe.data, exe.size, files.exe);
	int other_fd AUTO_CLOSE = memory_file(input.data, input.size, files.other);
	CHECK(core_fd != exe_fd && exe_fd != other_fd);
	struct options options = {0};
	struct error err = {0};
	optind = 0; // glibc: begin anew
	if (options_parse(argc, argv, &err, &options)) {
		if (!options.help && !options.version) {
			options_limit(&options, &files);
			ask(&options, &files);
		}
		options_deinit(&options);
	}
	free(arguments);
	return 0;
}
