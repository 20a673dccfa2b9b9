// SPDX-License-Identifier: MIT
#include "names/lines.h"

#if HAVE_LIBDW

#include <dwarf.h>
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
// Entries of one unit that are looked at for functions, and how deep they lie in each other.
#define ENTRIES_MAX ((size_t)1 << 22)
#define DEPTH_MAX 64

struct unit {
	uint64_t start, end;
	Dwarf_Off die;
};

// What has code: a function.
struct scope {
	uint64_t start, end;
	Dwarf_Off die, unit;
};

struct lines {
	Dwarf *dwarf;	    // NULL: no debug information
	struct unit *units; // sorted by start; owned
	size_t count, capacity;
	struct scope *scopes; // of the units in scoped, sorted by start; owned
	size_t scope_count, scope_capacity;
	Dwarf_Off *scoped; // owned
	size_t scoped_count;
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
	free(lines->scopes);
	free(lines->scoped);
	free(lines);
}

// The index behind the last of the units that begin at address or before.
static size_t units_before(const struct lines *lines, uint64_t address)
{
	size_t low = 0, high = lines->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (lines->units[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// The last component of a path.
static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL && slash[1] != '\0' ? slash + 1 : path;
}

bool lines_find(struct lines *lines, uint64_t address, const char **file, int *line)
{
	const size_t low = units_before(lines, address);
	for (size_t step = 0; step < STEPS_MAX && step < low; step++) {
		const struct unit *unit = &lines->units[low - 1 - step];
		Dwarf_Die die;
		if (address >= unit->end || dwarf_offdie(lines->dwarf, unit->die, &die) == NULL)
			continue;
		Dwarf_Line *found = dwarf_getsrc_die(&die, address);
		const char *path = found != NULL ? dwarf_linesrc(found, NULL, NULL) : NULL;
		if (path == NULL || dwarf_lineno(found, line) != 0 || *line <= 0)
			continue;
		*file = file_name(path);
		return true;
	}
	return false;
}

static bool scope_add(struct lines *lines, struct scope scope)
{
	if (lines->scope_count == lines->scope_capacity) {
		const size_t wanted = 2 * lines->scope_capacity + 256;
		struct scope *grown = lines->scope_count < UNITS_MAX
					      ? reallocarray(lines->scopes, wanted, sizeof *grown)
					      : NULL;
		if (grown == NULL)
			return false;
		lines->scopes = grown;
		lines->scope_capacity = wanted;
	}
	lines->scopes[lines->scope_count++] = scope;
	return true;
}

static void scope_add_ranges(struct lines *lines, Dwarf_Die *die, Dwarf_Off unit)
{
	Dwarf_Addr base, start, end;
	for (ptrdiff_t i = 0; (i = dwarf_ranges(die, i, &base, &start, &end)) > 0;)
		if (start < end &&
			!scope_add(lines, (struct scope){start, end, dwarf_dieoffset(die), unit}))
			return;
}

// What functions can lie in. Most functions of C lie in the unit itself.
static bool tag_holds_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_class_type || tag == DW_TAG_union_type || tag == DW_TAG_subprogram ||
	       tag == DW_TAG_lexical_block || tag == DW_TAG_module;
}

// Find the functions of a unit, depth first.
static void scopes_walk(struct lines *lines, Dwarf_Die *unit)
{
	const Dwarf_Off offset = dwarf_dieoffset(unit);
	Dwarf_Die path[DEPTH_MAX];
	unsigned depth = 0;
	if (dwarf_child(unit, &path[0]) != 0)
		return;
	for (size_t left = ENTRIES_MAX; left > 0; left--) {
		const int tag = dwarf_tag(&path[depth]);
		if (tag == DW_TAG_subprogram)
			scope_add_ranges(lines, &path[depth], offset);
		if (depth + 1 < DEPTH_MAX && tag_holds_functions(tag) &&
			dwarf_child(&path[depth], &path[depth + 1]) == 0) {
			depth++;
			continue;
		}
		Dwarf_Die next;
		while (dwarf_siblingof(&path[depth], &next) != 0)
			if (depth-- == 0)
				return;
		path[depth] = next;
	}
}

static int scope_compare(const void *a, const void *b)
{
	const struct scope *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	// Of those that begin together the inner one comes last.
	return x->end != y->end ? (x->end > y->end ? -1 : 1)
				: (x->die > y->die) - (x->die < y->die);
}

// The functions of a unit, once.
static void scopes_load(struct lines *lines, Dwarf_Off offset)
{
	for (size_t i = 0; i < lines->scoped_count; i++)
		if (lines->scoped[i] == offset)
			return;
	Dwarf_Off *grown =
		reallocarray(lines->scoped, lines->scoped_count + 1, sizeof *lines->scoped);
	if (grown == NULL)
		return;
	lines->scoped = grown;
	lines->scoped[lines->scoped_count++] = offset;
	Dwarf_Die unit;
	if (dwarf_offdie(lines->dwarf, offset, &unit) == NULL)
		return;
	scopes_walk(lines, &unit);
	if (lines->scope_count > 0)
		qsort(lines->scopes, lines->scope_count, sizeof *lines->scopes, scope_compare);
}

static const struct scope *scope_find(const struct lines *lines, uint64_t address)
{
	size_t low = 0, high = lines->scope_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (lines->scopes[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (size_t step = 0; step < STEPS_MAX && step < low; step++)
		if (address < lines->scopes[low - 1 - step].end)
			return &lines->scopes[low - 1 - step];
	return NULL;
}

static const char *die_function(Dwarf_Die *die)
{
	Dwarf_Attribute attribute;
	const char *name = NULL;
	if (dwarf_attr_integrate(die, DW_AT_linkage_name, &attribute) != NULL ||
		dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &attribute) != NULL)
		name = dwarf_formstring(&attribute);
	return name != NULL ? name : dwarf_diename(die);
}

// Where the function that was inlined is called.
static void die_call(Dwarf_Die *die, Dwarf_Die *unit, struct line_frame *ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Word number;
	Dwarf_Files *files;
	size_t count;
	ret->file = NULL;
	ret->line = 0;
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_file, &attribute), &number) != 0 ||
		dwarf_getsrcfiles(unit, &files, &count) != 0 || number >= count)
		return;
	const char *path = dwarf_filesrc(files, (size_t)number, NULL, NULL);
	ret->file = path != NULL ? file_name(path) : NULL;
	if (dwarf_formudata(dwarf_attr(die, DW_AT_call_line, &attribute), &number) == 0 &&
		number <= INT_MAX)
		ret->line = (int)number;
}

