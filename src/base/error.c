// SPDX-License-Identifier: MIT
#include "base/error.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"

// Of a text that is too long, as one with a long path in it, the middle is left out: what is wrong
// and what to do about it stand at its end.
static void error_format(struct error *err, const char *format, va_list args)
{
	static const char dots[] = "...";
	char whole[2 * PATH_MAX] = "";
	vsnprintf(whole, sizeof whole, format, args);
	const size_t length = strlen(whole), half = sizeof err->text / 2;
	if (length < sizeof err->text) {
		memcpy(err->text, whole, length + 1);
		return;
	}
	memcpy(err->text, whole, half);
	memcpy(err->text + half, dots, sizeof dots - 1);
	const size_t rest = sizeof err->text - half - (sizeof dots - 1);
	memcpy(err->text + sizeof err->text - rest, whole + length + 1 - rest, rest);
}

void error_fill(struct error *err, bool usage, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	error_format(err, format, args);
	va_end(args);
	err->usage = usage;
}

// A hostile dump could give cause for millions.
#define WARNINGS_MAX 10000

void diag_init(struct diag *diag, FILE *stream)
{
	*diag = (struct diag){.stream = stream};
}

void diag_deinit(struct diag *diag)
{
	free(diag->seen);
	*diag = (struct diag){0};
}

static void diag_print(struct diag *diag, const char *text)
{
	char line[4 * sizeof((struct error *)0)->text + 1];
	escape(line, sizeof line, text, strlen(text), ESCAPE_TERMINAL);
	fprintf(diag->stream, "topleak: %s\n", line);
}

// FNV-1a, 64 bits: see draft-eastlake-fnv.
static uint64_t text_hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

void diag_warn(struct diag *diag, const char *format, ...)
{
	struct error warning = {0};
	va_list args;
	va_start(args, format);
	error_format(&warning, format, args);
	va_end(args);
	if (diag->seen_count == WARNINGS_MAX)
		return;
	const uint64_t hash = text_hash(warning.text);
	for (size_t i = 0; i < diag->seen_count; i++)
		if (diag->seen[i] == hash)
			return;
	uint64_t *grown = realloc(diag->seen, (diag->seen_count + 1) * sizeof *grown);
	if (grown != NULL) {
		diag->seen = grown;
		diag->seen[diag->seen_count++] = hash;
	}
	diag_print(diag, warning.text);
	if (diag->seen_count == WARNINGS_MAX)
		diag_print(diag, "there is more to warn of, which is left out");
}

void diag_error(struct diag *diag, const struct error *err)
{
	diag_print(diag, err->text);
}
