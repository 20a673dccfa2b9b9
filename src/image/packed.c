// SPDX-License-Identifier: MIT
#include "image/packed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"

#if HAVE_LIBARCHIVE

#include <archive.h>
#include <archive_entry.h>

// Bytes of compressed data that are read at once.
#define PIECE_SIZE ((size_t)128 * 1024)
// The header that each gzip file begins with, without names and the like.
#define GZIP_HEADER ((size_t)10)

struct packed {
	struct input *input;
	enum packing packing;
	struct archive *archive;
	struct archive_entry *entry;
	enum { PREPARED, OPEN, ENDED } state;
	uint64_t total; // bytes that came out
	uint64_t limit; // of the compressed bytes, those from here on are left out
	uint64_t skip;	// bytes that came out before and are not handed out again
	// Of gzip data only: the check of what came out, and whether there are several gzip files
	// in a row.
	uint32_t check;
	bool several;
	bool failed; // the input, not what is in it: err says why
	struct error err;
	char fault[512];
	// The last compressed bytes, before those that are looked at, and these.
	unsigned char piece[GZIP_HEADER + PIECE_SIZE];
	size_t piece_size;
};

// See RFC 1952, section 2.3; the numbers of operating systems go up to 13. In compressed data this
// comes up by chance once in 200 GB.
static bool is_gzip_header(const unsigned char *bytes)
{
	return bytes[0] == 0x1f && bytes[1] == 0x8b && bytes[2] == 8 && bytes[3] < 0x20 &&
	       (bytes[8] == 0 || bytes[8] == 2 || bytes[8] == 4) &&
	       (bytes[9] <= 13 || bytes[9] == 255);
}

// Look for another gzip file in size bytes behind the last ones.
static void packed_look(struct packed *packed, size_t size)
{
	const unsigned char *end = packed->piece + size;
	const unsigned char *at = packed->piece;
	// The first bytes of all are the first file.
	if (packed->input->at == size)
		at += GZIP_HEADER + 1;
	while (!packed->several && at != NULL && at <= end) {
		at = memchr(at, 0x1f, (size_t)(end - at) + 1);
		packed->several = at != NULL && is_gzip_header(at++);
	}
}

static la_ssize_t packed_feed(struct archive *archive, void *context, const void **ret)
{
	(void)archive;
	struct packed *packed = context;
	struct input *input = packed->input;
	const size_t size = (size_t)min_u64(PIECE_SIZE, packed->limit - input->at);
	unsigned char *target = packed->piece + GZIP_HEADER;
	memmove(packed->piece, packed->piece + packed->piece_size, GZIP_HEADER);
	const ssize_t got = size > 0 ? input_read(input, target, size, &packed->err) : 0;
	packed->failed = got < 0;
	packed->piece_size = got > 0 ? (size_t)got : 0;
	if (packed->packing == PACKING_GZIP && got > 0)
		packed_look(packed, (size_t)got);
	*ret = target;
	return got < 0 ? ARCHIVE_FATAL : got;
}

// Filters are set by hand: what libarchive finds by itself includes filters in filters and programs
// that it would run.
static bool packed_start(struct packed *packed, struct error *err)
{
	static const int filters[] = {
		[PACKING_GZIP] = ARCHIVE_FILTER_GZIP,
		[PACKING_BZIP2] = ARCHIVE_FILTER_BZIP2,
		[PACKING_XZ] = ARCHIVE_FILTER_XZ,
		[PACKING_ZSTD] = ARCHIVE_FILTER_ZSTD,
		[PACKING_LZ4] = ARCHIVE_FILTER_LZ4,
		[PACKING_LZIP] = ARCHIVE_FILTER_LZIP,
		[PACKING_LZOP] = ARCHIVE_FILTER_LZOP,
	};
	archive_read_free(packed->archive);
	archive_entry_free(packed->entry);
	// Where libarchive has no memory for an entry of its own, it crashes later.
	packed->entry = archive_entry_new();
	packed->archive = archive_read_new();
	if (packed->entry == NULL || packed->archive == NULL)
		return error_memory(err);
	packed->state = PREPARED;
	packed->input->at = 0;
	packed->total = 0;
	packed->check = 0;
	packed->several = false;
	packed->piece_size = 0;
	// ARCHIVE_WARN: a program would have to be run. The filter for compress reads as soon as it
	// is appended, before there is anything to read, and crashes; so this one has to be found.
	if ((packed->packing == PACKING_COMPRESS
			    ? archive_read_support_filter_compress(packed->archive)
			    : archive_read_append_filter(
				      packed->archive, filters[packed->packing])) != ARCHIVE_OK)
		return error_set(err,
			"%s: is packed with %s, which this libarchive cannot unpack by itself; "
			"unpack it with: %s FILE | topleak -",
			packed->input->path, packing_name(packed->packing),
			packing_command(packed->packing));
	if (archive_read_set_format(packed->archive, ARCHIVE_FORMAT_RAW) != ARCHIVE_OK)
		return error_set(err, "libarchive: %s", archive_error_string(packed->archive));
	return true;
}

static bool packed_open_archive(struct packed *packed)
{
	packed->state = OPEN;
	// Not archive_read_open, which does not look whether it got memory.
	if (archive_read_set_read_callback(packed->archive, packed_feed) != ARCHIVE_OK ||
		archive_read_set_callback_data(packed->archive, packed) != ARCHIVE_OK ||
		archive_read_open1(packed->archive) != ARCHIVE_OK)
		return false;
	// That filter, and none: neither bytes that it does not know, nor one in another.
	if (packed->packing == PACKING_COMPRESS && archive_filter_count(packed->archive) != 2)
		return false;
	const int status = archive_read_next_header2(packed->archive, packed->entry);
	if (status == ARCHIVE_EOF)
		packed->state = ENDED;
	return status >= ARCHIVE_WARN;
}

