// SPDX-License-Identifier: MIT
//
// What topleak-record leaves: one block of memory that looks the same in the process, in a core
// dump of it, and in a file. The only thing that the recorder and src/stacks/ share.
//
// A header is followed by sections, each a table. All links are indices into tables or offsets from
// the header, so that the block can be read wherever it lies; addresses are the process's own.
// Words have the byte order of the process, which is 64-bit and little-endian.
//
// A reader must check every link: a core is written at any instruction, and may be cut. It skips
// kinds of sections that it does not know, and takes the first bytes of entries that are longer
// than it knows; those that are shorter count as padded with zeros. So fields are only ever
// appended, and VERSION changes only if an old reader would go wrong.
#pragma once

#include <stdint.h>

#define RECORD_MAGIC "\x7fTopleakRecord\n" // 16 bytes with the NUL
#define RECORD_VERSION 1

// In memory the header begins at a multiple of this, where a reader of a core looks for it.
#define RECORD_ALIGN ((uint64_t)1 << 20)

enum record_mode {
	RECORD_OFF,    // nothing any more
	RECORD_SAMPLE, // blocks are chosen at random, by bytes
	RECORD_FULL,   // every block
};

enum record_kind {
	RECORD_NODES = 1, // struct record_node: call tree; entry 0 is its root
	RECORD_STACKS,	  // struct record_stack; entry 0 is no stack
	RECORD_BLOCKS,	  // struct record_block: sampled blocks, and those too large for the shadow
	RECORD_DIRECTORY, // struct record_granule
	RECORD_SHADOW,	  // struct record_slot: RECORD_SLOTS of them for each granule
	RECORD_THREADS,	  // struct record_thread
	RECORD_MODULES,	  // struct record_module
	RECORD_STRINGS,	  // bytes; texts end with a NUL
	RECORD_SNAPSHOTS, // struct record_snapshot, in the order of time
	RECORD_POINTS,	  // struct record_point: what the snapshots point at
	RECORD_LOG,	// bytes: chunks of events, each behind a struct record_chunk; in files only
	RECORD_PRIVATE, // this one and those behind it are the recorder's own
	RECORD_SECTIONS = 32,
};

struct record_section {
	uint32_t kind;	   // enum record_kind; 0: none
	uint32_t entry;	   // bytes of an entry
	uint64_t offset;   // from the header, bytes
	uint64_t capacity; // entries that there is room for
	uint64_t used;	   // entries that may be in use; those behind them are not written yet
};

struct record_header {
	char magic[16];
	uint32_t version, header_size; // bytes, this struct's
	uint64_t self;		       // address of the header in the process
	uint64_t size;		       // of the whole block, bytes
	uint32_t mode;		       // enum record_mode
	uint32_t pid;
	uint32_t machine; // e_machine of ELF: EM_X86_64, EM_AARCH64
	uint32_t section_count;
	uint64_t sample_mean;	 // bytes between two samples, on average; 0: none
	uint64_t start_realtime; // when it began, nanoseconds since 1970
	uint64_t start_clock;	 // the same by CLOCK_MONOTONIC; all times below are since then
	uint64_t now;		 // nanoseconds: about when something was written last
	uint64_t ended; // nanoseconds: when the process exited; 0: it did not, or not in order
	// Requested bytes and blocks that were in use, as far as threads have passed on their
	// counts.
	uint64_t live_bytes, live_blocks;
	uint64_t allocated_bytes;
	uint64_t peak_bytes, peak_time; // the most that live_bytes was, and when
	uint64_t peak_number;		// see struct record_stack
	// What the record lacks: calls without a complete stack, and blocks for which there was no
	// room.
	uint64_t stacks_cut, blocks_lost, bytes_lost;
	uint64_t exit_status; // as of waitpid, if exit_known
	uint32_t exit_known, reserved;
	uint64_t events_lost; // that could not be written to the log
	uint64_t log_chunks;  // begun so far
	struct record_section sections[RECORD_SECTIONS];
};

// A call: the return address in a caller, whose own caller is the parent.
struct record_node {
	uint64_t pc;	 // of an instruction that a signal interrupted: that address + 1
	uint32_t parent; // index of the node of its caller; 0: there is none
	uint32_t module; // index + 1 of the module at the time; 0: by the address
};

