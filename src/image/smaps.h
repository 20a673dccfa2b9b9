// SPDX-License-Identifier: MIT
//
// The mappings of a live process: /proc/PID/smaps, see Documentation/filesystems/proc.rst in Linux.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct area {
	uint64_t start, end; // addresses
	uint64_t offset;     // in its file, bytes
	char *path;	     // "", "[heap]", "/usr/lib/libc.so.6", "/tmp/x (deleted)"; owned
	bool read, write, execute;
	bool shared;   // VM_SHARED
	bool no_dump;  // VM_DONTDUMP
	bool device;   // VM_IO
	bool huge;     // of hugetlbfs
	bool modified; // has pages of its own, in memory or swapped out
};

struct areas {
	struct area *list; // sorted by start
	size_t count;
};

// Read all of stream, the smaps or (with less to tell) the maps of a process. On failure, too, *ret
// is to be released with areas_deinit.
bool areas_read(FILE *stream, struct error *err, struct areas *ret);
void areas_deinit(struct areas *areas);

// Whether the area belongs to a file, deleted or not.
bool area_has_file(const struct area *area);

// The bits of /proc/PID/coredump_filter, see core(5).
#define FILTER_DEFAULT 0x33U

// How many bytes of an area the kernel would write into a core: all, none, or one page if it is the
// beginning of an ELF file (which beginning tells). See vma_dump_size in fs/coredump.c.
enum area_share { AREA_NONE, AREA_FIRST_PAGE_IF_ELF, AREA_ALL };
enum area_share area_dumped(const struct area *area, unsigned filter);
