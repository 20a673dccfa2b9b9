// SPDX-License-Identifier: MIT
//
// What a reader of one runtime gets, and what it has to say.
#pragma once

#include <pthread.h>

#include "runtime/reader.h"
#include "runtime/runtime.h"

// Memory that one thread goes through at a time, in bytes.
#define PIECE_SIZE ((uint64_t)1 << 20)
// What a worker keeps of the memory around a piece: fields of an object that begins in it.
#define PIECE_MARGIN ((uint64_t)256)

// Memory of the runtime that can be gone through by itself.
struct piece {
	uint64_t start, end;
	uint32_t kind; // the runtime's own
};

struct runtime_ops;

// One runtime while it is read. What the reader finds before the walk is not changed during it.
struct runtime_scan {
	const struct runtime_ops *ops;
	const struct image *image;
	const struct modules *modules;
	const struct places *places;
	const struct runtime_watch *watch;
	const atomic_int *stop;
	const struct runtime_options *options;
	struct runtime *runtime; // name, doubt and heap are set by find
	void *state;		 // the reader's own; freed with free_state
	struct piece *pieces;	 // owned
	size_t piece_count, piece_capacity;
	atomic_size_t next_piece;
	pthread_mutex_t lock;  // for what follows
	struct type_key *keys; // owned; a list, its index is the type
	size_t type_count, type_capacity;
	uint32_t *slots; // hash table of 1 + index; owned
	size_t slot_count;
	bool lost; // memory ran out
};

// A type is known to its runtime by a number (an address), or is made up by its reader.
struct type_key {
	uint64_t key;
	char *name; // owned
};

struct type_tally {
	uint64_t count, bytes;
	uint64_t size; // of all until now, if they have the same
	bool sizes_differ;
	uint64_t examples[RUNTIME_EXAMPLES]; // sorted
	unsigned example_count;
};

// One thread of the walk.
struct worker {
	struct runtime_scan *scan;
	struct reader reader;
	struct type_tally *tallies; // owned; by the index of the type
	size_t tally_count;
	unsigned char *bytes; // a window of memory, owned; see worker_load
	uint64_t start;
	size_t size;
	void *state; // the reader's own; freed by its worker_end
	uint64_t free_bytes, round_bytes;
};

#define NO_TYPE UINT32_MAX

// A reader of a runtime.
struct runtime_ops {
	const char *language;
	// Look for the runtime in module. If it is there, fill scan->runtime, pieces and state.
	// False: it is not there. runs with the reader of no walk.
	bool (*find)(struct runtime_scan *scan, struct reader *reader, const struct module *module);
	void (*free_state)(void *state);	     // NULL: free
	bool (*worker_begin)(struct worker *worker); // NULL: nothing; false: no memory
	void (*worker_end)(struct worker *worker);   // NULL: nothing
	void (*walk)(struct worker *worker, const struct piece *piece);
};

extern const struct runtime_ops cpython_ops, hotspot_ops, v8_ops, go_ops;

// Add memory, cut into pieces if cut is set. False: no memory (scan->lost is set).
bool scan_add(struct runtime_scan *scan, uint64_t start, uint64_t end, uint32_t kind, bool cut);
// Add all anonymous memory of the process in pieces, and the heaps of malloc if malloc_too is set.
bool scan_add_heaps(struct runtime_scan *scan, bool malloc_too);
// The index of the type with this key, or NO_TYPE. Thread-safe, as the next one.
uint32_t scan_type(struct runtime_scan *scan, uint64_t key);
// Add one. name is any bytes, and is escaped. If there is one with this key already, it is that.
uint32_t scan_type_add(struct runtime_scan *scan, uint64_t key, const char *name);
bool scan_stopped(const struct runtime_scan *scan);

// Load memory from start to end, as far as it is there, with margins; the window has at least the
// bytes from start on that the dump has without a gap, up to the end. False: nothing at start.
bool worker_load(struct worker *worker, uint64_t start, uint64_t end);
// Numbers, from the window if they are in it.
uint64_t worker_word(struct worker *worker, uint64_t address);
uint32_t worker_u32(struct worker *worker, uint64_t address);

// Of so many bytes from address on, those that the dump has. Segments can follow on each other.
uint64_t image_present(const struct image *image, uint64_t address, uint64_t size);
// size, if the dump has all these bytes, or else 0.
uint64_t worker_block(const struct worker *worker, uint64_t address, uint64_t size);

// An object was found.
void worker_found(struct worker *worker, uint32_t type, uint64_t address, uint64_t size);
// What is at an address belongs to an object.
void worker_own(const struct worker *worker, uint64_t address);
// Bytes more that belong to an object told before, or (negative) that do not; count is 0, or -1:
// it was no object of its own.
void worker_correct(struct worker *worker, uint32_t type, int64_t count, int64_t bytes);
