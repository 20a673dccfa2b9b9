// SPDX-License-Identifier: MIT
//
// Results that --types -ojson or --leaks -ojson wrote, read again.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/heap.h"
#include "base/error.h"
#include "types/types.h"

// A program or a library. Texts live as long as the struct saved; NULL: not known.
struct saved_module {
	const char *path, *state, *file, *build_id, *file_build_id;
	uint64_t start, end, bias;
	bool is_main;
};

// Of all lost objects, of all in use, and of the heap; bytes, but for counts.
struct saved_leaks {
	uint64_t direct_count, direct_bytes;
	uint64_t used_count, used_bytes, free_count, free_bytes, arenas_lost, left_out_bytes,
		unwalked_bytes, unread_bytes, foreign_bytes;
	uint64_t breaks, break_address;
	enum heap_allocator allocator;
	bool exact, roots_missing;
};

struct saved {
	struct types_result result;
	struct saved_leaks leaks; // if the mode is "leaks"; how many are lost is in result
	// Of the dump. Texts live as long as the struct; NULL: not known. pid: -1: not known.
	const char *byte_order, *machine, *command, *signal;
	unsigned elf_class, threads;
	int signal_number;
	int64_t pid;
	// What was read of it, in bytes but for segments and words.
	uint64_t segments, bytes_saved, bytes_not_saved, bytes_missing, words;
	unsigned word_size;
	uint64_t heap, anon, stacks, files;
	struct saved_module *modules; // owned
	size_t module_count;
	void *json;	// of the library; owned
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
