// SPDX-License-Identifier: MIT
//
// The objects of managed languages in a hostile core. The first byte says how many threads look; the
// rest is the core.
#include "runtime/runtime.h"
#include "fuzz.h"
#include "names/names.h"

static void runtime_check(const struct runtime *runtime)
{
	uint64_t count = 0;
	CHECK(runtime->name != NULL && runtime->language != NULL && runtime->module != NULL);
	CHECK(runtime->doubt == NULL || runtime->type_count == 0);
	for (size_t i = 0; i < runtime->type_count; i++) {
		const struct runtime_type *type = &runtime->types[i];
		CHECK(type->count > 0 && type->name != NULL && type->example_count > 0);
		CHECK(i == 0 || type[-1].bytes >= type->bytes);
		for (unsigned k = 1; k < type->example_count; k++)
			CHECK(type->examples[k - 1] <= type->examples[k]);
		count = add_saturated(count, type->count);
	}
	CHECK(count == runtime->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	const struct runtime_options options = {.threads = 1 + (unsigned)take(&input, 1) % 2};
	const struct image_options image_options = {.memory = 16 << 20};
	const struct names_options names_options = {
		.sysroot = "/nonexistent", .debug_dir = "/nonexistent"};
	char path[32];
	const int fd = memory_file(input.data, input.size, path);
	FILE *nowhere = fopen("/dev/null", "w");
	struct diag diag;
	struct error err = {0};
	struct image *image = NULL;
	struct names *names = NULL;
	struct runtimes runtimes;
	CHECK(nowhere != NULL);
	diag_init(&diag, nowhere);
	if (image_open(path, &image_options, &diag, &err, &image) &&
		names_create(image, &names_options, &diag, &err, &names) &&
		runtimes_find(image, names_modules(names), names_places(names), &options, NULL,
			&err, &runtimes)) {
		for (size_t i = 0; i < runtimes.count; i++)
			runtime_check(&runtimes.list[i]);
		runtimes_deinit(&runtimes);
	}
	names_destroy(names);
	image_close(image);
	diag_deinit(&diag);
	fclose(nowhere);
	close(fd);
	return 0;
}
