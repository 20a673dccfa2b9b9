// SPDX-License-Identifier: MIT
//
// A dump that comes in order: compressed, through a pipe, or both. Without damage it holds the same
// words at the same addresses as the file that it was made of. After the options: how the dump is
// packed, where the packed bytes are damaged and how, and how many more bytes the dump has, so that
// it does not fit what is kept of its beginning; then the dump.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>

#include "base/guard.h"
#include "fuzz.h"
#include "image/image.h"
#include "image/magic.h"

#define PADDING_MAX ((size_t)160 << 10)
// Chunks that are looked at: a small file can have segments of terabytes.
#define CHUNKS 512

enum { PIPE = 1, KEEP = 2, RAW = 4, GIVEN = 8, CUT = 16 };

// What a scan has seen, whatever the order and the size of chunks.
struct digest {
	bool ok, whole;
	uint64_t words, hash, present;
};

static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return value ^ value >> 29;
}

static void digest_scan(struct digest *digest, struct image *image, struct error *err)
{
	const unsigned size = image_info(image)->word_size;
	unsigned char *buffer AUTO_FREE = aligned_alloc(64, IMAGE_CHUNK_SIZE);
	struct image_scan *scan;
	struct image_chunk chunk;
	int more = 1;
	if (buffer == NULL || !image_scan_open(image, 1, err, &scan))
		return;
	for (size_t i = 0; i < CHUNKS && (more = image_scan_next(scan, buffer, &chunk, err)) > 0;
		i++) {
		CHECK(chunk.size <= IMAGE_CHUNK_SIZE && chunk.size % size == 0);
		digest->words += (chunk.size + chunk.zeros) / size;
		for (size_t at = 0; at < chunk.size; at += size) {
			const uint64_t word = word_load_native(buffer + at, size);
			if (word != 0)
				digest->hash += mix(word + mix(chunk.address + at));
		}
	}
	digest->ok = more >= 0;
	digest->whole = more == 0;
	image_scan_close(scan);
}

static struct digest digest_of(const char *path, const struct image_options *options)
{
	static FILE *null;
	struct digest digest = {0};
	struct error err = {0};
	struct image *image;
	struct diag diag;
	if (null == NULL)
		null = fopen("/dev/null", "w");
	diag_init(&diag, null);
	if (image_open(path, options, &diag, &err, &image)) {
		const struct image_info *info = image_info(image);
		digest_scan(&digest, image, &err);
		image_finish(image, &diag);
		digest.present = info->bytes_present;
		CHECK(info->bytes_present <= info->bytes_saved);
		for (size_t i = 0; i < info->segment_count && i < 64; i++) {
			uint64_t word;
			image_read_word(image, info->segments[i].address, &word);
		}
		image_close(image);
		CHECK(digest.ok || err.text[0] != '\0');
	} else {
		CHECK(err.text[0] != '\0');
	}
	diag_deinit(&diag);
	return digest;
}

// Pack size bytes; *ret is the caller's.
static size_t pack(unsigned how, const uint8_t *bytes, size_t size, uint8_t **ret)
{
	static const int filters[] = {ARCHIVE_FILTER_NONE, ARCHIVE_FILTER_GZIP,
		ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD, ARCHIVE_FILTER_LZ4,
		ARCHIVE_FILTER_LZIP, ARCHIVE_FILTER_COMPRESS};
	const size_t room = 2 * size + 65536;
	size_t used = 0;
	*ret = malloc(room);
	CHECK(*ret != NULL);
	if (filters[how % 8] == ARCHIVE_FILTER_NONE || size == 0) {
		memcpy(*ret, bytes, size);
		return size;
	}
	struct archive *archive = archive_write_new();
	struct archive_entry *entry = archive_entry_new();
	CHECK(archive != NULL && entry != NULL);
	archive_entry_set_pathname(entry, "core");
	archive_entry_set_filetype(entry, AE_IFREG);
	CHECK(archive_write_set_format_raw(archive) == ARCHIVE_OK);
	CHECK(archive_write_add_filter(archive, filters[how % 8]) == ARCHIVE_OK);
	archive_write_set_options(archive, "compression-level=1");
	archive_write_set_bytes_in_last_block(archive, 1);
	CHECK(archive_write_open_memory(archive, *ret, room, &used) == ARCHIVE_OK);
	CHECK(archive_write_header(archive, entry) == ARCHIVE_OK);
	CHECK(archive_write_data(archive, bytes, size) == (ssize_t)size);
	CHECK(archive_write_close(archive) == ARCHIVE_OK);
	archive_entry_free(entry);
	archive_write_free(archive);
	return used;
}

// The reading end of a pipe that has these bytes and no writer; *whole: all of them fitted.
static int pipe_of(const uint8_t *bytes, size_t size, char path[static 32], bool *whole)
{
	int fds[2];
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	fcntl(fds[1], F_SETPIPE_SZ, 1 << 20);
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	*whole = size == 0 || write(fds[1], bytes, size) == (ssize_t)size;
	close(fds[1]);
	snprintf(path, 32, "/proc/self/fd/%d", fds[0]);
	return fds[0];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	const unsigned flags = (unsigned)take(&input, 1), how = (unsigned)take(&input, 1);
	const uint64_t place = take(&input, 2);
	const uint8_t damage = (uint8_t)take(&input, 1);
	const size_t padding = (size_t)take(&input, 2) * 8 % PADDING_MAX;
	const struct image_options options = {
		.raw = (flags & RAW) != 0,
		.limit = UINT64_MAX,
		.memory = (size_t)64 << 10,
		.keep = (flags & KEEP) != 0,
	};
	const size_t plain_size = input.size + padding;
	uint8_t *plain AUTO_FREE = malloc(plain_size + 1), *packed AUTO_FREE = NULL;
	CHECK(plain != NULL);
	memcpy(plain, input.data, input.size);
	for (size_t i = 0; i < padding; i++)
		plain[input.size + i] = (uint8_t)(i % 24 == 0 ? i >> 12 : 0);
	size_t packed_size = pack((flags & GIVEN) != 0 ? 0 : how, plain, plain_size, &packed);
	const bool sound = damage == 0 || packed_size == 0;
	if (!sound && (flags & CUT) != 0)
		packed_size = place % packed_size;
	else if (!sound)
		packed[place % packed_size] ^= damage;

	char path[32];
	bool whole = true;
	int fd AUTO_CLOSE = (flags & PIPE) != 0 ? pipe_of(packed, packed_size, path, &whole)
						: memory_file(packed, packed_size, path);
	const struct digest got = digest_of(path, &options);
	char plain_path[32];
	int plain_fd AUTO_CLOSE = memory_file(plain, plain_size, plain_path);
	const struct digest right = digest_of(plain_path, &options);
	CHECK(fd != plain_fd);
	// What is already packed has another meaning when it is packed once more.
	const struct magic *magic =
		magic_find(plain, plain_size < MAGIC_SIZE ? plain_size : MAGIC_SIZE);
	if (sound && whole && got.whole && right.whole && (magic == NULL || how % 8 == 0))
		CHECK(got.words == right.words && got.hash == right.hash &&
			got.present == right.present);
	return 0;
}
