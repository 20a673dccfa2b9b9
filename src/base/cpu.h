// SPDX-License-Identifier: MIT
//
// What instructions this processor has beyond those that the program is compiled for.
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum cpu_level {
	CPU_PORTABLE, // plain C: what the others must agree with
	CPU_AVX2,
};

// The best level of this processor, or the wanted one: "portable", "avx2"; NULL: the best. A usage
// error if it is unknown or this processor has it not.
bool cpu_choose(const char *wanted, struct error *err, enum cpu_level *ret);
