// SPDX-License-Identifier: MIT
#include "find/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define BUCKET_BITS 8
#define BUCKETS ((size_t)1 << BUCKET_BITS)
#define WAYS 4
// The loops over them are written out.
_Static_assert(2 * WAYS * sizeof(uint64_t) == 64, "a bucket is a line of the cache");
#define SET_BITS 11
#define SET_SLOTS ((size_t)1 << SET_BITS)

_Static_assert(LAYOUT_DISTINCT_MAX <= SET_SLOTS / 2, "probes are short");

// Values and how often they were seen, at most: one line of the cache.
struct bucket {
	_Alignas(64) uint64_t value[WAYS];
	uint64_t count[WAYS]; // 0: free
};

struct field {
	uint64_t values, skipped;
	// The value seen last, and how often in a row: most fields are the same everywhere.
	uint64_t last, run;
	struct bucket buckets[BUCKETS];
	uint64_t errors[BUCKETS][WAYS]; // counts may be too high by so much
	uint64_t set[SET_SLOTS];	// distinct values, 0: free
	size_t distinct;		// without 0
	bool zero;			// 0 was seen
	bool open;			// needs another pass
	uint64_t rest; // then: the most that values have that are not counted again
};

struct sampled {
	uint64_t hash; // of the address; UINT64_MAX: free
	size_t words;  // index of its words
};

struct layout {
	size_t field_count;
	bool frozen; // nothing gets into the buckets any more
	struct sampled sample[LAYOUT_SAMPLE];
	size_t highest;	 // index of the highest hash
	uint64_t *words; // of the sample: LAYOUT_SAMPLE times field_count; owned
	bool *present;	 // the same
	struct field fields[];
};

size_t layout_memory(size_t fields)
{
	return sizeof(struct layout) +
	       fields * (sizeof(struct field) + LAYOUT_SAMPLE * (sizeof(uint64_t) + sizeof(bool)));
}

bool layout_create(size_t fields, struct error *err, struct layout **ret)
{
	const size_t size = sizeof(struct layout) + fields * sizeof(struct field);
	struct layout *layout = aligned_alloc(_Alignof(struct layout), size);
	if (layout == NULL)
		return error_memory(err);
	memset(layout, 0, size);
	layout->field_count = fields;
	layout->words = calloc(LAYOUT_SAMPLE * fields, sizeof *layout->words);
	layout->present = calloc(LAYOUT_SAMPLE * fields, sizeof *layout->present);
	for (size_t i = 0; i < LAYOUT_SAMPLE; i++)
		layout->sample[i] = (struct sampled){UINT64_MAX, i};
	*ret = layout;
	return (layout->words != NULL && layout->present != NULL) || error_memory(err);
}

void layout_destroy(struct layout *layout)
{
	if (layout == NULL)
		return;
	free(layout->words);
	free(layout->present);
	free(layout);
}

// Any odd number with mixed bits: all runs must choose the same sample.
static uint64_t mixed(uint64_t value)
{
	value *= UINT64_C(0x9e3779b97f4a7c15);
	return (value ^ value >> 32) * UINT64_C(0xd6e8feb86659fd93);
}

// ---- adding

// Count a value that is not among the distinct ones yet.
static void set_add(struct field *field, uint64_t value)
{
	if (value == 0) {
		field->zero = true;
		return;
	}
	if (field->distinct > LAYOUT_DISTINCT_MAX)
		return;
	size_t at = (size_t)(mixed(value) >> (64 - SET_BITS));
	while (field->set[at] != 0 && field->set[at] != value)
		at = (at + 1) % SET_SLOTS;
	if (field->set[at] == 0) {
		field->set[at] = value;
		field->distinct++;
	}
}

static size_t bucket_of(uint64_t value)
{
	return (size_t)(mixed(value) >> (64 - BUCKET_BITS));
}

static void field_count(struct field *field, uint64_t value, uint64_t count, bool frozen)
{
	const size_t index = bucket_of(value);
	struct bucket *bucket = &field->buckets[index];
	// Without a branch for each: which one it is cannot be predicted.
	const uint64_t *values = bucket->value;
	const unsigned same = (unsigned)(values[0] == value) | (unsigned)(values[1] == value) << 1 |
			      (unsigned)(values[2] == value) << 2;
	const unsigned at = (unsigned)__builtin_ctz(same | 1U << (WAYS - 1));
	if (bucket->value[at] == value && bucket->count[at] != 0) {
		bucket->count[at] += count;
		return;
	}
	if (frozen)
		return;
	set_add(field, value);
	const uint64_t *counts = bucket->count;
	const unsigned low = counts[1] < counts[0], high = counts[3] < counts[2] ? 3 : 2;
	const unsigned rarest = counts[high] < counts[low] ? high : low;
	const uint64_t least = counts[rarest];
	bucket->value[rarest] = value;
	field->errors[index][rarest] = least;
	bucket->count[rarest] = least + count;
}

