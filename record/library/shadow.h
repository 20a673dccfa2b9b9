// SPDX-License-Identifier: MIT
//
// Live blocks of full mode: RECORD_SHADOW, a slot for each 16 bytes of the heap.
#pragma once

#include "base.h"

#define SHADOW_SIZE_MOST 0xffffU

bool shadow_init(void);

// The slots of an address's granule. make: create them if need be, else NULL if there are none.
struct record_slot *shadow_chunk(uint64_t address, bool make);
