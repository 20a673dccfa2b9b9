// SPDX-License-Identifier: MIT
//
// Fetches programs and debug files by build-id from the servers in DEBUGINFOD_URLS. libdebuginfod
// is loaded only when it is asked for, since it brings a dozen libraries along.
#pragma once

#include "base/error.h"
#include "image/elf.h"

struct debuginfod;

enum debuginfod_type { DEBUGINFOD_SYMBOLS, DEBUGINFOD_PROGRAM };

// NULL, with a warning, if there is no such library or no server. The caller must release the
// result with debuginfod_destroy. All that is done with it takes no longer than ten seconds.
struct debuginfod *debuginfod_create(struct diag *diag);
void debuginfod_destroy(struct debuginfod *debuginfod);

// The path of the file in the library's cache; NULL if no server has it. The caller must free it.
char *debuginfod_find(
	struct debuginfod *debuginfod, const struct build_id *id, enum debuginfod_type type);
