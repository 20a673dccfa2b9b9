// SPDX-License-Identifier: MIT
#include "graph/queue.h"

#include <stdlib.h>

bool queue_init(struct queue *queue, size_t tile_count)
{
	queue->bits = calloc(tile_count / 64 + 1, sizeof *queue->bits);
	queue->tile_count = tile_count;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
	return queue->bits != NULL;
}

void queue_deinit(struct queue *queue)
{
	free((void *)queue->bits);
	free(queue->large);
	pthread_mutex_destroy(&queue->lock);
	pthread_cond_destroy(&queue->changed);
}

// Where a way begins.
static size_t queue_end(const struct queue *queue, bool down)
{
	return down ? queue->tile_count - 1 : 0;
}

void hand_init(struct hand *hand, const struct queue *queue, unsigned thread)
{
	hand->down = thread % 2 == 0;
	hand->at = queue_end(queue, hand->down);
}

void queue_begin(struct queue *queue)
{
	atomic_store(&queue->active, 1);
	queue->done = false;
}

void queue_enter(struct queue *queue)
{
	atomic_fetch_add(&queue->active, 1);
}

void queue_leave(struct queue *queue)
{
	atomic_fetch_sub(&queue->active, 1);
}

void queue_add(struct queue *queue, size_t tile)
{
	const uint64_t bit = UINT64_C(1) << (tile % 64);
	_Atomic uint64_t *bits = &queue->bits[tile / 64];
	if ((atomic_load(bits) & bit) != 0 || (atomic_fetch_or(bits, bit) & bit) != 0)
		return;
	const size_t filled = atomic_fetch_add(&queue->filled, 1) + 1;
	// Those that are active take as many without being told.
	if (atomic_load(&queue->waiters) > 0 && filled > atomic_load(&queue->active)) {
		pthread_mutex_lock(&queue->lock);
		pthread_cond_signal(&queue->changed);
		pthread_mutex_unlock(&queue->lock);
	}
}

bool queue_add_large(struct queue *queue, uint64_t start, uint64_t end)
{
	bool ok = true;
	pthread_mutex_lock(&queue->lock);
	if (queue->large_count == queue->large_capacity) {
		const size_t wanted = 2 * queue->large_capacity + 64;
		struct part *grown = reallocarray(queue->large, wanted, sizeof *grown);
		ok = grown != NULL;
		if (ok) {
			queue->large = grown;
			queue->large_capacity = wanted;
		}
	}
	if (ok) {
		queue->large[queue->large_count++] = (struct part){start, end};
		atomic_fetch_add(&queue->filled, 1);
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return ok;
}

// The next part of the large object that was added last. The lock is held.
static void queue_take_large(struct queue *queue, struct part *ret)
{
	struct part *large = &queue->large[queue->large_count - 1];
	*ret = *large;
	if (ret->end - ret->start > LARGE_SIZE) {
		ret->end = ret->start + LARGE_SIZE;
		large->start = ret->end;
	} else {
		queue->large_count--;
		atomic_fetch_sub(&queue->filled, 1);
	}
}

// The first tile that waits from `at` on, up or down; NO_TILE: there is none.
static size_t queue_next(const struct queue *queue, size_t at, bool down)
{
	while (at < queue->tile_count) {
		const uint64_t bits =
			atomic_load_explicit(&queue->bits[at / 64], memory_order_relaxed);
		const uint64_t rest = down ? bits << (63 - at % 64) : bits >> at % 64;
		if (rest != 0)
			return down ? at - (unsigned)__builtin_clzll(rest)
				    : at + (unsigned)__builtin_ctzll(rest);
		at = down ? at / 64 * 64 - 1 : (at / 64 + 1) * 64;
	}
	return NO_TILE;
}

// The next tile on the way; NO_TILE if there is none. The lock is held.
static size_t queue_take_tile(struct queue *queue, struct hand *hand)
{
	size_t tile = queue_next(queue, hand->at, hand->down);
	if (tile == NO_TILE)
		tile = queue_next(queue, queue_end(queue, hand->down), hand->down);
	if (tile == NO_TILE)
		return NO_TILE;
	hand->at = hand->down ? tile - 1 : tile + 1;
	atomic_fetch_and(&queue->bits[tile / 64], ~(UINT64_C(1) << (tile % 64)));
	atomic_fetch_sub(&queue->filled, 1);
	return tile;
}

bool queue_pop(struct queue *queue, struct hand *hand, size_t *tile, struct part *part)
{
	bool more = false;
	pthread_mutex_lock(&queue->lock);
	atomic_fetch_sub(&queue->active, 1);
	while (!queue->done && !more) {
		if (atomic_load(&queue->filled) > 0) {
			*tile = NO_TILE;
			more = queue->large_count > 0;
			if (more)
				queue_take_large(queue, part);
			else
				*tile = queue_take_tile(queue, hand);
			more |= *tile != NO_TILE;
		} else if (atomic_load(&queue->active) == 0) {
			queue->done = true;
		} else {
			atomic_fetch_add(&queue->waiters, 1);
			if (atomic_load(&queue->filled) == 0)
				pthread_cond_wait(&queue->changed, &queue->lock);
			atomic_fetch_sub(&queue->waiters, 1);
		}
	}
	if (more)
		atomic_fetch_add(&queue->active, 1);
	else
		pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	return more;
}
