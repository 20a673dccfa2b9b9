// SPDX-License-Identifier: MIT
//
// Threads share a scan of the memory. Chains of chunks can only be followed in order: each thread
// waits for its chunk of the scan to be next, follows the chains through it, which is quick, and
// only then looks at the words, with the state that the chain had at the beginning. What depends on
// the memory before the chunk is read again. So neither the number of threads nor the borders of
// chunks change the result.
#include "types/survey.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "types/candidates.h"
#include "types/chain.h"
#include "types/ranges.h"

// What is read again before a chunk: neighbours and outer objects are not farther away.
#define CONTEXT ((size_t)16 << 10)
// Distances up to here are noted: no farther back is looked.
#define DISTANCE_MAX ((uint64_t)CONTEXT)
// An object that holds another begins at most so far before it, where no chunk says it.
#define BEHIND_MAX ((uint64_t)512)
// System V ABI, AMD64 supplement, 3.2.2: the memory below the stack pointer that is in use.
#define RED_ZONE 128

// The last place of a fact, to find it again without a search.
struct memo {
	struct fact *fact;
	uint64_t who, what;
	unsigned moves;
};

struct example {
	uint64_t address;
	uint64_t order; // of the scan, what is in the heap first
};

// What one thread knows of a candidate. What nearly every hit touches is in one cache line.
struct tally {
	uint64_t chained;   // hits in the heap, in chunks that were recognized; not in sites
	uint64_t last;	    // address of the last hit
	uint64_t last_scan; // number of the chunk it was in, and 1
	struct memo memo;
	unsigned example_count;
	bool sated; // no better examples will come
	struct memo more_memos[2];
	uint64_t sites[SITE_COUNT];
	uint64_t freed;
	struct example examples[EXAMPLES_MAX];
} __attribute__((aligned(64)));

// The last words that were identified, to find them again without a search: a power of two.
#define RECENT 512

struct recent {
	uint64_t value;
	uint32_t id;
};

// The place that the words at hand are in.
struct cursor {
	uint64_t start, end;
	enum site site;
	uint64_t stale; // addresses below are left over from calls that have returned
};

struct worker {
	struct survey *pass;
	unsigned char *memory; // CONTEXT bytes, then a chunk; owned
	uint32_t *hits;	       // where the words are; owned
	uint32_t *ids;	       // of the hits; owned
	uint32_t *cells;       // owned; NULL: not wanted
	struct tally *tallies; // by id; aligned
	void *tallies_memory;  // owned
	struct recent recent[RECENT];
	struct facts facts;
	struct chain chain; // as it is at the beginning of the chunk
	chain_mark *marks;  // owned
	size_t mark, mark_count;
	struct view view;
	uint64_t number; // of the chunk
	size_t context;	 // bytes before the chunk that are there
	struct cursor cursor;
	uint64_t object; // start of the current object in the heap; 0: none
	uint32_t opener; // its first candidate
	uint32_t before; // the last hit; NO_ID: none
	uint64_t before_address;
	uint64_t words, zeros;
	struct error err;
	bool ok;
	pthread_t thread;
};

struct survey {
	const struct image *image;
	const struct image_info *info;
	const struct modules *modules;
	const struct places *places;
	const struct survey_options *options;
	struct hash hash;
	struct ranges ranges;
	ranges_select_function *select;
	struct candidates candidates;
	struct image_scan *scan;
	struct worker *workers;
	unsigned threads;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	uint64_t turn;		     // number of the chunk whose chains are next
	uint64_t expected;	     // address behind the last chunk
	unsigned char tail[CONTEXT]; // the last bytes of it
	size_t tail_size;
	uint64_t end; // of the memory that hangs together there
	struct chain chain;
	atomic_bool failed, full;
	bool counting; // only fill the cells
	bool in_order; // the memory cannot be read at an address while it is scanned
	unsigned passes;
};