// Where in the compressed data libarchive is; 0 if it did not come so far as to say it.
static uint64_t packed_at(const struct packed *packed)
{
	const la_int64_t at = archive_filter_bytes(packed->archive, -1);
	return at > 0 ? (uint64_t)at : 0;
}

// Compare with the trailer of RFC 1952, check and size modulo 2^32, which libarchive does not look
// at. With several gzip files in a row, or something else behind them, nothing can be said.
static bool packed_is_sound(const struct packed *packed, uint64_t at)
{
	const unsigned char *trailer = packed->piece + GZIP_HEADER + packed->piece_size - 8;
	return packed->packing != PACKING_GZIP || packed->several || at != packed->input->at ||
	       (load_u32(trailer, ORDER_LITTLE) == packed->check &&
		       load_u32(trailer + 4, ORDER_LITTLE) == (uint32_t)packed->total);
}

// The data ended well, but what is left behind it is not of its format.
static void packed_end(struct packed *packed)
{
	const uint64_t at = packed_at(packed);
	packed->state = ENDED;
	if (packed->total == 0 && at == 0)
		// libzstd's ZSTD_WINDOWLOG_LIMIT_DEFAULT.
		snprintf(packed->fault, sizeof packed->fault,
			"its %s data are cut or damaged in their first bytes%s",
			packing_name(packed->packing),
			packed->packing == PACKING_ZSTD
				? ", or have a window of more than 128 MiB; then use: zstd -dc "
				  "--long=31 FILE | topleak -"
				: "");
	else if (!packed_is_sound(packed, at))
		snprintf(packed->fault, sizeof packed->fault,
			"its gzip data are damaged, their check before offset %" PRIu64
			" does not agree: some of what was unpacked is wrong",
			at);
	else if (!packed->input->pipe && at < packed->input->limit)
		snprintf(packed->fault, sizeof packed->fault,
			"its %s data end at offset %" PRIu64 "; the %" PRIu64
			" bytes behind them are something else and were left out",
			packing_name(packed->packing), at, packed->input->limit - at);
}

// Something stopped libarchive, and what was in its present block is lost. If the data ended well
// before that, they come out whole when what is behind them is taken away; so try that once.
static bool packed_break(struct packed *packed, struct error *err)
{
	const uint64_t at = packed_at(packed);
	const char *reason = archive_error_string(packed->archive);
	packed->state = ENDED;
	if (packed->failed) {
		*err = packed->err;
		return false;
	}
	if (packed->fault[0] != '\0')
		return true;
	snprintf(packed->fault, sizeof packed->fault,
		"its %s data are damaged or cut at or behind offset %" PRIu64
		": what follows the first %" PRIu64 " unpacked bytes is lost (%s)",
		packing_name(packed->packing), at, packed->total,
		reason != NULL ? reason : "libarchive does not say why");
	packed->limit = at;
	// With xz the offset is not exact.
	if (packed->input->pipe || at >= packed->input->limit || packed->packing == PACKING_XZ)
		return true;
	packed->skip = packed->total;
	return packed_start(packed, err);
}

ssize_t packed_next(struct packed *packed, const void **bytes, struct error *err)
{
	while (packed->state != ENDED) {
		size_t size;
		la_int64_t offset;
		const bool fine = packed->state == OPEN || packed_open_archive(packed);
		if (packed->state == ENDED)
			break;
		const int status =
			fine ? archive_read_data_block(packed->archive, bytes, &size, &offset)
			     : ARCHIVE_FATAL;
		if (status == ARCHIVE_EOF) {
			packed_end(packed);
		} else if (status < ARCHIVE_WARN) {
			if (!packed_break(packed, err))
				return -1;
		} else {
			const uint64_t again = min_u64(size, packed->skip);
			packed->skip -= again;
			packed->total += size;
			if (packed->packing == PACKING_GZIP)
				packed->check = crc32_add(packed->check, *bytes, size);
			*bytes = (const char *)*bytes + again;
			if (size > again)
				return (ssize_t)(size - again);
		}
	}
	return 0;
}

const char *packed_fault(const struct packed *packed)
{
	return packed->fault[0] != '\0' ? packed->fault : NULL;
}

bool packed_rewind(struct packed *packed, struct error *err)
{
	packed->skip = 0;
	return packed_start(packed, err);
}

bool packed_open(struct input *input, enum packing packing, struct error *err, struct packed **ret)
{
	struct packed *packed = calloc(1, sizeof *packed);
	if (packed == NULL)
		return error_memory(err);
	packed->input = input;
	packed->packing = packing;
	packed->limit = UINT64_MAX;
	if (!packed_start(packed, err)) {
		packed_close(packed);
		return false;
	}
	*ret = packed;
	return true;
}

void packed_close(struct packed *packed)
{
	if (packed == NULL)
		return;
	archive_read_free(packed->archive);
	archive_entry_free(packed->entry);
	free(packed);
}

#else

bool packed_open(struct input *input, enum packing packing, struct error *err, struct packed **ret)
{
	(void)ret;
	return error_set(err,
		"%s: is packed with %s, and this topleak was built without libarchive; unpack it "
		"with: %s FILE | topleak -",
		input->path, packing_name(packing), packing_command(packing));
}

void packed_close(struct packed *packed)
{
	(void)packed;
}

bool packed_rewind(struct packed *packed, struct error *err)
{
	(void)packed;
	return error_memory(err);
}

ssize_t packed_next(struct packed *packed, const void **bytes, struct error *err)
{
	(void)packed;
	(void)bytes;
	(void)err;
	return 0;
}

const char *packed_fault(const struct packed *packed)
{
	(void)packed;
	return NULL;
}

#endif
