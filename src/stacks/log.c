// SPDX-License-Identifier: MIT
#include "stacks/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../record/format.h"
#include "base/bytes.h"

// What is read of a chunk at once, in bytes; a varint has ten at most.
#define WINDOW ((size_t)16 * 1024)
#define EVENT_MAX 40
// More threads than any process has, each with a window.
#define THREADS_MAX 65536
#define SIZES_MAX ((size_t)1 << 20)

// A block in use, or a free that came before its allocation (stack is 0): threads' events are put
// in order by their times only.
struct live {
	uint64_t address;
	uint64_t size : 40, stack : 24; // bytes
	uint64_t born : 62, owed : 1;	// microseconds; a free that comes later is not this block's
	uint64_t used : 1;
};

struct chunk {
	uint64_t number, offset; // of its events, in the log
	uint64_t time;		 // microseconds
	uint32_t thread, size;	 // bytes
};

// Where reading a thread's events is.
struct cursor {
	uint32_t next, end; // its chunks
	uint64_t offset, left;
	unsigned char *window; // owned
	size_t at, filled;
	uint64_t time;		// microseconds, of the event that comes next
	uint64_t address, size; // of the last event; of the last allocation
	uint32_t stack;
	uint64_t last; // address that was allocated, with no allocation since; 0: none
};

// What is known of a stack.
struct tally {
	uint64_t bytes, blocks, freed_bytes, freed_blocks, temporary, largest;
	uint64_t peak_bytes, peak_blocks, peak_number;
	uint64_t first, last; // microseconds, + 1
};

struct reader {
	struct recording *recording;
	const struct log_options *options;
	struct log *log;
	uint64_t address, size; // of the log
	struct chunk *chunks;	// sorted by thread and number; owned
	size_t chunk_count;
	struct cursor *cursors; // a heap by time; owned
	size_t cursor_count;
	struct live *table; // by hash; owned
	size_t live_count, room;
	struct tally *tallies; // of each stack; owned
	uint64_t live_bytes, peak_number;
	struct stack_values *at; // what was in use then; owned
	bool at_done;
	struct stack_size *sizes; // a hash table; size is + 1; owned
	size_t size_count, size_room;
	bool lost, full; // no memory; more is in use than fits it
};

// ---- chunks

