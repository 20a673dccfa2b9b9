// SPDX-License-Identifier: MIT
//
// What is to be looked at: tiles of a heap that have objects pending, and parts of large objects.
// These come first, as what they point at is all over the heap. Then tiles are taken in the order
// of their addresses, round and round: more may become pending in each until it is its turn. Half
// of the threads begin at the upper end and go down, half at the lower end and go up. Most long
// lists run one way, as their nodes were allocated: who goes the same way follows them through all
// tiles in one go, together with all else that these have.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NO_TILE SIZE_MAX

// Of larger objects what lies beyond their tile is handed out in parts of this size, in bytes.
#define LARGE_SIZE ((size_t)256 * 1024)

// A stretch of memory.
struct part {
	uint64_t start, end;
};

struct queue {
	_Atomic uint64_t *bits; // a bit for each tile that waits; owned
	size_t tile_count;
	struct part *large; // a stack, with the lock; owned
	size_t large_count, large_capacity;
	_Atomic size_t filled;	// tiles that wait, and large objects
	_Atomic size_t active;	// threads that may add more
	_Atomic size_t waiters; // threads that sleep
	pthread_mutex_t lock;	// to take one
	pthread_cond_t changed;
	bool done;
};

// Where a thread is on its way.
struct hand {
	size_t at; // the next tile, or none: beyond an end
	bool down;
};

// False if memory runs out; queue_deinit must be called all the same.
bool queue_init(struct queue *queue, size_t tile_count);
void queue_deinit(struct queue *queue);
void hand_init(struct hand *hand, const struct queue *queue, unsigned thread);

// One thread begins; a further one enters, or cannot.
void queue_begin(struct queue *queue);
void queue_enter(struct queue *queue);
void queue_leave(struct queue *queue);

// Something in a tile is pending, and marked so before.
void queue_add(struct queue *queue, size_t tile);
// A large object is pending. False if there is no memory for it.
bool queue_add_large(struct queue *queue, uint64_t start, uint64_t end);
// Take the next thing to do, when the last one is done: *tile, to which what is added from now on
// makes it wait again; or if that is NO_TILE, *part. False if there will be none.
bool queue_pop(struct queue *queue, struct hand *hand, size_t *tile, struct part *part);
