// SPDX-License-Identifier: MIT
//
// Threads share a scan of the memory. What depends on the memory before a piece is read again, or,
// where that cannot be, kept from the piece before. So neither the number of threads nor the
// borders of pieces change the result.
#include "types/survey.h"

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "types/candidates.h"
#include "types/merge.h"
#include "types/parts.h"
#include "types/ranges.h"

struct worker {
	struct survey *pass;
	unsigned char *memory; // CONTEXT bytes, then a piece; owned
	uint64_t tail;	       // address behind the piece that memory ends with; 0: none
	size_t tail_size;      // of that piece and what came before it, in memory
	uint32_t *cells;       // owned; NULL: not wanted
	uint64_t *fields;      // how often each size field came, FIELDS of them; owned
	struct parts parts;
	struct hits hits;
	struct piece piece;
	struct error err;
	bool ok;
	pthread_t thread;
};

// Larger chunks of malloc are not so many that anyone would ask.
#define FIELDS ((uint64_t)1 << 16)

struct survey {
	const struct image *image;
	const struct image_info *info;
	const struct places *places;
	const struct survey_options *options;
	struct hash hash;
	struct ranges ranges;
	struct sifter sifter;
	struct candidates candidates;
	struct hits_shared shared;
	struct image_scan *scan;
	struct worker *workers;
	unsigned threads;
	struct lookup lookup;
	atomic_bool failed, full;
	bool counting; // only fill the cells
	unsigned passes;
};

static bool stopped(const struct survey *pass)
{
	return atomic_load_explicit(pass->options->stop, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&pass->failed, memory_order_relaxed) ||
	       atomic_load_explicit(&pass->full, memory_order_relaxed);
}

// ---- what comes before a piece

// Where the memory begins that hangs together with what is before address, which can be written or
// not as that can, but not before `least`.
static uint64_t memory_start(const struct survey *pass, uint64_t address, uint64_t least)
{
	uint64_t start = address;
	uint32_t writable = 0;
	while (start > least) {
		const struct image_segment *segment = image_segment_at(pass->image, start - 1);
		if (segment == NULL || (start != address && (segment->flags & PF_W) != writable))
			break;
		writable = segment->flags & PF_W;
		start = segment->address;
	}
	return max_u64(start, least);
}

// Bytes before the piece that matter: of the block that reaches into it, or of what is behind the
// last block.
static size_t context_size(const struct survey *pass, const struct piece *piece)
{
	const struct part *before = &piece->parts->before;
	const uint64_t address = piece->view.address;
	const uint64_t least = max_u64(before->address, address - min_u64(address, CONTEXT));
	if (before->state == PART_FREE)
		return 0;
	return (size_t)(address - memory_start(pass, address, least));
}

// A thread that reads all pieces has what comes before one from those that it read last.
static void tail_keep(struct worker *worker, const struct image_chunk *chunk)
{
	const size_t size = (size_t)min_u64(CONTEXT, worker->tail_size + chunk->size);
	worker->tail = chunk->address + chunk->size;
	worker->tail_size = size;
	memmove(worker->memory + CONTEXT - size, worker->memory + CONTEXT + chunk->size - size,
		size);
}

static void context_read(struct worker *worker, struct piece *piece)
{
	const struct survey *pass = worker->pass;
	const struct part *before = &piece->parts->before;
	const uint64_t address = piece->view.address;
	size_t size = context_size(pass, piece);
	if (pass->info->in_order)
		size = worker->tail == address ? (size_t)min_u64(size, worker->tail_size) : 0;
	else if (image_read(pass->image, address - size, worker->memory + CONTEXT - size, size) !=
		 size)
		size = 0;
	piece->context = size;
	piece->opening_size = 0;
	if (before->state == PART_USED)
		piece->opening_size = image_read(pass->image, before->address, piece->opening,
			(size_t)min_u64(sizeof piece->opening,
				min_u64(before->limit, address) - before->address));
}

