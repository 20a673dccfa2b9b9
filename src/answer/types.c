// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/heap.h"
#include "answer/answer.h"
#include "answer/table.h"
#include "runtime/runtime.h"
#include "types/account.h"
#include "types/claims.h"
#include "types/diff.h"
#include "types/groups.h"
#include "types/objects.h"
#include "types/saved.h"
#include "types/types.h"

_Static_assert((int)REPORT_ACCOUNT_PARTS == (int)ACCOUNT_PARTS, "all of them");
_Static_assert((int)REPORT_SITES == (int)SITE_COUNT, "the same places");

// sizes must live as long as the result.
static struct report_types head_of(
	const struct types_result *result, struct report_malloc_size sizes[static SIZE_FIELDS_MAX])
{
	for (size_t i = 0; i < result->field_count; i++)
		sizes[i] = (struct report_malloc_size){
			result->fields[i].value, result->fields[i].count};
	return (struct report_types){
		.types = result->count,
		.named_count = result->named_count,
		.named_bytes = result->named_bytes,
		.heap_bytes = result->heap_bytes,
		.zeros = result->zeros,
		.texts = result->texts,
		.sizes = sizes,
		.size_count = result->field_count,
		.left_out = result->left_out,
		.walked = result->walked,
		.packed = result->packed,
		.lists_known = result->lists_known,
		.size_classes = result->size_classes,
		.lower = result->lower,
		.recorded = result->recorded,
	};
}

static enum site main_site(const struct type *type)
{
	enum site best = SITE_HEAP;
	for (enum site site = SITE_HEAP; site < SITE_COUNT; site++)
		if (type->sites[site] > type->sites[best])
			best = site;
	return best;
}

// 0 to 1: what is known of sizes is an estimate, and can come to more than there is.
static double share_of(uint64_t bytes, uint64_t all)
{
	return all == 0 ? 0 : (double)min_u64(bytes, all) / (double)all;
}

static struct report_type row_of(const struct type *type, const struct types_result *result)
{
	struct report_type row = {
		.name = type->name,
		.kind = type_kind_name(type->kind),
		.module = type->module,
		.method = type->method != METHOD_NONE ? type_method_name(type->method) : NULL,
		.where = site_name(main_site(type)),
		.place = type->place,
		.count = type->count,
		.size = type->size,
		.agreement = type->agreement,
		.bytes = type->bytes,
		.bytes_known = type->bytes_known,
		.share = share_of(type->bytes, result->heap_bytes),
		.secondary = type->secondary,
		.embedded = type->embedded,
		.freed = type->freed,
		.direct = type->direct,
		.direct_bytes = type->direct_bytes,
		.examples = type->examples,
		.example_count = type->example_count,
		.allocated_by = type->allocated_by,
	};
	memcpy(row.sites, type->sites, sizeof row.sites);
	return row;
}

// A row follows: the columns must hold it, and the first class is worth a closer look.
static void head_fit(struct report_head *head, struct report_types *types, const struct type *type,
	const struct report_type *row)
{
	report_types_fit(types, row);
	if (head->closer == NULL && type->kind == TYPE_CLASS)
		head->closer = type->name;
}

static bool table_answer(struct types_result *result, const struct report_leaks *leaks,
	const struct table_more *more, const struct options *options, struct report_head *head,
	struct report *report, struct error *err)
{
	struct report_malloc_size sizes[SIZE_FIELDS_MAX];
	struct report_types types = head_of(result, sizes);
	types.leaks = leaks;
	size_t *rows = calloc(result->count + 1, sizeof *rows);
	size_t count = 0;
	if (rows == NULL)
		return error_memory(err);
	types_sort(result, (enum type_sort)options->sort);
	for (size_t i = 0; i < result->count && count < options->top; i++)
		if (result->list[i].count >= options->min_count) {
			const struct report_type row = row_of(&result->list[i], result);
			head_fit(head, &types, &result->list[i], &row);
			rows[count++] = i;
		}
	head->types = &types;
	report_begin(report, head);
	for (size_t i = 0; i < count; i++) {
		const struct report_type row = row_of(&result->list[rows[i]], result);
		report_type(report, &row);
	}
	const bool ok = more == NULL || more->rows(more->context, report, err);
	report_end(report);
	head->types = NULL;
	free(rows);
	return ok;
}

