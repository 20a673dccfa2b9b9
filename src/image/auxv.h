// SPDX-License-Identifier: MIT
//
// The auxiliary vector: what the kernel told the program when it started (getauxval(3)).
#pragma once

#include <elf.h>

#include "image/image.h"

// The value of an AT_ type; false if the dump does not have it.
bool auxv_find(const struct image_info *info, uint64_t type, uint64_t *ret);
