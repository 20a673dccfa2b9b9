// SPDX-License-Identifier: MIT
#include "runtime/runtime.h"

#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/guard.h"
#include "runtime/internal.h"

// A program has no more classes, and no dump more pieces of memory; what is beyond is left out.
#define TYPES_MAX ((size_t)1 << 20)
#define PIECES_MAX ((size_t)1 << 26)
#define THREADS_MAX 64

static const struct runtime_ops *const readers[] = {&cpython_ops, &hotspot_ops, &v8_ops, &go_ops};

// ---- pieces

bool scan_add(struct runtime_scan *scan, uint64_t start, uint64_t end, uint32_t kind, bool cut)
{
	while (start < end) {
		if (scan->piece_count == scan->piece_capacity) {
			const size_t capacity = scan->piece_capacity * 2 + 64;
			struct piece *grown =
				capacity > PIECES_MAX
					? NULL
					: reallocarray(scan->pieces, capacity, sizeof *grown);
			if (grown == NULL) {
				scan->lost = true;
				return false;
			}
			scan->pieces = grown;
			scan->piece_capacity = capacity;
		}
		const uint64_t next =
			cut && end - start > PIECE_SIZE ? (start | (PIECE_SIZE - 1)) + 1 : end;
		scan->pieces[scan->piece_count++] = (struct piece){start, next, kind};
		start = next;
	}
	return true;
}

// Of memory without bytes, which can be terabytes, there are no pieces.
static bool span_add(struct runtime_scan *scan, uint64_t start, uint64_t end, uint32_t kind)
{
	while (start < end) {
		uint64_t data_end;
		start = image_next(scan->image, start);
		if (start >= end)
			break;
		const bool data = image_has_data(scan->image, start, end, &data_end);
		if (data_end <= start || data_end > end)
			data_end = end;
		const struct image_segment *segment = image_segment_at(scan->image, start);
		if (segment != NULL) {
			// It can end where the address space does.
			const uint64_t left = segment->size - (start - segment->address);
			data_end = start + min_u64(data_end - start, left);
		}
		if (data && !scan_add(scan, start, data_end, kind, true))
			return false;
		start = data_end;
	}
	return true;
}

bool scan_add_heaps(struct runtime_scan *scan, bool malloc_too)
{
	for (size_t i = 0; i < scan->places->count; i++) {
		const enum place_type type = scan->places->list[i].type;
		const struct span *span = &scan->places->spans[i];
		if (type == PLACE_MODULE || type == PLACE_STACK ||
			(type != PLACE_ANON && !malloc_too))
			continue;
		if (!span_add(scan, span->start, span->end, 0))
			return false;
	}
	return true;
}

bool scan_stopped(const struct runtime_scan *scan)
{
	return scan->lost ||
	       (scan->stop != NULL && atomic_load_explicit(scan->stop, memory_order_relaxed) != 0);
}

// ---- types

static size_t slot_of(const struct runtime_scan *scan, uint64_t key)
{
	size_t slot = (size_t)(key * 0x9e3779b97f4a7c15u >> 20) & (scan->slot_count - 1);
	while (scan->slots[slot] != 0 && scan->keys[scan->slots[slot] - 1].key != key)
		slot = (slot + 1) & (scan->slot_count - 1);
	return slot;
}

// With the lock held, as the next ones.
static uint32_t type_get(const struct runtime_scan *scan, uint64_t key)
{
	const uint32_t found = scan->slot_count > 0 ? scan->slots[slot_of(scan, key)] : 0;
	return found > 0 ? found - 1 : NO_TYPE;
}