static struct report_type growth_row(const struct growth *growth, const struct types_result *now)
{
	struct report_type row = row_of(growth->now != NULL ? growth->now : growth->old, now);
	row.more_count = growth->count;
	row.more_bytes = growth->bytes;
	row.only_new = growth->old == NULL;
	row.only_old = growth->now == NULL;
	if (!row.only_old)
		return row;
	// Nothing of it is in the dump.
	row.count = row.bytes = row.secondary = row.embedded = row.freed = 0;
	row.direct = row.direct_bytes = 0;
	row.share = 0;
	row.example_count = 0;
	memset(row.sites, 0, sizeof row.sites);
	return row;
}

static bool diff_answer(const struct types_result *result, const struct report_leaks *leaks,
	const struct report_old *old_report, const struct types_result *old,
	const struct options *options, struct report_head *head, struct report *report,
	struct error *err)
{
	struct report_malloc_size sizes[SIZE_FIELDS_MAX];
	struct report_types types = head_of(result, sizes);
	types.leaks = leaks;
	struct growth *rows;
	size_t count;
	if (!types_compare(result, old, (enum type_sort)options->sort, err, &rows, &count))
		return false;
	size_t shown = 0;
	for (size_t i = 0; i < count && shown < options->top; i++) {
		const struct type *type = rows[i].now != NULL ? rows[i].now : rows[i].old;
		if (type->count < options->min_count)
			continue;
		const struct report_type row = growth_row(&rows[i], result);
		head_fit(head, &types, type, &row);
		rows[shown++] = rows[i];
	}
	types.types = count;
	types.old = old_report;
	head->types = &types;
	report_begin(report, head);
	for (size_t i = 0; i < shown; i++) {
		const struct report_type row = growth_row(&rows[i], result);
		report_type(report, &row);
	}
	report_end(report);
	head->types = NULL;
	free(rows);
	return true;
}

// ---- dump -> pass

static void pass_begins(void *context, uint64_t bytes)
{
	progress_begin(context, bytes);
}

static void pass_adds(void *context, uint64_t bytes)
{
	progress_add(context, bytes);
}

// The map of blocks. Of what can be read in order only there is none.
static bool dump_walk(struct dump *dump, struct error *err, struct heap *ret)
{
	const struct heap_options options = {
		.threads = (unsigned)dump->options->threads,
		.level = dump->options->level,
		.stop = dump->stop,
		.watch = {.context = &dump->progress, .begin = pass_begins, .add = pass_adds},
	};
	*ret = (struct heap){0};
	return image_info(dump->image)->in_order ||
	       heap_walk(dump->image, names_places(dump->names), &options, err, ret);
}

// What one pass over the memory has found.
struct types_pass {
	struct survey_result survey;
	struct heap heap;
	struct zeros zeros;
	struct account account;
};

// Such a part of the memory is for stretches that were never touched.
#define ZEROS_SHARE 16

// *ret, zeroed before, must be released with pass_deinit, also after a failure.
static bool dump_pass(struct dump *dump, struct error *err, struct types_pass *ret)
{
	const struct image_info *info = image_info(dump->image);
	const size_t memory = dump->options->memory - info->memory;
	struct size_classes classes;
	struct survey_options options = {
		.memory = memory - memory / ZEROS_SHARE,
		.threads = (unsigned)dump->options->threads,
		.level = dump->options->level,
		.stop = dump->stop,
		.classes = &classes,
		.heap = &ret->heap,
		.zeros = &ret->zeros,
		.watch = {.context = &dump->progress, .begin = pass_begins, .add = pass_adds},
	};
	zeros_init(&ret->zeros, memory / ZEROS_SHARE);
	if (!dump_names(dump, "--types", err))
		return false;
	if (!names_has_addresses(dump->names))
		return error_usage(err, "--types: %s: is read as plain bytes, which have no types",
			info->path);
	options.pointers = names_pointers(dump->names);
	size_classes_find(dump->names, info->word_size, &classes);
	if (!dump_walk(dump, err, &ret->heap))
		return false;
	const bool ok = survey_run(dump->image, names_modules(dump->names),
		names_places(dump->names), &options, err, &ret->survey);
	ret->survey.packed = info->in_order ? dump_memory_needed(dump) : 0;
	return ok;
}