static void field_flush(struct field *field, bool frozen)
{
	if (field->run > 0)
		field_count(field, field->last, field->run, frozen);
	field->run = 0;
}

static inline void field_add(struct field *field, uint64_t value, uint64_t count, bool frozen)
{
	if (field->last == value) {
		field->run += count;
		return;
	}
	field_flush(field, frozen);
	field->last = value;
	field->run = count;
	// It is counted when the next place comes.
	__builtin_prefetch(&field->buckets[bucket_of(value)], 1);
	__builtin_prefetch(&field->errors[bucket_of(value)], 1);
}

static void layout_keep(struct layout *layout, const struct layout_place *place)
{
	const uint64_t hash = mixed(place->address) >> 1;
	struct sampled *sampled = &layout->sample[layout->highest];
	if (hash >= sampled->hash)
		return;
	const size_t fields = layout->field_count;
	sampled->hash = hash;
	memcpy(layout->words + sampled->words * fields, place->words,
		fields * sizeof *layout->words);
	for (size_t i = 0; i < fields; i++)
		layout->present[sampled->words * fields + i] =
			place->present == NULL || place->present[i];
	for (size_t i = 0; i < LAYOUT_SAMPLE; i++)
		if (layout->sample[i].hash > layout->sample[layout->highest].hash)
			layout->highest = i;
}

void layout_add(struct layout *layout, const struct layout_place *place, uint64_t count)
{
	for (size_t i = 0; i < layout->field_count; i++) {
		struct field *field = &layout->fields[i];
		if (place->present != NULL && !place->present[i]) {
			field->skipped += layout->frozen ? 0 : count;
			continue;
		}
		if (layout->frozen && !field->open)
			continue;
		field->values += layout->frozen ? 0 : count;
		field_add(field, place->words[i], count, layout->frozen);
	}
	if (!layout->frozen)
		layout_keep(layout, place);
}

// ---- putting together

// What a thread knows of how often it has seen a value.
struct bounds {
	uint64_t low, high;
};

static struct bounds field_bounds(struct field *field, uint64_t value)
{
	const size_t index = bucket_of(value);
	const struct bucket *bucket = &field->buckets[index];
	uint64_t least = UINT64_MAX;
	for (size_t i = 0; i < WAYS; i++) {
		if (bucket->value[i] == value && bucket->count[i] != 0)
			return (struct bounds){
				bucket->count[i] - field->errors[index][i], bucket->count[i]};
		least = min_u64(least, bucket->count[i]);
	}
	return (struct bounds){0, least};
}

// The most that a thread can have seen of a value that is in none of its buckets.
static uint64_t field_unlisted(const struct field *field)
{
	uint64_t most = 0;
	for (size_t b = 0; b < BUCKETS; b++) {
		uint64_t least = UINT64_MAX;
		for (size_t i = 0; i < WAYS; i++)
			least = min_u64(least, field->buckets[b].count[i]);
		most = max_u64(most, least);
	}
	return most;
}

// What is called frequent occurs more often.
static uint64_t frequent(uint64_t values)
{
	return values / LAYOUT_SHARE + 1;
}

struct merge {
	struct layout *const *layouts;
	unsigned threads;
	size_t index; // of the field
	struct layout_field *field;
	uint64_t most; // that any value but the chosen one can have
};

static struct field *merge_field(const struct merge *merge, unsigned thread)
{
	return &merge->layouts[thread]->fields[merge->index];
}

// Look at one value that a thread has listed, unless a thread before it has, too.
static void merge_value(struct merge *merge, unsigned thread, uint64_t value)
{
	struct bounds sum = {0, 0};
	for (unsigned i = 0; i < merge->threads; i++) {
		const struct bounds bounds = field_bounds(merge_field(merge, i), value);
		if (i < thread && bounds.low > 0)
			return;
		sum.low += bounds.low;
		sum.high += bounds.high;
	}
	struct layout_field *field = merge->field;
	if (sum.low < sum.high)
		merge->most = max_u64(merge->most, sum.high);
	else if (sum.low > field->count || (sum.low == field->count && value < field->value)) {
		field->value = value;
		field->count = field->count_max = sum.low;
	}
}

