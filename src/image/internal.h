// SPDX-License-Identifier: MIT
//
// What the files of this folder share of an image.
#pragma once

#include "image/file.h"
#include "image/image.h"
#include "image/overlay.h"

// Bytes of the file to scan. address tells how their words are aligned.
struct range {
	uint64_t address;
	uint64_t offset; // offset + size is within the file
	uint64_t size;
};

// The part of a range that consists of whole aligned words.
static inline struct range range_words(const struct range *range, uint64_t word_size)
{
	const uint64_t skipped = -range->address % word_size;
	if (range->size < skipped)
		return (struct range){0};
	return (struct range){
		.address = range->address + skipped,
		.offset = range->offset + skipped,
		.size = (range->size - skipped) / word_size * word_size,
	};
}

struct image {
	struct image_info info;
	struct file file;
	struct range *ranges; // sorted by offset
	size_t range_count;
	uint64_t raw_offset;	// of plain bytes: where the user wants to begin
	const atomic_int *stop; // see image_options
	char *strings;		// the NT_FILE note: mappings point into it
	unsigned char *auxv;
	unsigned char *registers;      // of a live process, which offsets of them lead to; owned
	uint64_t notes_cost;	       // see notes.c
	const struct overlay *overlay; // NULL: none
};

// Fill image->info from the ELF core that the file holds; segments and process included. ident is
// the beginning of the file, of at least EI_NIDENT bytes. On failure image holds what image_close
// must release.
bool core_load(
	struct image *image, const unsigned char *ident, struct diag *diag, struct error *err);

// Sum up the segments' bytes in image->info.
void core_sum(struct image *image);

// Read the notes in size bytes at offset, which are within the file, into image->info.process.
// Notes that are cut or damaged are left out.
bool notes_load(struct image *image, uint64_t offset, uint64_t size, struct error *err);

// Choose what is kept of a file that is read in order, in memory bytes; 0: nothing will be needed.
bool image_keep(struct image *image, size_t memory, struct diag *diag, struct error *err);
