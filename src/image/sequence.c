// SPDX-License-Identifier: MIT
#include "image/sequence.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "image/internal.h"
#include "image/stream.h"

// A word that reaches from one window into the next is in the latter, whole.
#define CARRY ((size_t)8)
// With the carry, one chunk.
#define WINDOW_SIZE (IMAGE_CHUNK_SIZE - CARRY)
// Enough for the threads that count not to wait for each other.
#define WINDOWS ((uint64_t)6)
_Static_assert(WINDOWS *(CARRY + WINDOW_SIZE) <= SEQUENCE_MEMORY, "what is promised");
// Behind the last range a stream is read on that far, to see whether it ends well; a bomb is not
// read to its end.
#define TAIL_MAX ((uint64_t)64 << 20)

struct window {
	uint64_t offset; // of the byte behind the carry
	size_t size;	 // bytes behind the carry
	unsigned users;	 // threads that copy from it
	unsigned char *bytes;
};

struct sequence {
	const struct image *image;
	unsigned word_size;
	uint64_t end; // of what is to be read
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t filled, freed;
	// Windows are numbered; number n is kept at n % WINDOWS.
	struct window windows[WINDOWS];
	uint64_t produced; // that many are filled
	uint64_t current;  // the one that is handed out
	bool ended, failed, stopped;
	struct error err;
	// The ranges that reach into the current window; all before next_range have been looked at.
	uint32_t *active;
	size_t active_count, active_next, next_range;
	bool entered;	// active belongs to the current window
	uint64_t taken; // chunks that have been handed out
};

// ---- the thread that reads

static bool sequence_free(const struct sequence *sequence)
{
	const uint64_t number = sequence->produced;
	if (number < WINDOWS)
		return true;
	return number - WINDOWS < sequence->current &&
	       sequence->windows[number % WINDOWS].users == 0;
}

// Wait for a window to fill. False: enough.
static bool sequence_wait(struct sequence *sequence)
{
	pthread_mutex_lock(&sequence->lock);
	while (!sequence->stopped && !sequence_free(sequence))
		pthread_cond_wait(&sequence->freed, &sequence->lock);
	const bool go = !sequence->stopped;
	pthread_mutex_unlock(&sequence->lock);
	return go;
}

// Fill one window. False: that was the last one, or it failed.
static bool sequence_fill(struct sequence *sequence, uint64_t offset, struct error *err, bool *ok)
{
	const uint64_t number = sequence->produced;
	struct window *window = &sequence->windows[number % WINDOWS];
	const size_t wanted = (size_t)min_u64(WINDOW_SIZE, sequence->end - offset);
	window->offset = offset;
	if (number > 0) {
		const struct window *before = &sequence->windows[(number - 1) % WINDOWS];
		memcpy(window->bytes, before->bytes + before->size, CARRY);
	}
	*ok = stream_next(
		sequence->image->file.stream, window->bytes + CARRY, wanted, err, &window->size);
	return *ok && window->size == wanted && offset + wanted < sequence->end;
}

static void *sequence_run(void *argument)
{
	struct sequence *sequence = argument;
	uint64_t offset = 0;
	bool more = true;
	while (more && sequence_wait(sequence)) {
		struct error err;
		bool ok;
		more = sequence_fill(sequence, offset, &err, &ok);
		offset += WINDOW_SIZE;
		pthread_mutex_lock(&sequence->lock);
		if (ok) {
			sequence->produced++;
		} else {
			sequence->failed = true;
			sequence->err = err;
		}
		sequence->ended = !more;
		pthread_cond_broadcast(&sequence->filled);
		pthread_mutex_unlock(&sequence->lock);
	}
	return NULL;
}

// ---- the threads that take

// Find the ranges that reach into the current window.
static void sequence_enter(struct sequence *sequence)
{
	const struct image *image = sequence->image;
	const struct window *window = &sequence->windows[sequence->current % WINDOWS];
	size_t count = 0;
	for (size_t i = 0; i < sequence->active_count; i++) {
		const struct range *range = &image->ranges[sequence->active[i]];
		if (range->offset + range->size > window->offset)
			sequence->active[count++] = sequence->active[i];
	}
	for (; sequence->next_range < image->range_count; sequence->next_range++) {
		if (image->ranges[sequence->next_range].offset >= window->offset + window->size)
			break;
		sequence->active[count++] = (uint32_t)sequence->next_range;
	}
	sequence->active_count = count;
	sequence->active_next = 0;
	sequence->entered = true;
}

