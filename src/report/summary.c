// SPDX-License-Identifier: MIT
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"
#include "report/report.h"
#include "report/terminal.h"

static void summary_text(FILE *stream, const char *text)
{
	char escaped[4 * 4096];
	escape(escaped, sizeof escaped, text, strlen(text), ESCAPE_TERMINAL);
	fputs(escaped, stream);
}

static void summary_process(FILE *stream, const struct report_input *input)
{
	const char *before = " (";
	if (input->pid >= 0 && !input->live) {
		fprintf(stream, "%spid %" PRId64, before, input->pid);
		before = ", ";
	}
	if (input->signal != NULL) {
		fprintf(stream, "%s%s", before, input->signal);
		before = ", ";
	}
	if (input->threads > 1) {
		fprintf(stream, "%s%u threads", before, input->threads);
		before = ", ";
	}
	if (before[0] == ',')
		putc(')', stream);
}

static void summary_memory(FILE *stream, const struct report_memory *memory, unsigned threads)
{
	if (!memory->known)
		return;
	fprintf(stream, "memory: heap %s, anonymous %s", size_format(memory->heap).text,
		size_format(memory->anon).text);
	fprintf(stream, ", stacks %s (%u thread%s), files %s\n", size_format(memory->stacks).text,
		threads, threads == 1 ? "" : "s", size_format(memory->files).text);
}

static void summary_stopped(FILE *stream, const struct report_input *input)
{
	if (input->stopped_threads > 0)
		fprintf(stream, "registers: of %zu thread%s, each stopped for at most %.3f ms\n",
			input->stopped_threads, input->stopped_threads == 1 ? "" : "s",
			(double)input->stopped_nanoseconds * 1e-6);
}

// "stripped, build-id ok, names from RTTI", "mismatch".
static void summary_state(FILE *stream, const struct report_module *module)
{
	const bool same = module->build_id != NULL && module->file_build_id != NULL &&
			  strcmp(module->build_id, module->file_build_id) == 0;
	if (strcmp(module->state, "ok") == 0)
		fputs(same ? "build-id ok" : "ok", stream);
	else if (strcmp(module->state, "stripped") == 0)
		fprintf(stream, "stripped%s%s", same ? ", build-id ok" : "",
			!module->main	      ? ""
			: module->has_symbols ? ", symbols from its debug file"
					      : ", names from RTTI");
	else
		fputs(module->state, stream);
}

// The last component of a path.
static const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

// All modules, one a line, for those who want to know all.
static void summary_all_modules(FILE *stream, const struct report_head *head)
{
	for (size_t i = 0; i < head->module_count; i++) {
		const struct report_module *module = &head->modules[i];
		summary_text(stream, module->path);
		fputs(": ", stream);
		summary_state(stream, module);
		fprintf(stream, ", at 0x%" PRIx64, module->start);
		if (module->build_id != NULL)
			fprintf(stream, ", build-id %s", module->build_id);
		if (module->file != NULL && strcmp(module->file, module->path) != 0) {
			fputs(", file ", stream);
			summary_text(stream, module->file);
		}
		if (module->file_build_id != NULL && strcmp(module->state, "mismatch") == 0)
			fprintf(stream, ", its build-id %s", module->file_build_id);
		putc('\n', stream);
	}
}

// The program, and what is not as it should be.
static void summary_modules(FILE *stream, const struct report_head *head)
{
	// More do not fit a line.
	static const size_t most = 5;
	size_t shown = 0, doubtful = 0;
	for (size_t i = 0; i < head->module_count; i++) {
		const struct report_module *module = &head->modules[i];
		doubtful += !module->main && module->doubtful;
		if (!module->main && (!module->doubtful || doubtful > most))
			continue;
		fputs(shown++ > 0 ? "   " : "", stream);
		summary_text(stream, module->main ? module->path : path_name(module->path));
		fputs(": ", stream);
		summary_state(stream, module);
	}
	if (doubtful > most)
		fprintf(stream, "   and %zu more; -v has all", doubtful - most);
	if (shown > 0)
		putc('\n', stream);
}

