// SPDX-License-Identifier: MIT
//
// What malloc leaves in blocks that were free: it says nothing of what they are now.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "image/image.h"

// Whether an address is a bin of glibc's malloc, where lists of free chunks begin.
bool address_is_bin(const struct image *image, uint64_t address);
