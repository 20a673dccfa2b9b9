// SPDX-License-Identifier: MIT
#include "types/grouping.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "types/hashtable.h"

// Sizes that are told apart. Above 64 KiB there are so few blocks that each may have its own, as
// far as that goes: 4 GiB of them.
#define GROUPS_MAX ((size_t)1 << 16)
// What a block is, its first words say.
#define BEGINNING ((size_t)OFFSET_MAX + 8)

// ---- passes

struct scan {
	struct groups *groups;
	struct image_scan *pieces;
	groups_look *look;
	void *context;
	atomic_bool failed;
};

struct worker {
	struct scan *scan;
	unsigned number;
	unsigned char *memory; // IMAGE_CHUNK_SIZE; owned
	struct parts parts;
	struct error err;
	bool ok;
	pthread_t thread;
};

static void piece_look(struct worker *worker, uint64_t address, size_t size)
{
	const struct scan *scan = worker->scan;
	const struct groups *groups = scan->groups;
	const struct view view = {groups->image, address, worker->memory, size};
	parts_find(&groups->lookup, &view, image_info(groups->image)->word_size, &worker->parts);
	scan->look(scan->context, worker->number, &view, &worker->parts);
}

// Blocks in a hole are all zeros; what no block begins in is skipped.
static void hole_look(struct worker *worker, uint64_t address, uint64_t end)
{
	const struct heap *heap = worker->scan->groups->options->heap;
	size_t index = heap_region_behind(heap, address);
	memset(worker->memory, 0, (size_t)min_u64(IMAGE_CHUNK_SIZE, end - address));
	while (index < heap->region_count && heap->regions[index].start < end) {
		const uint64_t at = max_u64(address, heap->regions[index].start & ~UINT64_C(7));
		const size_t size = (size_t)min_u64(IMAGE_CHUNK_SIZE, end - at);
		piece_look(worker, at, size);
		address = at + size;
		if (worker->parts.count == 0 && worker->parts.before.state != PART_NONE)
			address = max_u64(address, worker->parts.before.limit & ~UINT64_C(7));
		if (address >= end)
			break;
		index = heap_region_behind(heap, address);
	}
}

static void *worker_run(void *argument)
{
	struct worker *worker = argument;
	struct scan *scan = worker->scan;
	const struct groups_options *options = scan->groups->options;
	struct image_chunk chunk;
	int more;
	while (atomic_load(options->stop) == 0 && !atomic_load(&scan->failed)) {
		more = image_scan_next(scan->pieces, worker->memory, &chunk, &worker->err);
		worker->ok = more >= 0;
		if (more <= 0)
			break;
		if (options->watch.add != NULL)
			options->watch.add(options->watch.context, chunk.size + chunk.zeros);
		if (chunk.zeros > 0)
			hole_look(worker, chunk.address, chunk.address + chunk.zeros);
		else
			piece_look(worker, chunk.address, chunk.size);
	}
	if (!worker->ok)
		atomic_store(&scan->failed, true);
	return NULL;
}

static bool workers_run(struct worker *workers, unsigned count, struct error *err)
{
	unsigned started = 1;
	bool ok = true;
	// What cannot be started is done by the others.
	while (started < count &&
		pthread_create(&workers[started].thread, NULL, worker_run, &workers[started]) == 0)
		started++;
	worker_run(&workers[0]);
	for (unsigned i = 1; i < started; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < started && ok; i++)
		if (!workers[i].ok) {
			*err = workers[i].err;
			ok = false;
		}
	return ok;
}