// Count the size fields of malloc's chunks, each of which is the word before a block.
static void fields_count(struct worker *worker, const struct piece *piece)
{
	const unsigned word = worker->pass->info->word_size;
	const enum byte_order order = worker->pass->info->order;
	for (size_t i = 0; i < piece->parts->count; i++) {
		const part_mark mark = piece->parts->list[i];
		const uint32_t offset = mark_offset(mark);
		uint64_t field = 0;
		if ((mark & MARK_SLACK) == 0)
			continue;
		if (offset >= word)
			field = word_load(piece->view.bytes + offset - word, word, order);
		else
			image_read_word(
				worker->pass->image, piece->view.address + offset - word, &field);
		worker->fields[field < FIELDS ? field : 0]++;
	}
}

static void piece_feed(struct worker *worker, const struct image_chunk *chunk)
{
	struct survey *pass = worker->pass;
	struct hits *hits = &worker->hits;
	struct piece *piece = &worker->piece;
	const unsigned word = pass->info->word_size;
	piece->view.address = chunk->address;
	piece->view.size = chunk->size;
	piece->number = chunk->number;
	if (pass->counting) {
		if (chunk->size > 0)
			hits_feed_cells(hits, &piece->view, worker->cells);
		return;
	}
	hits->words += chunk->zeros / word;
	hits->sifted.zeros += chunk->zeros / word;
	if (chunk->size == 0)
		return;
	parts_find(&pass->lookup, &piece->view, word, &worker->parts);
	context_read(worker, piece);
	fields_count(worker, piece);
	hits_feed(hits, piece);
	if (pass->info->in_order)
		tail_keep(worker, chunk);
	if (hits->full)
		atomic_store(&pass->full, true);
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct survey *pass = worker->pass;
	worker->ok = true;
	while (!stopped(pass)) {
		struct image_chunk chunk;
		const int more =
			image_scan_next(pass->scan, worker->memory + CONTEXT, &chunk, &worker->err);
		worker->ok = more >= 0;
		if (more <= 0)
			break;
		if (pass->options->watch.add != NULL)
			pass->options->watch.add(
				pass->options->watch.context, chunk.size + chunk.zeros);
		if (pass->options->zeros != NULL && pass->passes == 1)
			zeros_note(pass->options->zeros, &chunk, worker->memory + CONTEXT);
		piece_feed(worker, &chunk);
	}
	if (!worker->ok)
		atomic_store(&pass->failed, true);
	return NULL;
}

// ---- the whole

static bool workers_run(struct survey *pass, bool counting, struct error *err)
{
	for (unsigned i = 0; i < pass->threads; i++) {
		memset(pass->workers[i].fields, 0, FIELDS * sizeof *pass->workers[i].fields);
		pass->workers[i].tail = 0;
	}
	pass->counting = counting;
	pass->passes++;
	if (pass->options->watch.begin != NULL)
		pass->options->watch.begin(pass->options->watch.context, pass->info->bytes_present);
	if (!image_scan_open(pass->image, 1, err, &pass->scan))
		return false;
	unsigned started = 1;
	// What cannot be started is done by the others.
	while (started < pass->threads && pthread_create(&pass->workers[started].thread, NULL,
						  worker_run, &pass->workers[started]) == 0)
		started++;
	worker_run(&pass->workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(pass->workers[i].thread, NULL);
	image_scan_close(pass->scan);
	for (unsigned i = 0; i < started; i++)
		if (!pass->workers[i].ok) {
			*err = pass->workers[i].err;
			return false;
		}
	return true;
}

// Tables for what is to be seen. An eighth of the memory is for the candidates, half of it for the
// facts, which are copied in the end.
static bool survey_prepare(struct survey *pass, struct error *err)
{
	const size_t memory = pass->options->memory;
	const size_t run = pass->options->classes->allocator != NULL ? sizeof(struct run) : 0;
	const size_t each = pass->threads * (sizeof(struct tally) + run) + 6 * sizeof(uint64_t) +
			    sizeof(struct candidate);
	const uint32_t most = (uint32_t)min_u64(memory / 4 / each, NO_ID);
	const uint64_t bar = pass->candidates.bar;
	const uint32_t *cells = pass->candidates.cells;
	candidates_deinit(&pass->candidates);
	if (!candidates_init(&pass->candidates, &pass->hash, most, err))
		return false;
	pass->candidates.bar = bar;
	pass->candidates.cells = cells;
	for (unsigned i = 0; i < pass->threads; i++)
		if (!hits_reset(&pass->workers[i].hits, most, memory / 4 / pass->threads, err))
			return false;
	return true;
}

// The cells of all candidates, in those of the first thread.
static bool survey_count(struct survey *pass, struct error *err)
{
	for (unsigned i = 0; i < pass->threads; i++) {
		struct worker *worker = &pass->workers[i];
		hits_forget(&worker->hits);
		worker->cells = calloc(CANDIDATE_CELLS, sizeof *worker->cells);
		if (worker->cells == NULL)
			return error_memory(err);
	}
	atomic_store(&pass->full, false);
	if (!workers_run(pass, true, err))
		return false;
	uint32_t *cells = pass->workers[0].cells;
	for (unsigned k = 1; k < pass->threads; k++)
		for (size_t i = 0; i < CANDIDATE_CELLS; i++)
			cells[i] = (uint32_t)min_u64(
				(uint64_t)cells[i] + pass->workers[k].cells[i], UINT32_MAX);
	pass->candidates.cells = cells;
	return true;
}

// Raise the bar so that a number of cells is left.
static void survey_raise_bar(struct survey *pass, size_t wanted)
{
	uint64_t low = pass->candidates.bar + 1, high = UINT32_MAX;
	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;
		size_t count = 0;
		for (size_t i = 0; i < CANDIDATE_CELLS; i++)
			count += pass->candidates.cells[i] >= middle;
		if (count <= wanted)
			high = middle;
		else
			low = middle + 1;
	}
	pass->candidates.bar = low;
}

