// SPDX-License-Identifier: MIT
//
// Bytes that a dump left out because they are in the files that were mapped: program text and
// constants. image_read falls back on them.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "image/localfile.h"

struct overlay_range {
	uint64_t address, size; // address + size does not wrap
	uint64_t offset;	// of the first byte in file
	struct local_file *file;
};

struct overlay {
	struct overlay_range *ranges; // sorted by address, without overlaps; owned
	size_t count, capacity;
};

// Add a range; call overlay_sort before the next overlay_read. False if there is no memory.
bool overlay_add(struct overlay *overlay, struct overlay_range range);
// Sort the ranges; of those that overlap the later ones are dropped.
void overlay_sort(struct overlay *overlay);
void overlay_deinit(struct overlay *overlay);

// Read up to size bytes at address. Returns how many there are without a gap. Thread-safe.
size_t overlay_read(const struct overlay *overlay, uint64_t address, void *buffer, size_t size);
// Where the next range begins, after address; UINT64_MAX: nowhere.
uint64_t overlay_next(const struct overlay *overlay, uint64_t address);
