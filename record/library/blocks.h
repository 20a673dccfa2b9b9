// SPDX-License-Identifier: MIT
//
// Live blocks one by one: RECORD_BLOCKS, for those that are sampled or large.
#pragma once

#include "base.h"

bool blocks_init(void);

// With LOCK_BLOCKS. False if there is no room.
bool block_add(uint64_t address, uint64_t size, uint32_t stack);
bool block_remove(uint64_t address, struct record_block *ret);
bool block_find(uint64_t address, struct record_block *ret);

// Without: false if it is certainly not there.
bool block_may_be(uint64_t address);
