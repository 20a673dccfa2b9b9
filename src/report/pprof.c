// SPDX-License-Identifier: MIT
//
// pprof's format: a message of protocol buffers (proto/profile.proto in github.com/google/pprof, of
// which the numbers of fields here are), in gzip (RFC 1952) without compression (RFC 1951, 3.2.4).
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "report/report.h"

// The message, or a part of it, that grows.
struct bytes {
	unsigned char *list; // owned
	size_t size, capacity;
	bool lost; // for lack of memory
};

// A table that gives numbers to entries, which are texts or records: from 1 on, in their order.
struct pool {
	char **keys; // owned
	size_t *sizes;
	size_t count, capacity;
	uint32_t *table;
	size_t room;
};

struct profile {
	struct bytes message;
	struct pool strings, functions, locations, mappings;
};

static void put(struct bytes *bytes, const void *source, size_t size)
{
	if (bytes->capacity - bytes->size < size) {
		const size_t wanted = 2 * bytes->capacity + size + 256;
		unsigned char *grown = realloc(bytes->list, wanted);
		if (grown == NULL) {
			bytes->lost = true;
			return;
		}
		bytes->list = grown;
		bytes->capacity = wanted;
	}
	memcpy(bytes->list + bytes->size, source, size);
	bytes->size += size;
}

static void put_varint(struct bytes *bytes, uint64_t number)
{
	unsigned char encoded[10];
	size_t size = 0;
	for (; number >= 0x80; number >>= 7)
		encoded[size++] = (unsigned char)(number | 0x80);
	encoded[size++] = (unsigned char)number;
	put(bytes, encoded, size);
}

// A number; zeros are left out, as they are what is not there.
static void put_number(struct bytes *bytes, unsigned field, uint64_t number)
{
	if (number == 0)
		return;
	put_varint(bytes, field << 3);
	put_varint(bytes, number);
}

// A text, or a message of its own.
static void put_piece(struct bytes *bytes, unsigned field, const void *piece, size_t size)
{
	put_varint(bytes, field << 3 | 2);
	put_varint(bytes, size);
	put(bytes, piece, size);
}

static void put_message(struct bytes *bytes, unsigned field, struct bytes *message)
{
	put_piece(bytes, field, message->list, message->size);
	bytes->lost = bytes->lost || message->lost;
	free(message->list);
	*message = (struct bytes){0};
}

static uint64_t key_hash(const void *key, size_t size)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ ((const unsigned char *)key)[i]) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

static bool pool_grow(struct pool *pool)
{
	if (pool->count == pool->capacity) {
		const size_t wanted = 2 * pool->capacity + 256;
		char **keys = reallocarray(pool->keys, wanted, sizeof *keys);
		if (keys == NULL)
			return false;
		pool->keys = keys;
		size_t *sizes = reallocarray(pool->sizes, wanted, sizeof *sizes);
		if (sizes == NULL)
			return false;
		pool->sizes = sizes;
		pool->capacity = wanted;
	}
	if (2 * pool->count < pool->room)
		return true;
	const size_t room = pool->room == 0 ? 1024 : 2 * pool->room;
	uint32_t *table = calloc(room, sizeof *table);
	if (table == NULL)
		return false;
	for (size_t i = 0; i < pool->count; i++) {
		size_t at = (size_t)key_hash(pool->keys[i], pool->sizes[i]) & (room - 1);
		while (table[at] != 0)
			at = (at + 1) & (room - 1);
		table[at] = (uint32_t)i + 1;
	}
	free(pool->table);
	pool->table = table;
	pool->room = room;
	return true;
}

// The number of a key; *fresh: it is a new one. 0: no memory.
static uint32_t pool_number(struct pool *pool, const void *key, size_t size, bool *fresh)
{
	*fresh = false;
	if (!pool_grow(pool))
		return 0;
	size_t at = (size_t)key_hash(key, size) & (pool->room - 1);
	for (; pool->table[at] != 0; at = (at + 1) & (pool->room - 1)) {
		const uint32_t number = pool->table[at];
		if (pool->sizes[number - 1] == size &&
			memcmp(pool->keys[number - 1], key, size) == 0)
			return number;
	}
	char *copy = malloc(size + 1);
	if (copy == NULL)
		return 0;
	memcpy(copy, key, size);
	copy[size] = '\0';
	pool->keys[pool->count] = copy;
	pool->sizes[pool->count++] = size;
	pool->table[at] = (uint32_t)pool->count;
	*fresh = true;
	return (uint32_t)pool->count;
}