static bool stopped(const struct survey *pass)
{
	return atomic_load_explicit(pass->options->stop, memory_order_relaxed) != 0 ||
	       atomic_load_explicit(&pass->failed, memory_order_relaxed) ||
	       atomic_load_explicit(&pass->full, memory_order_relaxed);
}

// ---- what one hit tells

static __attribute__((noinline)) void fact_search(
	struct worker *worker, struct memo *memo, uint64_t who, uint64_t what)
{
	struct fact *fact = facts_find(&worker->facts, who, what);
	if (fact == NULL) {
		atomic_store(&worker->pass->full, true);
		return;
	}
	fact->count++;
	*memo = (struct memo){fact, who, what, worker->facts.moves};
}

// Most hits of a candidate tell the same as the one before.
static inline void fact_add(struct worker *worker, struct memo *memo, uint64_t who, uint64_t what)
{
	if (memo->what == what && memo->who == who && memo->moves == worker->facts.moves &&
		memo->fact != NULL)
		memo->fact->count++;
	else
		fact_search(worker, memo, who, what);
}

// Keep the first ones.
static void example_add(struct tally *tally, uint64_t address, uint64_t order)
{
	unsigned at = tally->example_count;
	if (at == EXAMPLES_MAX && tally->examples[at - 1].order <= order)
		return;
	if (at < EXAMPLES_MAX)
		tally->example_count++;
	else
		at--;
	for (; at > 0 && tally->examples[at - 1].order > order; at--)
		tally->examples[at] = tally->examples[at - 1];
	tally->examples[at] = (struct example){address, order};
}

static inline void example_offer(
	const struct worker *worker, struct tally *tally, enum site site, uint64_t address)
{
	const uint64_t later = site == SITE_HEAP || site == SITE_ANON ? 0 : UINT64_C(1) << 63;
	if (tally->sated)
		return;
	example_add(tally, address, later | worker->number);
	// A thread gets chunks in order.
	tally->sated = tally->example_count == EXAMPLES_MAX &&
		       tally->examples[EXAMPLES_MAX - 1].order < UINT64_C(1) << 63;
}

// The id of a candidate, new or known. False if it is not to be counted.
static bool value_identify(struct survey *pass, uint64_t value, uint32_t *ret)
{
	if (candidates_find(&pass->candidates, value, ret))
		return true;
	if (!ranges_have(&pass->ranges, value))
		return false;
	const struct candidates *candidates = &pass->candidates;
	if (candidates->bar > 0 &&
		candidates->cells[candidate_cell(&pass->hash, value)] < candidates->bar)
		return false;
	if (candidates_add(&pass->candidates, value, ret))
		return true;
	atomic_store(&pass->full, true);
	return false;
}

// The first candidate in the first words of an object that begins before the chunk; NO_ID if the
// chunk begins before there is one.
static uint32_t opener_find(struct worker *worker, uint64_t start, uint64_t size)
{
	struct survey *pass = worker->pass;
	const unsigned word = pass->info->word_size;
	unsigned char bytes[OFFSET_MAX + 8];
	uint64_t most = min_u64(OFFSET_MAX + word, size - word);
	most = min_u64(most, worker->view.address - start);
	const uint64_t before = worker->view.address - start;
	size_t got = (size_t)most;
	if (before <= worker->context)
		memcpy(bytes, worker->view.bytes - before, got);
	else
		got = pass->in_order ? 0 : image_read(pass->image, start, bytes, got);
	for (size_t i = 0; i + word <= got; i += word) {
		uint32_t id;
		const uint64_t value = word_load(bytes + i, word, pass->info->order);
		if (value != 0 && value_identify(pass, value, &id))
			return id;
	}
	return NO_ID;
}

static bool last_is_near(const struct worker *worker, const struct tally *tally, uint64_t from)
{
	return tally->last_scan == worker->number + 1 && tally->last >= from;
}

