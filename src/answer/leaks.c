// SPDX-License-Identifier: MIT
#include "answer/leaks.h"
#include "answer/joined.h"

#include <inttypes.h>
#include <stdlib.h>

#include "answer/answer.h"
#include "answer/table.h"
#include "graph/roots.h"
#include "types/lost.h"

static void pass_begins(void *context, uint64_t bytes)
{
	progress_begin(context, bytes);
}

static void pass_adds(void *context, uint64_t bytes)
{
	progress_add(context, bytes);
}

struct early_reader {
	const struct dump *dump;
	struct heap_watch watch;
	struct addresses early;
};

static bool walk_begins(void *context, const struct heap *heap)
{
	struct early_reader *reader = context;
	return roots_read_early(reader->dump->image, names_modules(reader->dump->names),
		names_places(reader->dump->names), heap, &reader->early);
}

static bool leaks_walk(struct dump *dump, const char *option, struct early_reader *reader,
	struct error *err, struct leaks *leaks)
{
	const struct image_info *info = image_info(dump->image);
	const struct heap_options options = {.threads = (unsigned)dump->options->threads,
		.targets = true,
		.level = dump->options->level,
		.stop = dump->stop,
		.watch = reader->watch,
		.begin = walk_begins,
		.context = reader};
	if (info->in_order)
		return error_usage(err,
			"%s: %s comes %s, and its heap cannot be walked in order; use -m %" PRIu64
			"M, which has room for all of it, or %s",
			option, info->path, info->packing != NULL ? "packed" : "through a pipe",
			(dump_memory_needed(dump) >> 20) + 1,
			info->packing != NULL ? "unpack it to a file first"
					      : "save it to a file first");
	if (!heap_walk(dump->image, names_places(dump->names), &options, err, &leaks->heap))
		return false;
	if (leaks->heap.allocator == HEAP_UNKNOWN)
		diag_warn(dump->diag,
			"%s: %s: none of the allocators whose blocks are known has a heap in it: "
			"glibc, jemalloc, tcmalloc, mimalloc; --types works with all",
			option, info->path);
	return true;
}

bool leaks_reach(struct dump *dump, const char *option, struct error *err, struct leaks *leaks)
{
	const struct image_info *info = image_info(dump->image);
	const struct heap_watch watch = {&dump->progress, pass_begins, pass_adds};
	struct early_reader reader = {.dump = dump, .watch = watch};
	const struct reach_options options = {
		.threads = (unsigned)dump->options->threads,
		.exact = dump->options->exact_pointers,
		.level = dump->options->level,
		.stop = dump->stop,
		.early = &reader.early,
		.watch = watch,
	};
	if (!dump_names(dump, option, err))
		return false;
	if (!names_has_addresses(dump->names))
		return error_usage(err, "%s: %s: is read as plain bytes, which have no objects",
			option, info->path);
	const bool ok =
		leaks_walk(dump, option, &reader, err, leaks) &&
		reach_create(dump->image, names_modules(dump->names), names_places(dump->names),
			&leaks->heap, &options, err, &leaks->reach);
	free(reader.early.list);
	if (!ok)
		return false;
	targets_release(&leaks->heap.targets);
	return true;
}

// Group what is lost. The names must be settled.
static bool leaks_group(struct dump *dump, struct error *err, struct leaks *leaks)
{
	const struct image_info *info = image_info(dump->image);
	const struct lost_options options = {
		.threads = (unsigned)dump->options->threads, .redact = dump->options->redact};
	if (!lost_find(dump->image, dump->names, leaks->reach, &options, err, &leaks->result))
		return false;
	// What is not marked yet, or has not been looked at, may be reached or of another type.
	if (leaks->heap.partial || reach_partial(leaks->reach)) {
		types_result_deinit(&leaks->result);
		leaks->result.partial = true;
	}
	leaks->result.heap_bytes = leaks->heap.in_use.bytes;
	leaks->result.lower = leaks->result.partial || info->bytes_present < info->bytes_saved ||
			      info->headers_missing > 0;
	return true;
}

void leaks_deinit(struct leaks *leaks)
{
	reach_destroy(leaks->reach);
	heap_deinit(&leaks->heap);
	types_result_deinit(&leaks->result);
	left_outs_deinit(&leaks->left_outs);
}

static bool leaks_find_old(struct dump *dump, struct error *err, struct types_result *ret)
{
	struct leaks leaks = {0};
	const bool ok = leaks_reach(dump, "--leaks", err, &leaks) && dump_settle(dump, err) &&
			leaks_group(dump, err, &leaks);
	if (ok) {
		*ret = leaks.result;
		leaks.result = (struct types_result){0};
	}
	leaks_deinit(&leaks);
	return ok;
}