// The most frequent value of those that are known exactly, and what others can have at most.
static void merge_values(struct merge *merge)
{
	merge->field->count = merge->field->count_max = 0;
	merge->most = 0;
	for (unsigned t = 0; t < merge->threads; t++) {
		field_flush(merge_field(merge, t), merge->layouts[t]->frozen);
		merge->most += field_unlisted(merge_field(merge, t));
	}
	for (unsigned t = 0; t < merge->threads; t++)
		for (size_t b = 0; b < BUCKETS; b++)
			for (size_t i = 0; i < WAYS; i++) {
				const struct bucket *bucket = &merge_field(merge, t)->buckets[b];
				if (bucket->count[i] != 0)
					merge_value(merge, t, bucket->value[i]);
			}
}

static void merge_distinct(struct merge *merge)
{
	struct field *all = merge_field(merge, 0);
	for (unsigned t = 1; t < merge->threads; t++) {
		const struct field *field = merge_field(merge, t);
		for (size_t i = 0; i < SET_SLOTS; i++)
			if (field->set[i] != 0)
				set_add(all, field->set[i]);
		all->zero = all->zero || field->zero;
		all->distinct = max_u64(all->distinct, field->distinct);
	}
	const uint64_t distinct = all->distinct + all->zero;
	merge->field->distinct = distinct > LAYOUT_DISTINCT_MAX ? UINT64_MAX : distinct;
}

static int number_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

// The most frequent value of the sample stands for values that are all rare.
static void field_choose_rare(struct layout_field *field, uint64_t most)
{
	uint64_t run = 0;
	field->count = 0;
	for (size_t i = 0; i < field->sample_count; i++) {
		run = i > 0 && field->sample[i] == field->sample[i - 1] ? run + 1 : 1;
		if (run > field->count) {
			field->count = run;
			field->value = field->sample[i];
		}
	}
	field->count_max = max_u64(most, min_u64(frequent(field->values), field->values));
}

// The sample of all threads: the lowest hashes among theirs, in order.
static size_t merge_sample(
	struct layout *const *layouts, unsigned threads, struct sampled *ret, unsigned *thread)
{
	size_t at[threads], count = 0;
	memset(at, 0, sizeof at);
	while (count < LAYOUT_SAMPLE) {
		unsigned best = threads;
		for (unsigned t = 0; t < threads; t++)
			if (at[t] < LAYOUT_SAMPLE &&
				(best == threads || layouts[t]->sample[at[t]].hash <
							    layouts[best]->sample[at[best]].hash))
				best = t;
		if (best == threads || layouts[best]->sample[at[best]].hash == UINT64_MAX)
			break;
		thread[count] = best;
		ret[count++] = layouts[best]->sample[at[best]++];
	}
	return count;
}

static int sampled_compare(const void *left, const void *right)
{
	const struct sampled *a = left, *b = right;
	return a->hash < b->hash ? -1 : a->hash > b->hash;
}

static bool field_sample(struct layout_field *field, size_t index, struct layout *const *layouts,
	const struct sampled *sample, const unsigned *thread, size_t count, struct error *err)
{
	field->sample = calloc(count + 1, sizeof *field->sample);
	if (field->sample == NULL)
		return error_memory(err);
	for (size_t i = 0; i < count; i++) {
		const struct layout *layout = layouts[thread[i]];
		const size_t at = sample[i].words * layout->field_count + index;
		if (layout->present[at])
			field->sample[field->sample_count++] = layout->words[at];
	}
	qsort(field->sample, field->sample_count, sizeof *field->sample, number_compare);
	return true;
}

// List a value that is to be counted again; false if there is no room.
static bool field_put(struct field *field, uint64_t value)
{
	const size_t index = bucket_of(value);
	struct bucket *bucket = &field->buckets[index];
	for (size_t i = 0; i < WAYS; i++)
		if (bucket->count[i] == 0) {
			bucket->value[i] = value;
			// Listed, and not seen yet.
			bucket->count[i] = field->errors[index][i] = 1;
			return true;
		}
	return false;
}

