// SPDX-License-Identifier: MIT
#include "image/linkmap.h"

#include <elf.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// More libraries than any process has, so that a list that bites its tail ends.
#define ENTRIES_MAX 16384
#define DYNAMIC_MAX 4096

char *image_read_string(const struct image *image, uint64_t address, size_t limit)
{
	size_t size = 0;
	char *text = NULL;
	for (size_t piece = 256; size < limit; piece *= 2) {
		piece = piece < limit - size ? piece : limit - size;
		char *grown = realloc(text, size + piece);
		if (grown == NULL)
			break;
		text = grown;
		const size_t got = image_read(image, address + size, text + size, piece);
		if (memchr(text + size, '\0', got) != NULL)
			return text;
		if (got < piece)
			break;
		size += got;
	}
	free(text);
	return NULL;
}

// The address of r_debug, which the dynamic linker stores in the program's dynamic section.
static bool linkmap_find(
	const struct image *image, const struct elf *program, uint64_t bias, uint64_t *ret)
{
	const struct elf_segment *dynamic = elf_segment_find(program, PT_DYNAMIC);
	if (dynamic == NULL)
		return false;
	const unsigned word = program->elf_class / 8;
	uint64_t at = bias + dynamic->address;
	for (unsigned i = 0; i < DYNAMIC_MAX; i++, at += 2 * (uint64_t)word) {
		uint64_t tag;
		if (!image_read_word(image, at, &tag) || tag == DT_NULL)
			return false;
		if (tag == DT_DEBUG)
			return image_read_word(image, at + word, ret) && *ret != 0;
	}
	return false;
}

size_t linkmap_load(const struct image *image, const struct elf *program, uint64_t bias,
	struct link_entry **ret)
{
	const unsigned word = program->elf_class / 8;
	uint64_t debug, at;
	*ret = NULL;
	// r_debug: int r_version, struct link_map *r_map.
	if (!linkmap_find(image, program, bias, &debug) ||
		!image_read_word(image, debug + word, &at))
		return 0;
	size_t count = 0;
	while (at != 0 && count < ENTRIES_MAX) {
		// link_map: l_addr, l_name, l_ld, l_next.
		uint64_t fields[4];
		for (unsigned i = 0; i < 4; i++)
			if (!image_read_word(image, at + (uint64_t)i * word, &fields[i]))
				return count;
		struct link_entry *grown = realloc(*ret, (count + 1) * sizeof *grown);
		if (grown == NULL)
			return count;
		*ret = grown;
		char *path = image_read_string(image, fields[1], PATH_MAX);
		if (path == NULL)
			path = strdup("");
		if (path == NULL)
			return count;
		grown[count++] = (struct link_entry){path, fields[0], fields[2]};
		at = fields[3];
	}
	return count;
}

void linkmap_free(struct link_entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(entries[i].path);
	free(entries);
}
