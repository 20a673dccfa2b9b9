// SPDX-License-Identifier: MIT
//
// Threads share a scan of the memory. Chains of chunks can only be followed in order: each thread
// waits for its piece of the scan to be next, follows the chains through it, which is quick, and
// only then looks at the words, with the chunks it found. What depends on the memory before the
// piece is read again, or kept from it. So neither the number of threads nor the borders of pieces
// change the result.
#include "types/survey.h"

#include <elf.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "types/candidates.h"
#include "types/chain.h"
#include "types/merge.h"
#include "types/ranges.h"

struct worker {
	struct survey *pass;
	unsigned char *memory; // CONTEXT bytes, then a piece; owned
	uint32_t *cells;       // owned; NULL: not wanted
	struct chunks chunks;
	struct hits hits;
	struct piece piece;
	struct error err;
	bool ok;
	pthread_t thread;
};

// What the next piece must know of those before it.
struct past {
	uint64_t expected;	     // address behind the last piece
	uint64_t end;		     // of the memory that hangs together there
	unsigned char tail[CONTEXT]; // its last bytes are those of the last piece
	size_t tail_size;
	struct chain chain;
	// The beginning of the object in chain.chunk.
	uint64_t opening_start; // address
	unsigned char opening[OFFSET_MAX + 8];
	size_t opening_size;
};

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
	pthread_mutex_t lock;
	pthread_cond_t turned;
	atomic_uint_fast64_t turn; // number of the piece whose chains are next
	atomic_uint waiting;	   // threads that sleep until it is theirs
	struct past past;
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

// ---- one piece after the other

// Begin with the memory at address: the segment, and those that follow without a gap and are alike,
// up to past.end. Only memory that can be written holds a heap; a program's own data may come
// before it.
static void run_begin(struct survey *pass, uint64_t address)
{
	struct past *past = &pass->past;
	const struct image_segment *segment = image_segment_at(pass->image, address);
	const uint32_t writable = segment != NULL ? segment->flags & PF_W : 0;
	size_t left = pass->info->segment_count, index;
	uint64_t start = address;
	past->end = address;
	past->tail_size = 0;
	for (; left > 0 && segment != NULL && (segment->flags & PF_W) == writable; left--) {
		past->end = segment->address + segment->size;
		segment = image_segment_at(pass->image, past->end);
	}
	while (start < past->end && places_find(pass->places, start, &index) &&
		pass->places->list[index].type == PLACE_MODULE)
		start = pass->places->spans[index].end;
	chain_begin(&past->chain, pass->info, start, past->end);
	if (writable == 0 || start >= past->end)
		past->chain.end = 0;
}

// Keep of a piece what the next one must know: if a chunk reaches into it, what that has of the
// piece. Of a small piece, more is kept than it has.
static void tail_keep(struct past *past, const struct piece *piece)
{
	const struct chain *chain = &past->chain;
	const uint64_t since = past->expected - chain->chunk;
	uint64_t size = min_u64(CONTEXT, piece->context + piece->view.size);
	if (chain->size != 0)
		// The word before may be a header.
		size = min_u64(size, chain->used ? since : chain->word);
	past->tail_size = (size_t)size;
	memcpy(past->tail + CONTEXT - past->tail_size,
		piece->view.bytes + piece->view.size - past->tail_size, past->tail_size);
}

// A hole follows, which has no hits.
static void tail_add_zeros(struct past *past, uint64_t zeros)
{
	const size_t kept = (size_t)min_u64(past->tail_size, CONTEXT - min_u64(CONTEXT, zeros));
	unsigned char *const end = past->tail + CONTEXT;
	if (kept == 0) {
		past->tail_size = 0;
		return;
	}
	memmove(end - zeros - kept, end - kept, kept);
	memset(end - zeros, 0, (size_t)zeros);
	past->tail_size = kept + (size_t)zeros;
}

