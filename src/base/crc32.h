// SPDX-License-Identifier: MIT
//
// CRC-32 as in RFC 1952, section 8: gzip's check of what was unpacked.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The check of the bytes before, whose check is crc (0: none), and of size more.
uint32_t crc32_add(uint32_t crc, const void *bytes, size_t size);
