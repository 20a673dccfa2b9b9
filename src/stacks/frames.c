// SPDX-License-Identifier: MIT
#include "stacks/frames.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/guard.h"

// ---- texts

struct texts {
	char **table; // by hash; owned
	size_t count, room;
};

static uint64_t text_hash(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); // FNV-1a
	for (; *text != '\0'; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

struct texts *texts_create(void)
{
	return calloc(1, sizeof(struct texts));
}

void texts_destroy(struct texts *texts)
{
	if (texts == NULL)
		return;
	for (size_t i = 0; i < texts->room; i++)
		free(texts->table[i]);
	free(texts->table);
	free(texts);
}

static size_t texts_slot(char *const *table, size_t room, const char *text)
{
	size_t at = (size_t)text_hash(text) & (room - 1);
	while (table[at] != NULL && strcmp(table[at], text) != 0)
		at = (at + 1) & (room - 1);
	return at;
}

static bool texts_grow(struct texts *texts)
{
	const size_t room = texts->room == 0 ? 1024 : 2 * texts->room;
	char **table = calloc(room, sizeof *table);
	if (table == NULL)
		return false;
	for (size_t i = 0; i < texts->room; i++)
		if (texts->table[i] != NULL)
			table[texts_slot(table, room, texts->table[i])] = texts->table[i];
	free(texts->table);
	texts->table = table;
	texts->room = room;
	return true;
}

const char *texts_keep(struct texts *texts, const char *text)
{
	if (2 * texts->count >= texts->room && !texts_grow(texts))
		return NULL;
	const size_t at = texts_slot(texts->table, texts->room, text);
	if (texts->table[at] == NULL) {
		texts->table[at] = strdup(text);
		texts->count += texts->table[at] != NULL;
	}
	return texts->table[at];
}

// ---- frames

// Where the frames of an address are.
struct known {
	uint64_t address;
	size_t first;
	uint32_t count; // 0: empty
};

struct frames {
	struct names *names;
	const struct recording *recording;
	struct texts *texts;
	struct known *table; // by hash; owned
	size_t count, room;
	struct stack_frame *list; // owned
	size_t used, capacity;
};

struct frames *frames_create(
	struct names *names, const struct recording *recording, struct texts *texts)
{
	struct frames *frames = calloc(1, sizeof *frames);
	if (frames != NULL)
		*frames = (struct frames){.names = names, .recording = recording, .texts = texts};
	return frames;
}

void frames_destroy(struct frames *frames)
{
	if (frames == NULL)
		return;
	free(frames->table);
	free(frames->list);
	free(frames);
}

static size_t known_slot(const struct known *table, size_t room, uint64_t address)
{
	size_t at = (size_t)((address * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (room - 1);
	while (table[at].count != 0 && table[at].address != address)
		at = (at + 1) & (room - 1);
	return at;
}

static bool known_grow(struct frames *frames)
{
	const size_t room = frames->room == 0 ? 1024 : 2 * frames->room;
	struct known *table = calloc(room, sizeof *table);
	if (table == NULL)
		return false;
	for (size_t i = 0; i < frames->room; i++)
		if (frames->table[i].count != 0)
			table[known_slot(table, room, frames->table[i].address)] = frames->table[i];
	free(frames->table);
	frames->table = table;
	frames->room = room;
	return true;
}

static bool list_reserve(struct frames *frames, size_t more)
{
	if (frames->capacity - frames->used >= more)
		return true;
	const size_t wanted = 2 * frames->capacity + more + 256;
	struct stack_frame *grown = reallocarray(frames->list, wanted, sizeof *grown);
	if (grown == NULL)
		return false;
	frames->list = grown;
	frames->capacity = wanted;
	return true;
}

// The module of the recording that had the address, which may have been closed since.
static const struct module_known *module_at(const struct recording *recording, uint64_t address)
{
	for (size_t i = recording->module_count; i-- > 0;) {
		const struct module_known *module = &recording->modules[i];
		if (address >= module->start && address < module->end)
			return module;
	}
	return NULL;
}

// A name for what has none: "libx.so+0x12".
static const char *place_text(struct frames *frames, const char *module, uint64_t inside)
{
	char text[4 * 256 + 32];
	if (module[0] != '\0')
		snprintf(text, sizeof text, "%.*s+0x%" PRIx64, 4 * 256, module, inside);
	else
		snprintf(text, sizeof text, "0x%" PRIx64, inside);
	return texts_keep(frames->texts, text);
}

// The last component of a path, escaped.
static const char *module_text(struct frames *frames, const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
	char text[4 * 256 + 1];
	escape(text, sizeof text, name, strlen(name), ESCAPE_TERMINAL);
	return texts_keep(frames->texts, text);
}

// Look an address up, and add its frames to the list. Returns their number; 0: no memory.
static size_t frames_add(struct frames *frames, uint64_t address)
{
	struct name_frame found[NAME_FRAMES_MAX];
	const struct module *module;
	uint64_t inside;
	size_t count = names_frames(frames->names, address, found, &module, &inside);
	const char *module_name = "";
	if (module != NULL) {
		module_name = module_text(frames, module->name);
	} else {
		const struct module_known *closed = module_at(frames->recording, address);
		if (closed != NULL) {
			module_name = module_text(frames, closed->path);
			inside = address - closed->bias;
		}
	}
	if (count == 0) {
		found[0] = (struct name_frame){.function = "", .file = ""};
		count = 1;
	}
	if (module_name == NULL || !list_reserve(frames, count))
		return 0;
	for (size_t i = 0; i < count; i++) {
		struct stack_frame *frame = &frames->list[frames->used + i];
		*frame = (struct stack_frame){
			.function = found[i].function[0] != '\0'
					    ? texts_keep(frames->texts, found[i].function)
					    : place_text(frames, module_name, inside),
			.file = texts_keep(frames->texts, found[i].file),
			.module = module_name,
			.line = found[i].line,
			.inlined = found[i].inlined,
			.address = address,
			.inside = inside,
			.of = module,
		};
		if (frame->function == NULL || frame->file == NULL)
			return 0;
	}
	frames->used += count;
	return count;
}

size_t frames_find(struct frames *frames, uint64_t address, const struct stack_frame **ret)
{
	if (2 * frames->count >= frames->room && !known_grow(frames))
		return 0;
	struct known *known = &frames->table[known_slot(frames->table, frames->room, address)];
	if (known->count == 0) {
		const size_t first = frames->used;
		const size_t count = frames_add(frames, address - 1);
		if (count == 0)
			return 0;
		*known = (struct known){address, first, (uint32_t)count};
		frames->count++;
	}
	*ret = frames->list + known->first;
	return known->count;
}
