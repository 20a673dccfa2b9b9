// SPDX-License-Identifier: MIT
//
// --all-of: the places below which every allocation is recorded while the rest is sampled. The
// launcher finds them in the programs' symbols; see chosen_init.
#pragma once

#include "base.h"

struct settings;

extern bool chosen_any;

// Reads the file of the settings: lines "BUILD-ID START END", hexadecimal, addresses as in the file
// of the module; END 0: the whole module.
void chosen_init(const struct settings *settings);

// Whether a pc is in one of the places.
bool chosen_at(uint64_t pc);
