// SPDX-License-Identifier: MIT
#include "image/pieces.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "image/internal.h"
#include "image/live.h"
#include "image/sequence.h"

// Holes of the file are worth leaving out from this size on, and twice the lead.
#define HOLE_MIN ((uint64_t)64 * 1024)

// What is read in order: one chunk ahead, to know where memory goes on.
struct ahead {
	struct sequence *sequence;
	unsigned char *bytes; // of the chunk; owned
	struct image_chunk chunk;
	size_t used;	     // bytes of it that have been handed out
	unsigned char *tail; // the last bytes before them, without a gap; owned
	size_t tail_size;
	bool ended;
};

struct pieces {
	const struct image *image;
	struct pieces_options options;
	struct range *ranges; // what is to be read, by address; owned
	size_t range_count;
	pthread_mutex_t lock; // for all that follows
	size_t range;	      // that is being read
	uint64_t at;	      // bytes of it that have been handed out
	uint64_t data_end;    // up to here, in the same measure, pieces of data
	uint64_t hole_end;    // from there up to here, a hole
	uint64_t run;	      // bytes of data without a gap before at
	bool behind_hole;     // they begin behind a hole
	uint64_t sequence;    // number of the next piece of data
	uint64_t number;      // pieces handed out
	struct ahead ahead;
};

static uint64_t pieces_word(const struct pieces *pieces)
{
	return pieces->options.bytes ? 1 : pieces->image->info.word_size;
}

