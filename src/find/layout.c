// SPDX-License-Identifier: MIT
#include "find/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define BUCKET_BITS 7
#define BUCKETS ((size_t)1 << BUCKET_BITS)
#define WAYS 4
#define CELL_BITS 3
#define CELLS ((size_t)1 << CELL_BITS)
#define SET_BITS 11
#define SET_SLOTS ((size_t)1 << SET_BITS)

_Static_assert(LAYOUT_DISTINCT_MAX <= SET_SLOTS / 2, "probes are short");

// Values whose hashes begin alike. Some are listed: how often they were seen, at most. The others
// are added up in cells by what follows in their hashes: none was seen more often than its cell
// says. One whose cell is far above the rarest that is listed takes its place.
struct bucket {
	_Alignas(64) uint64_t value[WAYS];
	uint64_t seen[WAYS + CELLS]; // of the listed values, 0: free; then the cells
};

_Static_assert(sizeof(struct bucket) == 128, "lines of the cache");

struct field {
	struct bucket buckets[BUCKETS];
	uint64_t bars[BUCKETS];		// a cell that gets here is looked at; 0: places are free
	uint64_t errors[BUCKETS][WAYS]; // listed values may have been seen less often by so much
	uint64_t set[SET_SLOTS];	// distinct values, 0: free
	uint64_t values, skipped;
	uint64_t rest;	 // if open: the most that values have that are not counted again
	size_t distinct; // without 0
	bool zero;	 // 0 was seen
	bool settled;	 // distinct values are not counted any more
	bool open;	 // needs another pass
};

// Places whose words are kept until there are enough of them to go through field by field: then one
// field's tables are in the first-level cache, not those of all.
#define BATCH ((size_t)1024)
// The words of a field in a batch; not a multiple of the cache's sets.
#define COLUMN (BATCH + 8)

struct sampled {
	uint64_t hash; // of the address; UINT64_MAX: free
	size_t words;  // index of its words
};

struct layout {
	size_t field_count;
	bool frozen; // in the second pass
	struct sampled sample[LAYOUT_SAMPLE];
	size_t highest;	 // index of the highest hash
	uint64_t *words; // of the sample: LAYOUT_SAMPLE times field_count; owned
	bool *present;	 // the same
	uint64_t *batch; // a column for each field; owned
	size_t batched;	 // places in it
	struct field fields[];
};

size_t layout_memory(size_t fields)
{
	return sizeof(struct layout) +
	       fields * (sizeof(struct field) + COLUMN * sizeof(uint64_t) +
				LAYOUT_SAMPLE * (sizeof(uint64_t) + sizeof(bool)));
}

// Empty all buckets. What stands in a free place is never looked for there: the hash of 0 is 0,
// that of 1 begins with a one.
static void field_clear(struct field *field)
{
	memset(field->buckets, 0, sizeof field->buckets);
	memset(field->bars, 0, sizeof field->bars);
	memset(field->errors, 0, sizeof field->errors);
	for (size_t i = 0; i < WAYS; i++)
		field->buckets[0].value[i] = 1;
}

bool layout_create(size_t fields, struct error *err, struct layout **ret)
{
	const size_t size = sizeof(struct layout) + fields * sizeof(struct field);
	struct layout *layout = aligned_alloc(_Alignof(struct layout), size);
	if (layout == NULL)
		return error_memory(err);
	memset(layout, 0, size);
	layout->field_count = fields;
	for (size_t i = 0; i < fields; i++)
		field_clear(&layout->fields[i]);
	layout->words = calloc(LAYOUT_SAMPLE * fields, sizeof *layout->words);
	layout->present = calloc(LAYOUT_SAMPLE * fields, sizeof *layout->present);
	layout->batch = calloc(COLUMN * fields, sizeof *layout->batch);
	for (size_t i = 0; i < LAYOUT_SAMPLE; i++)
		layout->sample[i] = (struct sampled){UINT64_MAX, i};
	*ret = layout;
	return (layout->words != NULL && layout->present != NULL && layout->batch != NULL) ||
	       error_memory(err);
}