static void pool_deinit(struct pool *pool)
{
	for (size_t i = 0; i < pool->count; i++)
		free(pool->keys[i]);
	free(pool->keys);
	free(pool->sizes);
	free(pool->table);
}

// The index of a text in the table of strings, whose first one is empty.
static uint64_t profile_string(struct profile *profile, const char *text)
{
	bool fresh;
	const uint32_t number = pool_number(&profile->strings, text, strlen(text), &fresh);
	profile->message.lost = profile->message.lost || number == 0;
	return number > 0 ? number - 1 : 0;
}

// ---- its parts

static uint64_t profile_mapping(struct profile *profile, const struct report_frame *frame)
{
	bool fresh;
	if (frame->module[0] == '\0')
		return 0;
	const struct report_module *of = frame->of;
	const char *path = of != NULL ? of->path : frame->module;
	const uint32_t number = pool_number(&profile->mappings, path, strlen(path), &fresh);
	if (!fresh)
		return number;
	struct bytes mapping = {0};
	put_number(&mapping, 1, number);
	if (of != NULL) {
		put_number(&mapping, 2, of->start);
		put_number(&mapping, 3, of->end);
		put_number(&mapping, 6,
			profile_string(profile, of->build_id != NULL ? of->build_id : ""));
	}
	// A path may hold any bytes, the format only UTF-8.
	char escaped[4 * 4096 + 1];
	escape(escaped, sizeof escaped, path, strlen(path), ESCAPE_TERMINAL);
	put_number(&mapping, 5, profile_string(profile, escaped));
	// It is all there: functions, files, lines and what is inlined.
	for (unsigned field = 7; field <= 10; field++)
		put_number(&mapping, field, 1);
	put_message(&profile->message, 3, &mapping);
	return number;
}

static uint64_t profile_function(struct profile *profile, const struct report_frame *frame)
{
	bool fresh;
	const uint64_t key[2] = {
		profile_string(profile, frame->function), profile_string(profile, frame->file)};
	const uint32_t number = pool_number(&profile->functions, key, sizeof key, &fresh);
	if (!fresh)
		return number;
	struct bytes function = {0};
	put_number(&function, 1, number);
	put_number(&function, 2, key[0]);
	put_number(&function, 3, key[0]);
	put_number(&function, 4, key[1]);
	put_message(&profile->message, 5, &function);
	return number;
}

// A call with what is inlined in it: frames up to the one that has the code.
static uint64_t profile_location(
	struct profile *profile, const struct report_frame *frames, size_t count)
{
	bool fresh;
	const struct report_frame *frame = &frames[count - 1];
	const uint64_t key[3] = {profile_string(profile, frame->module), frame->inside,
		profile_string(profile, frame->function)};
	const uint32_t number = pool_number(&profile->locations, key, sizeof key, &fresh);
	if (!fresh)
		return number;
	struct bytes location = {0};
	put_number(&location, 1, number);
	put_number(&location, 2, profile_mapping(profile, frame));
	put_number(&location, 3, frame->address);
	for (size_t i = 0; i < count; i++) {
		struct bytes line = {0};
		put_number(&line, 1, profile_function(profile, &frames[i]));
		put_number(&line, 2, (uint64_t)(frames[i].line > 0 ? frames[i].line : 0));
		put_message(&location, 4, &line);
	}
	put_message(&profile->message, 4, &location);
	return number;
}

// What each sample counts: Go's names for it, which servers know, and the peak.
static const char *const measures[][2] = {{"alloc_objects", "count"}, {"alloc_space", "bytes"},
	{"inuse_objects", "count"}, {"inuse_space", "bytes"}, {"peak_space", "bytes"}};

