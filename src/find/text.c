// SPDX-License-Identifier: MIT
#include "find/text.h"

#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"

// The upper half of a product depends on all bits of both numbers.
static inline uint64_t mix(uint64_t a, uint64_t b)
{
	const __uint128_t product = (__uint128_t)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// In eight characters at once, make A to Z a to z. Bytes above 0x7f stay as they are.
static inline uint64_t fold_word(uint64_t word)
{
	const uint64_t ones = UINT64_MAX / 0xff, low = word & 0x7f * ones;
	const uint64_t from_a = low + (0x80 - 'A') * ones, past_z = low + (0x80 - 'Z' - 1) * ones;
	return word | ((from_a & ~past_z & ~word & 0x80 * ones) >> 2);
}

static inline uint64_t hash_step(const struct text_hash *hash, uint64_t word)
{
	return mix(hash->state ^ (hash->fold ? fold_word(word) : word), hash->factor);
}

struct text_hash text_hash_begin(uint64_t seed, bool fold)
{
	// Digits of pi, and odd multiples of the golden ratio: any numbers with mixed bits do.
	const uint64_t pi = 0x243f6a8885a308d3, golden = 0x9e3779b97f4a7c15;
	return (struct text_hash){
		.state = mix(pi + seed, golden),
		.factor = mix(golden * (2 * seed + 1), pi) | 1,
		.fold = fold,
	};
}

void text_hash_add(struct text_hash *hash, const unsigned char *bytes, size_t size)
{
	size_t used = hash->length % 8;
	hash->length += size;
	if (used > 0) {
		const size_t piece = min_u64(size, 8 - used);
		memcpy(hash->rest + used, bytes, piece);
		bytes += piece;
		size -= piece;
		used += piece;
		if (used < 8)
			return;
		hash->state = hash_step(hash, word_load_native(hash->rest, 8));
	}
	for (; size >= 8; bytes += 8, size -= 8)
		hash->state = hash_step(hash, word_load_native(bytes, 8));
	memcpy(hash->rest, bytes, size);
}

uint64_t text_hash_end(const struct text_hash *hash)
{
	if (hash->length == 0)
		return 0;
	unsigned char rest[8] = {0};
	memcpy(rest, hash->rest, hash->length % 8);
	const uint64_t state = hash_step(hash, word_load_native(rest, 8));
	return mix(state ^ hash->length, hash->factor ^ UINT64_C(0x2545f4914f6cdd1d));
}

static unsigned char fold_byte(unsigned char byte, bool fold)
{
	return fold && byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte | 0x20) : byte;
}

int text_compare(
	const unsigned char *a, size_t a_size, const unsigned char *b, size_t b_size, bool fold)
{
	const size_t size = min_u64(a_size, b_size);
	if (!fold && size > 0) {
		const int order = memcmp(a, b, size);
		if (order != 0)
			return order;
	}
	for (size_t i = 0; fold && i < size; i++) {
		const int order = fold_byte(a[i], true) - fold_byte(b[i], true);
		if (order != 0)
			return order;
	}
	return a_size < b_size ? -1 : a_size > b_size;
}

// The size of the character that ends before index; 0 if it is not printable.
static size_t character_before(const unsigned char *bytes, size_t index)
{
	for (size_t size = 1; size <= 4 && size <= index; size++)
		if ((bytes[index - size] & 0xc0) != 0x80)
			return escape_printable(bytes + index - size, size) == size ? size : 0;
	return 0;
}

size_t text_before(const unsigned char *bytes, size_t index, size_t limit, bool *cut)
{
	size_t used = 0;
	for (;;) {
		const size_t size = character_before(bytes, index - used);
		*cut = size > 0;
		if (size == 0 || used + size > limit)
			return used;
		used += size;
	}
}

size_t text_after(const unsigned char *bytes, size_t index, size_t size, size_t limit, bool *cut)
{
	size_t used = 0;
	for (;;) {
		const size_t next = escape_printable(bytes + index + used, size - index - used);
		*cut = next > 0;
		if (next == 0 || used + next > limit)
			return used;
		used += next;
	}
}