static void summary_lines(FILE *stream, const struct report_head *head)
{
	const struct report_input *input = &head->input;
	const struct report_scanned *scanned = &head->scanned;
	summary_text(stream, input->path);
	fputs(": ", stream);
	if (input->packing != NULL)
		fprintf(stream, "%s, ", input->packing);
	if (input->machine != NULL)
		fprintf(stream, "%s %s", input->machine,
			input->live				  ? "process"
			: strcmp(input->format, "recording") == 0 ? "recording"
								  : "core");
	else
		fputs("plain bytes", stream);
	if (input->program != NULL) {
		fputs(" of ", stream);
		summary_text(stream, input->program);
	}
	summary_process(stream, input);
	fprintf(stream, ", %s saved", size_format(scanned->bytes_saved).text);
	if (scanned->bytes_missing > 0)
		fprintf(stream, ", %s of them missing", size_format(scanned->bytes_missing).text);
	else
		fputs(", all present", stream);
	if (scanned->bytes_not_saved > 0)
		fprintf(stream, "; not saved %s", size_format(scanned->bytes_not_saved).text);
	if (strncmp(head->mode, "stacks", strlen("stacks")) == 0)
		putc('\n', stream);
	else
		fprintf(stream, "; %" PRIu64 " words of %u bytes, %s-endian\n", scanned->words,
			scanned->word_size, input->byte_order);
	summary_memory(stream, &head->memory, input->threads);
	summary_stopped(stream, input);
	if (head->verbose)
		summary_all_modules(stream, head);
	else
		summary_modules(stream, head);
}

void summary_write(FILE *stream, const struct report_head *head)
{
	char *lines = NULL;
	size_t size;
	const unsigned width = terminal_width(stream);
	FILE *memory = width > 0 ? open_memstream(&lines, &size) : NULL;
	summary_lines(memory != NULL ? memory : stream, head);
	if (memory != NULL && fclose(memory) == 0)
		terminal_write_lines(stream, lines, width);
	free(lines);
}

void summary_used(FILE *stream, uint64_t limit, uint64_t symbols, uint64_t unpacking)
{
	fprintf(stream, "used: at most %s (--memory)", size_format(limit).text);
	if (symbols > 0)
		fprintf(stream, ", symbols %s", size_format(symbols).text);
	if (unpacking > 0)
		fprintf(stream, ", unpacking %s", size_format(unpacking).text);
	putc('\n', stream);
}

// Quote a text for the shell, unless it needs no quotes.
static void summary_quoted(FILE *stream, const char *text)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_./:,+=@%-";
	if (text[0] != '\0' && text[strspn(text, plain)] == '\0') {
		fputs(text, stream);
		return;
	}
	putc('\'', stream);
	for (size_t run; *text != '\0'; text += run) {
		run = strcspn(text, "'");
		char escaped[4 * 4096];
		escape(escaped, sizeof escaped, text, run, ESCAPE_TERMINAL);
		fputs(escaped, stream);
		if (text[run] == '\'') {
			fputs("'\\''", stream);
			run++;
		}
	}
	putc('\'', stream);
}

// The dump, as an argument of a command that reads it again.
static void summary_dump(FILE *stream, const struct report_input *input)
{
	if (input->live)
		fprintf(stream, "--pid %" PRId64, input->pid);
	else
		summary_quoted(stream, input->piped ? "core" : input->path);
}

// The program as it was called, if the shell would not find it otherwise, and where it was told to
// look for names.
static void summary_program(FILE *stream, const struct report_sources *sources)
{
	const struct {
		const char *option, *value;
	} given[] = {
		{"--exe", sources->exe},
		{"--sysroot", sources->sysroot},
		{"--debug-dir", sources->debug_dir},
	};
	summary_quoted(stream,
		strchr(program_invocation_name, '/') != NULL ? program_invocation_name : "topleak");
	putc(' ', stream);
	for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
		if (given[i].value == NULL)
			continue;
		fprintf(stream, "%s ", given[i].option);
		summary_quoted(stream, given[i].value);
		putc(' ', stream);
	}
	if (sources->debuginfod)
		fputs("--debuginfod ", stream);
}

void summary_next(FILE *stream, const struct report_head *head)
{
	const char *next = head->next;
	if (next == NULL)
		next = strcmp(head->mode, "words") != 0 ? ""
		       : head->memory.known		? "--types"
							: "--strings";
	if (head->closer == NULL && next[0] == '\0')
		return;
	fputs(head->input.piped ? "next: save the dump to a file, then: " : "next: ", stream);
	summary_program(stream, &head->sources);
	if (head->closer != NULL) {
		fputs("--type ", stream);
		summary_quoted(stream, head->closer);
		fputs(" --around ", stream);
	} else {
		fprintf(stream, "%s ", next);
	}
	summary_dump(stream, &head->input);
	putc('\n', stream);
}