static struct report_leaks totals_of(const struct dump *dump, const struct leaks *leaks)
{
	const struct heap *heap = &leaks->heap;
	struct report_leaks ret = {
		.lost_count = leaks->result.named_count,
		.lost_bytes = leaks->result.named_bytes,
		.used_count = heap->in_use.count,
		.used_bytes = heap->in_use.bytes,
		.free_count = heap->binned.count + heap->fast.count + heap->cached.count,
		.free_bytes = heap->binned.bytes + heap->fast.bytes + heap->cached.bytes,
		.unwalked_bytes = heap->broken + heap->missing,
		.breaks = heap->break_count,
		.break_address = heap->break_count > 0 ? heap->breaks[0].address : 0,
		.unread_bytes = reach_unread(leaks->reach),
		.arenas_lost = heap->arenas_lost,
		.mapped_bytes = heap->mapped.bytes,
		.left_out_bytes = leaks->left_outs.writable,
		.listed = dump->options->all && !leaks->result.partial,
		.allocator = heap->allocator != HEAP_UNKNOWN ? heap_allocator_name(heap->allocator)
							     : NULL,
		.exact = dump->options->exact_pointers,
		.foreign_bytes = reach_foreign(leaks->reach),
		.roots_missing = reach_lacks_roots(leaks->reach),
		.lost_unknown = leaks->result.partial || heap->allocator == HEAP_UNKNOWN,
		.used_unknown = heap->partial || heap->allocator == HEAP_UNKNOWN,
	};
	for (size_t i = 0; i < leaks->result.count; i++) {
		ret.direct_count += leaks->result.list[i].direct;
		ret.direct_bytes += leaks->result.list[i].direct_bytes;
	}
	return ret;
}

static void object_report(void *context, const struct lost_object *object)
{
	const struct report_lost row = {object->address, object->size, object->direct, object->name,
		type_kind_name(object->kind), object->module};
	report_lost(context, &row);
}

struct listing {
	struct dump *dump;
	struct leaks *leaks;
};

// All lost objects, below the rows of types.
static bool objects_report(void *context, struct report *report, struct error *err)
{
	const struct listing *listing = context;
	struct dump *dump = listing->dump;
	report_list(report, REPORT_LOST);
	return lost_list(dump->image, dump->names, listing->leaks->reach, dump->options->redact,
		object_report, report, err);
}

// The mappings that the process could write to, of what was left out when the dump was written.
// The caller must free *ret.
static bool left_outs_report(const struct left_outs *outs, struct error *err,
	struct report_left_out **ret, size_t *count)
{
	*ret = calloc(outs->count + 1, sizeof **ret);
	if (*ret == NULL)
		return error_memory(err);
	for (size_t i = 0; i < outs->count; i++) {
		const struct left_out *out = &outs->list[i];
		if (out->writable > 0)
			(*ret)[(*count)++] =
				(struct report_left_out){out->name, out->writable, out->writable};
	}
	return true;
}

static bool leaks_table(struct dump *dump, struct leaks *leaks, struct saved *saved,
	struct report_head *head, struct report *report, struct error *err)
{
	struct report_leaks totals = totals_of(dump, leaks);
	struct report_left_out *outs;
	struct listing listing = {dump, leaks};
	const struct table_more more = {objects_report, &listing};
	if (!left_outs_report(&leaks->left_outs, err, &outs, &totals.left_out_count))
		return false;
	totals.left_outs = outs;
	// Nothing has grown that is not known.
	if (totals.lost_unknown)
		types_result_deinit(&saved->result);
	const bool ok = table_report(dump, &leaks->result, &totals, saved,
		totals.listed ? &more : NULL, head, report, err);
	free(outs);
	return ok;
}

struct joining {
	struct joined *joined;
	bool lost; // no memory
};

static void object_join(void *context, const struct lost_object *object)
{
	struct joining *joining = context;
	if (!joined_add(joining->joined, object))
		joining->lost = true;
}

// What allocated them, if the dump tells. The names must be settled.
static bool leaks_join(struct dump *dump, struct leaks *leaks, struct error *err)
{
	struct joining joining = {0};
	if (leaks->result.partial || leaks->result.count == 0)
		return true;
	if (!joined_create(dump, err, &joining.joined))
		return false;
	bool ok = true;
	if (joining.joined != NULL)
		ok = lost_list(dump->image, dump->names, leaks->reach, dump->options->redact,
			     object_join, &joining, err) &&
		     ((!joining.lost && joined_tell(joining.joined, &leaks->result)) ||
			     error_memory(err));
	joined_destroy(joining.joined);
	return ok;
}

bool answer_leaks(struct dump *dump, struct report *report, struct error *err)
{
	struct saved saved = {0};
	struct leaks leaks = {0};
	struct dump_head head = {0};
	const char *mode = dump->options->diff != NULL ? "leaks-diff" : "leaks";
	const uint64_t words =
		image_info(dump->image)->bytes_present / image_info(dump->image)->word_size;
	bool ok = table_load_old(dump, "leaks", leaks_find_old, err, &saved) &&
		  leaks_reach(dump, "--leaks", err, &leaks) && leaks_group(dump, err, &leaks) &&
		  left_outs_find(dump->image, err, &leaks.left_outs) &&
		  dump_head_init(dump, mode, words, leaks.result.partial, err, &head) &&
		  leaks_join(dump, &leaks, err);
	if (ok && leaks.heap.allocator != HEAP_UNKNOWN && reach_lacks_roots(leaks.reach))
		diag_warn(dump->diag,
			"%s: the program's data, or all stacks, are not in the dump: most objects "
			"seem to be lost for want of them, and this cannot be told from a leak",
			image_info(dump->image)->path);
	ok = ok && leaks_table(dump, &leaks, &saved, &head.head, report, err);
	if (ok) {
		dump_finish(dump, &head);
		dump_time(dump, 2, (unsigned)dump->options->threads);
	}
	dump_head_deinit(&head);
	leaks_deinit(&leaks);
	saved_deinit(&saved);
	return ok;
}

bool answer_saved_leaks(
	struct dump *dump, const char *path, struct report *report, struct error *err)
{
	return table_answer_saved(dump, path, leaks_find_old, report, err);
}
