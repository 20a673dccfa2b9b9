// SPDX-License-Identifier: MIT
//
// The dynamic linker's list of what it loaded.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/elf.h"
#include "image/image.h"

struct link_entry {
	char *path;	  // "" for the program itself; owned
	uint64_t bias;	  // l_addr
	uint64_t dynamic; // l_ld
};

// Read the link map of a program that is loaded at bias. Returns the number of entries; *ret is the
// caller's, to be released with linkmap_free.
size_t linkmap_load(const struct image *image, const struct elf *program, uint64_t bias,
	struct link_entry **ret);
void linkmap_free(struct link_entry *entries, size_t count);

// Read a string of at most limit bytes that ends with a NUL. NULL if there is no such string. The
// caller must free it.
char *image_read_string(const struct image *image, uint64_t address, size_t limit);
