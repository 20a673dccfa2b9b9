// SPDX-License-Identifier: MIT
//
// Reading all memory in order. Words are whole and aligned by their addresses, so a chunk begins
// and ends between words; where a hole of the file begins or ends inside a word, that word is read.
#include <pthread.h>
#include <stdlib.h>

#include "image/internal.h"
#include "image/live.h"
#include "image/sequence.h"

struct image_scan {
	const struct image *image;
	struct sequence *sequence; // that does the work, if the file is read in order
	unsigned stride;
	pthread_mutex_t lock; // for all that follows
	size_t range;	      // that is being read
	uint64_t at;	      // bytes of its words that have been handed out
	uint64_t data_end;    // up to here, in the same measure, the file has data
	uint64_t number;      // of the next chunk of data, with those that are not handed out
	uint64_t taken;	      // chunks that have been handed out
	// Of a live process: what is left of chunks behind a page that could not be read.
	struct range *rest;
	size_t rest_count, rest_capacity;
};

bool image_scan_open(
	const struct image *image, unsigned stride, struct error *err, struct image_scan **ret)
{
	struct image_scan *scan = calloc(1, sizeof *scan);
	if (scan == NULL)
		return error_memory(err);
	scan->image = image;
	scan->stride = stride;
	if (pthread_mutex_init(&scan->lock, NULL) != 0) {
		free(scan);
		return error_memory(err);
	}
	if (image->file.in_order &&
		!sequence_open(image, image->info.word_size, stride > 1, err, &scan->sequence)) {
		image_scan_close(scan);
		return false;
	}
	file_expect(&image->file, stride == 1);
	*ret = scan;
	return true;
}

void image_scan_close(struct image_scan *scan)
{
	if (scan == NULL)
		return;
	sequence_close(scan->sequence);
	pthread_mutex_destroy(&scan->lock);
	free(scan->rest);
	free(scan);
}

// Choose the next chunk; if it is data, *offset is where it is in the file.
static int scan_take(struct image_scan *scan, struct image_chunk *ret, uint64_t *offset)
{
	const struct image *image = scan->image;
	const uint64_t word = image->info.word_size;
	for (; scan->range < image->range_count; scan->range++, scan->at = scan->data_end = 0) {
		const struct range words = range_words(&image->ranges[scan->range], word);
		if (scan->at >= words.size)
			continue;
		*offset = words.offset + scan->at;
		*ret = (struct image_chunk){.address = words.address + scan->at};
		if (scan->at >= scan->data_end) {
			uint64_t end;
			const bool data = file_has_data(
				&image->file, *offset, words.offset + words.size, &end);
			const uint64_t run = end - *offset;
			if (!data && run >= word) {
				ret->zeros = run / word * word;
				scan->at += ret->zeros;
				return 1;
			}
			scan->data_end = scan->at + max_u64(run, word);
		}
		// A last word that reaches out of the data is read whole: the rest of it is zeros.
		const uint64_t run = (scan->data_end - scan->at + word - 1) / word * word;
		ret->size = (size_t)min_u64(min_u64(run, words.size - scan->at), IMAGE_CHUNK_SIZE);
		scan->at += ret->size;
		return 1;
	}
	return 0;
}

// Take what was left of an earlier chunk.
static bool scan_take_rest(struct image_scan *scan, struct image_chunk *ret, uint64_t *offset)
{
	if (scan->rest_count == 0)
		return false;
	const struct range *rest = &scan->rest[--scan->rest_count];
	*ret = (struct image_chunk){.address = rest->address, .size = (size_t)rest->size};
	*offset = rest->offset;
	return true;
}

static bool scan_put_rest(struct image_scan *scan, const struct range *rest, struct error *err)
{
	bool ok = true;
	pthread_mutex_lock(&scan->lock);
	if (scan->rest_count == scan->rest_capacity) {
		scan->rest_capacity = scan->rest_capacity == 0 ? 8 : 2 * scan->rest_capacity;
		void *grown = realloc(scan->rest, scan->rest_capacity * sizeof *scan->rest);
		if (grown != NULL)
			scan->rest = grown;
		else
			ok = error_memory(err);
	}
	if (ok)
		scan->rest[scan->rest_count++] = *rest;
	pthread_mutex_unlock(&scan->lock);
	return ok;
}

// Read a chunk of a live process as far as it is there. What is behind the first page that is not
// is left for another call.
static bool scan_read_live(struct image_scan *scan, uint64_t offset, void *buffer,
	struct image_chunk *chunk, struct error *err)
{
	const struct file *file = &scan->image->file;
	const size_t got = live_read_part(file, offset, buffer, chunk->size);
	const uint64_t end = offset + chunk->size;
	if (got == chunk->size)
		return true;
	const uint64_t next = live_skip_page(file, offset + got);
	const struct range rest = {chunk->address + next - offset, next, end - next};
	// Pages are whole words.
	chunk->size = got - got % scan->image->info.word_size;
	return next >= end || scan_put_rest(scan, &rest, err);
}

int image_scan_next(
	struct image_scan *scan, void *buffer, struct image_chunk *ret, struct error *err)
{
	uint64_t offset;
	int more;
	if (scan->sequence != NULL)
		return sequence_next(scan->sequence, buffer, ret, err);
	do {
		pthread_mutex_lock(&scan->lock);
		if (scan_take_rest(scan, ret, &offset))
			more = 1;
		else
			do
				more = scan_take(scan, ret, &offset);
			while (more > 0 && ret->size > 0 && scan->number++ % scan->stride != 0);
		// Data of a live process may turn out to be gone: they get their number below.
		if (more > 0 && (ret->size == 0 || !scan->image->info.live))
			ret->number = scan->taken++;
		pthread_mutex_unlock(&scan->lock);
		if (more == 0 || ret->size == 0)
			return more;
		if (scan->image->info.live
				? !scan_read_live(scan, offset, buffer, ret, err)
				: !file_read(&scan->image->file, offset, buffer, ret->size, err))
			return -1;
	} while (ret->size == 0);
	if (scan->image->info.live) {
		pthread_mutex_lock(&scan->lock);
		ret->number = scan->taken++;
		pthread_mutex_unlock(&scan->lock);
	}
	return 1;
}
