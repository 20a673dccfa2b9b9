// SPDX-License-Identifier: MIT
//
// After the full pass: exact counts of the words in cells so full that a better word than the last
// row may be in them.
#include <stdlib.h>
#include <string.h>

#include "count/sift.h"

// ---- what a cell holds

// As many words, or more, as the cell of a word with this hash holds.
static uint64_t counter_load(const struct counter *counter, uint64_t hash)
{
	if (counter->loads_unknown)
		return UINT64_MAX;
	const uint64_t coarse = counter->cells[counter_cell(counter, hash)];
	if (counter->wide.cells == NULL)
		return coarse;
	const unsigned load = wide_load(&counter->wide, hash);
	// What went on when it was full is in the coarse cell, if nothing else.
	return load < WIDE_FULL ? load : coarse + WIDE_FULL;
}

// The lowest rank of a load. The largest loads are all alike in this order, and no rank is
// UINT64_MAX.
static count_rank rank_of_load(uint64_t load)
{
	return min_u64(load, UINT32_MAX - 1) << 32;
}

static count_rank counter_rank(const void *context, uint64_t word)
{
	const struct counter *counter = context;
	const uint64_t load = counter_load(counter, hash_word(&counter->hash, word));
	return rank_of_load(load) | hash_second(&counter->hash, word);
}

size_t counter_filter(const struct counter *counter, void *words, size_t count)
{
	const unsigned size = counter->options->word_size;
	char *bytes = words;
	const struct counter local = {
		.open = counter->open, .open_count = counter->open_count, .hash = counter->hash};
	size_t used = 0;
	for (size_t i = 0; i < count; i++) {
		// Without a branch: it could not be predicted.
		const uint64_t word = word_load_native(bytes + i * size, size);
		word_store(bytes + used * size, word, size, ORDER_NATIVE);
		used += counter_is_open(&local, hash_word(&local.hash, word));
	}
	return counter_select(counter, bytes, used);
}

// ---- finer cells

static bool refine_feed(struct worker *worker, const struct count_block *block)
{
	struct counter *counter = worker->counter;
	const unsigned size = counter->options->word_size;
	const bool alone = counter->threads == 1;
	for (size_t i = 0; i < block->words; i += BATCH) {
		char *bytes = (char *)worker->buffer + i * size;
		const size_t count =
			counter_filter(counter, bytes, (size_t)min_u64(BATCH, block->words - i));
		for (size_t k = 0; k < count; k++) {
			const uint64_t word = word_load_native(bytes + k * size, size);
			const uint64_t hash = hash_word(&counter->hash, word);
			__builtin_prefetch((void *)wide_cell(&counter->wide, hash), 1);
		}
		// A full cell: the coarse one has counted all words already.
		for (size_t k = 0; k < count; k++) {
			const uint64_t word = word_load_native(bytes + k * size, size);
			const uint64_t hash = hash_word(&counter->hash, word);
			if (!known_has(&counter->known, hash, word))
				wide_add(&counter->wide, hash, alone);
		}
	}
	return true;
}

static bool counter_refine(struct counter *counter, uint64_t words, struct error *err)
{
	static const struct pass pass = {refine_feed, pass_finish, false};
	const size_t cells = (size_t)min_u64(counter_room(counter) / 2, max_u64(words, 1 << 16));
	if (!wide_init(&counter->wide, cells, err) || !pass_run(counter, 1, &pass, err))
		return false;
	wide_measure(&counter->wide);
	return true;
}

// ---- exact counts of the words of full cells

static bool gather_feed(struct worker *worker, const struct count_block *block)
{
	struct counter *counter = worker->counter;
	const unsigned size = counter->options->word_size;
	for (size_t i = 0; i < block->words; i += BATCH) {
		char *bytes = (char *)worker->buffer + i * size;
		const size_t count =
			counter_filter(counter, bytes, (size_t)min_u64(BATCH, block->words - i));
		const count_rank low = atomic_load_explicit(&counter->low, memory_order_relaxed);
		for (size_t k = 0; k < count;) {
			const uint64_t word = word_load_native(bytes + k * size, size);
			const size_t first = k;
			do
				k++;
			while (k < count && word_load_native(bytes + k * size, size) == word);
			const count_rank rank = counter_rank(counter, word);
			if (rank < low || rank >= counter->high ||
				known_has(&counter->known, hash_word(&counter->hash, word), word))
				continue;
			// As frequent as the bar at most: then the value decides.
			if (rank >> 32 == counter->bar.count &&
				counter_value(counter, word) > counter->bar.value)
				continue;
			gather_add(&worker->gather, word, k - first);
		}
	}
	return true;
}