bool groups_scan(struct groups *groups, groups_look *look, void *context, struct error *err)
{
	const struct groups_options *options = groups->options;
	const unsigned word = image_info(groups->image)->word_size;
	struct scan scan = {.groups = groups, .look = look, .context = context};
	struct worker *workers = calloc(options->threads, sizeof *workers);
	bool ok = workers != NULL;
	for (unsigned i = 0; ok && i < options->threads; i++) {
		workers[i] = (struct worker){.scan = &scan, .number = i, .ok = true};
		workers[i].memory = aligned_alloc(64, IMAGE_CHUNK_SIZE);
		workers[i].parts.list =
			calloc(parts_max(IMAGE_CHUNK_SIZE, word), sizeof *workers[i].parts.list);
		ok = workers[i].memory != NULL && workers[i].parts.list != NULL;
	}
	if (!ok)
		error_memory(err);
	if (ok && options->watch.begin != NULL)
		options->watch.begin(
			options->watch.context, image_info(groups->image)->bytes_present);
	ok = ok && image_scan_open(groups->image, 1, err, &scan.pieces);
	if (ok) {
		ok = workers_run(workers, options->threads, err);
		image_scan_close(scan.pieces);
	}
	for (unsigned i = 0; workers != NULL && i < options->threads; i++) {
		free(workers[i].memory);
		free(workers[i].parts.list);
	}
	free(workers);
	return ok;
}

// ---- which blocks have rows

bool groups_row_of(
	const struct groups *groups, const unsigned char *bytes, size_t size, uint64_t *ret)
{
	const struct image_info *info = image_info(groups->image);
	const struct types_result *result = groups->result;
	const unsigned word = info->word_size;
	const size_t count = result->mark_count;
	const uint64_t first = count > 0 ? result->marks[0] : 0;
	const uint64_t length = count > 0 ? result->marks[count - 1] - first : 0;
	for (size_t at = 0; at + word <= min_u64(size, BEGINNING); at += word) {
		const uint64_t value = word_load(bytes + at, word, info->order);
		size_t low = 0, high = count;
		if (value - first > length || count == 0)
			continue;
		while (low < high) {
			const size_t middle = low + (high - low) / 2;
			if (result->marks[middle] < value)
				low = middle + 1;
			else
				high = middle;
		}
		if (low < count && result->marks[low] == value) {
			*ret = value;
			return true;
		}
	}
	return false;
}

void groups_each(const struct groups *groups, const struct view *view, const struct parts *parts,
	groups_take *take, void *context)
{
	const unsigned word = image_info(groups->image)->word_size;
	size_t hint = parts->hint;
	for (size_t i = 0; i < parts->count; i++) {
		const part_mark mark = parts->list[i];
		const uint32_t offset = mark_offset(mark);
		const uint64_t address = view->address + offset;
		const uint64_t next = i + 1 < parts->count
					      ? view->address + mark_offset(parts->list[i + 1])
					      : parts->end;
		unsigned char copy[BEGINNING];
		uint64_t value;
		if (mark_state(mark) != PART_USED)
			continue;
		if (claims_have(groups->options->claims,
			    region_slot(heap_region_near(parts->heap, address, &hint), address)))
			continue;
		const struct part block = (mark & MARK_LAST) != 0
						  ? part_last(parts->heap, mark, address, &hint)
						  : mark_part(mark, address, next - address, word);
		size_t size = (size_t)min_u64(BEGINNING, block.limit - address);
		const unsigned char *bytes = view->bytes + offset;
		if (size > view->size - offset) {
			size = image_read(groups->image, address, copy, size);
			bytes = copy;
		}
		if (!groups_row_of(groups, bytes, size, &value))
			take(context, &block, view);
	}
}

// ---- groups by size

static uint64_t mix(uint64_t value)
{
	value ^= value >> 32;
	value *= UINT64_C(0xd6e8feb86659fd93);
	value ^= value >> 32;
	value *= UINT64_C(0xd6e8feb86659fd93);
	return value ^ value >> 32;
}

static uint64_t group_hash(const void *record)
{
	return mix(((const struct group *)record)->size);
}

static bool group_same(const void *left, const void *right)
{
	return ((const struct group *)left)->size == ((const struct group *)right)->size;
}

static void group_sample(struct group *group, struct sample sample)
{
	unsigned at = group->sample_count;
	if (at == SAMPLES && group->samples[at - 1].hash <= sample.hash)
		return;
	if (at < SAMPLES)
		group->sample_count++;
	else
		at--;
	for (; at > 0 && group->samples[at - 1].hash > sample.hash; at--)
		group->samples[at] = group->samples[at - 1];
	group->samples[at] = sample;
}

