// SPDX-License-Identifier: MIT
//
// What a dead process had in memory: segments, the files mapped into it, its threads. The memory
// can be read in order, chunk by chunk (image_scan), or at an address (image_read). All that comes
// from the file has been checked against the file's size when these structures are filled.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/bytes.h"
#include "base/error.h"

enum image_format { IMAGE_ELF_CORE, IMAGE_RAW };

// A PT_LOAD segment.
struct image_segment {
	uint64_t address; // p_vaddr
	uint64_t size;	  // p_memsz, at least saved; address + size is at most 2^64
	uint64_t saved;	  // p_filesz: the bytes that the dump is meant to hold
	uint64_t present; // of these, the bytes that the file has: less than saved if it is cut
	uint64_t offset;  // p_offset; offset + present is within the file
	uint32_t flags;	  // PF_R, PF_W, PF_X
};

// An entry of the NT_FILE note: a part of a file that was mapped.
struct image_mapping {
	uint64_t start, end; // addresses
	uint64_t offset;     // of start in the file, in bytes
	const char *path;    // owned by the image
};

// A thread, from its NT_PRSTATUS note.
struct image_thread {
	int64_t id;
	uint64_t stack_pointer; // 0 if the machine's register layout is not known
};

struct image_process {
	int64_t pid;	  // -1: unknown
	int signal;	  // that ended the process; 0: none or unknown
	char command[24]; // the name the kernel had for it, not more than 16 bytes on Linux; "" if
			  // unknown
	char arguments[96]; // the beginning of its command line; "" if unknown
	char program[96];   // the executable as far as these tell; "" if unknown
	struct image_thread *threads;
	size_t thread_count;
	struct image_mapping *mappings; // sorted by start
	size_t mapping_count;
	const unsigned char
		*auxv;	  // AT_* pairs of two words each, in the dump's order; NULL if absent
	size_t auxv_size; // in bytes
};

struct image_info {
	const char *path;
	enum image_format format;
	unsigned elf_class;	   // 32 or 64; 0 for raw bytes
	uint16_t machine;	   // e_machine
	uint8_t os_abi;		   // e_ident[EI_OSABI]
	enum byte_order elf_order; // of the ELF file; meaningless for raw bytes
	unsigned word_size;	   // of the words to count: 4 or 8
	enum byte_order order;	   // of the words to count
	bool overridden;	   // word size or byte order disagree with the ELF header
	bool raw_elf;		   // an ELF core that is read as plain bytes by the user's wish
	uint64_t file_size;	   // bytes
	struct image_segment *segments; // sorted by address; those without saved bytes too
	size_t segment_count;
	uint64_t bytes_saved;	  // to be scanned, all segments
	uint64_t bytes_present;	  // of these, in the file
	uint64_t bytes_not_saved; // left out when the dump was written
	uint64_t headers_missing; // program headers that a cut took away; UINT64_MAX: an unknown
				  // number
	struct image_process process;
};

struct image_options {
	unsigned word_size; // 4, 8, or 0: what the file says
	bool order_given;   // then order overrides what the file says
	enum byte_order order;
	bool raw;	 // plain bytes, whatever the file is
	uint64_t offset; // raw only: the first byte to read
	uint64_t limit;	 // raw only: the number of words to read
};

struct image;

// Open the dump at path. Warnings about what is odd but usable go to diag. On success *ret is
// the caller's, to be closed with image_close; path must live as long.
bool image_open(const char *path, const struct image_options *options, struct diag *diag,
	struct error *err, struct image **ret);
void image_close(struct image *image);
const struct image_info *image_info(const struct image *image);

// Read up to size bytes of memory at address into buffer. Returns the number of bytes that the
// dump has there without a gap; 0 if none. Thread-safe.
size_t image_read(const struct image *image, uint64_t address, void *buffer, size_t size);
// Read one word of the dump's class and byte order at address.
bool image_read_word(const struct image *image, uint64_t address, uint64_t *ret);
// The segment that holds address, saved or not; NULL if none.
const struct image_segment *image_segment_at(const struct image *image, uint64_t address);

// The most that one chunk holds, in bytes: a read of this size stays in the second-level cache.
#define IMAGE_CHUNK_SIZE ((size_t)256 * 1024)

// A piece of memory of one segment: whole aligned words, or any bytes.
struct image_chunk {
	uint64_t address; // of the first word; for plain bytes as if the first one had address 0
	size_t size;	  // bytes now in the caller's buffer, behind the lead
	uint64_t zeros;	  // or else: the bytes of a hole in the file, not read; one of the two is 0
	size_t lead;	  // bytes before address that are in the buffer too
	bool last;	  // the next chunk does not begin where this one ends
	uint64_t number;  // 0, 1, 2, ... in the order of the scan
};

struct image_scan;

struct image_scan_options {
	unsigned stride; // of every stride chunks the first is read; 1: all
	bool bytes;	 // all bytes, not only whole aligned words
	size_t chunk;	 // the most that a chunk holds, a multiple of 64
	// So many bytes before a chunk are delivered with it, as far as they are there without a
	// gap. Then the order is by address, and segments that touch are one piece. Long holes have
	// zeros at both ends in chunks of data, at least this many bytes, so that whatever is near
	// data needs no look into a hole. A multiple of 64; 0: none of this. With a stride above 1
	// there are no leads.
	size_t lead;
};

// Start to read the words of the memory in order. Of every stride chunks the first is read (1: all).
// *ret is the caller's, to be closed with image_scan_close, before the image.
bool image_scan_open(
	const struct image *image, unsigned stride, struct error *err, struct image_scan **ret);
bool image_scan_open_with(const struct image *image, const struct image_scan_options *options,
	struct error *err, struct image_scan **ret);
void image_scan_close(struct image_scan *scan);
// Fetch the next chunk into buffer, aligned to 8, of IMAGE_CHUNK_SIZE bytes, or of the lead and the
// chunk asked for. Returns 1, 0 at the end, -1 on an error. Threads may share a scan: each gets
// other chunks.
int image_scan_next(
	struct image_scan *scan, void *buffer, struct image_chunk *ret, struct error *err);