static bool counter_open(struct counter *counter, size_t cells, struct error *err)
{
	if (counter->open_count != cells) {
		free(counter->open);
		counter->open = malloc((cells / 64 + 1) * sizeof *counter->open);
		if (counter->open == NULL)
			return error_memory(err);
		counter->open_count = cells;
	}
	memset(counter->open, 0, (cells / 64 + 1) * sizeof *counter->open);
	return true;
}

// Open the coarse cells that may hold a better word than the bar. Returns how many words are in
// them.
static uint64_t counter_open_coarse(struct counter *counter)
{
	uint64_t words = 0;
	for (size_t i = 0; i < counter->open_count; i++) {
		const uint64_t load = counter->cells[i];
		if (load < counter->bar.count || rank_of_load(load) >= counter->high)
			continue;
		counter->open[i / 64] |= UINT64_C(1) << i % 64;
		words = add_saturated(words, load);
	}
	return words;
}

// Open the finer cells whose load is in the window.
static void counter_open_wide(struct counter *counter, count_rank low)
{
	const uint64_t least = low >> 32, most = counter->high >> 32;
	for (size_t i = 0; i < counter->open_count; i++) {
		const unsigned load =
			atomic_load_explicit(&counter->wide.cells[i], memory_order_relaxed);
		// A full cell holds any number of words.
		const bool open =
			load == WIDE_FULL ? most >= WIDE_FULL : load >= least && load <= most;
		counter->open[i / 64] |= (uint64_t)open << i % 64;
	}
}

// How many words of the finer cells, at most, are in the window; and where it should begin if about
// `fit` of them are to be in it.
static uint64_t counter_measure_wide(const struct counter *counter, uint64_t fit, count_rank *low)
{
	const uint64_t *levels = counter->wide.levels;
	const uint64_t high = counter->high >> 32;
	uint64_t words = 0, all = 0;
	for (uint64_t load = 1; load <= WIDE_FULL; load++)
		all += levels[load] * load;
	// A full cell has one frequent word, and as many others as any cell.
	uint64_t inside = 0;
	if (counter->high > rank_of_load(WIDE_FULL)) {
		words = levels[WIDE_FULL] * WIDE_FULL;
		inside = levels[WIDE_FULL] * (1 + all / counter->wide.count);
	}
	bool fits = true;
	for (uint64_t load = WIDE_FULL - 1; load > 0 && load >= counter->bar.count; load--) {
		// The part of the level that is below the window's upper end.
		const uint64_t part = load < high    ? UINT64_C(1) << 32
				      : load == high ? counter->high & UINT32_MAX
						     : 0;
		const double here = (double)(levels[load] * load) * (double)part / 0x1p32;
		words += (uint64_t)here + (here > 0);
		if (fits && (double)inside + here > (double)fit) {
			const double share = fit > inside ? (double)(fit - inside) / here : 0;
			// Some progress in any case.
			*low = rank_of_load(load) +
			       min_u64(part - part / 64, (uint64_t)((1 - share) * (double)part));
			fits = false;
		}
		inside += (uint64_t)here;
	}
	return words;
}

// The sum of the threads' counts of a word in the table of thread `from`, or 0 if a thread before
// it has the word too.
static uint64_t counter_sum(const struct counter *counter, unsigned from, uint64_t word)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < counter->threads; i++) {
		const uint64_t count = gather_count(&counter->workers[i].gather, word);
		if (i < from && count > 0)
			return 0;
		sum += count;
	}
	return sum;
}

// Offer the words of the window that the threads have counted.
static void counter_collect(struct counter *counter, count_rank low)
{
	for (unsigned i = 0; i < counter->threads; i++) {
		const struct gather *gather = &counter->workers[i].gather;
		for (size_t k = 0; k < gather->slots; k++) {
			const struct gather_entry entry = gather->entries[k];
			// One that fell out of the window was not always counted.
			if (entry.count == 0 || counter_rank(counter, entry.word) < low)
				continue;
			const uint64_t count = counter->threads == 1
						       ? entry.count
						       : counter_sum(counter, i, entry.word);
			if (count > 0)
				best_offer(&counter->best,
					(struct count_row){
						counter_value(counter, entry.word), count, count});
		}
	}
}

static size_t counter_gather_slots(const struct counter *counter, uint64_t words)
{
	const size_t fit = counter_room(counter) / sizeof(struct gather_entry) / counter->threads;
	return max_u64(1024, min_u64(fit, add_saturated(words, words)));
}

