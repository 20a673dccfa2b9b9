// SPDX-License-Identifier: MIT
#include "find/sweep.h"

#include <pthread.h>
#include <stdlib.h>

#include "image/pieces.h"

struct buffer {
	struct buffer *next;
	_Alignas(64) unsigned char bytes[];
};

struct sweep_source {
	const struct sweep *sweep;
	struct pieces *pieces;
	size_t lead;
	pthread_mutex_t lock; // for what follows
	pthread_cond_t turn;
	uint64_t next;	     // the number of the window whose turn it is to commit
	struct buffer *free; // owned
};

static size_t round_up(size_t size)
{
	return (size + 63) / 64 * 64;
}

static size_t sweep_lead(const struct sweep *sweep)
{
	return round_up(sweep->before + sweep->after);
}

size_t sweep_memory(const struct sweep *sweep)
{
	return sizeof(struct buffer) + round_up(sweep_lead(sweep) + sweep->chunk);
}

bool sweep_open(const struct sweep *sweep, struct error *err, struct sweep_source **ret)
{
	struct sweep_source *source = calloc(1, sizeof *source);
	if (source == NULL)
		return error_memory(err);
	source->sweep = sweep;
	source->lead = sweep_lead(sweep);
	const struct pieces_options options = {
		.stride = sweep->stride,
		.bytes = sweep->bytes,
		.size = sweep->chunk,
		.lead = source->lead,
	};
	if (!pieces_open(sweep->image, &options, err, &source->pieces)) {
		free(source);
		return false;
	}
	if (sweep->watch != NULL)
		sweep->watch->begin(sweep->watch->context,
			image_info(sweep->image)->bytes_present / sweep->stride);
	pthread_mutex_init(&source->lock, NULL);
	pthread_cond_init(&source->turn, NULL);
	*ret = source;
	return true;
}

void sweep_close(struct sweep_source *source)
{
	if (source == NULL)
		return;
	while (source->free != NULL) {
		struct buffer *buffer = source->free;
		source->free = buffer->next;
		free(buffer);
	}
	pthread_cond_destroy(&source->turn);
	pthread_mutex_destroy(&source->lock);
	pieces_close(source->pieces);
	free(source);
}

static struct buffer *buffer_take(struct sweep_source *source)
{
	pthread_mutex_lock(&source->lock);
	struct buffer *buffer = source->free;
	if (buffer != NULL)
		source->free = buffer->next;
	pthread_mutex_unlock(&source->lock);
	return buffer != NULL ? buffer : aligned_alloc(64, sweep_memory(source->sweep));
}

static void buffer_give(struct sweep_source *source, struct buffer *buffer)
{
	pthread_mutex_lock(&source->lock);
	buffer->next = source->free;
	source->free = buffer;
	pthread_mutex_unlock(&source->lock);
}

static struct sweep_window window_of(
	const struct sweep_source *source, const struct piece *piece, const void *bytes)
{
	const struct sweep *sweep = source->sweep;
	const size_t size = piece->lead + piece->size;
	struct sweep_window window = {
		.bytes = bytes,
		.size = size,
		.address = piece->address - piece->lead,
		.lead = piece->lead,
		.zeros = piece->zeros,
		.last = piece->last,
		.zeros_before = piece->hole_before,
		.zeros_after = piece->hole_after,
	};
	window.from = piece->lead > sweep->after ? piece->lead - sweep->after : 0;
	const size_t to = size > sweep->after ? size - sweep->after : 0;
	window.to = piece->last || sweep->stride > 1 ? size : to > window.from ? to : window.from;
	return window;
}

// Wait for this window's turn, commit it, and let the next one have its turn, whatever happened.
static bool source_commit(struct sweep_source *source, void *context, unsigned worker,
	uint64_t number, const struct sweep_window *window, struct error *err)
{
	const struct sweep *sweep = source->sweep;
	pthread_mutex_lock(&source->lock);
	while (source->next != number)
		pthread_cond_wait(&source->turn, &source->lock);
	pthread_mutex_unlock(&source->lock);
	const bool ok = window == NULL || sweep->commit(context, worker, window, err);
	pthread_mutex_lock(&source->lock);
	source->next++;
	pthread_cond_broadcast(&source->turn);
	pthread_mutex_unlock(&source->lock);
	return ok;
}

static int source_step(struct sweep_source *source, void *context, unsigned worker,
	struct buffer *buffer, struct error *err)
{
	const struct sweep *sweep = source->sweep;
	struct piece piece;
	const int more = pieces_next(source->pieces, buffer->bytes, &piece, err);
	if (more == 0)
		return 0;
	bool ok = more > 0;
	if (ok && sweep->watch != NULL)
		sweep->watch->add(sweep->watch->context, piece.size + piece.zeros);
	const struct sweep_window window = window_of(source, &piece, buffer->bytes);
	ok = ok && sweep->visit(context, worker, &window, err);
	if (sweep->commit != NULL &&
		!source_commit(source, context, worker, piece.number, ok ? &window : NULL, err))
		ok = false;
	return ok ? 1 : -1;
}

int sweep_next(struct sweep_source *source, void *context, struct error *err)
{
	struct buffer *buffer = buffer_take(source);
	if (buffer == NULL) {
		error_memory(err);
		return -1;
	}
	const int more = source_step(source, context, 0, buffer, err);
	buffer_give(source, buffer);
	return more;
}

struct worker {
	struct sweep_source *source;
	unsigned number;
	atomic_bool *failed;
	struct error err;
	bool ok;
	pthread_t thread;
};

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct sweep_source *source = worker->source;
	const struct sweep *sweep = source->sweep;
	struct buffer *buffer = buffer_take(source);
	int more = 1;
	worker->ok = buffer != NULL || error_memory(&worker->err);
	while (worker->ok && more > 0 && atomic_load(sweep->stop) == 0 &&
		!atomic_load(worker->failed)) {
		more = source_step(source, sweep->context, worker->number, buffer, &worker->err);
		worker->ok = more >= 0;
	}
	if (!worker->ok)
		atomic_store(worker->failed, true);
	if (buffer != NULL)
		buffer_give(source, buffer);
	return NULL;
}

bool sweep_run(const struct sweep *sweep, struct error *err)
{
	struct sweep_source *source;
	if (!sweep_open(sweep, err, &source))
		return false;
	struct worker *workers = calloc(sweep->threads, sizeof *workers);
	atomic_bool failed = false;
	bool ok = workers != NULL || error_memory(err);
	unsigned started = 1;
	for (unsigned i = 0; ok && i < sweep->threads; i++)
		workers[i] = (struct worker){.source = source, .number = i, .failed = &failed};
	// What cannot be started is done by the others.
	while (ok && started < sweep->threads &&
		pthread_create(&workers[started].thread, NULL, worker_run, &workers[started]) == 0)
		started++;
	if (ok)
		worker_run(&workers[0]);
	for (unsigned i = 1; ok && i < started; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; ok && i < started; i++)
		if (!workers[i].ok) {
			*err = workers[i].err;
			ok = false;
		}
	free(workers);
	sweep_close(source);
	return ok;
}