static void object_owns(void *context, uint64_t address)
{
	claims_add(context, address);
}

// The objects of managed languages, once the memory has been read, and the blocks that they have.
static bool dump_objects(
	struct dump *dump, struct error *err, struct claims *claims, struct types_result *result)
{
	const struct runtime_options options = {
		.threads = (unsigned)dump->options->threads,
		.stop = dump->stop,
		.own = object_owns,
		.context = claims,
	};
	struct runtimes runtimes;
	if (!runtimes_find(dump->image, names_modules(dump->names), names_places(dump->names),
		    &options, NULL, err, &runtimes))
		return false;
	for (size_t i = 0; i < runtimes.count; i++)
		if (runtimes.list[i].doubt != NULL)
			diag_warn(dump->diag, "%s: the objects of %s are not known: %s",
				image_info(dump->image)->path, runtimes.list[i].name,
				runtimes.list[i].doubt);
	const bool ok = types_add_objects(result, &runtimes, names_places(dump->names), err);
	runtimes_deinit(&runtimes);
	return ok;
}

static void pass_deinit(struct types_pass *pass)
{
	survey_result_deinit(&pass->survey);
	heap_deinit(&pass->heap);
	zeros_deinit(&pass->zeros);
	account_deinit(&pass->account);
}

// The table of types, and where all bytes are. The names must be settled.
static bool pass_answer(
	struct dump *dump, struct types_pass *pass, struct error *err, struct types_result *ret)
{
	const struct heap *heap = pass->heap.region_count > 0 ? &pass->heap : NULL;
	struct account *account = &pass->account;
	struct claims claims;
	const struct groups_options options = {
		.heap = &pass->heap,
		.claims = &claims,
		.threads = pass->survey.threads,
		.stop = dump->stop,
		.redact = dump->options->redact,
		.watch = {.context = &dump->progress, .begin = pass_begins, .add = pass_adds},
	};
	const bool ok = claims_init(&pass->heap, err, &claims) &&
			types_find(dump->image, dump->names, &pass->survey, err, ret) &&
			dump_objects(dump, err, &claims, ret) &&
			groups_add(dump->image, dump->names, &options, err, ret);
	claims_deinit(&claims);
	if (!ok)
		return false;
	if (!zeros_finish(&pass->zeros) ||
		!account_init(dump->image, names_modules(dump->names), names_places(dump->names),
			heap, &pass->zeros, account))
		return error_memory(err);
	// What has zeros only is in rows, too.
	ret->heap_bytes = max_u64(account->objects, types_bytes(ret));
	account_name(account, ret->named_bytes);
	return true;
}

// The files without which there are no names, ", " between them. The caller must free it; NULL if
// there are none.
static char *modules_missing(const struct modules *modules)
{
	char *ret = NULL;
	size_t size = 0;
	FILE *list = open_memstream(&ret, &size);
	if (list == NULL)
		return NULL;
	bool any = false;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->list[i];
		if (module->state != MODULE_MISSING && module->state != MODULE_MISMATCH)
			continue;
		fprintf(list, "%s%s", any ? ", " : "", module->path);
		any = true;
	}
	if (fclose(list) == 0 && any)
		return ret;
	free(ret);
	return NULL;
}

static void saved_warn(const struct dump *now, const char *path, const struct saved *saved)
{
	const bool is_old = path == now->options->diff;
	diag_warn(now->diag,
		"%s: has only %zu of %" PRIu64
		" types, others seem to be %s; save results with -n 1000000",
		path, saved->result.count, saved->types, is_old ? "new" : "gone");
}

