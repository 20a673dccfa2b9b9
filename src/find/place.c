// SPDX-License-Identifier: MIT
#include "find/place.h"

#include "find/find.h"
#include "find/search.h"

// Round up to whole words of any size.
static size_t whole(uint64_t bytes)
{
	return (size_t)((bytes + 7) / 8 * 8);
}

static void search_reach(struct place_search *search, int64_t from, int64_t to)
{
	if (from < 0)
		search->before = max_u64(search->before, whole((uint64_t)-from));
	if (to > 0)
		search->after = max_u64(search->after, whole((uint64_t)to));
}

void place_search_init(
	struct place_search *search, const struct word_query *query, const struct image *image)
{
	const struct image_info *info = image_info(image);
	const int64_t size = info->word_size;
	*search = (struct place_search){
		.count = query->value_count,
		.word_size = info->word_size,
		.order = info->order,
		.after = 8,
	};
	for (size_t i = 0; i < query->value_count; i++) {
		search->native[i] = word_swap(query->values[i], info->word_size, info->order);
		search->zero = search->zero || query->values[i] == 0;
	}
	for (size_t i = 0; query->members != NULL && i < query->members->count; i++) {
		const struct member *member = &query->members->list[i];
		const bool text = member->form == MEMBER_TEXT;
		search_reach(search, member->offset,
			member->offset + (text ? (int64_t)FIND_CONTEXT + 4 : member->size));
	}
	if (query->around)
		search_reach(search, query->around_from * size, (query->around_to + 1) * size);
}

size_t place_find(const struct place_search *search, const struct sweep_window *window, size_t from)
{
	return search_word(
		search->native, search->count, search->word_size, window->bytes, from, window->to);
}

bool place_load(const struct place_search *search, const struct sweep_window *window, size_t place,
	int64_t offset, unsigned size, uint64_t *ret)
{
	const int64_t at = (int64_t)place + offset;
	if (at >= 0 && (uint64_t)at + size <= window->size) {
		*ret = member_load(window->bytes + at, size, search->order);
		return true;
	}
	*ret = 0;
	return at < 0 ? window->zeros_before : window->zeros_after;
}

bool place_text(const struct sweep_window *window, size_t place, int64_t offset,
	const struct text_pass *pass, struct text *ret)
{
	const int64_t at = (int64_t)place + offset;
	const bool inside = at >= 0 && (uint64_t)at < window->size;
	*ret = (struct text){
		.bytes = inside ? window->bytes + at : window->bytes,
		.address = window->address + (uint64_t)at,
	};
	if (inside)
		ret->size = text_after(
			window->bytes, (size_t)at, window->size, FIND_CONTEXT, &ret->cut_after);
	ret->length = ret->size;
	struct text_hash hash = text_hash_begin(pass->seed, pass->fold);
	text_hash_add(&hash, ret->bytes, ret->size);
	ret->hash = text_hash_end(&hash) ^ ret->cut_after;
	return inside || (at < 0 ? window->zeros_before : window->zeros_after);
}

// ---- with the engine

struct member_job {
	const struct place_search *search;
	const struct member *member;
	struct sweep sweep;
	struct sweep_source *source;
};

// Windows whose fields fit a block of the engine.
static size_t job_chunk(const struct place_search *search)
{
	const size_t most = HASHES_MAX * search->word_size, shared = search->after + 64;
	return (most - shared) / 64 * 64;
}

struct value_sink {
	const struct member_job *job;
	uint64_t *values;
	size_t count;
	uint64_t zeros;
};

static bool value_visit(
	void *context, unsigned worker, const struct sweep_window *window, struct error *err)
{
	(void)worker;
	(void)err;
	struct value_sink *sink = context;
	const struct place_search *search = sink->job->search;
	const struct member *member = sink->job->member;
	if (window->zeros > 0 && search->zero)
		sink->zeros += window->zeros / search->word_size;
	for (size_t at = window->from;
		(at = place_find(search, window, at)) < window->to && sink->count < HASHES_MAX;
		at += search->word_size)
		sink->count += place_load(search, window, at, member->offset, member->size,
			&sink->values[sink->count]);
	return true;
}

static bool value_start(void *context, unsigned stride, struct error *err)
{
	struct member_job *job = context;
	sweep_close(job->source);
	job->source = NULL;
	job->sweep.stride = stride;
	return sweep_open(&job->sweep, err, &job->source);
}

static int value_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	struct member_job *job = context;
	struct value_sink sink = {.job = job, .values = buffer};
	const int more = sweep_next(job->source, &sink, err);
	*ret = (struct count_block){.words = sink.count, .zeros = sink.zeros};
	return more;
}

bool member_count_values(const struct place_search *search, const struct member *member,
	const struct find_options *options, uint64_t values, struct error *err,
	struct member_result *ret)
{
	struct member_job job = {
		.search = search,
		.member = member,
		.sweep =
			{
				.image = options->image,
				.watch = options->watch,
				.before = search->before,
				.after = search->after,
				.chunk = job_chunk(search),
				.threads = options->threads,
				.visit = value_visit,
			},
	};
	const struct count_source source = {
		.context = &job,
		.start = value_start,
		.next = value_next,
		.words = values,
	};
	const size_t windows = options->threads * sweep_memory(&job.sweep);
	const struct count_options count_options = {
		.top = options->top,
		.min_count = options->min_count,
		.word_size = 8,
		.order = ORDER_NATIVE,
		.memory = max_u64(
			COUNT_MEMORY_MIN, options->memory - min_u64(options->memory, windows)),
		.threads = options->threads,
		.stop = options->stop,
	};
	struct count_result result;
	const bool ok = count_words(&source, &count_options, err, &result);
	sweep_close(job.source);
	if (!ok)
		return false;
	ret->rows = result.rows;
	ret->row_count = result.row_count;
	return true;
}

static void text_visit(
	void *context, const struct text_pass *pass, const struct sweep_window *window)
{
	const struct member_job *job = context;
	const struct place_search *search = job->search;
	struct text text = {.address = window->address};
	if (window->zeros > 0 && search->zero)
		pass->sink(pass->context, &text, window->zeros / search->word_size);
	for (size_t at = window->from; (at = place_find(search, window, at)) < window->to;
		at += search->word_size) {
		if (place_text(window, at, job->member->offset, pass, &text))
			pass->sink(pass->context, &text, 1);
	}
}

bool member_count_texts(const struct place_search *search, const struct member *member,
	const struct find_options *options, struct error *err, struct member_result *ret)
{
	struct member_job job = {.search = search, .member = member};
	const struct text_finder finder = {
		.before = search->before,
		.after = search->after,
		.chunk = SWEEP_CHUNK,
		.hash_chunk = job_chunk(search),
		.context = &job,
		.visit = text_visit,
	};
	struct text_result result;
	if (!texts_count(&finder, options, err, &result))
		return false;
	ret->texts = result.texts;
	return true;
}