static void group_join(struct group *group, const struct group *more)
{
	group->first = group->count == 0 ? more->first : min_u64(group->first, more->first);
	group->size = more->size;
	group->usable = more->usable;
	group->count += more->count;
	for (unsigned i = 0; i < more->sample_count; i++)
		group_sample(group, more->samples[i]);
}

static void table_join(struct hashtable *table, const struct group *more)
{
	struct group key = *more;
	if (!hashtable_reserve(table))
		return;
	struct group *group = hashtable_find(table, &key);
	if (group->count == 0 && table->count >= GROUPS_MAX) {
		// One for what is too much.
		key.size = 0;
		group = hashtable_find(table, &key);
	}
	table->count += group->count == 0;
	const uint64_t size = key.size;
	group_join(group, more);
	group->size = size;
}

struct counting {
	const struct groups *groups;
	struct hashtable *tables; // of each thread
};

struct counting_one {
	struct hashtable *table;
};

static void block_count(void *context, const struct part *block, const struct view *view)
{
	struct counting_one *one = context;
	const uint64_t hash = mix(block->address);
	const struct group more = {
		.count = 1,
		.size = block->size,
		.usable = block->limit - block->address,
		.first = block->address,
		.sample_count = 1,
		.samples = {{hash, block->address}},
	};
	(void)view;
	table_join(one->table, &more);
}

static void piece_count(
	void *context, unsigned thread, const struct view *view, const struct parts *parts)
{
	struct counting *counting = context;
	struct counting_one one = {&counting->tables[thread]};
	groups_each(counting->groups, view, parts, block_count, &one);
}

static int group_compare(const void *left, const void *right)
{
	const struct group *a = left, *b = right;
	const uint64_t a_bytes = a->count * a->size, b_bytes = b->count * b->size;
	if (a_bytes != b_bytes)
		return a_bytes > b_bytes ? -1 : 1;
	return a->size < b->size ? -1 : a->size > b->size;
}

static bool groups_list(struct groups *groups, const struct hashtable *table, struct error *err)
{
	groups->list = calloc(table->count + 1, sizeof *groups->list);
	if (groups->list == NULL)
		return error_memory(err);
	for (size_t i = 0; i < table->capacity; i++)
		if (hashtable_has(table, i))
			groups->list[groups->count++] =
				*(const struct group *)hashtable_at(table, i);
	qsort(groups->list, groups->count, sizeof *groups->list, group_compare);
	for (size_t i = 0; i < groups->count; i++)
		groups->bytes += groups->list[i].count * groups->list[i].size;
	return true;
}

static bool groups_count(struct groups *groups, struct error *err)
{
	const unsigned threads = groups->options->threads;
	struct hashtable *tables = calloc(threads, sizeof *tables);
	struct counting counting = {groups, tables};
	if (tables == NULL)
		return error_memory(err);
	for (unsigned i = 0; i < threads; i++)
		tables[i] = (struct hashtable){
			.size = sizeof(struct group), .hash = group_hash, .same = group_same};
	bool ok = groups_scan(groups, piece_count, &counting, err);
	for (unsigned i = 1; i < threads; i++)
		for (size_t slot = 0; slot < tables[i].capacity; slot++)
			if (hashtable_has(&tables[i], slot))
				table_join(&tables[0], hashtable_at(&tables[i], slot));
	for (unsigned i = 0; ok && i < threads; i++)
		ok = !tables[i].lost || error_memory(err);
	ok = ok && groups_list(groups, &tables[0], err);
	for (unsigned i = 0; i < threads; i++)
		hashtable_deinit(&tables[i]);
	free(tables);
	return ok;
}

// ---- rows

