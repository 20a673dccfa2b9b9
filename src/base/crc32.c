// SPDX-License-Identifier: MIT
#include "base/crc32.h"

#include <pthread.h>

#include "base/bytes.h"

#define POLYNOMIAL UINT32_C(0xedb88320)

// table[n][b]: what the byte b does to the check n bytes further on. Eight bytes are taken at once.
static uint32_t table[8][256];
static pthread_once_t table_made = PTHREAD_ONCE_INIT;

static void table_make(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[0][byte] = crc;
	}
	for (size_t n = 1; n < 8; n++)
		for (size_t byte = 0; byte < 256; byte++) {
			const uint32_t before = table[n - 1][byte];
			table[n][byte] = before >> 8 ^ table[0][before & 0xff];
		}
}

uint32_t crc32_add(uint32_t crc, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	pthread_once(&table_made, table_make);
	crc = ~crc;
	for (; size >= 8; size -= 8, at += 8) {
		const uint32_t low = crc ^ load_u32(at, ORDER_LITTLE);
		const uint32_t high = load_u32(at + 4, ORDER_LITTLE);
		crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
		      table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^ table[3][high & 0xff] ^
		      table[2][high >> 8 & 0xff] ^ table[1][high >> 16 & 0xff] ^
		      table[0][high >> 24];
	}
	for (; size > 0; size--, at++)
		crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
	return ~crc;
}