static int range_compare(const void *left, const void *right)
{
	const struct range *a = left, *b = right;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static bool pieces_plan(struct pieces *pieces, struct error *err)
{
	const struct image *image = pieces->image;
	pieces->ranges = calloc(image->range_count + 1, sizeof *pieces->ranges);
	if (pieces->ranges == NULL)
		return error_memory(err);
	for (size_t i = 0; i < image->range_count; i++) {
		const struct range part = range_words(&image->ranges[i], pieces_word(pieces));
		if (part.size > 0)
			pieces->ranges[pieces->range_count++] = part;
	}
	qsort(pieces->ranges, pieces->range_count, sizeof *pieces->ranges, range_compare);
	return true;
}

static bool ahead_open(struct pieces *pieces, struct error *err)
{
	struct ahead *ahead = &pieces->ahead;
	ahead->bytes = malloc(IMAGE_CHUNK_SIZE);
	ahead->tail = malloc(pieces->options.lead);
	if (ahead->bytes == NULL || ahead->tail == NULL)
		return error_memory(err);
	return sequence_open(pieces->image, (unsigned)pieces_word(pieces),
		pieces->options.stride > 1, err, &ahead->sequence);
}

size_t pieces_memory(const struct image *image, const struct pieces_options *options)
{
	return image->file.in_order ? SEQUENCE_MEMORY + IMAGE_CHUNK_SIZE + options->lead : 0;
}

bool pieces_open(const struct image *image, const struct pieces_options *options, struct error *err,
	struct pieces **ret)
{
	struct pieces *pieces = calloc(1, sizeof *pieces);
	if (pieces == NULL)
		return error_memory(err);
	pieces->image = image;
	pieces->options = *options;
	pthread_mutex_init(&pieces->lock, NULL);
	if (image->file.in_order ? !ahead_open(pieces, err) : !pieces_plan(pieces, err)) {
		pieces_close(pieces);
		return false;
	}
	*ret = pieces;
	return true;
}

void pieces_close(struct pieces *pieces)
{
	if (pieces == NULL)
		return;
	sequence_close(pieces->ahead.sequence);
	free(pieces->ahead.bytes);
	free(pieces->ahead.tail);
	free(pieces->ranges);
	pthread_mutex_destroy(&pieces->lock);
	free(pieces);
}

// ---- read at any place

// Find out how far the data goes from here on, and the hole behind it.
static void pieces_measure(struct pieces *pieces, const struct range *range)
{
	const uint64_t word = pieces_word(pieces), pad = pieces->options.lead;
	uint64_t at = pieces->at;
	while (at < range->size) {
		uint64_t end;
		const bool data = file_has_data(&pieces->image->file, range->offset + at,
			range->offset + range->size, &end);
		end -= range->offset;
		// A word that reaches out of the data is read whole: the rest of it is zeros.
		const uint64_t hole = (at + word - 1) / word * word + pad;
		const uint64_t hole_end = end / word * word - min_u64(pad, end / word * word);
		if (!data && hole_end > hole && hole_end - hole >= HOLE_MIN + 2 * pad) {
			pieces->data_end = hole;
			pieces->hole_end = hole_end;
			return;
		}
		at = end;
		// Far enough; one more look is cheaper than to follow thousands of small holes.
		if (data && at - pieces->at >= pieces->options.size)
			break;
	}
	pieces->data_end = min_u64((at + word - 1) / word * word, range->size);
	pieces->hole_end = pieces->data_end;
}

// Whether the range at this index begins where the one before ends.
static bool pieces_touch(const struct pieces *pieces, size_t index)
{
	if (index == 0 || index >= pieces->range_count)
		return false;
	const struct range *before = &pieces->ranges[index - 1];
	return before->address + before->size == pieces->ranges[index].address;
}

// Choose the next piece; *range and *at say where it is.
static bool pieces_take(struct pieces *pieces, struct piece *ret, size_t *range, uint64_t *at)
{
	while (pieces->range < pieces->range_count &&
		pieces->at >= pieces->ranges[pieces->range].size) {
		pieces->range++;
		pieces->at = pieces->data_end = pieces->hole_end = 0;
		if (!pieces_touch(pieces, pieces->range)) {
			pieces->run = 0;
			pieces->behind_hole = false;
		}
	}
	if (pieces->range >= pieces->range_count)
		return false;
	const struct range *present = &pieces->ranges[pieces->range];
	if (pieces->at >= pieces->data_end && pieces->at >= pieces->hole_end)
		pieces_measure(pieces, present);
	*range = pieces->range;
	*at = pieces->at;
	*ret = (struct piece){.address = present->address + pieces->at};
	if (pieces->at >= pieces->data_end) {
		ret->zeros = pieces->hole_end - pieces->at;
		ret->last = true;
		pieces->at = pieces->hole_end;
		pieces->run = 0;
		pieces->behind_hole = true;
		return true;
	}
	// The pieces after the first one begin at multiples of 64.
	const uint64_t most = pieces->options.size - ret->address % 64;
	ret->size = (size_t)min_u64(pieces->data_end - pieces->at, most);
	if (pieces->options.stride == 1)
		ret->lead = (size_t)min_u64(pieces->run, pieces->options.lead);
	pieces->at += ret->size;
	pieces->run += ret->size;
	ret->hole_before = pieces->behind_hole;
	ret->hole_after = pieces->at == pieces->data_end && pieces->hole_end > pieces->at;
	ret->last = ret->hole_after ||
		    (pieces->at == present->size && !pieces_touch(pieces, pieces->range + 1));
	return true;
}

// Read size bytes up to `at` in a range, and beyond its beginning those of the ranges that it
// touches.
static bool pieces_read(const struct pieces *pieces, size_t range, uint64_t at, char *buffer,
	size_t size, struct error *err)
{
	while (size > 0) {
		const size_t piece = (size_t)min_u64(size, at);
		size -= piece;
		if (!file_read(&pieces->image->file, pieces->ranges[range].offset + at - piece,
			    buffer + size, piece, err))
			return false;
		if (size > 0)
			at = pieces->ranges[--range].size;
	}
	return true;
}

static int pieces_next_anywhere(
	struct pieces *pieces, void *buffer, struct piece *ret, struct error *err)
{
	size_t range;
	uint64_t at;
	bool more;
	pthread_mutex_lock(&pieces->lock);
	do
		more = pieces_take(pieces, ret, &range, &at);
	while (more && ret->size > 0 && pieces->sequence++ % pieces->options.stride != 0);
	ret->number = more ? pieces->number++ : 0;
	pthread_mutex_unlock(&pieces->lock);
	if (!more)
		return 0;
	if (pieces->options.stride > 1)
		ret->lead = 0;
	if (ret->size > 0 &&
		!pieces_read(pieces, range, at + ret->size, buffer, ret->lead + ret->size, err))
		return -1;
	return 1;
}

// ---- a live process: pages may be gone when they are read

// Read a piece as far as it is there; the next one begins behind the page that is not. The lock is
// held, since that decides where the next piece begins.
static bool pieces_read_live(
	struct pieces *pieces, size_t range, uint64_t at, char *buffer, struct piece *piece)
{
	const struct file *file = &pieces->image->file;
	struct error ignored = {0};
	if (!pieces_read(pieces, range, at, buffer, piece->lead, &ignored))
		piece->lead = 0;
	const uint64_t offset = pieces->ranges[range].offset + at;
	const size_t got = live_read_part(file, offset, buffer + piece->lead, piece->size);
	if (got == piece->size)
		return true;
	pieces->range = range;
	pieces->at = live_skip_page(file, offset + got) - pieces->ranges[range].offset;
	pieces->run = 0;
	pieces->behind_hole = false;
	// Pages are whole words.
	piece->size = got - got % pieces_word(pieces);
	piece->last = true;
	return piece->size > 0;
}

static int pieces_next_live(struct pieces *pieces, void *buffer, struct piece *ret)
{
	size_t range;
	uint64_t at;
	bool more;
	pthread_mutex_lock(&pieces->lock);
	do
		more = pieces_take(pieces, ret, &range, &at);
	while (more && (pieces->sequence++ % pieces->options.stride != 0 ||
			       !pieces_read_live(pieces, range, at, buffer, ret)));
	ret->number = more ? pieces->number++ : 0;
	pthread_mutex_unlock(&pieces->lock);
	return more;
}

// ---- read in order

static int ahead_fetch(struct ahead *ahead, struct error *err)
{
	const int more =
		ahead->ended ? 0 : sequence_next(ahead->sequence, ahead->bytes, &ahead->chunk, err);
	ahead->ended = more <= 0;
	ahead->used = 0;
	if (more <= 0)
		ahead->chunk = (struct image_chunk){0};
	return more;
}

// Remember the end of what was handed out.
static void ahead_keep(struct pieces *pieces, const char *buffer, const struct piece *piece)
{
	struct ahead *ahead = &pieces->ahead;
	const size_t size = piece->lead + piece->size;
	ahead->tail_size = piece->last ? 0 : min_u64(size, pieces->options.lead);
	memcpy(ahead->tail, buffer + size - ahead->tail_size, ahead->tail_size);
}

static int ahead_next(struct pieces *pieces, char *buffer, struct piece *ret, struct error *err)
{
	struct ahead *ahead = &pieces->ahead;
	const int more = ahead->used < ahead->chunk.size ? 1 : ahead_fetch(ahead, err);
	*ret = (struct piece){.number = pieces->number};
	if (more <= 0)
		return more;
	const uint64_t address = ahead->chunk.address + ahead->used;
	const size_t most = pieces->options.size - address % 64;
	*ret = (struct piece){
		.address = address,
		.lead = ahead->tail_size,
		.size = min_u64(ahead->chunk.size - ahead->used, most),
		.number = pieces->number++,
	};
	memcpy(buffer, ahead->tail, ret->lead);
	memcpy(buffer + ret->lead, ahead->bytes + ahead->used, ret->size);
	ahead->used += ret->size;
	if (ahead->used == ahead->chunk.size) {
		if (ahead_fetch(ahead, err) < 0)
			return -1;
		ret->last = ahead->ended || ahead->chunk.address != address + ret->size;
	}
	ahead_keep(pieces, buffer, ret);
	return 1;
}

int pieces_next(struct pieces *pieces, void *buffer, struct piece *ret, struct error *err)
{
	if (pieces->ahead.sequence == NULL)
		return pieces->image->info.live ? pieces_next_live(pieces, buffer, ret)
						: pieces_next_anywhere(pieces, buffer, ret, err);
	pthread_mutex_lock(&pieces->lock);
	const int more = ahead_next(pieces, buffer, ret, err);
	pthread_mutex_unlock(&pieces->lock);
	return more;
}
