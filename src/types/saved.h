// SPDX-License-Identifier: MIT
//
// Results that --types -ojson or --leaks -ojson wrote, read again.
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "types/types.h"

struct saved {
	struct types_result result;
	char *path;	// of the dump it was made from; NULL: not known; owned
	char *missing;	// files whose types have no names, ", " between them; NULL: none; owned
	uint64_t types; // that the dump had; the result may have fewer
};

// Whether the file at path is JSON rather than a dump. It is not opened if it is no regular file.
bool saved_is(const char *path);

// Load the first result in the file, of the given mode, "types" or "leaks". On success *ret is the
// caller's, to be released with saved_deinit.
bool saved_load(const char *path, const char *mode, struct error *err, struct saved *ret);
void saved_deinit(struct saved *saved);