// Where blocks were allocated. Bytes are as requested. In sampled mode allocations, frees and their
// bytes are estimates: each sampled block of S bytes stands for 1 / (1 - exp(-max(S, 1) / mean))
// blocks, unless its stack is recorded in full.
#define RECORD_STACK_FULL 1U // its blocks are counted as they are, also where the rest is sampled
#define RECORD_STACK_MAPPING 2U // its blocks come from mmap, not from an allocator
struct record_stack {
	uint32_t node;		// of the call of malloc
	uint32_t flags;		// RECORD_STACK_*
	uint64_t hash;		// to find it; of this process only
	uint64_t blocks, bytes; // that were allocated
	uint64_t freed_blocks, freed_bytes;
	uint64_t temporary; // blocks that their thread freed before it allocated another one
	uint64_t largest;   // block, bytes
	// What was in use at the peak: these if peak_number is the header's, else what is in use
	// now, without the changes of threads; and in both cases the changes of threads whose own
	// peak_number is not the header's. Exact if one thread runs.
	uint64_t peak_bytes, peak_blocks, peak_number;
	uint64_t first, last; // nanoseconds: of the first and the last allocation, about
};

// A block in use.
struct record_block {
	uint64_t address; // 0: no entry
	uint64_t size;	  // requested, bytes
	uint32_t stack;	  // index
	uint32_t born;	  // milliseconds, when it was allocated
};

// The part of the address space that begins at number << RECORD_GRANULE_BITS has its slots in the
// shadow, from chunk * RECORD_SLOTS on.
#define RECORD_GRANULE_BITS 20
#define RECORD_SLOTS (1U << (RECORD_GRANULE_BITS - 4))
struct record_granule {
	uint32_t number; // 0: no entry
	uint32_t chunk;	 // + 1; 0: not there yet
};

// A block that begins at this multiple of 16. Larger ones than fit are among RECORD_BLOCKS.
struct record_slot {
	uint64_t stack : 22; // index; 0: none
	uint64_t size : 16;  // requested, bytes
	uint64_t born : 26;  // units of RECORD_BORN_UNIT milliseconds; the greatest value: then or
			     // later
};
#define RECORD_BORN_UNIT 100

// What a thread counted and has not passed on to the stacks yet.
struct record_change {
	uint32_t stack; // index; 0: no entry
	uint32_t blocks, freed_blocks, temporary;
	uint64_t bytes, freed_bytes;
	uint64_t largest;     // block, bytes
	uint64_t peak_number; // the header's when this was changed last
};
#define RECORD_CHANGES 512
struct record_thread {
	uint32_t id;
	uint32_t used; // 0: no entry
	struct record_change changes[RECORD_CHANGES];
};

// An executable or a library, also one that is not loaded any more.
struct record_module {
	uint64_t start, end;	 // addresses
	uint64_t bias;		 // address minus bias is the address in the file
	uint64_t loaded, closed; // nanoseconds; closed: 0 if it is still there
	uint64_t path;		 // offset in RECORD_STRINGS
	uint32_t id_size;	 // bytes of its build-id; 0: it has none
	uint32_t main;		 // 1: the program
	uint8_t id[32];
};

struct record_snapshot {
	uint64_t time; // nanoseconds
	uint64_t live_bytes, live_blocks;
	uint64_t resident;     // bytes of the process; 0: not known
	uint64_t first, count; // its points
};

// What was in use of a stack at a snapshot. Stacks without a point had nothing.
struct record_point {
	uint32_t stack, reserved;
	uint64_t bytes, blocks;
};

// The log. Chunks follow each other; each has events of one thread. What comes first in time is
// told by the chunks' numbers, and between chunks by the events' times only.
#define RECORD_CHUNK_MAGIC 0x4b4c5054U // "TPLK"
struct record_chunk {
	uint32_t magic;
	uint32_t thread;
	uint32_t bytes;	 // of the events that follow; then comes the next chunk
	uint32_t events; // of allocation and freeing
	uint64_t number; // of the chunk, in the order in which they were begun
	uint64_t time;	 // of the first event, nanoseconds
};

// An event is a varint (LEB128, 64 bits), whose two lowest bits are its kind, and whatever varints
// the kind has more. Addresses are in units of 8 bytes, as the zigzag difference ((d << 1) ^ (d >>
// 63)) to that of the event before, and so are stacks to that of the allocation before; in each
// chunk both begin at 0.
enum record_event {
	RECORD_ALLOCATE, // stack; then size, then address
	RECORD_REPEAT,	 // address: with the stack and the size of the allocation before
	RECORD_FREE,	 // address
	RECORD_TIME,	 // microseconds that passed since the last time
};
