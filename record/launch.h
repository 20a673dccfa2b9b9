// SPDX-License-Identifier: MIT
//
// What the launcher and the library in the recorded processes say to each other. Both are built
// from the same sources, so this is no format: other versions are refused.
#pragma once

#include <stdint.h>

// How to record: words "KEY=VALUE" with spaces between them; see settings.c.
#define LAUNCH_SETTINGS "TOPLEAK_RECORD"
// Where the launcher listens: the name of an abstract socket of the type SOCK_SEQPACKET.
#define LAUNCH_ADDRESS "TOPLEAK_RECORD_LINK"

#define LAUNCH_VERSION 1

// A process says that it is recorded: one message, with the file descriptor of its memory
// (SCM_RIGHTS). The launcher has the process's id from the socket.
struct launch_hello {
	uint32_t version;
	uint32_t pid;  // as the process sees it
	uint64_t size; // of the memory
};