static bool types_grow(struct runtime_scan *scan)
{
	if (scan->type_count < scan->type_capacity)
		return true;
	const size_t capacity = scan->type_capacity * 2 + 256;
	if (capacity > 2 * TYPES_MAX)
		return false;
	size_t slots = 1;
	while (slots < 2 * capacity)
		slots *= 2;
	struct type_key *keys = reallocarray(scan->keys, capacity, sizeof *keys);
	if (keys == NULL)
		return false;
	scan->keys = keys;
	uint32_t *list = calloc(slots, sizeof *list);
	if (list == NULL)
		return false;
	free(scan->slots);
	scan->slots = list;
	scan->slot_count = slots;
	scan->type_capacity = capacity;
	for (size_t i = 0; i < scan->type_count; i++)
		scan->slots[slot_of(scan, keys[i].key)] = (uint32_t)i + 1;
	return true;
}

static uint32_t type_put(struct runtime_scan *scan, uint64_t key, const char *name)
{
	const uint32_t known = type_get(scan, key);
	if (known != NO_TYPE)
		return known;
	const size_t length = strlen(name);
	char *escaped = malloc(4 * length + 1);
	if (escaped == NULL || !types_grow(scan)) {
		free(escaped);
		scan->lost = true;
		return NO_TYPE;
	}
	escape(escaped, 4 * length + 1, name, length, ESCAPE_TERMINAL);
	scan->keys[scan->type_count] = (struct type_key){key, escaped};
	scan->slots[slot_of(scan, key)] = (uint32_t)++scan->type_count;
	return (uint32_t)(scan->type_count - 1);
}

uint32_t scan_type(struct runtime_scan *scan, uint64_t key)
{
	pthread_mutex_lock(&scan->lock);
	const uint32_t ret = type_get(scan, key);
	pthread_mutex_unlock(&scan->lock);
	return ret;
}

uint32_t scan_type_add(struct runtime_scan *scan, uint64_t key, const char *name)
{
	pthread_mutex_lock(&scan->lock);
	const uint32_t ret = type_put(scan, key, name);
	pthread_mutex_unlock(&scan->lock);
	return ret;
}

// ---- workers

#define WINDOW_SIZE ((size_t)PIECE_SIZE + 2 * PIECE_MARGIN)

bool worker_load(struct worker *worker, uint64_t start, uint64_t end)
{
	const struct image *image = worker->scan->image;
	const uint64_t before = min_u64(start, PIECE_MARGIN);
	const size_t size = (size_t)min_u64(end - start, PIECE_SIZE) + PIECE_MARGIN;
	worker->start = start - before;
	worker->size = image_read(image, worker->start, worker->bytes, (size_t)before + size);
	if (worker->size > before)
		return true;
	worker->start = start;
	worker->size = image_read(image, start, worker->bytes, size);
	return worker->size > 0;
}

static const unsigned char *window_at(const struct worker *worker, uint64_t address, size_t size)
{
	const uint64_t skipped = address - worker->start;
	return address >= worker->start && skipped < worker->size && worker->size - skipped >= size
		       ? worker->bytes + skipped
		       : NULL;
}

uint64_t worker_word(struct worker *worker, uint64_t address)
{
	const unsigned char *bytes = window_at(worker, address, 8);
	return bytes != NULL ? word_load(bytes, 8, ORDER_LITTLE)
			     : reader_word(&worker->reader, address);
}

uint32_t worker_u32(struct worker *worker, uint64_t address)
{
	const unsigned char *bytes = window_at(worker, address, 4);
	return bytes != NULL ? load_u32(bytes, ORDER_LITTLE) : reader_u32(&worker->reader, address);
}

uint64_t image_present(const struct image *image, uint64_t address, uint64_t size)
{
	uint64_t done = 0;
	while (done < size) {
		const struct image_segment *segment = image_segment_at(image, address + done);
		const uint64_t skipped =
			segment != NULL ? address + done - segment->address : UINT64_MAX;
		if (segment == NULL || segment->present <= skipped)
			break;
		done += min_u64(segment->present - skipped, size - done);
	}
	return done;
}

uint64_t worker_block(const struct worker *worker, uint64_t address, uint64_t size)
{
	return image_present(worker->scan->image, address, size) == size ? size : 0;
}

