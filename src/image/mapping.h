// SPDX-License-Identifier: MIT
//
// A file on disk as memory: what is read here and there costs no call of the system. If the file
// shrinks, what is gone reads as zeros and the mapping says so, instead of the signal that would
// end the program (SIGBUS).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping;

// Map size bytes of fd. NULL: it cannot be mapped, so read it. The caller must release what is
// returned with mapping_destroy.
struct mapping *mapping_create(int fd, uint64_t size);
void mapping_destroy(struct mapping *mapping);
// Copy bytes, which are within the mapping. False: some are gone. Thread-safe.
bool mapping_read(const struct mapping *mapping, uint64_t offset, void *buffer, size_t size);
