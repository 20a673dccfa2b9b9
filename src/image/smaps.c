// SPDX-License-Identifier: MIT
#include "image/smaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void path_decode(char *path)
{
	path[strcspn(path, "\n")] = '\0';
	// The kernel writes a newline as \012, and escapes nothing else.
	for (char *escaped; (escaped = strstr(path, "\\012")) != NULL; path = escaped + 1) {
		*escaped = '\n';
		memmove(escaped + 1, escaped + 4, strlen(escaped + 4) + 1);
	}
}

// A number, and the character behind it; *at moves past both.
static bool number_take(const char **at, int base, char behind, uint64_t *ret)
{
	char *end;
	*ret = strtoull(*at, &end, base);
	if (end == *at || *end != behind)
		return false;
	*at = end + 1;
	return true;
}

// "55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0      [heap]"
static bool area_parse(const char *line, struct area *ret)
{
	const char *at = line;
	uint64_t inode;
	*ret = (struct area){0};
	if (!number_take(&at, 16, '-', &ret->start) || !number_take(&at, 16, ' ', &ret->end) ||
		ret->start >= ret->end || strcspn(at, " ") != 4)
		return false;
	const char *access = at;
	at += strcspn(at, " ") + 1;
	if (!number_take(&at, 16, ' ', &ret->offset))
		return false;
	at += strcspn(at, " ");
	if (!number_take(&at, 10, ' ', &inode))
		return false;
	ret->read = access[0] == 'r';
	ret->write = access[1] == 'w';
	ret->execute = access[2] == 'x';
	ret->shared = access[3] == 's';
	// Where only maps can be read: what can be written to, was.
	ret->modified = ret->write && !ret->shared;
	ret->path = strdup(at + strspn(at, " "));
	if (ret->path != NULL)
		path_decode(ret->path);
	return true;
}

// " rd wr mr mw me ac "
static void area_set_flags(struct area *area, const char *flags)
{
	area->shared = strstr(flags, " sh ") != NULL;
	area->no_dump = strstr(flags, " dd ") != NULL;
	area->device = strstr(flags, " io ") != NULL;
	area->huge = strstr(flags, " ht ") != NULL;
}

// "Rss:                 132 kB"
static bool kilobytes_parse(const char *line, const char *name, uint64_t *ret)
{
	const size_t length = strlen(name);
	const char *at = line + length;
	return strncmp(line, name, length) == 0 && number_take(&at, 10, ' ', ret);
}

// A line of smaps that tells more about the last area.
static void area_refine(struct area *area, char *line)
{
	uint64_t kilobytes;
	if (kilobytes_parse(line, "Rss:", &kilobytes))
		area->modified = false;
	if (kilobytes_parse(line, "Anonymous:", &kilobytes) ||
		kilobytes_parse(line, "Swap:", &kilobytes))
		area->modified = area->modified || kilobytes > 0;
	static const char flags[] = "VmFlags:";
	if (strncmp(line, flags, sizeof flags - 1) == 0) {
		line[strcspn(line, "\n")] = ' ';
		area_set_flags(area, line + sizeof flags - 1);
	}
}

static bool areas_add(struct areas *areas, const struct area *area, struct error *err)
{
	const bool full = (areas->count & (areas->count - 1)) == 0; // a power of two, or none
	struct area *grown = areas->list;
	if (full)
		grown = realloc(grown, (areas->count == 0 ? 1 : 2 * areas->count) * sizeof *grown);
	if (grown == NULL || area->path == NULL) {
		free(area->path);
		if (grown != NULL)
			areas->list = grown;
		return error_memory(err);
	}
	areas->list = grown;
	areas->list[areas->count++] = *area;
	return true;
}

bool areas_read(FILE *stream, struct error *err, struct areas *ret)
{
	char *line = NULL;
	size_t size = 0;
	bool ok = true;
	*ret = (struct areas){0};
	errno = 0;
	while (ok && getline(&line, &size, stream) > 0) {
		struct area area;
		if (area_parse(line, &area))
			ok = areas_add(ret, &area, err);
		else if (ret->count > 0)
			area_refine(&ret->list[ret->count - 1], line);
	}
	if (ok && ferror(stream))
		ok = error_set(err, "cannot read its mappings: %s", strerror(errno));
	free(line);
	return ok;
}

void areas_deinit(struct areas *areas)
{
	for (size_t i = 0; i < areas->count; i++)
		free(areas->list[i].path);
	free(areas->list);
	*areas = (struct areas){0};
}

bool area_has_file(const struct area *area)
{
	return area->path[0] == '/';
}

static bool area_deleted(const struct area *area)
{
	static const char deleted[] = " (deleted)";
	const size_t length = strlen(area->path);
	return length >= sizeof deleted - 1 &&
	       strcmp(area->path + length - (sizeof deleted - 1), deleted) == 0;
}

enum area_share area_dumped(const struct area *area, unsigned filter)
{
	enum {
		ANON_PRIVATE = 1,
		ANON_SHARED = 2,
		MAPPED_PRIVATE = 4,
		MAPPED_SHARED = 8,
		ELF_HEADERS = 16,
		HUGE_PRIVATE = 32,
		HUGE_SHARED = 64
	};
	unsigned wanted;
	if (strcmp(area->path, "[vdso]") == 0)
		return AREA_ALL;
	// The kernel's own pages, which cannot be read: their segments in a core are empty.
	if (strncmp(area->path, "[vvar", 5) == 0 || strcmp(area->path, "[vsyscall]") == 0)
		return AREA_NONE;
	if (area->no_dump)
		return AREA_NONE;
	if (area->huge)
		return filter & (area->shared ? HUGE_SHARED : HUGE_PRIVATE) ? AREA_ALL : AREA_NONE;
	if (area->device)
		return AREA_NONE;
	if (area->shared) {
		wanted = area_deleted(area) ? ANON_SHARED : MAPPED_SHARED;
		return filter & wanted ? AREA_ALL : AREA_NONE;
	}
	if (area->modified && (filter & ANON_PRIVATE))
		return AREA_ALL;
	if (!area_has_file(area))
		return AREA_NONE;
	if (filter & MAPPED_PRIVATE)
		return AREA_ALL;
	return (filter & ELF_HEADERS) && area->offset == 0 && area->read ? AREA_FIRST_PAGE_IF_ELF
									 : AREA_NONE;
}
