// SPDX-License-Identifier: MIT
//
// A quick look for words that may be texts.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Keep those of count words of 8 bytes that may be texts, as they lie in memory, at the beginning
// of words. Returns how many. All that kinds_of takes for a text stay, and few others. For
// processors with AVX2; only if the program is compiled for x86-64.
size_t texts_keep_avx2(uint64_t *words, size_t count);