static void hit_in_object(struct worker *worker, uint32_t id, struct tally *tally, uint64_t address,
	uint64_t start, uint64_t size)
{
	const uint64_t distance = address - start;
	if (worker->object != start) {
		worker->object = start;
		worker->opener =
			start < worker->view.address ? opener_find(worker, start, size) : NO_ID;
	}
	const bool near = distance <= OFFSET_MAX;
	const uint64_t what = fact_what(near ? (unsigned)distance : OFFSET_DEEP, size);
	if (near && worker->opener == NO_ID) {
		worker->opener = id;
		fact_add(worker, &tally->memo, fact_who(id, FACT_OPEN, 0), what);
	} else {
		fact_add(worker, &tally->memo, fact_who(id, FACT_INNER, worker->opener), what);
	}
	if (last_is_near(worker, tally, start) && address - tally->last <= DISTANCE_MAX)
		fact_add(worker, &tally->more_memos[0], fact_who(id, FACT_DISTANCE, NO_ID),
			fact_what(0, address - tally->last));
	tally->chained++;
}

// The size in the header before address, if one may be there.
static uint64_t header_before(const struct worker *worker, uint64_t address)
{
	const struct image_info *info = worker->pass->info;
	const unsigned word = info->word_size;
	if (address - worker->view.address + worker->context < word)
		return 0;
	const uint64_t field = word_load(
		worker->view.bytes + (address - worker->view.address) - word, word, info->order);
	const uint64_t size = field & ~(uint64_t)7;
	return (field & 2) == 0 && size >= 4 * (uint64_t)word && size % (2 * word) == 0 &&
			       size <= (uint64_t)1 << 30
		       ? size
		       : 0;
}

static void hit_alone(struct worker *worker, uint32_t id, struct tally *tally, uint64_t address)
{
	const uint64_t header = header_before(worker, address);
	if (header != 0)
		fact_add(worker, &tally->memo, fact_who(id, FACT_HEADER, 0), fact_what(0, header));
	if (last_is_near(worker, tally, 0) && address - tally->last <= DISTANCE_MAX)
		fact_add(worker, &tally->more_memos[0], fact_who(id, FACT_DISTANCE, 0),
			fact_what(0, address - tally->last));
	if (worker->before != NO_ID && address - worker->before_address <= BEHIND_MAX)
		fact_add(worker, &tally->more_memos[1], fact_who(id, FACT_BEHIND, worker->before),
			fact_what(0, address - worker->before_address));
}

// ---- places

static uint64_t stack_pointer(const struct image_info *info, int64_t thread)
{
	for (size_t i = 0; i < info->process.thread_count; i++)
		if (info->process.threads[i].id == thread)
			return info->process.threads[i].stack_pointer;
	return 0;
}

static void cursor_move(struct cursor *cursor, const struct survey *pass, uint64_t address)
{
	const struct places *places = pass->places;
	size_t index;
	if (!places_find(places, address, &index)) {
		*cursor = (struct cursor){.start = address,
			.end = index < places->count ? places->spans[index].start : UINT64_MAX,
			.site = SITE_ANON};
		return;
	}
	const struct span *span = &places->spans[index];
	*cursor = (struct cursor){.start = span->start, .end = span->end, .site = SITE_ANON};
	if (span->kind == KIND_CODE || span->kind == KIND_DATA)
		cursor->site = SITE_DATA;
	else if (span->kind == KIND_HEAP)
		cursor->site = SITE_HEAP;
	else if (span->kind == KIND_STACK) {
		const uint64_t pointer = stack_pointer(pass->info, places->list[index].thread);
		cursor->site = SITE_STACK;
		cursor->stale = pointer - min_u64(pointer, RED_ZONE);
	}
}

