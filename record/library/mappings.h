// SPDX-License-Identifier: MIT
//
// --mmap: mappings that the program makes itself.
#pragma once

struct settings;

void mappings_init(const struct settings *settings);
