// SPDX-License-Identifier: MIT
//
// A dump and its program, both hostile: headers, notes, scan, modules, kinds, names. The first four
// bytes are options; then, if the option says so, the length of the dump in four bytes, the dump,
// the program.
#include "base/guard.h"
#include "fuzz.h"
#include "alloc/heap.h"
#include "image/image.h"
#include "names/names.h"

// Chunks that are looked at: a small file can have segments of terabytes.
#define CHUNKS 64

enum { EXE = 1, KINDS_ONLY = 2, RAW = 4, WORD4 = 8, BIG = 16, SCAN_FIRST = 32 };

static void scan(struct image *image)
{
	const struct image_info *info = image_info(image);
	struct image_scan *scan = NULL;
	struct error err;
	void *buffer AUTO_FREE = aligned_alloc(64, IMAGE_CHUNK_SIZE);
	if (!image_scan_open(image, 1, &err, &scan))
		return;
	for (size_t i = 0; i < CHUNKS; i++) {
		struct image_chunk chunk = {0};
		if (image_scan_next(scan, buffer, &chunk, &err) <= 0)
			break;
		CHECK(chunk.size <= IMAGE_CHUNK_SIZE && (chunk.size == 0) != (chunk.zeros == 0));
		CHECK(chunk.size % info->word_size == 0 && chunk.zeros % info->word_size == 0);
		CHECK(info->format == IMAGE_RAW || info->raw_elf ||
			chunk.address % info->word_size == 0);
		volatile uint8_t sum = 0;
		for (size_t at = 0; at < chunk.size; at++)
			sum = (uint8_t)(sum + ((uint8_t *)buffer)[at]);
	}
	image_scan_close(scan);
}

static void read_around(const struct image *image, uint64_t address)
{
	uint8_t bytes[64];
	uint64_t word;
	CHECK(image_read(image, address, bytes, sizeof bytes) <= sizeof bytes);
	image_read_word(image, address, &word);
	const struct image_segment *segment = image_segment_at(image, address);
	CHECK(segment == NULL || address - segment->address < segment->size);
}

static void walk(const struct image *image, const struct names *names)
{
	static const atomic_int stop;
	const struct heap_options options = {.threads = 2, .stop = &stop};
	struct heap heap = {0};
	struct error err = {0};
	uint64_t used = 0;
	if (!heap_walk(image, names_places(names), &options, &err, &heap)) {
		CHECK(err.text[0] != '\0');
		return;
	}
	for (size_t i = 0; i < (heap.slot_count + 63) / 64; i++) {
		CHECK((heap.cells[i].used & ~heap.cells[i].starts) == 0);
		used += (uint64_t)__builtin_popcountll(heap.cells[i].used);
	}
	CHECK(used == heap.in_use.count);
	heap_deinit(&heap);
}

static void describe(struct image *image, const char *exe, unsigned flags, struct diag *diag)
{
	const struct names_options options = {
		.exe = exe,
		.sysroot = "/nonexistent",
		.debug_dir = "/nonexistent",
		.kinds_only = (flags & KINDS_ONLY) != 0,
	};
	const struct image_info *info = image_info(image);
	struct names *names = NULL;
	struct error err = {0};
	if (!names_create(image, &options, diag, &err, &names)) {
		CHECK(err.text[0] != '\0');
		return;
	}
	uint64_t bytes[KIND_COUNT];
	names_measure(names, bytes);
	for (size_t i = 0; i < info->segment_count && i < 16; i++)
		for (unsigned offset = 0; offset < 256; offset += 8) {
			uint64_t word = 0;
			image_read_word(image, info->segments[i].address + offset, &word);
			const char *text = names_describe(names, word).text;
			for (; *text != '\0'; text++)
				CHECK((unsigned char)*text >= ' ');
			names_describe(names, info->segments[i].address + offset);
		}
	names_has_symbols(names);
	walk(image, names);
	names_destroy(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *null;
	struct input input = {data, size};
	const unsigned flags = (unsigned)take(&input, 4);
	const uint64_t length = (flags & EXE) != 0 ? take(&input, 4) : input.size;
	const size_t core_size = length < input.size ? (size_t)length : input.size;
	char core_path[32], exe_path[32];
	if (null == NULL)
		null = fopen("/dev/null", "w");
	int core_fd AUTO_CLOSE = memory_file(input.data, core_size, core_path);
	int exe_fd AUTO_CLOSE =
		memory_file(input.data + core_size, input.size - core_size, exe_path);
	CHECK(core_fd != exe_fd);
	struct diag diag;
	diag_init(&diag, null);
	const struct image_options options = {
		.raw = (flags & RAW) != 0,
		.word_size = (flags & WORD4) != 0 ? 4 : 0,
		.order_given = (flags & BIG) != 0,
		.order = ORDER_BIG,
		.limit = UINT64_MAX,
		.memory = (size_t)1 << 20,
		.keep = true,
	};
	struct error err = {0};
	struct image *image = NULL;
	if (image_open(core_path, &options, &diag, &err, &image)) {
		if ((flags & SCAN_FIRST) != 0)
			scan(image);
		describe(image, (flags & EXE) != 0 ? exe_path : NULL, flags, &diag);
		if ((flags & SCAN_FIRST) == 0)
			scan(image);
		image_finish(image, &diag);
		const struct image_info *info = image_info(image);
		for (size_t i = 0; i < info->segment_count && i < 64; i++) {
			read_around(image, info->segments[i].address);
			read_around(
				image, info->segments[i].address + info->segments[i].present - 8);
		}
		image_close(image);
	} else {
		CHECK(err.text[0] != '\0');
	}
	diag_deinit(&diag);
	return 0;
}
