// SPDX-License-Identifier: MIT
//
// What topleak-record knows of a process (record/format.h), read from its own file, from a core
// that carries it, or from the live process: call stacks, and what was allocated there.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "image/module.h"

// Whether the file at path is a recording; *ret becomes what image_open needs to read it.
bool recording_probe(const char *path, struct image_memory *ret);

// What was allocated at a stack, or at several. Bytes are as requested. In sampled mode all but
// the largest are estimates.
struct stack_values {
	uint64_t live_bytes, live_blocks; // in use
	uint64_t peak_bytes, peak_blocks; // in use when all together had the most bytes
	uint64_t bytes, blocks;		  // allocated
	uint64_t temporary;		  // blocks freed before their thread allocated another one
	uint64_t largest;		  // block, bytes; 0: none
	double variance;		  // of live_bytes, which sampling brings in
	uint64_t sampled;		  // blocks in use that the estimate rests on
	uint64_t first, last;		  // nanoseconds since the beginning: allocations
	// Of blocks in use whose age is known: how many, their milliseconds, and the most.
	uint64_t aged, age_sum, age_most;
};

// What both have. The largest is the larger one, times are the outer ones.
void stack_values_add(struct stack_values *to, const struct stack_values *more);

struct stack {
	uint64_t
		identity; // of its frames, by modules and places in them: the same in every process
	uint32_t node;	  // in recording->nodes
	struct stack_values values;
};

// A call: the return address, and the node of the caller's own call; 0: there is none.
struct stack_node {
	uint64_t address;
	uint32_t parent;
};

// A moment at which what was in use was noted.
struct stack_snapshot {
	uint64_t time; // nanoseconds since the beginning
	uint64_t live_bytes, live_blocks;
	uint64_t resident;     // bytes; 0: not known
	uint64_t first, count; // in recording->points
};

struct stack_point {
	uint32_t stack; // index
	uint64_t bytes, blocks;
};

// How many blocks in use have a size.
struct stack_size {
	uint64_t size;
	struct stack_values values; // live_* only
};

struct recording {
	const struct image *image;
	uint64_t address; // of its header
	bool full;	  // every block was recorded, else samples
	uint64_t sample_mean;
	int64_t pid;
	uint64_t start;	   // nanoseconds since 1970
	uint64_t duration; // nanoseconds
	uint64_t peak_bytes, peak_time;
	uint64_t stacks_cut, blocks_lost, bytes_lost;
	bool damaged;	      // links lead nowhere, or parts are missing: it is not whole
	struct stack *stacks; // the one at index 0 is none; owned
	size_t stack_count;
	struct stack_node *nodes; // owned
	size_t node_count;
	struct module_known *modules; // owned, with their paths
	size_t module_count;
	struct stack_snapshot *snapshots; // owned
	size_t snapshot_count;
	struct stack_point *points; // owned
	size_t point_count;
	struct stack_size *sizes; // of blocks in use, by their size; owned
	size_t size_count;
	struct stack_values total;
	struct record_header *header; // owned
	struct block_index *index;    // see recording_block; owned
};

// Find the recording in an image: at its beginning if it is one, else where a core or a process
// has it. False if there is none.
bool recording_find(const struct image *image, uint64_t *ret);
// Whether what is at address is one of a version that can be read; else an error, which says so.
// Read what is known of modules, for names; *ret is to be released with recording_destroy.
bool recording_open(
	const struct image *image, uint64_t address, struct error *err, struct recording **ret);
void recording_destroy(struct recording *recording);
// Read stacks, and what is in use. modules: where addresses are, for identities. memory: bytes that
// may be used.
bool recording_load(struct recording *recording, const struct modules *modules, size_t memory,
	struct error *err);

// The most frames that are told of a stack.
#define STACK_DEPTH_MAX 512
// The return addresses of a stack, the innermost first. Returns their number.
size_t recording_frames(
	const struct recording *recording, uint32_t stack, uint64_t ret[static STACK_DEPTH_MAX]);

// A block in use that the recording has.
struct stack_block {
	uint64_t address, size; // requested, bytes
	uint32_t stack;
	uint32_t born; // milliseconds since the beginning; UINT32_MAX: not known
};

// Call use for each block in use. False if use returns false.
bool recording_blocks(const struct recording *recording,
	bool (*use)(void *context, const struct stack_block *block), void *context);

// Where the log of events is; false if there is none.
bool recording_log(const struct recording *recording, uint64_t *ret_address, uint64_t *ret_size);

// The stack at which the block at address was allocated; 0: not known. The first call takes time
// and memory. Not thread-safe.
uint32_t recording_block(struct recording *recording, uint64_t address);