// Start anew with the values that may be frequent, in the tables of all threads.
static bool merge_freeze(struct merge *merge, struct error *err)
{
	const uint64_t bar = max_u64(merge->field->count, frequent(merge->field->values));
	const size_t most = BUCKETS * WAYS * merge->threads;
	uint64_t *candidates = calloc(most, sizeof *candidates);
	if (candidates == NULL)
		return error_memory(err);
	size_t count = 0;
	uint64_t rest = 0;
	for (unsigned t = 0; t < merge->threads; t++) {
		rest += field_unlisted(merge_field(merge, t));
		for (size_t b = 0; b < BUCKETS * WAYS; b++) {
			const struct bucket *bucket = &merge_field(merge, t)->buckets[b / WAYS];
			const uint64_t value = bucket->value[b % WAYS];
			uint64_t high = 0;
			for (unsigned u = 0; u < merge->threads; u++)
				high += field_bounds(merge_field(merge, u), value).high;
			if (bucket->count[b % WAYS] != 0 && high >= bar)
				candidates[count++] = value;
		}
	}
	qsort(candidates, count, sizeof *candidates, number_compare);
	for (unsigned t = 0; t < merge->threads; t++) {
		struct field *field = merge_field(merge, t);
		memset(field->buckets, 0, sizeof field->buckets);
		memset(field->errors, 0, sizeof field->errors);
		field->open = true;
		field->rest = rest;
		for (size_t i = 0; i < count; i++)
			if ((i == 0 || candidates[i] != candidates[i - 1]) &&
				!field_put(field, candidates[i]))
				field->rest = UINT64_MAX;
	}
	free(candidates);
	return true;
}

// Choose the most frequent value; true if it is not sure that it is.
static bool merge_choose(struct merge *merge)
{
	struct layout_field *field = merge->field;
	const uint64_t bar = max_u64(field->count, frequent(field->values));
	const bool open = merge->most > bar;
	if (field->count <= frequent(field->values))
		field_choose_rare(field, open ? min_u64(merge->most, field->values) : 0);
	else if (open)
		field->count_max = min_u64(merge->most, field->values);
	return open;
}

static bool field_finish(struct layout *const *layouts, unsigned threads, size_t index,
	struct layout_field *field, struct error *err, bool *again)
{
	struct merge merge = {layouts, threads, index, field, 0};
	for (unsigned t = 0; t < threads; t++) {
		field->values += layouts[t]->fields[index].values;
		field->skipped += layouts[t]->fields[index].skipped;
	}
	merge_values(&merge);
	merge_distinct(&merge);
	const struct layout_field exact = *field;
	if (!merge_choose(&merge))
		return true;
	*again = true;
	field->value = exact.value;
	field->count = exact.count;
	const bool ok = merge_freeze(&merge, err);
	merge_choose(&merge);
	return ok;
}

bool layout_finish(struct layout *const *layouts, unsigned threads, struct error *err,
	struct layout_field *fields, bool *again)
{
	struct sampled sample[LAYOUT_SAMPLE];
	unsigned thread[LAYOUT_SAMPLE];
	*again = false;
	for (unsigned t = 0; t < threads; t++)
		qsort(layouts[t]->sample, LAYOUT_SAMPLE, sizeof *sample, sampled_compare);
	const size_t count = merge_sample(layouts, threads, sample, thread);
	bool ok = true;
	for (size_t i = 0; ok && i < layouts[0]->field_count; i++)
		ok = field_sample(&fields[i], i, layouts, sample, thread, count, err) &&
		     field_finish(layouts, threads, i, &fields[i], err, again);
	for (unsigned t = 0; t < threads; t++)
		layouts[t]->frozen = true;
	return ok;
}

void layout_finish_again(
	struct layout *const *layouts, unsigned threads, struct layout_field *fields)
{
	for (size_t i = 0; i < layouts[0]->field_count; i++) {
		if (!layouts[0]->fields[i].open)
			continue;
		struct merge merge = {layouts, threads, i, &fields[i], 0};
		for (unsigned t = 0; t < threads; t++) {
			struct field *field = merge_field(&merge, t);
			field_flush(field, true);
			for (size_t b = 0; b < BUCKETS * WAYS; b++) {
				uint64_t *error = &field->errors[b / WAYS][b % WAYS];
				field->buckets[b / WAYS].count[b % WAYS] -= *error;
				*error = 0;
			}
		}
		merge_values(&merge);
		merge.most = layouts[0]->fields[i].rest;
		merge_choose(&merge);
	}
}

void layout_field_deinit(struct layout_field *field)
{
	free(field->sample);
}