void layout_destroy(struct layout *layout)
{
	if (layout == NULL)
		return;
	free(layout->words);
	free(layout->present);
	free(layout->batch);
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
	if (field->settled)
		return;
	size_t at = (size_t)(mixed(value) >> (64 - SET_BITS));
	while (field->set[at] != 0 && field->set[at] != value)
		at = (at + 1) % SET_SLOTS;
	if (field->set[at] == 0) {
		field->set[at] = value;
		field->settled = ++field->distinct > LAYOUT_DISTINCT_MAX;
	}
}

// Multiplicative hashing: the upper bits choose the bucket, those below them the cell.
static uint64_t value_hash(uint64_t value)
{
	return value * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t bucket_of(uint64_t value)
{
	return (size_t)(value_hash(value) >> (64 - BUCKET_BITS));
}

// The index of a value's cell in what its bucket has seen.
static unsigned cell_of(uint64_t value)
{
	return WAYS + (unsigned)(value_hash(value) >> (64 - BUCKET_BITS - CELL_BITS) & (CELLS - 1));
}

static void field_list(
	struct field *field, uint64_t value, size_t at, uint64_t count, uint64_t error)
{
	const size_t index = bucket_of(value);
	field->buckets[index].value[at] = value;
	field->buckets[index].seen[at] = count;
	field->errors[index][at] = error;
}

// The cell of a value, which was seen `count` times just now, has got to the bar: list the value if
// there is room or if it is worth it.
static void field_admit(struct field *field, uint64_t value, uint64_t count)
{
	const size_t index = bucket_of(value);
	uint64_t *seen = field->buckets[index].seen, *cell = &seen[cell_of(value)];
	size_t rarest = 0;
	for (size_t i = 1; i < WAYS; i++)
		if (seen[i] < seen[rarest])
			rarest = i;
	if (seen[rarest] == 0) {
		*cell -= count;
		field_list(field, value, rarest, *cell + count, *cell);
		return;
	}
	// Far above: else values that are all rare would take each other's places all the time.
	field->bars[index] = add_saturated(add_saturated(seen[rarest], seen[rarest]), 8);
	if (*cell < field->bars[index])
		return;
	seen[cell_of(field->buckets[index].value[rarest])] +=
		seen[rarest] - field->errors[index][rarest];
	field_list(field, value, rarest, *cell, *cell);
}

static inline void field_add(struct field *field, uint64_t value, uint64_t count)
{
	const size_t index = bucket_of(value);
	struct bucket *bucket = &field->buckets[index];
	// Without a branch: which one it is cannot be predicted.
	const unsigned same = (unsigned)(bucket->value[0] == value) |
			      (unsigned)(bucket->value[1] == value) << 1 |
			      (unsigned)(bucket->value[2] == value) << 2 |
			      (unsigned)(bucket->value[3] == value) << 3;
	const unsigned listed = (unsigned)__builtin_ctz(same | 1U << WAYS);
	const unsigned at = listed < WAYS ? listed : cell_of(value);
	const uint64_t seen = bucket->seen[at] += count;
	if (((unsigned)(at >= WAYS) & (unsigned)(seen >= field->bars[index])) != 0)
		field_admit(field, value, count);
	if (!field->settled && at >= WAYS)
		set_add(field, value);
}

// Whether all words of a column are the same as value.
static bool column_is(const uint64_t *column, size_t count, uint64_t value)
{
	uint64_t different = 0;
	for (size_t i = 0; i < count; i++)
		different |= column[i] ^ value;
	return different == 0;
}

static void batch_flush(struct layout *layout)
{
	const size_t count = layout->batched;
	for (size_t i = 0; count > 0 && i < layout->field_count; i++) {
		struct field *field = &layout->fields[i];
		const uint64_t *column = layout->batch + i * COLUMN;
		if (layout->frozen && !field->open)
			continue;
		field->values += layout->frozen ? 0 : count;
		if (column[0] == column[count - 1] && column_is(column, count, column[0]))
			field_add(field, column[0], count);
		else
			for (size_t k = 0; k < count; k++)
				field_add(field, column[k], 1);
	}
	layout->batched = 0;
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
	if (!layout->frozen)
		layout_keep(layout, place);
	if (count == 1 && place->present == NULL) {
		for (size_t i = 0; i < layout->field_count; i++)
			layout->batch[i * COLUMN + layout->batched] = place->words[i];
		if (++layout->batched == BATCH)
			batch_flush(layout);
		return;
	}
	for (size_t i = 0; i < layout->field_count; i++) {
		struct field *field = &layout->fields[i];
		if (place->present != NULL && !place->present[i]) {
			field->skipped += layout->frozen ? 0 : count;
			continue;
		}
		if (layout->frozen && !field->open)
			continue;
		field->values += layout->frozen ? 0 : count;
		field_add(field, place->words[i], count);
	}
}

// ---- putting together

// What a thread knows of how often it has seen a value.
struct bounds {
	uint64_t low, high;
};

static struct bounds field_bounds(const struct field *field, uint64_t value)
{
	const size_t index = bucket_of(value);
	const struct bucket *bucket = &field->buckets[index];
	for (size_t i = 0; i < WAYS; i++)
		if (bucket->value[i] == value)
			return (struct bounds){
				bucket->seen[i] - field->errors[index][i], bucket->seen[i]};
	return (struct bounds){0, bucket->seen[cell_of(value)]};
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

// The most that the threads together can have seen of a value that none of them lists.
static uint64_t merge_unlisted(const struct merge *merge)
{
	uint64_t most = 0;
	for (size_t b = 0; b < BUCKETS; b++)
		for (size_t i = 0; i < CELLS; i++) {
			uint64_t sum = 0;
			for (unsigned t = 0; t < merge->threads; t++)
				sum += merge_field(merge, t)->buckets[b].seen[WAYS + i];
			most = max_u64(most, sum);
		}
	return most;
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
	merge->most = merge_unlisted(merge);
	for (unsigned t = 0; t < merge->threads; t++)
		for (size_t b = 0; b < BUCKETS; b++)
			for (size_t i = 0; i < WAYS; i++) {
				const struct bucket *bucket = &merge_field(merge, t)->buckets[b];
				if (bucket->seen[i] != 0)
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
	size_t at[LAYOUT_THREADS_MAX] = {0}, count = 0;
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
	for (size_t i = 0; i < WAYS; i++)
		if (field->buckets[bucket_of(value)].seen[i] == 0) {
			// Listed, and not seen yet.
			field_list(field, value, i, 1, 1);
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
	const uint64_t rest = merge_unlisted(merge);
	for (unsigned t = 0; t < merge->threads; t++) {
		for (size_t b = 0; b < BUCKETS * WAYS; b++) {
			const struct bucket *bucket = &merge_field(merge, t)->buckets[b / WAYS];
			const uint64_t value = bucket->value[b % WAYS];
			uint64_t high = 0;
			for (unsigned u = 0; u < merge->threads; u++)
				high += field_bounds(merge_field(merge, u), value).high;
			if (bucket->seen[b % WAYS] != 0 && high >= bar)
				candidates[count++] = value;
		}
	}
	qsort(candidates, count, sizeof *candidates, number_compare);
	for (unsigned t = 0; t < merge->threads; t++) {
		struct field *field = merge_field(merge, t);
		field_clear(field);
		// Nothing else gets a place.
		memset(field->bars, 0xff, sizeof field->bars);
		field->settled = true;
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
		batch_flush(layouts[t]);
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
	for (unsigned t = 0; t < threads; t++)
		batch_flush(layouts[t]);
	for (size_t i = 0; i < layouts[0]->field_count; i++) {
		if (!layouts[0]->fields[i].open)
			continue;
		struct merge merge = {layouts, threads, i, &fields[i], 0};
		for (unsigned t = 0; t < threads; t++) {
			struct field *field = merge_field(&merge, t);
			for (size_t b = 0; b < BUCKETS; b++)
				for (size_t k = 0; k < WAYS; k++)
					field->buckets[b].seen[k] -= field->errors[b][k];
			memset(field->errors, 0, sizeof field->errors);
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
