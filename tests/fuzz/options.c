// SPDX-License-Identifier: MIT
//
// A command line: arguments with a NUL behind each.
#include <getopt.h>

#include "cli/options.h"
#include "fuzz.h"

#define ARGUMENTS_MAX 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(size + 1, 1), *argv[ARGUMENTS_MAX + 1];
	CHECK(text != NULL);
	memcpy(text, data, size);
	int argc = 0;
	for (size_t at = 0; at < size && argc < ARGUMENTS_MAX; at += strlen(text + at) + 1)
		argv[argc++] = text + at;
	argv[argc] = NULL;
	struct options options = {0};
	struct error err = {0};
	optind = 0; // glibc: begin anew
	if (options_parse(argc, argv, &err, &options)) {
		CHECK(options.help || options.version || options.file_count > 0);
		CHECK(options.file_count <= (size_t)argc);
		CHECK(options.top >= 1 && options.top <= 1000000 && options.min_count >= 1);
		CHECK(options.memory >= (uint64_t)16 << 20 && options.threads <= 256);
		CHECK(options.word_size == 0 || options.word_size == 4 || options.word_size == 8);
		options_deinit(&options);
	} else {
		CHECK(err.text[0] != '\0' && err.usage);
	}
	free(text);
	return 0;
}