bool table_load_old(const struct dump *now, const char *mode, table_find *find, struct error *err,
	struct saved *ret)
{
	const char *path = now->options->diff;
	if (path == NULL)
		return true;
	if (saved_is(path)) {
		if (!saved_load(path, mode, err, ret))
			return false;
		if (ret->result.count < ret->types)
			saved_warn(now, path, ret);
		return true;
	}
	struct dump dump = {.options = now->options, .stop = now->stop, .diag = now->diag};
	progress_init(&dump.progress, now->progress.stream);
	const bool ok = dump_open(&dump, path, now->exe, err) && find(&dump, err, &ret->result);
	if (ok)
		ret->missing = modules_missing(names_modules(dump.names));
	progress_clear(&dump.progress);
	dump_close(&dump);
	return ok;
}

bool table_report(const struct dump *dump, struct types_result *result,
	const struct report_leaks *leaks, const struct saved *saved, const struct table_more *more,
	struct report_head *head, struct report *report, struct error *err)
{
	const struct options *options = dump->options;
	const struct report_old old = {
		.path = options->diff,
		.format = saved->path != NULL ? "json" : "elf-core",
		.lower = saved->result.lower,
		.doubt = saved->missing,
	};
	const bool ok = options->diff == NULL
				? table_answer(result, leaks, more, options, head, report, err)
				: diff_answer(result, leaks, &old, &saved->result, options, head,
					  report, err);
	head->types = NULL;
	return ok && report_flush(report, err);
}

// ---- a saved result in place of the dump

static struct report_head saved_head(const struct saved *saved, const char *mode, const char *path,
	bool redact, const struct report_module *modules)
{
	return (struct report_head){
		.mode = mode,
		.version = TOPLEAK_VERSION,
		.names = true,
		.input =
			{
				.path = path,
				.format = "json",
				.elf_class = saved->elf_class,
				.byte_order = saved->byte_order,
				.machine = saved->machine,
				.command = redact ? NULL : saved->command,
				.signal = saved->signal,
				.pid = saved->pid,
				.signal_number = saved->signal_number,
				.threads = saved->threads,
			},
		.scanned =
			{
				.segments = saved->segments,
				.bytes_saved = saved->bytes_saved,
				.bytes_not_saved = saved->bytes_not_saved,
				.bytes_missing = saved->bytes_missing,
				.words = saved->words,
				.word_size = saved->word_size,
				.partial = saved->result.partial,
			},
		.memory = {saved->heap, saved->anon, saved->stacks, saved->files, true},
		.modules = modules,
		.module_count = saved->module_count,
	};
}

static struct report_leaks saved_totals(const struct saved *saved)
{
	return (struct report_leaks){
		.lost_count = saved->result.named_count,
		.lost_bytes = saved->result.named_bytes,
		.direct_count = saved->leaks.direct_count,
		.direct_bytes = saved->leaks.direct_bytes,
		.used_count = saved->leaks.used_count,
		.used_bytes = saved->leaks.used_bytes,
		.free_count = saved->leaks.free_count,
		.free_bytes = saved->leaks.free_bytes,
		.arenas_lost = saved->leaks.arenas_lost,
		.left_out_bytes = saved->leaks.left_out_bytes,
		.unwalked_bytes = saved->leaks.unwalked_bytes,
		.breaks = saved->leaks.breaks,
		.break_address = saved->leaks.break_address,
		.unread_bytes = saved->leaks.unread_bytes,
		.allocator = heap_allocator_name(saved->leaks.allocator),
		.exact = saved->leaks.exact,
		.foreign_bytes = saved->leaks.foreign_bytes,
		.roots_missing = saved->leaks.roots_missing,
	};
}

bool table_is_saved(const struct options *options, const char *path)
{
	return (options->types || options->leaks) && options->diff != NULL && saved_is(path);
}

