// SPDX-License-Identifier: MIT
//
// What a word is: its kind, and a description for people.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

enum kind {
	KIND_ZERO,
	KIND_NUMBER, // a small or medium integer
	KIND_TEXT,   // printable characters in memory order
	KIND_OTHER,
	KIND_COUNT
};

// "zero", "number", ...: as in --kind and JSON.
const char *kind_name(enum kind kind);

struct names_options {
	bool redact;
};

struct names;

// Prepare to describe words of image, which must live as long. *ret is the caller's, to be released
// with names_destroy.
bool names_create(const struct image *image, const struct names_options *options, struct diag *diag,
	struct error *err, struct names **ret);
void names_destroy(struct names *names);

struct name {
	enum kind kind;
	// Valid UTF-8 without control characters, "" if there is nothing to say; lives until the
	// next call with the same names.
	const char *text;
};

// Describe a word by its value (not as loaded, if the byte orders differ).
struct name names_describe(struct names *names, uint64_t value);