static struct type_tally *tally_at(struct worker *worker, uint32_t type)
{
	if (type >= worker->tally_count) {
		const size_t count = (size_t)type + type / 2 + 64;
		struct type_tally *grown = reallocarray(worker->tallies, count, sizeof *grown);
		if (grown == NULL) {
			worker->scan->lost = true;
			return NULL;
		}
		memset(grown + worker->tally_count, 0,
			(count - worker->tally_count) * sizeof *grown);
		worker->tallies = grown;
		worker->tally_count = count;
	}
	return &worker->tallies[type];
}

static void example_add(struct type_tally *tally, uint64_t address)
{
	unsigned i = tally->example_count;
	if (i == RUNTIME_EXAMPLES && address >= tally->examples[i - 1])
		return;
	i = i == RUNTIME_EXAMPLES ? i - 1 : i;
	for (; i > 0 && tally->examples[i - 1] > address; i--)
		tally->examples[i] = tally->examples[i - 1];
	tally->examples[i] = address;
	tally->example_count += tally->example_count < RUNTIME_EXAMPLES;
}

static void object_tell(struct worker *worker, uint32_t type, uint64_t address, uint64_t size)
{
	struct runtime_scan *scan = worker->scan;
	pthread_mutex_lock(&scan->lock);
	const char *name = scan->keys[type].name;
	if (scan->watch->name == NULL || strcmp(name, scan->watch->name) == 0)
		scan->watch->object(scan->watch->context, address, size, name);
	pthread_mutex_unlock(&scan->lock);
}

void worker_own(const struct worker *worker, uint64_t address)
{
	const struct runtime_options *options = worker->scan->options;
	if (options->own != NULL)
		options->own(options->context, address);
}

void worker_found(struct worker *worker, uint32_t type, uint64_t address, uint64_t size)
{
	struct type_tally *tally = type == NO_TYPE ? NULL : tally_at(worker, type);
	if (tally == NULL)
		return;
	if (tally->count++ == 0)
		tally->size = size;
	else if (tally->size != size)
		tally->sizes_differ = true;
	tally->bytes += size;
	example_add(tally, address);
	worker_own(worker, address);
	if (worker->scan->watch != NULL)
		object_tell(worker, type, address, size);
}

void worker_correct(struct worker *worker, uint32_t type, int64_t count, int64_t bytes)
{
	struct type_tally *tally = type == NO_TYPE ? NULL : tally_at(worker, type);
	if (tally == NULL)
		return;
	tally->count += (uint64_t)count;
	tally->bytes += (uint64_t)bytes;
	tally->sizes_differ = true;
}

static void *worker_run(void *context)
{
	struct worker *worker = context;
	struct runtime_scan *scan = worker->scan;
	for (;;) {
		const size_t i = atomic_fetch_add(&scan->next_piece, 1);
		if (i >= scan->piece_count || scan_stopped(scan))
			return NULL;
		scan->ops->walk(worker, &scan->pieces[i]);
	}
}

static bool worker_init(struct worker *worker, struct runtime_scan *scan)
{
	*worker = (struct worker){.scan = scan};
	worker->bytes = malloc(WINDOW_SIZE);
	return reader_init(&worker->reader, scan->image) && worker->bytes != NULL &&
	       (scan->ops->worker_begin == NULL || scan->ops->worker_begin(worker));
}

static void worker_deinit(struct worker *worker)
{
	if (worker->scan != NULL && worker->scan->ops->worker_end != NULL)
		worker->scan->ops->worker_end(worker);
	reader_deinit(&worker->reader);
	free(worker->bytes);
	free(worker->tallies);
}

// ---- the whole

static int type_compare(const void *left, const void *right)
{
	const struct runtime_type *a = left, *b = right;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return strcmp(a->name, b->name);
}

