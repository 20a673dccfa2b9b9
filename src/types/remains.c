// SPDX-License-Identifier: MIT
#include "types/remains.h"

// glibc 2.36, malloc/malloc.c, bin_at: the address of a bin is that of a chunk of which there are
// only the two links, behind two words. Both lead back to the bin, or to chunks whose links do.
bool address_is_bin(const struct image *image, uint64_t address)
{
	const uint64_t word = image_info(image)->elf_class / 8;
	uint64_t next, before, back, forth;
	return image_read_word(image, address + 2 * word, &next) &&
	       image_read_word(image, address + 3 * word, &before) &&
	       image_read_word(image, next + 3 * word, &back) &&
	       image_read_word(image, before + 2 * word, &forth) && back == address &&
	       forth == address;
}
