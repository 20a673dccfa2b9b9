// SPDX-License-Identifier: MIT
//
// Which blocks are sampled: each byte that is allocated is the end of an interval with the same
// probability, 1 / mean, so that the intervals are exponentially distributed, and a block of n
// bytes is sampled with probability 1 - exp(-n / mean).
#pragma once

#include "base.h"

struct settings;
struct thread;

void sampling_init(const struct settings *settings);
uint64_t sampling_seed(void);

// Gives a thread its first interval, if blocks are sampled.
void sampling_begin(struct thread *thread);

// Takes size bytes, for which local.left was too little, off the interval. True: sample the block.
bool sampling_take(struct thread *thread, uint64_t size);

// How many blocks a sampled block of this size stands for.
double sampling_weight(uint64_t size);

// Whether a block is recorded because of its size alone.
bool sampling_is_large(uint64_t size);