// Count the words from low on; the window begins there if all fit.
static bool counter_gather(struct counter *counter, count_rank low, size_t slots, struct error *err)
{
	static const struct pass pass = {gather_feed, pass_finish, false};
	bool ok = true;
	atomic_store(&counter->low, low);
	for (unsigned i = 0; ok && i < counter->threads; i++) {
		struct gather *gather = &counter->workers[i].gather;
		*gather = (struct gather){.hash = &counter->hash,
			.rank = counter_rank,
			.context = counter,
			.low = &counter->low};
		ok = gather_init(gather, slots, err);
	}
	ok = ok && pass_run(counter, 1, &pass, err);
	low = atomic_load(&counter->low);
	if (ok && low >= counter->high)
		ok = error_set(err, "too little memory to count exactly; use a larger --memory");
	if (ok && !counter_stopped(counter)) {
		counter_collect(counter, low);
		counter->high = low;
	}
	for (unsigned i = 0; i < counter->threads; i++)
		gather_deinit(&counter->workers[i].gather);
	return ok;
}

// ---- more words than any table holds

// Give the loads up, and the memory that they take: words have a rank by their hash only.
static bool counter_forget_loads(struct counter *counter, struct error *err)
{
	wide_deinit(&counter->wide);
	counter->loads_unknown = true;
	if (!counter_open(counter, 64, err))
		return false;
	counter->open[0] = UINT64_MAX;
	return true;
}

// Where a window begins that ends at `end` and has `fit` of the words below.
static uint64_t window_begin(uint64_t end, uint64_t words, uint64_t fit)
{
	if (words <= fit)
		return 0;
	const uint64_t size = (uint64_t)((double)end * (double)fit / (double)words);
	return end - min_u64(end, max_u64(1, size));
}

// All of the search, of `words` words. Those of a first window show what the last row is like, at
// least; most of the others can be ruled out then.
static bool counter_search_rare(struct counter *counter, uint64_t words, struct error *err)
{
	const count_rank base = rank_of_load(UINT64_MAX);
	const size_t slots = counter_gather_slots(counter, UINT64_MAX);
	const uint64_t fit = (uint64_t)slots * counter->threads / 2;
	uint64_t end = UINT64_C(1) << 32; // ranks from base + end on are done
	while (end > 0) {
		const count_rank low = base + window_begin(end, words, fit);
		if (!counter_gather(counter, low, counter_gather_slots(counter, words), err))
			return false;
		if (counter_stopped(counter))
			break;
		const uint64_t done = end - (counter->high - base);
		words = (uint64_t)((double)words * (double)(end - done) / (double)end);
		end -= done;
		counter->bar = best_bar(&counter->best);
		uint64_t before = UINT64_MAX;
		while (words > fit && words < before / 2 && sift_useful(&counter->bar)) {
			before = words;
			if (!counter_sift(counter, end, words, err, &words))
				return false;
			if (words == 0 || counter_stopped(counter))
				return true;
		}
	}
	return true;
}

bool counter_search(struct counter *counter, struct error *err)
{
	counter->high = UINT64_MAX;
	while (!counter_stopped(counter)) {
		counter->bar = best_bar(&counter->best);
		count_rank low = rank_of_load(counter->bar.count);
		if (counter->high <= low)
			break;
		const size_t most = counter_gather_slots(counter, UINT64_MAX);
		const uint64_t fit = (uint64_t)most * counter->threads / 4 * 3;
		const bool fine = counter->wide.cells != NULL;
		if (!counter_open(counter,
			    fine ? counter->wide.count : (size_t)1 << counter->cell_bits, err))
			return false;
		const uint64_t words = fine ? counter_measure_wide(counter, fit, &low)
					    : counter_open_coarse(counter);
		if (fine)
			counter_open_wide(counter, low);
		if (words == 0)
			break;
		// A table that would have to be narrowed often: sort the words finer first.
		const bool many = counter->high == UINT64_MAX && words / 4 > fit;
		// Where the first window already gets down to loads that the rarest words make
		// alone, the last row is one of these; else the window will raise the bar.
		if (many && fine && counter->bar.count <= SIFT_BAR_MAX && low >> 32 <= SIFT_BAR_MAX)
			return counter_forget_loads(counter, err) &&
			       counter_search_rare(counter, words, err);
		if (many && !fine) {
			if (!counter_refine(counter, words, err))
				return false;
		} else if (!counter_gather(
				   counter, low, counter_gather_slots(counter, words), err)) {
			return false;
		}
	}
	return true;
}