static void pprof_begin(struct report *report)
{
	struct profile *profile = calloc(1, sizeof *profile);
	report->context = profile;
	if (profile == NULL) {
		report->lost = true;
		return;
	}
	profile_string(profile, "");
	for (size_t i = 0; i < sizeof measures / sizeof *measures; i++) {
		struct bytes type = {0};
		put_number(&type, 1, profile_string(profile, measures[i][0]));
		put_number(&type, 2, profile_string(profile, measures[i][1]));
		put_message(&profile->message, 1, &type);
	}
}

static void pprof_stack(struct report *report, const struct report_stack *row)
{
	struct profile *profile = report->context;
	if (profile == NULL)
		return;
	char size[40];
	snprintf(size, sizeof size, "%" PRIu64 " bytes", row->size);
	const bool by_size = report->head->stacks->by == REPORT_BY_SIZE;
	const struct report_frame single = {
		.function = by_size		   ? size
			    : row->name[0] != '\0' ? row->name
						   : "(no stack)",
		.file = "",
		.module = "",
	};
	const struct report_frame *frames = row->frame_count > 0 ? row->frames : &single;
	const size_t count = row->frame_count > 0 ? row->frame_count : 1;
	const struct report_allocated *allocated = &row->allocated;
	const uint64_t values[] = {allocated->blocks, allocated->bytes, allocated->live_blocks,
		allocated->live_bytes, allocated->peak_bytes};
	struct bytes sample = {0}, packed = {0};
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1; end < count && frames[end - 1].inlined;)
			end++;
		put_varint(&packed, profile_location(profile, frames + i, end - i));
	}
	put_message(&sample, 1, &packed);
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		put_varint(&packed, min_u64(values[i], INT64_MAX));
	put_message(&sample, 2, &packed);
	put_message(&profile->message, 2, &sample);
}

// ---- the file

static void put_u32(FILE *stream, uint32_t number)
{
	for (unsigned i = 0; i < 4; i++)
		putc((int)(number >> 8 * i & 0xff), stream);
}

static void gzip_write(FILE *stream, const unsigned char *bytes, size_t size)
{
	static const unsigned char header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff};
	fwrite(header, 1, sizeof header, stream);
	size_t done = 0;
	do {
		const size_t piece = (size_t)min_u64(size - done, 65535);
		putc(done + piece == size, stream);
		put_u32(stream, (uint32_t)piece | (uint32_t)(piece ^ 0xffff) << 16);
		fwrite(bytes + done, 1, piece, stream);
		done += piece;
	} while (done < size);
	put_u32(stream, crc32_add(0, bytes, size));
	put_u32(stream, (uint32_t)size);
}

static void pprof_end(struct report *report)
{
	struct profile *profile = report->context;
	const struct report_stacks *stacks = report->head->stacks;
	if (profile == NULL)
		return;
	struct bytes *message = &profile->message;
	struct bytes period = {0};
	put_number(message, 9, min_u64(stacks->start, INT64_MAX));
	put_number(message, 10, min_u64(stacks->duration, INT64_MAX));
	put_number(&period, 1, profile_string(profile, "space"));
	put_number(&period, 2, profile_string(profile, "bytes"));
	put_message(message, 11, &period);
	put_number(message, 12, stacks->full ? 1 : min_u64(stacks->sample_mean, INT64_MAX));
	put_number(message, 14, profile_string(profile, "inuse_space"));
	for (size_t i = 0; i < profile->strings.count; i++)
		put_piece(message, 6, profile->strings.keys[i], profile->strings.sizes[i]);
	report->lost = report->lost || message->lost;
	if (!message->lost)
		gzip_write(report->stream, message->list, message->size);
	free(message->list);
	pool_deinit(&profile->strings);
	pool_deinit(&profile->functions);
	pool_deinit(&profile->locations);
	pool_deinit(&profile->mappings);
	free(profile);
	report->context = NULL;
}

const struct report_writer writer_pprof = {
	.begin = pprof_begin,
	.stack = pprof_stack,
	.end = pprof_end,
};
