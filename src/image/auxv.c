// SPDX-License-Identifier: MIT
#include "image/auxv.h"

bool auxv_find(const struct image_info *info, uint64_t type, uint64_t *ret)
{
	const unsigned word = info->elf_class / 8;
	const unsigned char *auxv = info->process.auxv;
	if (auxv == NULL || word == 0)
		return false;
	for (size_t at = 0; info->process.auxv_size - at >= 2 * (size_t)word;
		at += 2 * (size_t)word) {
		uint64_t key = word_load(auxv + at, word, info->elf_order);
		// OpenBSD's have a key of 4 bytes and padding (sys/sys/exec_elf.h, Aux64Info).
		if (info->elf_order == ORDER_BIG && word == 8 && (uint32_t)key == 0)
			key >>= 32;
		if (key == AT_NULL)
			return false;
		if (key == type) {
			*ret = word_load(auxv + at + word, word, info->elf_order);
			return true;
		}
	}
	return false;
}