// No piece follows: put together what lies in several.
static bool survey_join(struct survey *pass, struct error *err)
{
	struct runs **runs = calloc(pass->threads, sizeof *runs);
	if (runs == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < pass->threads; i++) {
		runs[i] = &pass->workers[i].hits.runs;
		runs_finish(runs[i]);
	}
	const bool ok = runs_join(runs, pass->threads, err);
	for (unsigned i = 0; i < pass->threads; i++)
		if (runs[i]->full)
			atomic_store(&pass->full, true);
	free(runs);
	return ok;
}

// All candidates in one pass; if they do not fit, the most frequent ones.
static bool survey_search(struct survey *pass, struct error *err)
{
	size_t wanted = 0;
	for (;;) {
		if (!survey_prepare(pass, err) || !workers_run(pass, false, err) ||
			!survey_join(pass, err))
			return false;
		if (!atomic_load(&pass->full))
			return true;
		wanted = wanted == 0 ? pass->candidates.most / 2 : wanted / 4;
		if (pass->candidates.cells == NULL && !survey_count(pass, err))
			return false;
		survey_raise_bar(pass, wanted);
		atomic_store(&pass->full, false);
		if (wanted == 0)
			return error_set(
				err, "too little memory for --types; use a larger --memory");
	}
}

// The most frequent size fields.
static void fields_find(const struct survey *pass, struct survey_result *ret)
{
	for (uint64_t value = 1; value < FIELDS; value++) {
		struct size_field field = {.value = value};
		for (unsigned i = 0; i < pass->threads; i++)
			field.count += pass->workers[i].fields[value];
		size_t at = ret->field_count;
		while (at > 0 && ret->fields[at - 1].count < field.count)
			at--;
		if (field.count == 0 || at == SIZE_FIELDS_MAX)
			continue;
		if (ret->field_count < SIZE_FIELDS_MAX)
			ret->field_count++;
		memmove(&ret->fields[at + 1], &ret->fields[at],
			(ret->field_count - 1 - at) * sizeof field);
		ret->fields[at] = field;
	}
}