// first: the lowest address; text, module: NULL: there is nothing to say.
static bool row_add(struct types_result *result, const struct group *group, uint64_t count,
	uint64_t first, const char *text, const char *module, struct error *err)
{
	struct type row = {
		.kind = TYPE_PLAIN,
		.method = METHOD_CHUNK,
		.count = count,
		.size = group->size,
		.agreement = 1,
		.bytes = count * group->size,
		.bytes_known = true,
		.sites = {[SITE_HEAP] = count},
		.examples = {first},
		.example_count = 1,
	};
	const char *comma = text != NULL ? ", " : "";
	text = text != NULL ? text : "";
	const int length = group->size == 0
				   ? asprintf(&row.name, "(no type) other sizes%s%s", comma, text)
				   : asprintf(&row.name, "(no type) %" PRIu64 " bytes%s%s",
					     group->size, comma, text);
	row.module = strdup(module != NULL ? module : "");
	if (length < 0 || row.module == NULL) {
		free(length < 0 ? NULL : row.name);
		free(row.module);
		return error_memory(err);
	}
	return types_add(result, &row, err);
}

// What is said of blocks with one word of a rule. The caller must free it; NULL if memory ran out.
static char *rule_text(
	struct groups *groups, const struct rule *rule, unsigned index, const char **module)
{
	char *text = NULL;
	*module = rule->module;
	if (rule->text != NULL)
		return strdup(rule->text);
	const uint64_t value = rule->values[index];
	const struct identity identity = names_identify(groups->names, value);
	if (identity.module == NULL)
		return strdup("");
	char *name = type_name_pointer(&identity, value, OFFSET_DEEP);
	*module = identity.module->name;
	if (name == NULL || asprintf(&text, "%s @+%" PRIu32, name, rule->offset) < 0)
		text = NULL;
	free(name);
	return text;
}

static bool group_rows(struct groups *groups, const struct group *group,
	const struct ruling *ruling, struct types_result *result, struct error *err)
{
	uint64_t left = group->count, first = group->first;
	const char *text = NULL, *module = NULL;
	for (unsigned i = 0; ruling != NULL && i < ruling->count; i++) {
		const struct rule *rule = &ruling->rules[i];
		if (rule->kind == RULE_HOLDER) {
			text = rule->text;
			module = rule->module;
		}
		for (unsigned k = 0; k < rule->value_count; k++) {
			const uint64_t count = min_u64(rule->counts[k], left);
			const char *of;
			if (count == 0)
				continue;
			char *said = rule_text(groups, rule, k, &of);
			const bool ok = said != NULL ? row_add(result, group, count,
							       rule->firsts[k], said, of, err)
						     : error_memory(err);
			free(said);
			if (!ok)
				return false;
			left -= count;
			first = ruling->first;
		}
	}
	return left == 0 || row_add(result, group, left, first, text, module, err);
}

static bool rows_add(struct groups *groups, struct types_result *result, struct error *err)
{
	bool ok = true;
	for (size_t i = 0; ok && i < groups->count; i++)
		ok = group_rows(groups, &groups->list[i],
			i < groups->ruling_count ? &groups->rulings[i] : NULL, result, err);
	return ok;
}

// ---- the whole

bool groups_add(const struct image *image, struct names *names,
	const struct groups_options *options, struct error *err, struct types_result *result)
{
	struct groups groups = {
		.image = image, .names = names, .options = options, .result = result};
	if (options->heap->region_count == 0 || options->heap->partial || result->partial)
		return true;
	const bool ok = ranges_init(&groups.ranges, names_modules(names), err) &&
			lookup_init(&groups.lookup, options->heap, err) &&
			groups_count(&groups, err) && rules_find(&groups, err) &&
			rules_count(&groups, err) && keepers_find(&groups, err) &&
			rows_add(&groups, result, err);
	// What was not looked at may be of another size.
	result->partial = result->partial || atomic_load(options->stop) != 0;
	for (size_t i = 0; i < groups.ruling_count; i++)
		for (unsigned k = 0; k < groups.rulings[i].count; k++) {
			free(groups.rulings[i].rules[k].text);
			free(groups.rulings[i].rules[k].module);
		}
	free(groups.rulings);
	free(groups.list);
	lookup_deinit(&groups.lookup);
	ranges_deinit(&groups.ranges);
	return ok;
}

size_t group_read(const struct groups *groups, const struct group *group, unsigned sample,
	uint64_t offset, void *buffer, size_t size)
{
	return offset < group->usable
		       ? image_read(groups->image, group->samples[sample].address + offset, buffer,
				 (size_t)min_u64(size, group->usable - offset))
		       : 0;
}
