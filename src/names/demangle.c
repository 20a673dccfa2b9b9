// SPDX-License-Identifier: MIT
#include "names/demangle.h"

#if HAVE_LIBIBERTY

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"

// libiberty takes up to 200 bytes of stack for each letter of a C++ name.
#define MANGLED_MAX ((size_t)8 * 1024)
// Each of D's back references can double what has been written.
#define D_REFERENCES_MAX 24

struct output {
	char *text; // owned
	size_t length, capacity;
	bool too_long;
	jmp_buf full;
};

// The demanglers cannot be told to stop. They own no memory while they write (what they need is on
// the stack, but for one buffer of Rust's punycode), so leaving them by a jump is safe.
static void output_append(const char *text, size_t size, void *opaque)
{
	struct output *output = opaque;
	output->too_long = size > DEMANGLE_MAX - output->length;
	if (output->too_long)
		longjmp(output->full, 1);
	if (output->length + size + 1 > output->capacity) {
		const size_t wanted = 2 * (output->length + size) + 64;
		char *grown = realloc(output->text, wanted);
		if (grown == NULL)
			longjmp(output->full, 1);
		output->text = grown;
		output->capacity = wanted;
	}
	memcpy(output->text + output->length, text, size);
	output->length += size;
	output->text[output->length] = '\0';
}

typedef int demangler(const char *, int, demangle_callbackref, void *);

static char *demangle_with(demangler *function, const char *mangled, int options, bool *too_long)
{
	struct output *output = calloc(1, sizeof *output);
	if (output == NULL)
		return NULL;
	char *text = NULL;
	if (setjmp(output->full) == 0 && function(mangled, options, output_append, output) != 0) {
		text = output->text;
		output->text = NULL;
	}
	*too_long |= output->too_long;
	free(output->text);
	free(output);
	return text;
}

static char *demangle_d(const char *mangled)
{
	unsigned references = 0;
	for (const char *at = mangled; *at != '\0'; at++)
		references += *at == 'Q';
	if (references > D_REFERENCES_MAX)
		return NULL;
	char *text = dlang_demangle(mangled, DMGL_PARAMS | DMGL_ANSI);
	if (text != NULL && strlen(text) > DEMANGLE_MAX) {
		free(text);
		return NULL;
	}
	return text;
}

char *demangle(const char *symbol, bool *too_long)
{
	const int options = DMGL_PARAMS | DMGL_ANSI;
	*too_long = symbol[0] == '_' && strlen(symbol) > MANGLED_MAX;
	if (symbol[0] != '_' || *too_long)
		return NULL;
	char *text = NULL;
	// Rust's older mangling looks like C++ and is told by the hash at its end.
	if (symbol[1] == 'R' || symbol[1] == 'Z')
		text = demangle_with(rust_demangle_callback, symbol, options, too_long);
	// The spelling is gdb's: std::istream is written out. libiberty's limit would be names of
	// 1024 letters.
	if (text == NULL && symbol[1] == 'Z')
		text = demangle_with(cplus_demangle_v3_callback, symbol,
			options | DMGL_VERBOSE | DMGL_NO_RECURSE_LIMIT, too_long);
	if (text == NULL && symbol[1] == 'D')
		text = demangle_d(symbol);
	return text;
}

char *demangle_type(const char *type, bool *too_long)
{
	static const char prefix[] = "typeinfo name for ";
	const size_t length = strlen(type);
	char *symbol AUTO_FREE = malloc(length + sizeof "_ZTS");
	*too_long = false;
	if (symbol == NULL)
		return NULL;
	snprintf(symbol, length + sizeof "_ZTS", "_ZTS%s", type);
	char *text = demangle(symbol, too_long);
	if (text == NULL)
		return NULL;
	if (strncmp(text, prefix, sizeof prefix - 1) != 0) {
		free(text);
		return NULL;
	}
	memmove(text, text + sizeof prefix - 1, strlen(text) - sizeof prefix + 2);
	return text;
}

#else

char *demangle(const char *symbol, bool *too_long)
{
	(void)symbol;
	*too_long = false;
	return NULL;
}

char *demangle_type(const char *type, bool *too_long)
{
	return demangle(type, too_long);
}

#endif