static bool survey_finish(struct survey *pass, struct error *err, struct survey_result *ret)
{
	struct hits **hits = calloc(pass->threads, sizeof *hits);
	*ret = (struct survey_result){
		.classes = *pass->options->classes,
		.walked = pass->options->heap->region_count > 0,
		.lists_known = pass->options->heap->lists_broken == 0,
		.bar = pass->candidates.bar,
		.passes = pass->passes,
		.threads = pass->threads,
		.partial = atomic_load(pass->options->stop) != 0,
	};
	for (unsigned i = 0; hits != NULL && i < pass->threads; i++) {
		hits[i] = &pass->workers[i].hits;
		hits_finish(hits[i]);
	}
	const bool ok = hits != NULL ? hits_merge(hits, pass->threads, &pass->candidates, err, ret)
				     : error_memory(err);
	free(hits);
	fields_find(pass, ret);
	if (!ok)
		survey_result_deinit(ret);
	return ok;
}

static bool worker_init(struct survey *pass, struct worker *worker, struct error *err)
{
	worker->pass = pass;
	worker->memory = aligned_alloc(64, CONTEXT + IMAGE_CHUNK_SIZE);
	worker->parts.list = calloc(
		parts_max(IMAGE_CHUNK_SIZE, pass->info->word_size), sizeof *worker->parts.list);
	worker->fields = calloc(FIELDS, sizeof *worker->fields);
	if (worker->memory == NULL || worker->parts.list == NULL || worker->fields == NULL)
		return error_memory(err);
	worker->piece = (struct piece){
		.view = {.image = pass->info->in_order ? NULL : pass->image,
			.bytes = worker->memory + CONTEXT},
		.parts = &worker->parts,
	};
	return hits_init(&worker->hits, &pass->shared, IMAGE_CHUNK_SIZE, err);
}

static bool survey_init(struct survey *pass, const struct modules *modules, struct error *err)
{
	if (!hash_random(&pass->hash, sizeof pass->hash, err))
		return false;
	pass->hash.factor |= 1;
	pass->hash.second |= 1;
	pass->hash.third |= 1;
	pass->shared = (struct hits_shared){
		.info = pass->info,
		.places = pass->places,
		.ranges = &pass->ranges,
		.sifter = &pass->sifter,
		.sift = sift_for(pass->options->level),
		.candidates = &pass->candidates,
		.hash = &pass->hash,
		.pointers = pass->options->pointers,
		.classes = pass->options->classes,
	};
	// The buffers of threads take an eighth of the memory at most.
	const size_t each = CONTEXT + IMAGE_CHUNK_SIZE + hits_memory(pass->info, IMAGE_CHUNK_SIZE) +
			    FIELDS * sizeof(uint64_t);
	const size_t fit = pass->options->memory / 8 / each;
	pass->threads = (unsigned)max_u64(1, min_u64(pass->options->threads, fit));
	// What comes before a piece is kept from the last one.
	if (pass->info->in_order)
		pass->threads = 1;
	pass->workers = calloc(pass->threads, sizeof *pass->workers);
	if (pass->workers == NULL)
		return error_memory(err);
	if (!lookup_init(&pass->lookup, pass->options->heap, err))
		return false;
	for (unsigned i = 0; i < pass->threads; i++)
		if (!worker_init(pass, &pass->workers[i], err))
			return false;
	if (!ranges_init(&pass->ranges, modules, err))
		return false;
	sifter_init(&pass->sifter, pass->info, &pass->ranges, pass->places);
	return true;
}

static void survey_deinit(struct survey *pass)
{
	for (unsigned i = 0; pass->workers != NULL && i < pass->threads; i++) {
		struct worker *worker = &pass->workers[i];
		hits_deinit(&worker->hits);
		free(worker->parts.list);
		free(worker->fields);
		free(worker->memory);
		free(worker->cells);
	}
	free(pass->workers);
	lookup_deinit(&pass->lookup);
	candidates_deinit(&pass->candidates);
	ranges_deinit(&pass->ranges);
}

bool survey_run(const struct image *image, const struct modules *modules,
	const struct places *places, const struct survey_options *options, struct error *err,
	struct survey_result *ret)
{
	struct survey pass = {
		.image = image,
		.info = image_info(image),
		.places = places,
		.options = options,
	};
	const bool ok = survey_init(&pass, modules, err) && survey_search(&pass, err) &&
			survey_finish(&pass, err, ret);
	survey_deinit(&pass);
	return ok;
}

void survey_result_deinit(struct survey_result *result)
{
	free(result->list);
	free(result->facts);
	*result = (struct survey_result){0};
}
