// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"
#include "report/report.h"

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

void summary_write(FILE *stream, const struct report_head *head)
{
	const struct report_input *input = &head->input;
	const struct report_scanned *scanned = &head->scanned;
	summary_text(stream, input->path);
	fputs(": ", stream);
	if (input->packing != NULL)
		fprintf(stream, "%s, ", input->packing);
	if (input->machine != NULL)
		fprintf(stream, "%s %s", input->machine, input->live ? "process" : "core");
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
	fprintf(stream, "; %" PRIu64 " words of %u bytes, %s-endian\n", scanned->words,
		scanned->word_size, input->byte_order);
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

void summary_next(FILE *stream, const struct report_head *head)
{
	const struct report_input *input = &head->input;
	if (input->live) {
		fprintf(stream, "next: topleak -ogdb --pid %" PRId64 " | gdb -q -p %" PRId64 "\n",
			input->pid, input->pid);
		return;
	}
	// gdb reads plain files only.
	const bool plain = !input->piped && input->packing == NULL;
	const char *path = plain ? input->path : "core";
	fputs(plain ? "next: topleak -ogdb "
		    : "next: save the plain dump as a file, then: topleak -ogdb ",
		stream);
	summary_quoted(stream, path);
	fputs(" | gdb -q PROGRAM ", stream);
	summary_quoted(stream, path);
	putc('\n', stream);
}
