// SPDX-License-Identifier: MIT
//
// The launcher's main work: it holds the memory of each recorded process, looks at it now and then,
// and saves it when the process ends, however that is.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include "options.h"

// Listens for processes; *ret_name is what LAUNCH_ADDRESS says to them. Returns the socket, -1 if
// there is none.
int keeper_listen(char ret_name[64]);

// Until the child has ended: returns its status as of waitpid(). What it left running is kept by a
// process in the background. Signals are blocked at first; mask is what is to be blocked then.
int keeper_run(const struct options *options, int listener, pid_t child, const sigset_t *mask);
