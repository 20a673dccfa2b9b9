// SPDX-License-Identifier: MIT
//
// One pass finds all places; further ones only count the values of fields that did not fit the
// memory, or that may be more frequent than could be told.
#include "find/words.h"

#include <stdlib.h>

#include "find/place.h"
#include "find/values.h"

struct worker {
	uint64_t count;
	uint64_t *span_counts;
	size_t span; // that had the last place
	uint64_t *addresses;
	size_t address_count;
	struct layout *layout;
};

// All that is known of one field while places are found.
struct field_job {
	const struct member *member;
	struct values values;	  // of numbers
	struct texts *texts;	  // of each thread; of texts
	uint64_t *read, *skipped; // by each thread
	bool active;		  // in the present pass
	size_t memory;		  // that it may take then
};

struct words_job {
	const struct word_query *query;
	const struct find_options *options;
	struct place_search search;
	unsigned threads;
	struct worker *workers;
	struct field_job fields[MEMBERS_MAX];
	size_t field_count;
	bool first;  // pass: count places
	bool layout; // add to the layouts
};

// ---- a place

static size_t span_find(const struct word_query *query, uint64_t address)
{
	size_t low = 0, high = query->span_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (query->spans[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < query->span_count && address >= query->spans[low].start ? low
									     : query->span_count;
}

static void worker_place(struct worker *worker, const struct word_query *query, uint64_t address)
{
	if (worker->span >= query->span_count || address < query->spans[worker->span].start ||
		address >= query->spans[worker->span].end)
		worker->span = span_find(query, address);
	worker->span_counts[worker->span]++;
	worker->count++;
	if (worker->address_count < query->first)
		worker->addresses[worker->address_count++] = address;
}

// Places in a hole, which is a zero at each word: count of them from address on.
static void worker_hole(
	struct words_job *job, struct worker *worker, uint64_t address, uint64_t count)
{
	const struct word_query *query = job->query;
	const unsigned size = job->search.word_size;
	worker->count += count;
	for (uint64_t i = 0; i < count && worker->address_count < query->first; i++)
		worker->addresses[worker->address_count++] = address + i * size;
	uint64_t at = 0;
	for (size_t i = 0; i < query->span_count; i++) {
		const struct word_span *span = &query->spans[i];
		const uint64_t end = address + count * size;
		const uint64_t from = max_u64(span->start, address), to = min_u64(span->end, end);
		if (from < to) {
			worker->span_counts[i] += (to - from) / size;
			at += (to - from) / size;
		}
	}
	worker->span_counts[query->span_count] += count - min_u64(count, at);
}

static void field_place(const struct words_job *job, struct field_job *field, unsigned worker,
	const struct sweep_window *window, size_t at)
{
	const struct member *member = field->member;
	const struct text_pass pass = {.fold = job->options->fold};
	struct text text;
	uint64_t value;
	const bool is_text = member->form == MEMBER_TEXT;
	if (is_text ? !place_text(window, at, member->offset, &pass, &text)
		    : !place_load(&job->search, window, at, member->offset, member->size, &value)) {
		field->skipped[worker]++;
		return;
	}
	field->read[worker]++;
	if (is_text)
		texts_add(&field->texts[worker], &text, 1);
	else
		values_add(&field->values, worker, value, 1);
}

static void layout_place(const struct words_job *job, struct layout *layout,
	const struct sweep_window *window, size_t at)
{
	const struct word_query *query = job->query;
	const int64_t size = job->search.word_size;
	const int64_t first = (int64_t)at + query->around_from * size;
	const int64_t end = (int64_t)at + (query->around_to + 1) * size;
	const bool whole = first >= 0 && end <= (int64_t)window->size;
	uint64_t words[LAYOUT_FIELDS_MAX];
	bool present[LAYOUT_FIELDS_MAX];
	size_t count = 0;
	if (whole && size == 8 && job->search.order == ORDER_NATIVE)
		memcpy(words, window->bytes + first, (size_t)(end - first));
	else
		for (int64_t i = query->around_from; i <= query->around_to; i++) {
			present[count] = place_load(
				&job->search, window, at, i * size, (unsigned)size, &words[count]);
			count++;
		}
	const struct layout_place place = {window->address + at, words, whole ? NULL : present};
	layout_add(layout, &place, 1);
}

// ---- a window

static void hole_visit(struct words_job *job, unsigned number, const struct sweep_window *window)
{
	struct worker *worker = &job->workers[number];
	const uint64_t count = window->zeros / job->search.word_size;
	if (!job->search.zero)
		return;
	if (job->first)
		worker_hole(job, worker, window->address, count);
	for (size_t i = 0; i < job->field_count; i++) {
		struct field_job *field = &job->fields[i];
		if (!field->active)
			continue;
		field->read[number] += count;
		const struct text nothing = {.address = window->address};
		if (field->member->form == MEMBER_TEXT)
			texts_add(&field->texts[number], &nothing, count);
		else
			values_add(&field->values, number, 0, count);
	}
	if (job->layout) {
		const uint64_t words[LAYOUT_FIELDS_MAX] = {0};
		bool present[LAYOUT_FIELDS_MAX];
		memset(present, true, sizeof present);
		const struct layout_place place = {window->address, words, present};
		layout_add(worker->layout, &place, count);
	}
}

static bool window_visit(
	void *context, unsigned number, const struct sweep_window *window, struct error *err)
{
	(void)err;
	struct words_job *job = context;
	struct worker *worker = &job->workers[number];
	if (window->zeros > 0) {
		hole_visit(job, number, window);
		return true;
	}
	for (size_t at = window->from; (at = place_find(&job->search, window, at)) < window->to;
		at += job->search.word_size) {
		if (job->first)
			worker_place(worker, job->query, window->address + at);
		for (size_t i = 0; i < job->field_count; i++)
			if (job->fields[i].active)
				field_place(job, &job->fields[i], number, window, at);
		if (job->layout)
			layout_place(job, worker->layout, window, at);
	}
	return true;
}

static struct sweep words_sweep(struct words_job *job)
{
	return (struct sweep){
		.image = job->options->image,
		.watch = job->options->watch,
		.before = job->search.before,
		.after = job->search.after,
		.chunk = SWEEP_CHUNK,
		.stride = 1,
		.threads = job->threads,
		.stop = job->options->stop,
		.context = job,
		.visit = window_visit,
	};
}

// ---- memory

static void words_choose_threads(struct words_job *job)
{
	const struct sweep sweep = words_sweep(job);
	const struct word_query *query = job->query;
	size_t each = sweep_memory(&sweep) + query->first * sizeof(uint64_t) +
		      (query->span_count + 1) * sizeof(uint64_t);
	uint64_t most = job->options->threads;
	if (query->around) {
		each += layout_memory((size_t)(query->around_to - query->around_from + 1));
		most = min_u64(most, LAYOUT_THREADS_MAX);
	}
	const size_t fit = job->options->memory / 4 / each;
	job->threads = (unsigned)max_u64(1, min_u64(most, fit));
}

// What each active field may take.
static size_t field_memory(struct words_job *job, size_t active)
{
	const struct sweep sweep = words_sweep(job);
	const size_t windows = job->threads * sweep_memory(&sweep);
	const size_t best = job->field_count * job->options->top * sizeof(struct count_row);
	const size_t usable = job->options->memory / 8 * 7, used = windows + best;
	return (usable > used ? usable - used : 0) / active;
}

static bool words_init(struct words_job *job, struct error *err)
{
	const struct word_query *query = job->query;
	words_choose_threads(job);
	job->workers = calloc(job->threads, sizeof *job->workers);
	if (job->workers == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < job->threads; i++) {
		struct worker *worker = &job->workers[i];
		worker->span_counts = calloc(query->span_count + 1, sizeof(uint64_t));
		worker->addresses = calloc(query->first + 1, sizeof(uint64_t));
		if (worker->span_counts == NULL || worker->addresses == NULL)
			return error_memory(err);
		if (query->around &&
			!layout_create((size_t)(query->around_to - query->around_from + 1), err,
				&worker->layout))
			return false;
	}
	job->field_count = query->members != NULL ? query->members->count : 0;
	for (size_t i = 0; i < job->field_count; i++) {
		struct field_job *field = &job->fields[i];
		field->member = &query->members->list[i];
		field->active = true;
		field->memory = field_memory(job, job->field_count);
		field->read = calloc((size_t)2 * job->threads, sizeof(uint64_t));
		field->texts = calloc(job->threads, sizeof *field->texts);
		if (field->read == NULL || field->texts == NULL)
			return error_memory(err);
		field->skipped = field->read + job->threads;
		if (field->member->form != MEMBER_TEXT &&
			!values_init(&field->values, job->options->top, job->options->min_count,
				job->threads, err))
			return false;
	}
	return true;
}

static void words_deinit(struct words_job *job)
{
	for (unsigned i = 0; job->workers != NULL && i < job->threads; i++) {
		free(job->workers[i].span_counts);
		free(job->workers[i].addresses);
		layout_destroy(job->workers[i].layout);
	}
	free(job->workers);
	for (size_t i = 0; i < job->field_count; i++) {
		struct field_job *field = &job->fields[i];
		for (unsigned t = 0; field->texts != NULL && t < job->threads; t++)
			texts_deinit(&field->texts[t]);
		free(field->texts);
		free(field->read);
		values_deinit(&field->values);
	}
}

// ---- passes

static bool words_pass(struct words_job *job, struct error *err)
{
	for (size_t i = 0; i < job->field_count; i++) {
		struct field_job *field = &job->fields[i];
		if (!field->active)
			continue;
		memset(field->read, 0, (size_t)2 * job->threads * sizeof *field->read);
		if (field->member->form != MEMBER_TEXT &&
			!values_begin(&field->values, field->memory, err))
			return false;
		for (unsigned t = 0; field->member->form == MEMBER_TEXT && t < job->threads; t++)
			texts_init(&field->texts[t],
				max_u64(field->memory / 2 / job->threads, TEXTS_MEMORY_MIN),
				job->options->fold, false);
	}
	const struct sweep sweep = words_sweep(job);
	if (!sweep_run(&sweep, err))
		return false;
	for (size_t i = 0; i < job->field_count; i++)
		if (job->fields[i].active && job->fields[i].member->form != MEMBER_TEXT)
			values_end(&job->fields[i].values);
	return true;
}

static bool words_stopped(const struct words_job *job)
{
	return atomic_load(job->options->stop) != 0;
}

// Choose fields that are not done yet and whose values fit the memory together for another pass.
// One that does not even fit alone is for the engine.
static bool words_choose(
	struct words_job *job, struct error *err, struct member_result *results, bool *more)
{
	size_t room = field_memory(job, 1);
	*more = false;
	for (size_t i = 0; i < job->field_count; i++) {
		struct field_job *field = &job->fields[i];
		const uint64_t wanted = values_memory(results[i].values, job->threads);
		field->active = false;
		if (field->member->form == MEMBER_TEXT || field->values.done ||
			results[i].rows != NULL)
			continue;
		if (wanted > field_memory(job, 1)) {
			if (!member_count_values(&job->search, field->member, job->options,
				    results[i].values, err, &results[i]))
				return false;
		} else if (wanted <= room) {
			room -= wanted;
			field->memory = (size_t)wanted;
			field->active = *more = true;
		}
	}
	return true;
}

// Go on with the fields whose values did not fit.
static bool words_more(struct words_job *job, struct error *err, struct member_result *results)
{
	bool more = true;
	job->first = false;
	while (!job->options->once && !words_stopped(job)) {
		if (!words_choose(job, err, results, &more))
			return false;
		if (!more)
			break;
		if (!words_pass(job, err))
			return false;
	}
	return true;
}

static bool field_finish_text(struct words_job *job, struct field_job *field, struct error *err,
	struct member_result *ret)
{
	const struct find_options *options = job->options;
	texts_init(&ret->texts, max_u64(field_memory(job, job->field_count) / 2, TEXTS_MEMORY_MIN),
		options->fold, false);
	for (unsigned t = 0; t < job->threads; t++)
		texts_merge(&ret->texts, &field->texts[t]);
	if (ret->texts.full && !options->once && !words_stopped(job)) {
		texts_deinit(&ret->texts);
		return member_count_texts(&job->search, field->member, options, err, ret);
	}
	texts_rank(&ret->texts, options->top, options->min_count);
	return true;
}

static void field_finish_values(struct field_job *field, struct member_result *ret)
{
	struct best *best = &field->values.best;
	best_sort(best);
	ret->rows = best->rows;
	ret->row_count = best->count;
	best->rows = NULL;
}

// After the first pass: sum up what was read, and put texts together.
static bool words_texts(struct words_job *job, struct error *err, struct member_result *results)
{
	for (size_t i = 0; i < job->field_count; i++) {
		struct field_job *field = &job->fields[i];
		for (unsigned t = 0; t < job->threads; t++) {
			results[i].values += field->read[t];
			results[i].skipped += field->skipped[t];
		}
		if (field->member->form == MEMBER_TEXT &&
			!field_finish_text(job, field, err, &results[i]))
			return false;
	}
	return true;
}

static bool words_layout(struct words_job *job, struct error *err, struct word_result *ret)
{
	struct layout *layouts[LAYOUT_THREADS_MAX];
	bool again;
	ret->field_count = (size_t)(job->query->around_to - job->query->around_from + 1);
	ret->fields = calloc(ret->field_count, sizeof *ret->fields);
	if (ret->fields == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < job->threads; i++)
		layouts[i] = job->workers[i].layout;
	if (!layout_finish(layouts, job->threads, err, ret->fields, &again))
		return false;
	if (!again || job->options->once || words_stopped(job))
		return true;
	job->first = false;
	if (!words_pass(job, err))
		return false;
	layout_finish_again(layouts, job->threads, ret->fields);
	return true;
}

// ---- the result

static int address_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

static bool words_collect(const struct words_job *job, struct error *err, struct word_result *ret)
{
	const struct word_query *query = job->query;
	ret->span_counts = calloc(query->span_count + 1, sizeof *ret->span_counts);
	ret->addresses = calloc(query->first * job->threads + 1, sizeof *ret->addresses);
	ret->members = calloc(job->field_count + 1, sizeof *ret->members);
	if (ret->span_counts == NULL || ret->addresses == NULL || ret->members == NULL)
		return error_memory(err);
	ret->member_count = job->field_count;
	for (unsigned t = 0; t < job->threads; t++) {
		const struct worker *worker = &job->workers[t];
		ret->count += worker->count;
		for (size_t i = 0; i <= query->span_count; i++)
			ret->span_counts[i] += worker->span_counts[i];
		for (size_t i = 0; i < worker->address_count; i++)
			ret->addresses[ret->address_count++] = worker->addresses[i];
	}
	qsort(ret->addresses, ret->address_count, sizeof *ret->addresses, address_compare);
	ret->address_count = min_u64(ret->address_count, query->first);
	return true;
}

// A pipe is read once: what did not fit the memory has no row.
static bool words_lost(const struct words_job *job)
{
	for (size_t i = 0; i < job->field_count; i++)
		if (job->fields[i].member->form != MEMBER_TEXT && !job->fields[i].values.done)
			return true;
	return false;
}

static bool words_run(struct words_job *job, struct error *err, struct word_result *ret)
{
	job->first = true;
	job->layout = job->query->around;
	if (!words_pass(job, err) || !words_collect(job, err, ret))
		return false;
	if (job->query->around && !words_layout(job, err, ret))
		return false;
	job->layout = false;
	if (!words_texts(job, err, ret->members) || !words_more(job, err, ret->members))
		return false;
	if (job->options->once && words_lost(job))
		return error_set(err,
			"%s: can be read only once, and the memory does not hold all "
			"values of the fields; save the dump to a file, or use a "
			"larger --memory",
			image_info(job->options->image)->path);
	for (size_t i = 0; i < job->field_count; i++)
		if (job->fields[i].member->form != MEMBER_TEXT && ret->members[i].rows == NULL)
			field_finish_values(&job->fields[i], &ret->members[i]);
	ret->partial = words_stopped(job);
	return true;
}

bool find_words(const struct word_query *query, const struct find_options *options,
	struct error *err, struct word_result *ret)
{
	struct words_job job = {.query = query, .options = options};
	*ret = (struct word_result){0};
	place_search_init(&job.search, query, options->image);
	const bool ok = words_init(&job, err) && words_run(&job, err, ret);
	words_deinit(&job);
	if (!ok)
		word_result_deinit(ret);
	return ok;
}

void word_result_deinit(struct word_result *result)
{
	for (size_t i = 0; i < result->member_count; i++) {
		free(result->members[i].rows);
		texts_deinit(&result->members[i].texts);
	}
	for (size_t i = 0; i < result->field_count; i++)
		layout_field_deinit(&result->fields[i]);
	free(result->members);
	free(result->fields);
	free(result->span_counts);
	free(result->addresses);
	*result = (struct word_result){0};
}

// ---- all addresses

struct each {
	struct place_search search;
	uint64_t **addresses; // of each thread's window; owned
	size_t *counts;
	void (*emit)(void *context, uint64_t address);
	void *context;
};

static bool each_visit(
	void *context, unsigned worker, const struct sweep_window *window, struct error *err)
{
	(void)err;
	struct each *each = context;
	each->counts[worker] = 0;
	for (size_t at = window->from; (at = place_find(&each->search, window, at)) < window->to;
		at += each->search.word_size)
		each->addresses[worker][each->counts[worker]++] = window->address + at;
	return true;
}

static bool each_commit(
	void *context, unsigned worker, const struct sweep_window *window, struct error *err)
{
	(void)err;
	struct each *each = context;
	for (size_t i = 0; i < each->counts[worker]; i++)
		each->emit(each->context, each->addresses[worker][i]);
	if (window->zeros > 0 && each->search.zero)
		for (uint64_t i = 0; i < window->zeros; i += each->search.word_size)
			each->emit(each->context, window->address + i);
	return true;
}

bool find_each_word(const struct word_query *query, const struct find_options *options,
	void (*emit)(void *context, uint64_t address), void *context, struct error *err)
{
	struct each each = {.emit = emit, .context = context};
	place_search_init(&each.search, query, options->image);
	struct sweep sweep = {
		.image = options->image,
		.watch = options->watch,
		.before = each.search.before,
		.after = each.search.after,
		.chunk = SWEEP_CHUNK,
		.stride = 1,
		.stop = options->stop,
		.context = &each,
		.visit = each_visit,
		.commit = each_commit,
	};
	const size_t places = sweep_memory(&sweep) / each.search.word_size;
	const size_t memory = sweep_memory(&sweep) + places * sizeof(uint64_t);
	sweep.threads =
		(unsigned)max_u64(1, min_u64(options->threads, options->memory / 2 / memory));
	each.addresses = calloc(sweep.threads, sizeof *each.addresses);
	each.counts = calloc(sweep.threads, sizeof *each.counts);
	bool ok = (each.addresses != NULL && each.counts != NULL) || error_memory(err);
	for (unsigned i = 0; ok && i < sweep.threads; i++)
		ok = (each.addresses[i] = calloc(places, sizeof(uint64_t))) != NULL ||
		     error_memory(err);
	ok = ok && sweep_run(&sweep, err);
	for (unsigned i = 0; each.addresses != NULL && i < sweep.threads; i++)
		free(each.addresses[i]);
	free(each.addresses);
	free(each.counts);
	return ok;
}
