// SPDX-License-Identifier: MIT
//
// What the program itself has allocated.
#pragma once

#include <stdint.h>

// Bytes that malloc has given out, to all threads; 0 where the C library does not tell.
uint64_t memory_used(void);
// How many more they are than before; 0 if they are fewer.
uint64_t memory_since(uint64_t before);
