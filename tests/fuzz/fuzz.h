// SPDX-License-Identifier: MIT
//
// What the targets share. Each is one LLVMFuzzerTestOneInput, linked with clang's fuzzer to find
// inputs, or with replay.c to run those that are kept.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);            \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

// What is left of the input; past its end it is zeros.
struct input {
	const uint8_t *data;
	size_t size;
};

static inline uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;
	for (size_t i = 0; i < bytes && input->size > 0; i++, input->size--)
		value |= (uint64_t)*input->data++ << (8 * i);
	return value;
}