// Move on to the chunk that holds address, which is not less than before. False if none is known.
static inline bool object_find(
	struct worker *worker, uint64_t address, uint64_t *start, uint64_t *size)
{
	struct chain *chain = &worker->chain;
	const struct image_info *info = worker->pass->info;
	const unsigned word = info->word_size;
	const struct view *view = &worker->view;
	const uint64_t limit = address - view->address + MARK_BIAS - word;
	size_t mark = worker->mark;
	// An object reaches a word into the next chunk.
	while (mark < worker->mark_count &&
		(worker->marks[mark] & ~(chain_mark)MARK_FLAGS) <= limit)
		mark++;
	if (mark != worker->mark) {
		worker->mark = mark;
		const chain_mark last = worker->marks[mark - 1];
		const unsigned char *header =
			view->bytes + (last & ~(chain_mark)MARK_FLAGS) - MARK_BIAS + word;
		chain->chunk = view->address + (last & ~(chain_mark)MARK_FLAGS) - MARK_BIAS;
		chain->used = (last & MARK_USED) != 0;
		chain->size = (last & MARK_NONE) != 0
				      ? 0
				      : word_load(header, word, info->order) & ~(uint64_t)7;
	}
	*start = chain->chunk + 2 * (uint64_t)word;
	*size = chain->size;
	return address - chain->chunk - word < chain->size;
}

static void hit_count(struct worker *worker, uint32_t id, uint64_t address)
{
	struct tally *tally = &worker->tallies[id];
	struct cursor *cursor = &worker->cursor;
	uint64_t start, size;
	if (address < cursor->start || address >= cursor->end)
		cursor_move(cursor, worker->pass, address);
	if (cursor->site == SITE_STACK || cursor->site == SITE_DATA) {
		if (address >= cursor->stale) {
			tally->sites[cursor->site]++;
			example_offer(worker, tally, cursor->site, address);
		}
		return;
	}
	if (!object_find(worker, address, &start, &size)) {
		hit_alone(worker, id, tally, address);
		tally->sites[cursor->site]++;
		example_offer(worker, tally, cursor->site, address);
	} else if (!worker->chain.used) {
		tally->freed++;
		return;
	} else {
		hit_in_object(worker, id, tally, address, start, size);
		example_offer(worker, tally, SITE_HEAP, address);
	}
	tally->last = address;
	tally->last_scan = worker->number + 1;
	worker->before = id;
	worker->before_address = address;
}

// ---- one chunk

// Put ids to the hits; those that are not to be counted are dropped. Returns how many are left.
// Apart from what is done with them, so that the processor can look far ahead.
static inline size_t hits_identify(struct worker *worker, const unsigned char *bytes, size_t count,
	unsigned word, enum byte_order order)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		const uint32_t index = worker->hits[i];
		const uint64_t value = word_load(bytes + (size_t)index * word, word, order);
		struct recent *recent = &worker->recent[(value >> 3 ^ value >> 12) % RECENT];
		if (recent->value != value) {
			uint32_t id;
			if (!value_identify(worker->pass, value, &id))
				continue;
			*recent = (struct recent){value, id};
		}
		worker->hits[kept] = index;
		worker->ids[kept++] = recent->id;
	}
	return kept;
}

// Find the hits in whole words. Returns how many there are; *zeros: words that are zero.
static size_t hits_find(
	struct worker *worker, const unsigned char *bytes, size_t size, size_t *zeros)
{
	const struct survey *pass = worker->pass;
	const unsigned word = pass->info->word_size;
	const enum byte_order order = pass->info->order;
	const size_t count =
		pass->select(&pass->ranges, bytes, size / word, word, order, worker->hits, zeros);
	if (pass->counting)
		return count;
	// The loop is made for the usual case, and for the rest.
	return word == 8 && order == ORDER_NATIVE
		       ? hits_identify(worker, bytes, count, 8, ORDER_NATIVE)
		       : hits_identify(worker, bytes, count, word, order);
}

// What lies before the chunk, as far as it matters: if an object is known that reaches into the
// chunk, only that. Nothing of it is counted.
static void context_feed(struct worker *worker)
{
	struct survey *pass = worker->pass;
	const struct chain *chain = &worker->chain;
	const unsigned word = pass->info->word_size;
	size_t size = worker->context, zeros;
	worker->before = NO_ID;
	worker->object = 0;
	worker->cursor = (struct cursor){0};
	if (chain->size != 0)
		size = chain->used ? (size_t)min_u64(size, worker->view.address - chain->chunk) : 0;
	const size_t count = hits_find(worker, worker->view.bytes - size, size, &zeros);
	for (size_t i = 0; i < count; i++) {
		struct tally *tally = &worker->tallies[worker->ids[i]];
		tally->last = worker->view.address - size + (uint64_t)worker->hits[i] * word;
		tally->last_scan = worker->number + 1;
		worker->before = worker->ids[i];
		worker->before_address = tally->last;
	}
}