static int chunk_compare(const void *a, const void *b)
{
	const struct chunk *x = a, *y = b;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

static bool chunks_find(struct reader *reader)
{
	size_t capacity = 0;
	uint64_t least = UINT64_MAX;
	for (uint64_t at = 0; reader->size - at >= sizeof(struct record_chunk);) {
		struct record_chunk chunk;
		if (image_read(reader->recording->image, reader->address + at, &chunk,
			    sizeof chunk) != sizeof chunk ||
			chunk.magic != RECORD_CHUNK_MAGIC)
			break;
		at += sizeof chunk;
		if (chunk.bytes > reader->size - at)
			chunk.bytes = (uint32_t)(reader->size - at);
		if (reader->chunk_count == capacity) {
			capacity = 2 * capacity + 256;
			struct chunk *grown =
				capacity * sizeof *grown > reader->options->memory / 4
					? NULL
					: reallocarray(reader->chunks, capacity, sizeof *grown);
			if (grown == NULL)
				return false;
			reader->chunks = grown;
		}
		reader->chunks[reader->chunk_count++] = (struct chunk){
			chunk.number, at, chunk.time / 1000, chunk.thread, chunk.bytes};
		least = min_u64(least, chunk.number);
		at += chunk.bytes;
		if (at == reader->size)
			reader->log->complete = least == 0;
	}
	if (reader->chunk_count > 0)
		qsort(reader->chunks, reader->chunk_count, sizeof *reader->chunks, chunk_compare);
	return true;
}

// Go on with the next chunk of the thread; false if there is none.
static bool cursor_next_chunk(struct reader *reader, struct cursor *cursor)
{
	if (cursor->next == cursor->end)
		return false;
	const struct chunk *chunk = &reader->chunks[cursor->next++];
	cursor->offset = chunk->offset;
	cursor->left = chunk->size;
	cursor->at = cursor->filled = 0;
	cursor->time = max_u64(cursor->time, chunk->time);
	cursor->address = cursor->size = cursor->stack = 0;
	return true;
}

// Have a whole event in the window; false at the end of the chunk.
static bool cursor_fill(struct reader *reader, struct cursor *cursor)
{
	const size_t rest = cursor->filled - cursor->at;
	if (rest >= EVENT_MAX || (cursor->left == 0 && rest > 0))
		return true;
	memmove(cursor->window, cursor->window + cursor->at, rest);
	const size_t got = image_read(reader->recording->image, reader->address + cursor->offset,
		cursor->window + rest, (size_t)min_u64(cursor->left, WINDOW - rest));
	cursor->offset += got;
	cursor->left = got > 0 ? cursor->left - got : 0;
	cursor->at = 0;
	cursor->filled = rest + got;
	return cursor->filled > 0;
}

static uint64_t cursor_varint(struct cursor *cursor)
{
	uint64_t number = 0;
	for (unsigned shift = 0; shift < 64 && cursor->at < cursor->filled; shift += 7) {
		const unsigned char byte = cursor->window[cursor->at++];
		number |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			break;
	}
	return number;
}

static uint64_t zigzag(uint64_t number)
{
	return number >> 1 ^ (0 - (number & 1));
}

// ---- blocks in use

static size_t live_home(uint64_t address, size_t room)
{
	return (size_t)((address >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (room - 1);
}

static size_t live_slot(const struct live *table, size_t room, uint64_t address)
{
	size_t at = live_home(address, room);
	while (table[at].used && table[at].address != address)
		at = (at + 1) & (room - 1);
	return at;
}

static bool live_grow(struct reader *reader)
{
	if (3 * reader->room > 4 * reader->live_count)
		return true;
	const size_t room = reader->room == 0 ? (size_t)1 << 14 : 2 * reader->room;
	if ((room + reader->room) * sizeof *reader->table > reader->options->memory) {
		reader->full = true;
		return false;
	}
	struct live *table = calloc(room, sizeof *table);
	if (table == NULL) {
		reader->lost = true;
		return false;
	}
	for (size_t i = 0; i < reader->room; i++)
		if (reader->table[i].used)
			table[live_slot(table, room, reader->table[i].address)] = reader->table[i];
	free(reader->table);
	reader->table = table;
	reader->room = room;
	return true;
}

// Take an entry out: those behind it that belong before it move up.
static void live_remove(struct reader *reader, size_t hole)
{
	const size_t mask = reader->room - 1;
	struct live *table = reader->table;
	for (size_t at = (hole + 1) & mask; table[at].used; at = (at + 1) & mask) {
		const size_t home = live_home(table[at].address, reader->room);
		if (((at - home) & mask) >= ((at - hole) & mask)) {
			table[hole] = table[at];
			hole = at;
		}
	}
	table[hole] = (struct live){0};
	reader->live_count--;
}

// ---- tallies

// The peak moved since the stack changed last: what it has now is what it had at the peak.
static struct tally *tally_change(struct reader *reader, uint32_t stack)
{
	struct tally *tally = &reader->tallies[stack];
	if (tally->peak_number != reader->peak_number) {
		tally->peak_number = reader->peak_number;
		tally->peak_bytes = tally->bytes - tally->freed_bytes;
		tally->peak_blocks = tally->blocks - tally->freed_blocks;
	}
	return tally;
}

static void tally_life(struct reader *reader, uint32_t stack, uint64_t life)
{
	struct stack_lives *lives = &reader->log->lives[stack];
	if (lives->list == NULL)
		lives->list = calloc(STACK_LIVES, sizeof *lives->list);
	if (lives->list == NULL) {
		reader->lost = true;
		return;
	}
	const unsigned bits = life == 0 ? 0 : 64 - (unsigned)__builtin_clzll(life);
	lives->list[bits < STACK_LIVES ? bits : STACK_LIVES - 1]++;
	lives->count++;
	lives->sum = add_saturated(lives->sum, life);
	lives->most = max_u64(lives->most, life);
}

static void tally_free(
	struct reader *reader, uint32_t stack, uint64_t size, uint64_t life, bool temporary)
{
	struct tally *tally = tally_change(reader, stack);
	tally->freed_bytes += size;
	tally->freed_blocks++;
	tally->temporary += temporary;
	reader->live_bytes -= size;
	tally_life(reader, stack, life);
}

static void tally_size(struct reader *reader, uint64_t size)
{
	if (2 * reader->size_count >= reader->size_room) {
		const size_t room = reader->size_room == 0 ? 1024 : 2 * reader->size_room;
		struct stack_size *grown = calloc(room, sizeof *grown);
		if (grown == NULL) {
			reader->lost = true;
			return;
		}
		for (size_t i = 0; i < reader->size_room; i++) {
			if (reader->sizes[i].size == 0)
				continue;
			size_t at = live_home(reader->sizes[i].size << 3, room);
			while (grown[at].size != 0)
				at = (at + 1) & (room - 1);
			grown[at] = reader->sizes[i];
		}
		free(reader->sizes);
		reader->sizes = grown;
		reader->size_room = room;
	}
	size_t at = live_home((size + 1) << 3, reader->size_room);
	while (reader->sizes[at].size != 0 && reader->sizes[at].size != size + 1)
		at = (at + 1) & (reader->size_room - 1);
	if (reader->sizes[at].size == 0) {
		if (reader->size_count >= SIZES_MAX)
			return;
		reader->sizes[at].size = size + 1;
		reader->size_count++;
	}
	reader->sizes[at].values.blocks++;
	reader->sizes[at].values.bytes += size;
}

// ---- events

static void event_allocate(struct reader *reader, struct cursor *cursor)
{
	struct log *log = reader->log;
	const uint64_t size = min_u64(cursor->size, ((uint64_t)1 << 40) - 1);
	const uint32_t stack = cursor->stack;
	if (!live_grow(reader))
		return;
	struct tally *tally = tally_change(reader, stack);
	tally->bytes += size;
	tally->blocks++;
	tally->largest = max_u64(tally->largest, size);
	tally->last = cursor->time + 1;
	if (tally->first == 0)
		tally->first = tally->last;
	reader->live_bytes += size;
	tally_size(reader, size);
	const uint64_t part = cursor->time * 1000 / log->rate_time;
	log->rates[part < LOG_RATES ? part : LOG_RATES - 1] += size;
	const size_t at = live_slot(reader->table, reader->room, cursor->address);
	struct live *live = &reader->table[at];
	cursor->last = cursor->address;
	if (live->used && live->stack == 0) {
		// Its free came first.
		log->unmatched--;
		live_remove(reader, at);
		tally_free(reader, stack, size, 0, false);
		return;
	}
	const bool owed = live->used;
	if (owed)
		tally_free(reader, (uint32_t)live->stack, live->size, 0, false);
	reader->live_count += !owed;
	*live = (struct live){.address = cursor->address,
		.size = size & (((uint64_t)1 << 40) - 1),
		.stack = stack & 0xffffff,
		.born = cursor->time & (((uint64_t)1 << 62) - 1),
		.owed = owed,
		.used = 1};
	if (reader->live_bytes > log->peak_bytes) {
		log->peak_bytes = reader->live_bytes;
		log->peak_time = cursor->time * 1000;
		reader->peak_number++;
	}
}

static void event_free(struct reader *reader, struct cursor *cursor)
{
	if (!live_grow(reader))
		return;
	const size_t at = live_slot(reader->table, reader->room, cursor->address);
	struct live *live = &reader->table[at];
	const bool temporary = cursor->last == cursor->address && cursor->last != 0;
	cursor->last = 0;
	if (!live->used) {
		*live = (struct live){.address = cursor->address, .used = 1};
		reader->live_count++;
		reader->log->unmatched++;
	} else if (live->stack == 0) {
		reader->log->unmatched++;
	} else if (live->owed) {
		live->owed = 0;
	} else {
		const uint64_t life = cursor->time > live->born ? cursor->time - live->born : 0;
		tally_free(reader, (uint32_t)live->stack, live->size, life, temporary);
		live_remove(reader, at);
	}
}

// What is in use at the moment that was asked for.
static void moment_keep(struct reader *reader)
{
	reader->at_done = true;
	reader->at = calloc(reader->recording->stack_count, sizeof *reader->at);
	reader->lost = reader->lost || reader->at == NULL;
	for (size_t i = 0; reader->at != NULL && i < reader->recording->stack_count; i++) {
		const struct tally *tally = &reader->tallies[i];
		reader->at[i].live_bytes = tally->bytes - tally->freed_bytes;
		reader->at[i].live_blocks = tally->blocks - tally->freed_blocks;
	}
}

static void event_read(struct reader *reader, struct cursor *cursor)
{
	const uint64_t first = cursor_varint(cursor);
	const uint64_t number = first >> 2;
	struct log *log = reader->log;
	switch ((enum record_event)(first & 3)) {
	case RECORD_ALLOCATE:
		cursor->stack += (uint32_t)zigzag(number);
		cursor->size = cursor_varint(cursor);
		cursor->address += zigzag(cursor_varint(cursor)) << 3;
		break;
	case RECORD_REPEAT:
	case RECORD_FREE:
		cursor->address += zigzag(number) << 3;
		break;
	case RECORD_TIME:
		cursor->time = add_saturated(cursor->time, min_u64(number, (uint64_t)1 << 60));
		cursor->time = min_u64(cursor->time, (uint64_t)1 << 50);
		if (cursor->time * 1000 > reader->options->at && !reader->at_done)
			moment_keep(reader);
		log->end = max_u64(log->end, cursor->time * 1000);
		return;
	}
	log->events++;
	if ((first & 3) == RECORD_FREE) {
		event_free(reader, cursor);
	} else if (cursor->stack == 0 || cursor->stack >= reader->recording->stack_count) {
		log->damaged = true;
	} else {
		event_allocate(reader, cursor);
	}
}

// ---- the order of threads

static void heap_sink(struct cursor *cursors, size_t count, size_t at)
{
	for (;;) {
		size_t least = at;
		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
			if (cursors[child].time < cursors[least].time)
				least = child;
		if (least == at)
			return;
		const struct cursor other = cursors[least];
		cursors[least] = cursors[at];
		cursors[at] = other;
		at = least;
	}
}

static bool cursors_begin(struct reader *reader)
{
	size_t threads = 0;
	for (size_t i = 0; i < reader->chunk_count; i++)
		threads += i == 0 || reader->chunks[i].thread != reader->chunks[i - 1].thread;
	if (threads > THREADS_MAX || threads * WINDOW > reader->options->memory)
		return false;
	reader->cursors = calloc(threads + 1, sizeof *reader->cursors);
	if (reader->cursors == NULL)
		return false;
	for (size_t i = 0, end; i < reader->chunk_count; i = end) {
		for (end = i + 1; end < reader->chunk_count &&
				  reader->chunks[end].thread == reader->chunks[i].thread;)
			end++;
		struct cursor *cursor = &reader->cursors[reader->cursor_count];
		cursor->window = malloc(WINDOW);
		if (cursor->window == NULL)
			return false;
		reader->cursor_count++;
		cursor->next = (uint32_t)i;
		cursor->end = (uint32_t)end;
		cursor_next_chunk(reader, cursor);
	}
	for (size_t i = reader->cursor_count; i-- > 0;)
		heap_sink(reader->cursors, reader->cursor_count, i);
	return true;
}

// Read the events of the thread whose next one is the earliest, as long as it is.
static void cursors_run(struct reader *reader)
{
	struct cursor *first = reader->cursors;
	while (reader->cursor_count > 0 && !reader->lost && !reader->full) {
		uint64_t limit = UINT64_MAX;
		for (size_t i = 1; i <= 2 && i < reader->cursor_count; i++)
			limit = min_u64(limit, first[i].time);
		bool more = true;
		while (first->time <= limit && !reader->lost && !reader->full) {
			if (first->filled - first->at < EVENT_MAX && !cursor_fill(reader, first)) {
				more = cursor_next_chunk(reader, first);
				if (!more)
					break;
				continue;
			}
			event_read(reader, first);
		}
		if (!more) {
			free(first->window);
			*first = first[--reader->cursor_count];
			first[reader->cursor_count].window = NULL;
		}
		heap_sink(first, reader->cursor_count, 0);
	}
}

// ---- the answer

// The log has all: it tells more than the recording does.
static void reader_tell(struct reader *reader)
{
	struct recording *recording = reader->recording;
	const struct log *log = reader->log;
	recording->total = (struct stack_values){0};
	for (size_t i = 1; i < recording->stack_count; i++) {
		const struct tally *tally = tally_change(reader, (uint32_t)i);
		struct stack_values *values = &recording->stacks[i].values;
		*values = (struct stack_values){
			.live_bytes = tally->bytes - tally->freed_bytes,
			.live_blocks = tally->blocks - tally->freed_blocks,
			.peak_bytes = tally->peak_bytes,
			.peak_blocks = tally->peak_blocks,
			.bytes = tally->bytes,
			.blocks = tally->blocks,
			.temporary = tally->temporary,
			.largest = tally->largest,
			.first = tally->first > 0 ? (tally->first - 1) * 1000 : 0,
			.last = tally->last > 0 ? (tally->last - 1) * 1000 : 0,
		};
		if (reader->at != NULL) {
			values->live_bytes = reader->at[i].live_bytes;
			values->live_blocks = reader->at[i].live_blocks;
		}
		stack_values_add(&recording->total, values);
	}
	recording->peak_bytes = log->peak_bytes;
	recording->peak_time = log->peak_time;
	recording->full = true;
	// Sizes are those of all blocks, not only of those in use.
	free(recording->sizes);
	recording->sizes = calloc(reader->size_count + 1, sizeof *recording->sizes);
	recording->size_count = 0;
	reader->lost = reader->lost || recording->sizes == NULL;
	for (size_t i = 0; recording->sizes != NULL && i < reader->size_room; i++) {
		if (reader->sizes[i].size == 0)
			continue;
		struct stack_size *size = &recording->sizes[recording->size_count++];
		*size = reader->sizes[i];
		size->size--;
	}
}

// How many blocks in use have each size is counted from what is left.
static void reader_tell_sizes(struct reader *reader)
{
	for (size_t i = 0; i < reader->room; i++) {
		const struct live *live = &reader->table[i];
		if (!live->used || live->stack == 0)
			continue;
		size_t at = live_home(((uint64_t)live->size + 1) << 3, reader->size_room);
		while (reader->sizes[at].size != 0 && reader->sizes[at].size != live->size + 1U)
			at = (at + 1) & (reader->size_room - 1);
		if (reader->sizes[at].size == 0)
			continue;
		reader->sizes[at].values.live_blocks++;
		reader->sizes[at].values.live_bytes += live->size;
	}
}

static void reader_deinit(struct reader *reader)
{
	for (size_t i = 0; i < reader->cursor_count; i++)
		free(reader->cursors[i].window);
	free(reader->cursors);
	free(reader->chunks);
	free(reader->table);
	free(reader->tallies);
	free(reader->at);
	free(reader->sizes);
}

bool log_read(struct recording *recording, const struct log_options *options, struct error *err,
	struct log **ret)
{
	struct log *log = calloc(1, sizeof *log);
	struct reader reader = {
		.recording = recording, .options = options, .log = log, .peak_number = 1};
	if (log == NULL)
		return error_memory(err);
	recording_log(recording, &reader.address, &reader.size);
	log->stack_count = recording->stack_count;
	log->lives = calloc(recording->stack_count + 1, sizeof *log->lives);
	log->rate_time = recording->duration / LOG_RATES + 1;
	log->rate_count = LOG_RATES;
	reader.tallies = calloc(recording->stack_count + 1, sizeof *reader.tallies);
	bool done = log->lives != NULL && reader.tallies != NULL && chunks_find(&reader) &&
		    cursors_begin(&reader);
	if (done)
		cursors_run(&reader);
	if (done && !reader.at_done && options->at != UINT64_MAX && options->at < log->end)
		moment_keep(&reader);
	log->complete = log->complete && !log->damaged;
	if (done && log->complete && !reader.lost && !reader.full) {
		if (reader.size_room > 0)
			reader_tell_sizes(&reader);
		reader_tell(&reader);
	}
	done = done && !reader.lost;
	const bool full = reader.full;
	reader_deinit(&reader);
	if (done && !full) {
		*ret = log;
		return true;
	}
	log_destroy(log);
	return full ? error_usage(err,
			      "%s: more blocks are in use at once than fit --memory; use a "
			      "larger one",
			      image_info(recording->image)->path)
		    : error_memory(err);
}

void log_destroy(struct log *log)
{
	if (log == NULL)
		return;
	for (size_t i = 0; log->lives != NULL && i < log->stack_count; i++)
		free(log->lives[i].list);
	free(log->lives);
	free(log);
}