// Classes of the same name, which several loaders or modules can have, are one row.
static void types_unite(struct runtime *runtime)
{
	size_t kept = 0;
	for (size_t i = 0; i < runtime->type_count; i++) {
		struct runtime_type *type = &runtime->types[i];
		struct runtime_type *last = kept > 0 ? &runtime->types[kept - 1] : NULL;
		if (last == NULL || strcmp(last->name, type->name) != 0) {
			runtime->types[kept++] = *type;
			continue;
		}
		struct type_tally all = {.example_count = last->example_count};
		memcpy(all.examples, last->examples, sizeof all.examples);
		for (unsigned k = 0; k < type->example_count; k++)
			example_add(&all, type->examples[k]);
		memcpy(last->examples, all.examples, sizeof last->examples);
		last->example_count = all.example_count;
		last->size = last->size == type->size ? last->size : 0;
		last->count += type->count;
		last->bytes += type->bytes;
		free(type->name);
	}
	runtime->type_count = kept;
}

static int name_compare(const void *left, const void *right)
{
	const struct runtime_type *a = left, *b = right;
	const int names = strcmp(a->name, b->name);
	if (names != 0)
		return names;
	return a->examples[0] < b->examples[0] ? -1 : a->examples[0] > b->examples[0];
}

static struct runtime_type type_sum(
	const struct worker *workers, unsigned count, size_t type, char *name)
{
	struct type_tally all = {0};
	for (unsigned i = 0; i < count; i++) {
		if (type >= workers[i].tally_count)
			continue;
		const struct type_tally *tally = &workers[i].tallies[type];
		if (all.count == 0 && !all.sizes_differ)
			all.size = tally->size;
		else if (tally->count > 0 && tally->size != all.size)
			all.sizes_differ = true;
		all.sizes_differ = all.sizes_differ || tally->sizes_differ;
		all.count += tally->count;
		all.bytes += tally->bytes;
		for (unsigned k = 0; k < tally->example_count; k++)
			example_add(&all, tally->examples[k]);
	}
	struct runtime_type ret = {.name = name,
		.count = all.count,
		.bytes = all.bytes,
		.size = all.sizes_differ ? 0 : all.size,
		.example_count = all.example_count};
	memcpy(ret.examples, all.examples, sizeof ret.examples);
	return ret;
}

// Take over the types of the scan, of which there are objects.
static bool types_collect(struct runtime_scan *scan, const struct worker *workers, unsigned count)
{
	struct runtime *runtime = scan->runtime;
	runtime->types = calloc(scan->type_count + 1, sizeof *runtime->types);
	if (runtime->types == NULL)
		return false;
	for (size_t i = 0; i < scan->type_count; i++) {
		const struct runtime_type type = type_sum(workers, count, i, scan->keys[i].name);
		// What was corrected of a hostile dump can be below nothing.
		if (type.count == 0 || type.count > UINT64_MAX / 2 || type.bytes > UINT64_MAX / 2)
			continue;
		runtime->types[runtime->type_count++] = type;
		scan->keys[i].name = NULL;
	}
	qsort(runtime->types, runtime->type_count, sizeof *runtime->types, name_compare);
	types_unite(runtime);
	qsort(runtime->types, runtime->type_count, sizeof *runtime->types, type_compare);
	for (size_t i = 0; i < runtime->type_count; i++) {
		runtime->count = add_saturated(runtime->count, runtime->types[i].count);
		runtime->bytes = add_saturated(runtime->bytes, runtime->types[i].bytes);
	}
	for (unsigned i = 0; i < count; i++) {
		runtime->free_bytes += workers[i].free_bytes;
		runtime->round_bytes += workers[i].round_bytes;
	}
	return true;
}