// Add up how often the values of each cell come.
static void cells_feed(struct worker *worker, size_t count)
{
	const struct survey *pass = worker->pass;
	const unsigned word = pass->info->word_size;
	for (size_t i = 0; i < count; i++) {
		const uint64_t value =
			word_load(worker->view.bytes + (size_t)worker->hits[i] * word, word,
				pass->info->order);
		uint32_t *cell = &worker->cells[candidate_cell(&pass->hash, value)];
		*cell += *cell != UINT32_MAX && ranges_have(&pass->ranges, value);
	}
}

// How many hits ahead memory is fetched.
#define AHEAD 12

static void chunk_feed(struct worker *worker)
{
	const struct view *view = &worker->view;
	const unsigned word = worker->pass->info->word_size;
	size_t zeros;
	if (!worker->pass->counting)
		context_feed(worker);
	const size_t count = hits_find(worker, view->bytes, view->size, &zeros);
	worker->words += view->size / word;
	worker->zeros += zeros;
	if (worker->pass->counting) {
		cells_feed(worker, count);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (i + AHEAD < count)
			__builtin_prefetch(&worker->tallies[worker->ids[i + AHEAD]], 1);
		hit_count(worker, worker->ids[i], view->address + (uint64_t)worker->hits[i] * word);
	}
}

// Begin with the memory at address: the segment, and those that follow without a gap and are alike,
// up to pass->end. Only memory that can be written holds a heap; a program's own data may come
// before it.
static void survey_begin_run(struct survey *pass, uint64_t address)
{
	const struct image_segment *segment = image_segment_at(pass->image, address);
	size_t left = pass->info->segment_count, index;
	uint64_t start = address;
	pass->end = address;
	pass->chain.end = 0;
	if (segment == NULL)
		return;
	const uint32_t writable = segment->flags & PF_W;
	for (; left > 0 && segment != NULL && (segment->flags & PF_W) == writable; left--) {
		pass->end = segment->address + segment->size;
		segment = image_segment_at(pass->image, pass->end);
	}
	while (start < pass->end && places_find(pass->places, start, &index) &&
		pass->places->list[index].type == PLACE_MODULE)
		start = pass->places->spans[index].end;
	chain_begin(&pass->chain, pass->info, start, pass->end);
	if (writable == 0 || start >= pass->end)
		pass->chain.end = 0;
}

// Take what lies before the chunk, and keep what will lie before the next one.
static void chunk_keep(struct worker *worker, const struct image_chunk *chunk)
{
	struct survey *pass = worker->pass;
	unsigned char *bytes = worker->memory + CONTEXT;
	worker->context = pass->tail_size;
	memcpy(bytes - pass->tail_size, pass->tail + CONTEXT - pass->tail_size, pass->tail_size);
	// Of a small chunk, more is kept than it has; of a hole, which holds no hits, nothing.
	if (chunk->zeros > 0) {
		pass->tail_size = 0;
		return;
	}
	pass->tail_size = (size_t)min_u64(CONTEXT, worker->context + chunk->size);
	memcpy(pass->tail + CONTEXT - pass->tail_size, bytes + chunk->size - pass->tail_size,
		pass->tail_size);
}