// The child of an entry that has the address: a block, or an inlined function.
static bool scope_descend(Dwarf_Die *die, uint64_t address, Dwarf_Die *ret)
{
	size_t left = ENTRIES_MAX;
	if (dwarf_child(die, ret) != 0)
		return false;
	do {
		const int tag = dwarf_tag(ret);
		if ((tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine) &&
			dwarf_haspc(ret, address) > 0)
			return true;
	} while (--left > 0 && dwarf_siblingof(ret, ret) == 0);
	return false;
}

size_t lines_frames(struct lines *lines, uint64_t address, struct line_frame *ret, size_t most)
{
	const size_t low = units_before(lines, address);
	for (size_t step = 0; step < STEPS_MAX && step < low; step++)
		if (address < lines->units[low - 1 - step].end)
			scopes_load(lines, lines->units[low - 1 - step].die);
	const struct scope *scope = scope_find(lines, address);
	Dwarf_Die unit, path[DEPTH_MAX];
	if (scope == NULL || most == 0 ||
		dwarf_offdie(lines->dwarf, scope->die, &path[0]) == NULL ||
		dwarf_offdie(lines->dwarf, scope->unit, &unit) == NULL)
		return 0;
	unsigned depth = 1;
	while (depth < DEPTH_MAX && scope_descend(&path[depth - 1], address, &path[depth]))
		depth++;
	size_t count = 0;
	struct line_frame at = {0};
	if (!lines_find(lines, address, &at.file, &at.line))
		at = (struct line_frame){0};
	for (unsigned i = depth; i-- > 0 && count < most;) {
		if (dwarf_tag(&path[i]) == DW_TAG_lexical_block)
			continue;
		at.function = die_function(&path[i]);
		ret[count++] = at;
		if (i > 0)
			die_call(&path[i], &unit, &at);
	}
	return count;
}

#endif