static bool scan_walk(struct runtime_scan *scan, unsigned threads, struct error *err)
{
	threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
	struct worker *workers AUTO_FREE = calloc(threads, sizeof *workers);
	pthread_t ids[THREADS_MAX];
	unsigned started = 1;
	bool ok = workers != NULL;
	for (unsigned i = 0; ok && i < threads; i++)
		ok = worker_init(&workers[i], scan);
	if (ok) {
		while (started < threads &&
			pthread_create(&ids[started], NULL, worker_run, &workers[started]) == 0)
			started++;
		worker_run(&workers[0]);
		for (unsigned i = 1; i < started; i++)
			pthread_join(ids[i], NULL);
	}
	ok = ok && !scan->lost && types_collect(scan, workers, threads);
	for (unsigned i = 0; workers != NULL && i < threads; i++)
		worker_deinit(&workers[i]);
	return ok || error_memory(err);
}

static void scan_deinit(struct runtime_scan *scan)
{
	for (size_t i = 0; i < scan->type_count; i++)
		free(scan->keys[i].name);
	free(scan->keys);
	free(scan->slots);
	free(scan->pieces);
	if (scan->ops->free_state != NULL)
		scan->ops->free_state(scan->state);
	else
		free(scan->state);
	pthread_mutex_destroy(&scan->lock);
}

static void runtime_deinit(struct runtime *runtime)
{
	for (size_t i = 0; i < runtime->type_count; i++)
		free(runtime->types[i].name);
	free(runtime->types);
	free(runtime->name);
	free(runtime->doubt);
}

static bool runtimes_add(struct runtimes *runtimes, const struct runtime *runtime)
{
	struct runtime *grown =
		reallocarray(runtimes->list, runtimes->count + 1, sizeof *runtimes->list);
	if (grown == NULL)
		return false;
	runtimes->list = grown;
	runtimes->list[runtimes->count++] = *runtime;
	return true;
}

// Look for one runtime in one module, and for its objects.
static bool module_read(struct runtime_scan *scan, struct reader *reader,
	const struct module *module, unsigned threads, struct error *err, struct runtimes *ret)
{
	struct runtime runtime = {.language = scan->ops->language, .module = module};
	scan->runtime = &runtime;
	pthread_mutex_init(&scan->lock, NULL);
	bool ok = true;
	if (scan->ops->find(scan, reader, module)) {
		ok = (!scan->lost && runtime.name != NULL) || error_memory(err);
		ok = ok && (runtime.doubt != NULL || scan_walk(scan, threads, err));
		ok = ok && (runtimes_add(ret, &runtime) || error_memory(err));
		ret->partial = ret->partial || scan_stopped(scan);
		if (!ok)
			runtime_deinit(&runtime);
	}
	scan_deinit(scan);
	return ok;
}

bool runtimes_find(const struct image *image, const struct modules *modules,
	const struct places *places, const struct runtime_options *options,
	const struct runtime_watch *watch, struct error *err, struct runtimes *ret)
{
	const struct image_info *info = image_info(image);
	struct reader reader;
	*ret = (struct runtimes){0};
	// All of these are read as 64-bit little-endian processes have them.
	if (info->word_size != 8 || info->order != ORDER_LITTLE || info->overridden ||
		info->in_order)
		return true;
	bool ok = reader_init(&reader, image) || error_memory(err);
	for (size_t i = 0; ok && i < sizeof readers / sizeof readers[0]; i++)
		for (size_t k = 0; ok && k < modules->count; k++) {
			struct runtime_scan scan = {
				.ops = readers[i],
				.image = image,
				.modules = modules,
				.places = places,
				.watch = watch,
				.stop = options->stop,
				.options = options,
			};
			if (modules->list[k].loaded)
				ok = module_read(&scan, &reader, &modules->list[k],
					options->threads, err, ret);
		}
	reader_deinit(&reader);
	if (!ok)
		runtimes_deinit(ret);
	return ok;
}

void runtimes_deinit(struct runtimes *runtimes)
{
	for (size_t i = 0; i < runtimes->count; i++)
		runtime_deinit(&runtimes->list[i]);
	free(runtimes->list);
	*runtimes = (struct runtimes){0};
}
