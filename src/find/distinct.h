// SPDX-License-Identifier: MIT
//
// About how many different hashes there are: exactly up to two, then by how rare the rarest are
// (HyperLogLog; Flajolet, Fusy, Gandouet and Meunier, 2007). The same for any order of them.
#pragma once

#include <stddef.h>
#include <stdint.h>

// Bytes of a sketch: the estimate is off by 6.5 % in the mean.
#define SKETCH_SIZE ((size_t)256)

struct distinct {
	uint64_t first, second; // 0: none
	size_t sketch;		// where it is, and one; 0: there is none
};

// Note a hash in a sketch.
void sketch_add(unsigned char sketch[static SKETCH_SIZE], uint64_t hash);
void sketch_merge(
	unsigned char sketch[static SKETCH_SIZE], const unsigned char other[static SKETCH_SIZE]);
uint64_t sketch_estimate(const unsigned char sketch[static SKETCH_SIZE]);
