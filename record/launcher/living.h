// SPDX-License-Identifier: MIT
//
// --pid: what a process that runs under the recorder has recorded so far.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

// Writes it to the file. False: says why on stderr.
bool living_save(pid_t pid, const char *path);
