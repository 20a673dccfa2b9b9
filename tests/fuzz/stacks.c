// SPDX-License-Identifier: MIT
//
// A recording, as --stacks reads it: its tables, its log, its stacks by each key. The input is the
// whole file.
#include "base/guard.h"
#include "fuzz.h"
#include "names/names.h"
#include "stacks/table.h"

static bool block_check(void *context, const struct stack_block *block)
{
	struct recording *recording = context;
	// Blocks can overlap in what is damaged, but are found by their address.
	CHECK(recording_block(recording, block->address) < recording->stack_count ||
		recording->stack_count == 0);
	return true;
}

static void table_check(
	const struct recording *recording, const struct log *log, struct names *names)
{
	struct texts *texts = texts_create();
	struct frames *frames = frames_create(names, recording, texts);
	CHECK(texts != NULL && frames != NULL);
	for (enum stack_by by = STACK_BY_STACK; by <= STACK_BY_SIZE; by++) {
		struct stack_table table;
		uint64_t live = 0;
		stack_table_init(&table, by, texts);
		CHECK(stack_table_add(&table, recording, log, frames, false, true));
		for (size_t i = 0; i < table.count; i++)
			live = add_saturated(live, table.rows[i].values.live_bytes);
		CHECK(by == STACK_BY_SIZE || live == table.total.live_bytes);
		if (by == STACK_BY_STACK) {
			CHECK(stack_table_add_series(&table, recording));
			stack_table_grow(&table);
		}
		stack_table_sort(&table, STACK_SORT_GROWTH, false);
		stack_table_deinit(&table);
	}
	frames_destroy(frames);
	texts_destroy(texts);
}

static void recording_check(struct recording *recording, struct names *names)
{
	const struct log_options options = {.memory = 1 << 24, .at = 1000000};
	struct error err = {0};
	struct log *log = NULL;
	uint64_t address, size;
	uint64_t frames[STACK_DEPTH_MAX];
	for (uint32_t i = 0; i < recording->stack_count; i++)
		CHECK(recording_frames(recording, i, frames) <= STACK_DEPTH_MAX);
	CHECK(recording_blocks(recording, block_check, recording));
	if (recording_log(recording, &address, &size) &&
		!log_read(recording, &options, &err, &log))
		CHECK(err.text[0] != '\0');
	table_check(recording, log, names);
	log_destroy(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	int fd AUTO_CLOSE = memory_file(data, size, path);
	struct image_memory piece;
	struct error err = {0};
	struct image *image = NULL;
	struct recording *recording = NULL;
	struct names *names = NULL;
	struct diag diag;
	FILE *null = fopen("/dev/null", "w");
	CHECK(fd >= 0 && null != NULL);
	diag_init(&diag, null);
	uint64_t address;
	if (recording_probe(path, &piece)) {
		const struct image_options image_options = {.piece = &piece, .memory = 1 << 22};
		const bool opened = image_open(path, &image_options, &diag, &err, &image) &&
				    recording_find(image, &address) &&
				    recording_open(image, address, &err, &recording);
		if (opened) {
			const struct names_options options = {.known = recording->modules,
				.known_count = recording->module_count,
				.kinds_only = true};
			CHECK(names_create(image, &options, &diag, &err, &names));
			if (recording_load(recording, names_modules(names), 1 << 22, &err))
				recording_check(recording, names);
			else
				CHECK(err.text[0] != '\0');
		}
	}
	recording_destroy(recording);
	names_destroy(names);
	image_close(image);
	diag_deinit(&diag);
	fclose(null);
	return 0;
}