// The whole words of a range that end in a window. Returns where they begin.
static const unsigned char *window_words(const struct window *window, const struct range *range,
	uint64_t word_size, struct image_chunk *ret)
{
	const struct range words = range_words(range, word_size);
	const uint64_t end = min_u64(words.offset + words.size, window->offset + window->size);
	uint64_t skipped = 0;
	*ret = (struct image_chunk){0};
	if (words.size == 0 || end <= words.offset)
		return NULL;
	if (words.offset < window->offset)
		skipped = (window->offset - words.offset) / word_size * word_size;
	const uint64_t first = words.offset + skipped;
	if (first >= end)
		return NULL;
	ret->address = words.address + skipped;
	ret->size = (size_t)((end - first) / word_size * word_size);
	return window->bytes + CARRY + first - window->offset;
}

// Choose the next chunk; wait for it if need be. Called with the lock held.
static int sequence_take(
	struct sequence *sequence, struct image_chunk *ret, const unsigned char **bytes)
{
	for (;;) {
		if (sequence->failed)
			return -1;
		if (sequence->current == sequence->produced) {
			if (sequence->ended)
				return 0;
			pthread_cond_wait(&sequence->filled, &sequence->lock);
			continue;
		}
		if (!sequence->entered)
			sequence_enter(sequence);
		const struct window *window = &sequence->windows[sequence->current % WINDOWS];
		while (sequence->active_next < sequence->active_count) {
			const uint32_t index = sequence->active[sequence->active_next++];
			*bytes = window_words(
				window, &sequence->image->ranges[index], sequence->word_size, ret);
			if (ret->size > 0)
				return 1;
		}
		sequence->current++;
		sequence->entered = false;
		pthread_cond_signal(&sequence->freed);
	}
}

int sequence_next(
	struct sequence *sequence, void *buffer, struct image_chunk *ret, struct error *err)
{
	const unsigned char *bytes;
	pthread_mutex_lock(&sequence->lock);
	const int more = sequence_take(sequence, ret, &bytes);
	struct window *window = &sequence->windows[sequence->current % WINDOWS];
	ret->number = sequence->taken;
	if (more > 0) {
		sequence->taken++;
		window->users++;
	}
	if (more < 0)
		*err = sequence->err;
	pthread_mutex_unlock(&sequence->lock);
	if (more <= 0)
		return more;
	memcpy(buffer, bytes, ret->size);
	pthread_mutex_lock(&sequence->lock);
	if (--window->users == 0)
		pthread_cond_signal(&sequence->freed);
	pthread_mutex_unlock(&sequence->lock);
	return 1;
}

// ---- the whole

static uint64_t sequence_end(const struct image *image, bool sample)
{
	const struct stream *stream = image->file.stream;
	uint64_t end = 0;
	if (sample)
		return stream_head(stream);
	// A program that writes into a pipe is not cut short.
	if (stream_once(stream))
		return FILE_SIZE_UNKNOWN;
	for (size_t i = 0; i < image->range_count; i++)
		end = max_u64(end, image->ranges[i].offset + image->ranges[i].size);
	return min_u64(end + TAIL_MAX, FILE_SIZE_UNKNOWN);
}

static void sequence_destroy(struct sequence *sequence)
{
	for (size_t i = 0; i < WINDOWS; i++)
		free(sequence->windows[i].bytes);
	pthread_cond_destroy(&sequence->filled);
	pthread_cond_destroy(&sequence->freed);
	pthread_mutex_destroy(&sequence->lock);
	free(sequence->active);
	free(sequence);
}

bool sequence_open(const struct image *image, unsigned word_size, bool sample, struct error *err,
	struct sequence **ret)
{
	struct sequence *sequence = calloc(1, sizeof *sequence);
	if (sequence == NULL)
		return error_memory(err);
	sequence->image = image;
	sequence->word_size = word_size;
	sequence->end = sequence_end(image, sample);
	pthread_mutex_init(&sequence->lock, NULL);
	pthread_cond_init(&sequence->filled, NULL);
	pthread_cond_init(&sequence->freed, NULL);
	sequence->active = calloc(image->range_count + 1, sizeof *sequence->active);
	bool ok = sequence->active != NULL;
	for (size_t i = 0; ok && i < WINDOWS; i++)
		ok = (sequence->windows[i].bytes = malloc(CARRY + WINDOW_SIZE)) != NULL;
	if (!ok)
		error_memory(err);
	ok = ok && stream_start(image->file.stream, err);
	if (ok && pthread_create(&sequence->thread, NULL, sequence_run, sequence) != 0)
		ok = error_set(err, "cannot start a thread");
	if (!ok) {
		sequence_destroy(sequence);
		return false;
	}
	*ret = sequence;
	return true;
}

void sequence_close(struct sequence *sequence)
{
	if (sequence == NULL)
		return;
	struct stream *stream = sequence->image->file.stream;
	pthread_mutex_lock(&sequence->lock);
	sequence->stopped = true;
	pthread_cond_signal(&sequence->freed);
	pthread_mutex_unlock(&sequence->lock);
	stream_cancel(stream, true);
	pthread_join(sequence->thread, NULL);
	stream_cancel(stream, false);
	sequence_destroy(sequence);
}