// Keep the beginning of the object that reaches out of the view, as far as the view has it.
static void opening_keep(struct past *past, const struct view *view)
{
	const struct chain *chain = &past->chain;
	const uint64_t start = chain->chunk + 2 * (uint64_t)chain->word;
	if (chain->size == 0 || past->opening_start != start)
		past->opening_size = 0;
	past->opening_start = start;
	if (chain->size == 0)
		return;
	const uint64_t most = min_u64(OFFSET_MAX + chain->word, chain->size - chain->word);
	const uint64_t inside = start + past->opening_size - view->address;
	if (inside >= view->size || past->opening_size >= most)
		return;
	const size_t size = (size_t)min_u64(most - past->opening_size, view->size - inside);
	memcpy(past->opening + past->opening_size, view->bytes + inside, size);
	past->opening_size += size;
}

// The index of the chunk whose size field is at an offset; chunks->count: there is none.
static size_t chunks_find(const struct chunks *chunks, uint32_t offset)
{
	size_t low = 0, high = chunks->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if ((chunks->list[middle] & ~CHUNK_USED) < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < chunks->count && (chunks->list[low] & ~CHUNK_USED) == offset ? low
										  : chunks->count;
}

// Chunks that wait on a free list are not in use.
static void chunks_mark_freed(const struct freed *freed, struct chain *chain,
	const struct view *view, struct chunks *chunks)
{
	// The chunk whose size field is the first word of the view.
	const uint64_t first = view->address - chain->word;
	size_t low = 0, high = freed->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (freed->list[middle] < first)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < freed->count && freed->list[low] - first < view->size; low++) {
		const size_t at = chunks_find(chunks, (uint32_t)(freed->list[low] - first));
		if (at == chunks->count)
			continue;
		chunks->list[at] &= ~CHUNK_USED;
		if (at + 1 == chunks->count)
			chain->used = false;
	}
}

// Follow the chains through a piece, whose turn it is: no other thread touches the past.
static void past_follow(struct worker *worker, const struct image_chunk *chunk)
{
	struct survey *pass = worker->pass;
	struct past *past = &pass->past;
	struct chain *chain = &past->chain;
	struct piece *piece = &worker->piece;
	if (chunk->address != past->expected || chunk->address >= past->end)
		run_begin(pass, chunk->address);
	past->expected = chunk->address + chunk->size + chunk->zeros;
	if (chunk->zeros > 0) {
		chain_skip(chain, past->expected);
		tail_add_zeros(past, chunk->zeros);
		return;
	}
	piece->context = past->tail_size;
	memcpy(worker->memory + CONTEXT - past->tail_size, past->tail + CONTEXT - past->tail_size,
		past->tail_size);
	piece->opening_size = chain->size != 0 ? past->opening_size : 0;
	memcpy(piece->opening, past->opening, sizeof piece->opening);
	worker->chunks.count = 0;
	worker->chunks.before = (struct chunk){chain->chunk, chain->size, chain->used};
	chain_follow(chain, &piece->view, &worker->chunks);
	chunks_mark_freed(pass->options->freed, chain, &piece->view, &worker->chunks);
	tail_keep(past, piece);
	opening_keep(past, &piece->view);
}

static void turns_wake(struct survey *pass)
{
	pthread_mutex_lock(&pass->lock);
	pthread_cond_broadcast(&pass->turned);
	pthread_mutex_unlock(&pass->lock);
}