// Follow the chains through a chunk when it is its turn; the state before goes to the worker.
static void chunk_follow(struct worker *worker, const struct image_chunk *chunk)
{
	struct survey *pass = worker->pass;
	const uint64_t end = chunk->address + chunk->size + chunk->zeros;
	pthread_mutex_lock(&pass->lock);
	while (pass->turn != chunk->number && !stopped(pass))
		pthread_cond_wait(&pass->turned, &pass->lock);
	pthread_mutex_unlock(&pass->lock);
	if (stopped(pass))
		return;
	// Until the turn is passed on, no other thread touches this.
	if (chunk->address != pass->expected || chunk->address >= pass->end) {
		survey_begin_run(pass, chunk->address);
		pass->tail_size = 0;
	}
	pass->expected = end;
	worker->chain = pass->chain;
	chunk_keep(worker, chunk);
	worker->mark = worker->mark_count = 0;
	if (chunk->zeros > 0)
		chain_skip(&pass->chain, end);
	else
		worker->mark_count = chain_follow(&pass->chain, &worker->view, worker->marks);
	pthread_mutex_lock(&pass->lock);
	pass->turn++;
	pthread_cond_broadcast(&pass->turned);
	pthread_mutex_unlock(&pass->lock);
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct survey *pass = worker->pass;
	unsigned char *buffer = worker->memory + CONTEXT;
	worker->ok = true;
	while (!stopped(pass)) {
		struct image_chunk chunk;
		const int more = image_scan_next(pass->scan, buffer, &chunk, &worker->err);
		worker->ok = more >= 0;
		if (more <= 0)
			break;
		if (pass->options->watch.add != NULL)
			pass->options->watch.add(
				pass->options->watch.context, chunk.size + chunk.zeros);
		worker->view = (struct view){
			pass->in_order ? NULL : pass->image, chunk.address, buffer, chunk.size};
		worker->number = chunk.number;
		if (!pass->counting)
			chunk_follow(worker, &chunk);
		worker->words += chunk.zeros / pass->info->word_size;
		worker->zeros += chunk.zeros / pass->info->word_size;
		if (chunk.size > 0 && !stopped(pass))
			chunk_feed(worker);
	}
	if (!worker->ok)
		atomic_store(&pass->failed, true);
	// Whoever waits for a turn that will not come.
	pthread_mutex_lock(&pass->lock);
	pthread_cond_broadcast(&pass->turned);
	pthread_mutex_unlock(&pass->lock);
	return NULL;
}

// ---- the whole

