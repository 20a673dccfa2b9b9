// SPDX-License-Identifier: MIT
//
// Errors and warnings. A function that can fail returns false and fills the caller's struct error;
// only main prints it. Warnings go to a struct diag, each text once.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct error {
	// One line without a newline, empty as long as nothing failed: "FILE: what, and what to
	// do".
	char text[1024];
	// The command line asks for what cannot be: exit status 2, not 1.
	bool usage;
};

void error_fill(struct error *err, bool usage, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static inline bool error_false(void)
{
	return false;
}
// Fill err and return false, so that a caller can write `return error_set(err, ...)`; that it is
// false must be seen without the other file.
#define error_set(err, ...) (error_fill((err), false, __VA_ARGS__), error_false())
// The same for a usage error.
#define error_usage(err, ...) (error_fill((err), true, __VA_ARGS__), error_false())
#define error_memory(err) error_set((err), "out of memory")

struct diag {
	FILE *stream;
	// Hashes of the warnings printed so far; owned.
	uint64_t *seen;
	size_t seen_count;
};

void diag_init(struct diag *diag, FILE *stream);
void diag_deinit(struct diag *diag);
// Print "topleak: TEXT" once, however often it is called with the same text, and no more than
// 10,000 texts. What could upset a terminal (control characters, invalid UTF-8) is escaped: texts
// may quote a dump. Not thread-safe.
void diag_warn(struct diag *diag, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Print "topleak: TEXT", always.
void diag_error(struct diag *diag, const struct error *err);