static inline void cpu_relax(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

// Following the chains takes less time than going to sleep: so often the turn is looked for first,
// about ten microseconds.
#define TURN_SPINS 500

// Wait for the turn of a piece, and follow the chains. False if it will not come.
static bool turn_take(struct worker *worker, const struct image_chunk *chunk)
{
	struct survey *pass = worker->pass;
	for (unsigned i = 0; i < TURN_SPINS && atomic_load(&pass->turn) != chunk->number; i++)
		cpu_relax();
	if (atomic_load(&pass->turn) != chunk->number) {
		pthread_mutex_lock(&pass->lock);
		pass->waiting++;
		while (atomic_load(&pass->turn) != chunk->number && !stopped(pass))
			pthread_cond_wait(&pass->turned, &pass->lock);
		pass->waiting--;
		pthread_mutex_unlock(&pass->lock);
	}
	if (stopped(pass))
		return false;
	past_follow(worker, chunk);
	pass->turn++;
	// Who is not counted yet will see whose turn it is.
	if (pass->waiting > 0)
		turns_wake(pass);
	return true;
}

static void chunk_feed(struct worker *worker, const struct image_chunk *chunk)
{
	struct survey *pass = worker->pass;
	struct hits *hits = &worker->hits;
	struct piece *piece = &worker->piece;
	piece->view.address = chunk->address;
	piece->view.size = chunk->size;
	piece->number = chunk->number;
	if (pass->counting) {
		if (chunk->size > 0)
			hits_feed_cells(hits, &piece->view, worker->cells);
		return;
	}
	if (!turn_take(worker, chunk))
		return;
	hits->words += chunk->zeros / pass->info->word_size;
	hits->sifted.zeros += chunk->zeros / pass->info->word_size;
	if (chunk->size == 0)
		return;
	hits_feed(hits, piece);
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
		chunk_feed(worker, &chunk);
	}
	if (!worker->ok)
		atomic_store(&pass->failed, true);
	// Whoever waits for a turn that will not come.
	turns_wake(pass);
	return NULL;
}

// ---- the whole

static bool workers_run(struct survey *pass, bool counting, struct error *err)
{
	uint64_t *fields = pass->past.chain.fields;
	memset(fields, 0, CHAIN_FIELDS * sizeof *fields);
	pass->past = (struct past){.chain = {.fields = fields}};
	pass->counting = counting;
	atomic_store(&pass->turn, 0);
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
static void fields_find(const uint64_t *counts, struct survey_result *ret)
{
	for (uint64_t value = 1; value < CHAIN_FIELDS; value++) {
		const struct size_field field = {value, counts[value]};
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
		.lists_known = pass->options->freed->all,
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
	fields_find(pass->past.chain.fields, ret);
	if (!ok)
		survey_result_deinit(ret);
	return ok;
}

static bool worker_init(struct survey *pass, struct worker *worker, struct error *err)
{
	worker->pass = pass;
	worker->memory = aligned_alloc(64, CONTEXT + IMAGE_CHUNK_SIZE);
	worker->chunks.list = calloc(
		chunks_max(IMAGE_CHUNK_SIZE, pass->info->word_size), sizeof *worker->chunks.list);
	if (worker->memory == NULL || worker->chunks.list == NULL)
		return error_memory(err);
	worker->piece = (struct piece){
		.view = {.image = pass->info->in_order ? NULL : pass->image,
			.bytes = worker->memory + CONTEXT},
		.chunks = &worker->chunks,
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
		.classes = pass->options->classes,
	};
	// The buffers of threads take an eighth of the memory at most.
	const size_t each = CONTEXT + IMAGE_CHUNK_SIZE + hits_memory(pass->info, IMAGE_CHUNK_SIZE);
	const size_t fit = pass->options->memory / 8 / each;
	pass->threads = (unsigned)max_u64(1, min_u64(pass->options->threads, fit));
	// The chunks of a live process come in no order but to one thread.
	if (pass->info->live)
		pass->threads = 1;
	pass->workers = calloc(pass->threads, sizeof *pass->workers);
	pass->past.chain.fields = calloc(CHAIN_FIELDS, sizeof *pass->past.chain.fields);
	if (pass->workers == NULL || pass->past.chain.fields == NULL)
		return error_memory(err);
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
		free(worker->chunks.list);
		free(worker->memory);
		free(worker->cells);
	}
	free(pass->workers);
	free(pass->past.chain.fields);
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
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.turned = PTHREAD_COND_INITIALIZER,
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
