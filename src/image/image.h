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

enum image_format { IMAGE_ELF_CORE, IMAGE_RAW, IMAGE_MEMORY };

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

// Registers of a thread as a note of the dump has them: whole words, some of which may be no
// registers.
struct image_registers {
	uint32_t thread; // index
	uint32_t size;	 // bytes
	uint64_t offset; // in the file; of a live process, in what was taken
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
	struct image_registers *registers; // in the order of threads
	size_t registers_count;
	struct image_mapping *mappings; // sorted by start
	size_t mapping_count;
	// Of a live process: the memory that grows with brk(2), as the kernel says; both 0:
	// unknown.
	uint64_t break_start, break_end;
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
	const char *packing;	   // what the file is packed with ("zstd"); NULL: not packed
	bool live;		   // the process is alive; its segments are at their addresses
	bool piped;		   // through standard input or a pipe: its path says nothing
	bool in_order;		   // all memory can be read in order only, each time anew
	bool once;		   // it comes through a pipe and can be scanned only once
	uint64_t file_size;	   // bytes, unpacked
	struct image_segment *segments; // sorted by address; those without saved bytes too
	size_t segment_count;
	uint64_t bytes_saved;	  // to be scanned, all segments
	uint64_t bytes_present;	  // of these, in the file
	uint64_t bytes_data;	  // of these, about, not in holes of the file
	uint64_t bytes_not_saved; // left out when the dump was written
	uint64_t headers_missing; // program headers that a cut took away; UINT64_MAX: an unknown
				  // number
	size_t memory;		  // bytes that the image takes of the memory it was given
	uint64_t unpack_memory;	  // bytes that unpacking takes beside it, about
	size_t stopped_threads;	  // of a live process, to take their registers
	uint64_t stopped_longest; // nanoseconds, at most, that one of them was
	struct image_process process;
};

// The file is one piece of a process's memory, of 64 bits and little-endian, without a dump's
// headers.
struct image_memory {
	uint64_t address; // of its first byte
	uint64_t size;	  // bytes that it is meant to have
	uint16_t machine; // e_machine
	int64_t pid;
};

struct image_options {
	const struct image_memory *piece; // what the file is a piece of; NULL: it is a dump
	unsigned word_size;		  // 4, 8, or 0: what the file says
	bool order_given;		  // then order overrides what the file says
	enum byte_order order;
	bool raw;	 // plain bytes, whatever the file is
	uint64_t offset; // raw only: the first byte to read
	uint64_t limit;	 // raw only: the number of words to read
	size_t memory; // bytes that may be used for what must be read in order: a pipe, or what is
		       // unpacked
	bool whole;	// all of it is best kept there, if it fits: then it can be read at any
			// address; half of it is for the beginning otherwise
	bool keep;	// of these, too, image_read will be asked for what names need
	int64_t pid;	// of a live process to read instead of a file; 0: none
	bool registers; // of a live process: stop each thread for a moment to take them
	const atomic_int *stop; // not zero: a pipe is not waited for any longer; NULL: never
};

struct image;

// Open the dump at path, "-" for standard input, or a live process. Warnings about what is odd but
// usable go to diag. On success *ret is the caller's, to be closed with image_close; path must live
// as long.
bool image_open(const char *path, const struct image_options *options, struct diag *diag,
	struct error *err, struct image **ret);
void image_close(struct image *image);
// Call this when the memory has been read once, whole or not: with a pipe, and with what is
// unpacked, only then can be known where it ends, and so which bytes are present, and what is wrong
// with it. Before that image_info takes all bytes for present.
void image_finish(struct image *image, struct diag *diag);
// Whether the file is still as it was when it was opened; call this when all has been read. A pipe
// and a live process count as unchanged.
bool image_unchanged(const struct image *image, struct error *err);
const struct image_info *image_info(const struct image *image);

// Of what must be read in order: how much of image_options.memory would keep all of it, so that
// it could be read at any address; in bytes.
uint64_t image_memory_needed(const struct image *image);

// Read up to size bytes of memory at address into buffer. Returns the number of bytes that the
// dump has there without a gap; 0 if none. Thread-safe. Of a pipe, and of what is unpacked, only
// the mapped files' segments and small ones can be read, as many as fit the memory; if they have
// not come by in a scan yet, a compressed file is read for that (so not while a scan is open).
size_t image_read(const struct image *image, uint64_t address, void *buffer, size_t size);
// The first address from this one on at which image_read may find anything but the zeros of a hole;
// UINT64_MAX if there is none. To go through memory of which much may be missing.
uint64_t image_next(const struct image *image, uint64_t address);
// Whether the dump has data at address, which it has (present), or a hole that reads as zeros. *ret
// becomes where that ends, at most limit.
bool image_has_data(const struct image *image, uint64_t address, uint64_t limit, uint64_t *ret);
// Read one word of the dump's class and byte order at address.
bool image_read_word(const struct image *image, uint64_t address, uint64_t *ret);
// Read up to size bytes of the registers at an index of image_process. Returns how many there are.
size_t image_read_registers(const struct image *image, size_t index, void *buffer, size_t size);
// The segment that holds address, saved or not; NULL if none.
const struct image_segment *image_segment_at(const struct image *image, uint64_t address);

struct overlay;
// Let image_read fall back on overlay (see image/overlay.h) for what the dump left out; NULL: no
// longer. It must live as long as it is set.
void image_set_overlay(struct image *image, const struct overlay *overlay);

// The most that one chunk holds, in bytes: a read of this size stays in the second-level cache.
#define IMAGE_CHUNK_SIZE ((size_t)128 * 1024)

// A piece of memory: whole aligned words of one segment.
struct image_chunk {
	uint64_t address; // of the first word; for raw bytes its offset in the file
	size_t size;	  // bytes now in the caller's buffer, a multiple of the word size
	uint64_t zeros;	  // or else: the bytes of a hole in the file, not read; one of the two is 0
	uint64_t number;  // of the chunk in this scan, from 0 on: each comes once
};

struct image_scan;

// Start to read the memory in order. Of every stride chunks the first is read (1: all); of a pipe,
// or of what is unpacked, with a stride above 1 only what is kept of its beginning. Fails for a
// pipe that was scanned before. *ret is the caller's, to be closed with image_scan_close, before
// the image.
bool image_scan_open(
	const struct image *image, unsigned stride, struct error *err, struct image_scan **ret);
void image_scan_close(struct image_scan *scan);
// Fetch the next chunk into buffer, of IMAGE_CHUNK_SIZE bytes, aligned to 8. Returns 1, 0 at the
// end, -1 on an error. Threads may share a scan: each gets other chunks. Chunks come in no special
// order.
int image_scan_next(
	struct image_scan *scan, void *buffer, struct image_chunk *ret, struct error *err);