static bool workers_run(struct survey *pass, bool counting, struct error *err)
{
	pass->counting = counting;
	pass->turn = pass->expected = 0;
	pass->tail_size = 0;
	pass->end = 0;
	pass->passes++;
	if (pass->options->watch.begin != NULL)
		pass->options->watch.begin(pass->options->watch.context, pass->info->bytes_present);
	if (!image_scan_open(pass->image, 1, err, &pass->scan))
		return false;
	for (unsigned i = 0; i < pass->threads; i++)
		pass->workers[i].words = pass->workers[i].zeros = 0;
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

static void worker_forget(struct worker *worker)
{
	free(worker->tallies_memory);
	facts_deinit(&worker->facts);
	worker->tallies_memory = NULL;
	memset(worker->recent, 0, sizeof worker->recent);
}

// Tables for what is to be seen. An eighth of the memory is for the candidates, half of it for the
// facts, which are copied in the end.
static bool survey_prepare(struct survey *pass, struct error *err)
{
	const size_t memory = pass->options->memory;
	const size_t each = pass->threads * sizeof(struct tally) + 6 * sizeof(uint64_t) +
			    sizeof(struct candidate);
	const uint32_t most = (uint32_t)min_u64(memory / 4 / each, NO_ID);
	const uint64_t bar = pass->candidates.bar;
	const uint32_t *cells = pass->candidates.cells;
	candidates_deinit(&pass->candidates);
	if (!candidates_init(&pass->candidates, &pass->hash, most, err))
		return false;
	pass->candidates.bar = bar;
	pass->candidates.cells = cells;
	for (unsigned i = 0; i < pass->threads; i++) {
		struct worker *worker = &pass->workers[i];
		worker_forget(worker);
		// Zeros that are not touched take no memory; aligned_alloc could not give them.
		worker->tallies_memory = calloc((size_t)most + 1, sizeof *worker->tallies);
		if (worker->tallies_memory == NULL)
			return error_memory(err);
		worker->tallies =
			(struct tally *)(((uintptr_t)worker->tallies_memory + 63) & ~(uintptr_t)63);
		if (!facts_init(&worker->facts, &pass->hash, memory / 4 / pass->threads, err))
			return false;
	}
	return true;
}

// The cells of all candidates, in those of the first thread.
static bool survey_count(struct survey *pass, struct error *err)
{
	for (unsigned i = 0; i < pass->threads; i++) {
		struct worker *worker = &pass->workers[i];
		worker_forget(worker);
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

// All candidates in one pass; if they do not fit, the most frequent ones.
static bool survey_search(struct survey *pass, struct error *err)
{
	size_t wanted = 0;
	for (;;) {
		if (!survey_prepare(pass, err) || !workers_run(pass, false, err))
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

static void candidate_merge(struct candidate *candidate, const struct survey *pass, uint32_t id)
{
	struct tally all = {0};
	for (unsigned i = 0; i < pass->threads; i++) {
		const struct tally *tally = &pass->workers[i].tallies[id];
		for (size_t site = 0; site < SITE_COUNT; site++)
			candidate->sites[site] += tally->sites[site];
		candidate->sites[SITE_HEAP] += tally->chained;
		candidate->chained += tally->chained;
		candidate->freed += tally->freed;
		for (unsigned k = 0; k < tally->example_count; k++)
			example_add(&all, tally->examples[k].address, tally->examples[k].order);
	}
	candidate->value = pass->candidates.values[id];
	candidate->example_count = all.example_count;
	for (unsigned k = 0; k < all.example_count; k++)
		candidate->examples[k] = all.examples[k].address;
}

struct ranked {
	uint64_t value;
	uint32_t id;
};

static int ranked_compare(const void *left, const void *right)
{
	const struct ranked *a = left, *b = right;
	return a->value < b->value ? -1 : a->value > b->value;
}

// Sort the candidates by value. rank[id] becomes the place of each.
static bool candidates_rank(
	const struct survey *pass, struct survey_result *ret, uint32_t *rank, struct error *err)
{
	const uint32_t count = pass->candidates.count;
	struct ranked *ranked = calloc((size_t)count + 1, sizeof *ranked);
	ret->list = calloc((size_t)count + 1, sizeof *ret->list);
	if (ranked == NULL || ret->list == NULL) {
		free(ranked);
		return error_memory(err);
	}
	for (uint32_t id = 0; id < count; id++)
		ranked[id] = (struct ranked){pass->candidates.values[id], id};
	qsort(ranked, count, sizeof *ranked, ranked_compare);
	for (uint32_t i = 0; i < count; i++) {
		rank[ranked[i].id] = i;
		candidate_merge(&ret->list[i], pass, ranked[i].id);
	}
	ret->count = count;
	free(ranked);
	return true;
}

static int fact_compare(const void *left, const void *right)
{
	const struct fact *a = left, *b = right;
	if (a->who != b->who)
		return a->who < b->who ? -1 : 1;
	return a->what < b->what ? -1 : a->what > b->what;
}

static bool facts_merge(
	struct survey *pass, struct survey_result *ret, const uint32_t *rank, struct error *err)
{
	size_t count = 0;
	for (unsigned i = 0; i < pass->threads; i++)
		count += pass->workers[i].facts.used;
	struct fact *list = calloc(count + 1, sizeof *list);
	if (list == NULL)
		return error_memory(err);
	count = 0;
	for (unsigned i = 0; i < pass->threads; i++) {
		const struct facts *facts = &pass->workers[i].facts;
		for (size_t k = 0; k < facts_slots(facts); k++) {
			const struct fact *fact = &facts->list[k];
			if (fact->count == 0)
				continue;
			const enum fact_type type = fact_type(fact);
			uint32_t other = fact_other(fact);
			if ((type == FACT_INNER || type == FACT_BEHIND) && other != NO_ID)
				other = rank[other];
			list[count++] = (struct fact){fact_who(rank[fact_id(fact)], type, other),
				fact->what, fact->count};
		}
		facts_deinit(&pass->workers[i].facts);
	}
	qsort(list, count, sizeof *list, fact_compare);
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (kept > 0 && fact_compare(&list[kept - 1], &list[i]) == 0)
			list[kept - 1].count += list[i].count;
		else
			list[kept++] = list[i];
	ret->facts = list;
	ret->fact_count = kept;
	for (size_t i = 0; i < kept; i++) {
		struct candidate *candidate = &ret->list[fact_id(&list[i])];
		if (candidate->fact_count++ == 0)
			candidate->first_fact = i;
	}
	return true;
}

static bool survey_finish(struct survey *pass, struct error *err, struct survey_result *ret)
{
	uint32_t *rank = calloc((size_t)pass->candidates.count + 1, sizeof *rank);
	*ret = (struct survey_result){
		.bar = pass->candidates.bar,
		.passes = pass->passes,
		.threads = pass->threads,
		.partial = atomic_load(pass->options->stop) != 0,
	};
	for (unsigned i = 0; i < pass->threads; i++) {
		ret->words += pass->workers[i].words;
		ret->zeros += pass->workers[i].zeros;
	}
	bool ok = rank != NULL || error_memory(err);
	ok = ok && candidates_rank(pass, ret, rank, err) && facts_merge(pass, ret, rank, err);
	free(rank);
	if (!ok)
		survey_result_deinit(ret);
	return ok;
}

static bool survey_init(struct survey *pass, struct error *err)
{
	if (getrandom(&pass->hash, sizeof pass->hash, 0) != sizeof pass->hash)
		return error_set(err, "no random numbers: %s", strerror(errno));
	pass->hash.factor |= 1;
	pass->hash.second |= 1;
	pass->hash.third |= 1;
	// The buffers of threads take an eighth of the memory at most.
	const size_t words = IMAGE_CHUNK_SIZE / pass->info->word_size;
	const size_t marks = chain_marks_max(IMAGE_CHUNK_SIZE, pass->info->word_size);
	const size_t each = CONTEXT + IMAGE_CHUNK_SIZE + 2 * words * sizeof(uint32_t) +
			    marks * sizeof(chain_mark);
	const size_t fit = pass->options->memory / 8 / each;
	pass->threads = (unsigned)max_u64(1, min_u64(pass->options->threads, fit));
	// The chunks of a live process come in no order but to one thread.
	if (pass->info->live)
		pass->threads = 1;
	pass->workers = calloc(pass->threads, sizeof *pass->workers);
	if (pass->workers == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < pass->threads; i++) {
		struct worker *worker = &pass->workers[i];
		worker->pass = pass;
		worker->memory = aligned_alloc(64, CONTEXT + IMAGE_CHUNK_SIZE);
		worker->hits = calloc(words, sizeof *worker->hits);
		worker->ids = calloc(words, sizeof *worker->ids);
		worker->marks = calloc(marks, sizeof *worker->marks);
		if (worker->memory == NULL || worker->hits == NULL || worker->ids == NULL ||
			worker->marks == NULL)
			return error_memory(err);
	}
	return ranges_init(&pass->ranges, pass->modules, err);
}

static void survey_deinit(struct survey *pass)
{
	for (unsigned i = 0; pass->workers != NULL && i < pass->threads; i++) {
		worker_forget(&pass->workers[i]);
		free(pass->workers[i].memory);
		free(pass->workers[i].hits);
		free(pass->workers[i].ids);
		free(pass->workers[i].marks);
		free(pass->workers[i].cells);
	}
	free(pass->workers);
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
		.modules = modules,
		.places = places,
		.options = options,
		.select = ranges_select_for(options->level),
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.turned = PTHREAD_COND_INITIALIZER,
	};
	pass.in_order = pass.info->in_order;
	const bool ok = survey_init(&pass, err) && survey_search(&pass, err) &&
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
