// SPDX-License-Identifier: MIT
#include "names/lines.h"

#if HAVE_LIBDW

#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "image/localfile.h"
#include "names/debugfile.h"

// More addresses than any program has; a hostile file could go on for ever.
#define UNITS_MAX ((size_t)1 << 24)
// Units of any program, with ranges or without; in a hostile file each has four bytes, and costs
// libdw more.
#define HEADERS_MAX ((size_t)1 << 20)
// Units rarely overlap.
#define STEPS_MAX 16

struct unit {
	uint64_t start, end;
	Dwarf_Off die;
};

struct lines {
	Dwarf *dwarf;	    // NULL: no debug information
	struct unit *units; // sorted by start; owned
	size_t count, capacity;
	// What several files share (dwz).
	struct local_file *shared_file;
	Elf *shared_elf;
	Dwarf *shared;
	int shared_fd;
};

static bool unit_add(struct lines *lines, struct unit unit)
{
	if (lines->count == lines->capacity) {
		const size_t wanted = 2 * lines->capacity + 256;
		struct unit *grown = lines->count < UNITS_MAX
					     ? reallocarray(lines->units, wanted, sizeof *grown)
					     : NULL;
		if (grown == NULL)
			return false;
		lines->units = grown;
		lines->capacity = wanted;
	}
	lines->units[lines->count++] = unit;
	return true;
}

static int unit_compare(const void *a, const void *b)
{
	const struct unit *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->die < y->die ? -1 : x->die > y->die;
}

static void units_load(struct lines *lines)
{
	Dwarf_Off at = 0, next;
	size_t header, left = HEADERS_MAX;
	for (; left > 0 && dwarf_nextcu(lines->dwarf, at, &next, &header, NULL, NULL, NULL) == 0;
		at = next, left--) {
		Dwarf_Die die;
		Dwarf_Addr base, start, end;
		if (next <= at)
			break;
		if (dwarf_offdie(lines->dwarf, at + header, &die) == NULL)
			continue;
		for (ptrdiff_t i = 0; (i = dwarf_ranges(&die, i, &base, &start, &end)) > 0;)
			if (start < end && !unit_add(lines, (struct unit){start, end, at + header}))
				return;
	}
}

// The strings that dwz moved to another file. libdw would look for it itself, and open whatever has
// that name.
static bool lines_load_shared(struct lines *lines, const char *path)
{
	const char *name;
	const void *id, *found;
	char joined[PATH_MAX];
	const ssize_t size = dwelf_dwarf_gnu_debugaltlink(lines->dwarf, &name, &id);
	if (size == 0)
		return true;
	if (size < 0 || path == NULL)
		return false;
	const char *slash = name[0] == '/' ? NULL : strrchr(path, '/');
	const int length = snprintf(joined, sizeof joined, "%.*s%s",
		slash != NULL ? (int)(slash - path + 1) : 0, path, name);
	if (length <= 0 || (size_t)length >= sizeof joined)
		return false;
	lines->shared_file = local_file_create(joined);
	if (lines->shared_file == NULL)
		return false;
	lines->shared_elf = debugfile_open(lines->shared_file, &lines->shared_fd);
	if (lines->shared_elf == NULL ||
		dwelf_elf_gnu_build_id(lines->shared_elf, &found) != size ||
		memcmp(found, id, (size_t)size) != 0)
		return false;
	lines->shared = dwarf_begin_elf(lines->shared_elf, DWARF_C_READ, NULL);
	if (lines->shared != NULL)
		dwarf_setalt(lines->dwarf, lines->shared);
	return lines->shared != NULL;
}

struct lines *lines_create(Elf *elf, const char *path)
{
	struct lines *lines = calloc(1, sizeof *lines);
	if (lines == NULL)
		return NULL;
	lines->shared_fd = -1;
	lines->dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	if (lines->dwarf == NULL || !lines_load_shared(lines, path))
		return lines;
	units_load(lines);
	if (lines->count > 0)
		qsort(lines->units, lines->count, sizeof *lines->units, unit_compare);
	return lines;
}

void lines_destroy(struct lines *lines)
{
	if (lines == NULL)
		return;
	dwarf_end(lines->dwarf);
	dwarf_end(lines->shared);
	elf_end(lines->shared_elf);
	if (lines->shared_fd >= 0)
		close(lines->shared_fd);
	local_file_destroy(lines->shared_file);
	free(lines->units);
	free(lines);
}

bool lines_find(struct lines *lines, uint64_t address, const char **file, int *line)
{
	size_t low = 0, high = lines->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (lines->units[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t step = 0; step < STEPS_MAX && step < low; step++) {
		const struct unit *unit = &lines->units[low - 1 - step];
		Dwarf_Die die;
		if (address >= unit->end || dwarf_offdie(lines->dwarf, unit->die, &die) == NULL)
			continue;
		Dwarf_Line *found = dwarf_getsrc_die(&die, address);
		const char *path = found != NULL ? dwarf_linesrc(found, NULL, NULL) : NULL;
		if (path == NULL || dwarf_lineno(found, line) != 0 || *line <= 0)
			continue;
		const char *slash = strrchr(path, '/');
		*file = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
		return true;
	}
	return false;
}

#endif
