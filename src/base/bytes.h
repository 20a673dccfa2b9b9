// SPDX-License-Identifier: MIT
//
// Words of 4 or 8 bytes in either byte order, and sizes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum byte_order { ORDER_LITTLE, ORDER_BIG };

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ORDER_NATIVE ORDER_LITTLE
#else
#define ORDER_NATIVE ORDER_BIG
#endif

// The value of a word that was loaded natively from memory of the given byte order, and back.
static inline uint64_t word_swap(uint64_t loaded, unsigned word_size, enum byte_order order)
{
	if (order == ORDER_NATIVE)
		return loaded;
	return word_size == 8 ? __builtin_bswap64(loaded) : __builtin_bswap32((uint32_t)loaded);
}

// Load a word natively; word_size is 4 or 8, bytes need not be aligned.
static inline uint64_t word_load_native(const void *bytes, unsigned word_size)
{
	uint64_t word;
	uint32_t half;
	if (word_size == 8) {
		memcpy(&word, bytes, sizeof word);
		return word;
	}
	memcpy(&half, bytes, sizeof half);
	return half;
}

static inline uint64_t word_load(const void *bytes, unsigned word_size, enum byte_order order)
{
	return word_swap(word_load_native(bytes, word_size), word_size, order);
}

static inline uint32_t load_u32(const void *bytes, enum byte_order order)
{
	return (uint32_t)word_load(bytes, 4, order);
}

static inline uint16_t load_u16(const void *bytes, enum byte_order order)
{
	uint16_t half;
	memcpy(&half, bytes, sizeof half);
	return order == ORDER_NATIVE ? half : __builtin_bswap16(half);
}

// The bytes of a word as they lie in memory of the given byte order.
static inline void word_store(
	void *bytes, uint64_t value, unsigned word_size, enum byte_order order)
{
	const uint64_t stored = word_swap(value, word_size, order);
	const uint32_t half = (uint32_t)stored;
	if (word_size == 8)
		memcpy(bytes, &stored, sizeof stored);
	else
		memcpy(bytes, &half, sizeof half);
}

// a + b, or UINT64_MAX.
static inline uint64_t add_saturated(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

// Room for "1023.9 KiB" and for every uint64_t.
struct size_text {
	char text[24];
};
// A size for people: "17 bytes", "2.9 GiB".
struct size_text size_format(uint64_t bytes);
