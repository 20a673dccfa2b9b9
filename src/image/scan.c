// SPDX-License-Identifier: MIT
//
// Reading all memory in order. Words are whole and aligned by their addresses, so a chunk begins
// and ends between words; where a hole of the file begins or ends inside a word, that word is read.
#include <pthread.h>
#include <stdlib.h>

#include "image/internal.h"

// With a lead, a hole is worth leaving out from this size on.
#define HOLE_MIN ((uint64_t)64 * 1024)

struct image_scan {
	const struct image *image;
	struct image_scan_options options;
	struct range *ranges; // what is to be read, in order; owned
	size_t range_count;
	pthread_mutex_t lock; // for all that follows
	size_t range;	      // that is being read
	uint64_t at;	      // bytes of it that have been handed out
	uint64_t data_end;    // up to here, in the same measure, chunks of data
	uint64_t hole_end;    // from there up to here, a hole
	uint64_t run;	      // bytes of data without a gap before at
	uint64_t sequence;    // number of the next chunk of data
	uint64_t number;      // chunks delivered
};

static int range_compare(const void *left, const void *right)
{
	const struct range *a = left, *b = right;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static bool scan_plan(struct image_scan *scan, struct error *err)
{
	const struct image *image = scan->image;
	scan->ranges = calloc(image->range_count + 1, sizeof *scan->ranges);
	if (scan->ranges == NULL)
		return error_memory(err);
	for (size_t i = 0; i < image->range_count; i++) {
		const struct range *range = &image->ranges[i];
		const struct range part =
			scan->options.bytes ? *range : range_words(range, image->info.word_size);
		if (part.size > 0)
			scan->ranges[scan->range_count++] = part;
	}
	if (scan->options.lead > 0)
		qsort(scan->ranges, scan->range_count, sizeof *scan->ranges, range_compare);
	return true;
}

bool image_scan_open_with(const struct image *image, const struct image_scan_options *options,
	struct error *err, struct image_scan **ret)
{
	struct image_scan *scan = calloc(1, sizeof *scan);
	if (scan == NULL)
		return error_memory(err);
	scan->image = image;
	scan->options = *options;
	if (pthread_mutex_init(&scan->lock, NULL) != 0) {
		free(scan);
		return error_memory(err);
	}
	if (!scan_plan(scan, err)) {
		image_scan_close(scan);
		return false;
	}
	*ret = scan;
	return true;
}

bool image_scan_open(
	const struct image *image, unsigned stride, struct error *err, struct image_scan **ret)
{
	const struct image_scan_options options = {.stride = stride, .chunk = IMAGE_CHUNK_SIZE};
	return image_scan_open_with(image, &options, err, ret);
}

void image_scan_close(struct image_scan *scan)
{
	if (scan == NULL)
		return;
	pthread_mutex_destroy(&scan->lock);
	free(scan->ranges);
	free(scan);
}

// Find out how far the data goes from here on, and the hole behind it.
static void scan_measure(struct image_scan *scan, const struct range *range)
{
	const uint64_t word = scan->options.bytes ? 1 : scan->image->info.word_size;
	const uint64_t pad = scan->options.lead, least = pad > 0 ? HOLE_MIN : 1;
	uint64_t at = scan->at;
	while (at < range->size) {
		uint64_t end;
		const bool data = file_has_data(
			&scan->image->file, range->offset + at, range->offset + range->size, &end);
		end -= range->offset;
		// A word that reaches out of the data is read whole: the rest of it is zeros.
		const uint64_t hole = (at + word - 1) / word * word + pad;
		const uint64_t hole_end = end / word * word - min_u64(pad, end / word * word);
		if (!data && hole_end >= hole && hole_end - hole >= least) {
			scan->data_end = hole;
			scan->hole_end = hole_end;
			return;
		}
		at = end;
		// Far enough; one more look is cheaper than to follow thousands of small holes.
		if (data && at - scan->at >= scan->options.chunk)
			break;
	}
	scan->data_end = scan->hole_end = min_u64((at + word - 1) / word * word, range->size);
}

// Whether the range at this index begins where the one before ends.
static bool scan_touches(const struct image_scan *scan, size_t index)
{
	if (scan->options.lead == 0 || index == 0 || index >= scan->range_count)
		return false;
	const struct range *before = &scan->ranges[index - 1];
	return before->address + before->size == scan->ranges[index].address;
}

// Choose the next chunk; *range and *at say where it is.
static bool scan_take(struct image_scan *scan, struct image_chunk *ret, size_t *range, uint64_t *at)
{
	while (scan->range < scan->range_count && scan->at >= scan->ranges[scan->range].size) {
		scan->range++;
		scan->at = scan->data_end = scan->hole_end = 0;
		if (!scan_touches(scan, scan->range))
			scan->run = 0;
	}
	if (scan->range >= scan->range_count)
		return false;
	const struct range *present = &scan->ranges[scan->range];
	if (scan->at >= scan->data_end && scan->at >= scan->hole_end)
		scan_measure(scan, present);
	*range = scan->range;
	*at = scan->at;
	*ret = (struct image_chunk){.address = present->address + scan->at};
	if (scan->at >= scan->data_end) {
		ret->zeros = scan->hole_end - scan->at;
		ret->last = true;
		scan->at = scan->hole_end;
		scan->run = 0;
		return true;
	}
	// The chunks after the first one begin at multiples of 64.
	const uint64_t most = scan->options.chunk - ret->address % 64;
	ret->size = (size_t)min_u64(scan->data_end - scan->at, most);
	ret->lead = (size_t)min_u64(scan->run, scan->options.lead);
	scan->at += ret->size;
	scan->run += ret->size;
	ret->last = scan->at < scan->data_end  ? false
		    : scan->at < present->size ? scan->hole_end > scan->at
					       : !scan_touches(scan, scan->range + 1);
	return true;
}

// Read size bytes up to `at` in a range, and beyond its beginning those of the ranges that it
// touches.
static bool scan_read(const struct image_scan *scan, size_t range, uint64_t at, char *buffer,
	size_t size, struct error *err)
{
	while (size > 0) {
		const size_t piece = (size_t)min_u64(size, at);
		size -= piece;
		if (!file_read(&scan->image->file, scan->ranges[range].offset + at - piece,
			    buffer + size, piece, err))
			return false;
		if (size > 0)
			at = scan->ranges[--range].size;
	}
	return true;
}

int image_scan_next(
	struct image_scan *scan, void *buffer, struct image_chunk *ret, struct error *err)
{
	size_t range;
	uint64_t at;
	bool more;
	pthread_mutex_lock(&scan->lock);
	do
		more = scan_take(scan, ret, &range, &at);
	while (more && ret->size > 0 && scan->sequence++ % scan->options.stride != 0);
	ret->number = more ? scan->number++ : 0;
	pthread_mutex_unlock(&scan->lock);
	if (!more)
		return 0;
	if (scan->options.stride > 1)
		ret->lead = 0;
	if (ret->size > 0 &&
		!scan_read(scan, range, at + ret->size, buffer, ret->lead + ret->size, err))
		return -1;
	return 1;
}