bool table_answer_saved(struct dump *dump, const char *path, table_find *find,
	struct report *report, struct error *err)
{
	const bool lost = dump->options->leaks;
	const char *mode = lost ? "leaks" : "types";
	struct saved now = {0}, old = {0};
	struct report_module *modules = NULL;
	bool ok = saved_load(path, mode, err, &now) && table_load_old(dump, mode, find, err, &old);
	if (ok) {
		modules = calloc(now.module_count + 1, sizeof *modules);
		ok = modules != NULL || error_memory(err);
	}
	if (ok && now.result.count < now.types)
		saved_warn(dump, path, &now);
	for (size_t i = 0; ok && i < now.module_count; i++) {
		const struct saved_module *of = &now.modules[i];
		modules[i] = (struct report_module){of->path, of->state, of->file, of->build_id,
			of->file_build_id, of->start, of->end, of->bias, of->is_main, false, false};
	}
	if (ok) {
		const struct report_leaks totals = saved_totals(&now);
		struct report_head head = saved_head(&now, lost ? "leaks-diff" : "types-diff", path,
			dump->options->redact, modules);
		ok = table_report(
			dump, &now.result, lost ? &totals : NULL, &old, NULL, &head, report, err);
	}
	free(modules);
	saved_deinit(&now);
	saved_deinit(&old);
	return ok;
}

// ---- the account

// *ret is to be released with account_report_deinit.
static bool account_report(
	const struct account *account, struct error *err, struct report_account *ret)
{
	*ret = (struct report_account){.bytes = account->bytes, .touched = account->touched};
	struct report_left_out *list = calloc(account->left_outs.count + 1, sizeof *list);
	if (list == NULL)
		return error_memory(err);
	for (enum account_part i = 0; i < ACCOUNT_PARTS; i++)
		ret->parts[i] = (struct report_account_part){account_part_name(i),
			account_part_text(i), account->parts[i], i < ACCOUNT_UNTOUCHED};
	for (size_t i = 0; i < account->left_outs.count; i++) {
		const struct left_out *out = &account->left_outs.list[i];
		list[i] = (struct report_left_out){out->name, out->bytes, out->writable};
	}
	ret->left_outs = list;
	ret->left_out_count = account->left_outs.count;
	return true;
}

static void account_report_deinit(struct report_account *account)
{
	free((void *)account->left_outs);
}

// ---- the whole

static bool types_find_old(struct dump *dump, struct error *err, struct types_result *ret)
{
	struct types_pass pass = {0};
	const bool ok = dump_pass(dump, err, &pass) && dump_settle(dump, err) &&
			pass_answer(dump, &pass, err, ret);
	pass_deinit(&pass);
	return ok;
}

bool answer_types(struct dump *dump, struct report *report, struct error *err)
{
	struct saved saved = {0};
	struct types_pass pass = {0};
	struct types_result result = {0};
	struct dump_head head = {0};
	struct report_account account;
	const struct survey_result *survey = &pass.survey;
	const char *mode = dump->options->diff != NULL ? "types-diff" : "types";
	bool ok = table_load_old(dump, "types", types_find_old, err, &saved) &&
		  dump_pass(dump, err, &pass);
	ok = ok && dump_head_init(dump, mode, survey->words, survey->partial, err, &head) &&
	     pass_answer(dump, &pass, err, &result) && account_report(&pass.account, err, &account);
	if (ok) {
		head.head.account = dump->options->diff == NULL ? &account : NULL;
		ok = table_report(dump, &result, NULL, &saved, NULL, &head.head, report, err);
		account_report_deinit(&account);
	}
	if (ok) {
		dump_finish(dump, &head);
		dump_time(dump, survey->passes, survey->threads);
	}
	dump_head_deinit(&head);
	types_result_deinit(&result);
	pass_deinit(&pass);
	saved_deinit(&saved);
	return ok;
}

bool answer_saved_types(
	struct dump *dump, const char *path, struct report *report, struct error *err)
{
	return table_answer_saved(dump, path, types_find_old, report, err);
}
