// SPDX-License-Identifier: MIT
//
// What return addresses are, each looked up once; and texts, of which each is kept once, so that
// those that are equal are the same.
#pragma once

#include "names/names.h"
#include "stacks/recording.h"

struct texts;
struct texts *texts_create(void); // NULL: no memory
void texts_destroy(struct texts *texts);
// The text that is kept, which lives as long as texts; NULL: no memory.
const char *texts_keep(struct texts *texts, const char *text);

// A function in a stack. Texts are valid UTF-8 without control characters; "": not known.
struct stack_frame {
	const char *function; // "libx.so+0x12" if its name is not known
	const char *file, *module;
	int line;
	bool inlined;		 // in the next one
	uint64_t address;	 // of the call, that is before the address to return to
	uint64_t inside;	 // the same in the module's file
	const struct module *of; // NULL: none
};

struct frames;
// names, recording and texts must live as long. NULL: no memory.
struct frames *frames_create(
	struct names *names, const struct recording *recording, struct texts *texts);
void frames_destroy(struct frames *frames);
// The functions that the call before address is part of, the innermost first. Returns their
// number, 0: no memory; *ret lives until the next call.
size_t frames_find(struct frames *frames, uint64_t address, const struct stack_frame **ret);
