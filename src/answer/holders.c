// SPDX-License-Identifier: MIT
//
// Who holds objects: --type NAME --owners, and --path ADDRESS.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "answer/answer.h"
#include "answer/leaks.h"
#include "graph/holders.h"
#include "types/owners.h"
#include "types/telling.h"
#include "types/way.h"

static void head_report(struct dump *dump, uint64_t value, const struct report_found *more,
	const struct report_head *head, struct report *report)
{
	struct report_word word = {.value = value, .count = more->count, .count_max = more->count};
	struct report_found found = *more;
	dump_describe(dump, &word);
	found.word = &word;
	report_begin(report, head);
	report_found(report, &found);
}

static uint64_t words_of(const struct dump *dump)
{
	const struct image_info *info = image_info(dump->image);
	return info->bytes_present / info->word_size;
}

// ---- owners

static void owners_report(
	const struct dump *dump, const struct owners *owners, struct report *report)
{
	report_list(report, REPORT_OWNERS);
	for (size_t i = 0; i < owners->count && i < dump->options->top; i++) {
		const struct owner *owner = &owners->list[i];
		if (owner->count < dump->options->min_count)
			break;
		const struct report_owner row = {
			.name = owner->name,
			.kind = owner->kind,
			.module = owner->module,
			.count = owner->count,
			.offset_known = owner->offset_known,
			.offset = owner->offset,
			.address = owner->example,
		};
		report_owner(report, &row);
	}
	report_end(report);
}

bool answer_owners(struct dump *dump, struct report *report, struct error *err)
{
	struct type_words words;
	struct leaks leaks = {0};
	struct owners owners = {0};
	struct dump_head head = {0};
	bool ok = type_find(dump, dump->options->type, err, &words) &&
		  leaks_reach(dump, "--owners", err, &leaks);
	const struct owners_options options = {.values = words.values,
		.value_count = words.count,
		.within_known = words.within_known,
		.within = (size_t)words.within,
		.threads = (unsigned)dump->options->threads,
		.redact = dump->options->redact};
	ok = ok && owners_find(dump->image, dump->names, leaks.reach, &options, err, &owners) &&
	     dump_head_init(dump, "owners", words_of(dump), reach_partial(leaks.reach), err, &head);
	if (ok) {
		const struct report_found found = {.count = owners.objects,
			.lost = owners.lost,
			.lost_known = leaks.heap.allocator != HEAP_UNKNOWN,
			.unknown = reach_partial(leaks.reach)};
		head_report(dump, words.values[0], &found, &head.head, report);
		if (found.unknown)
			owners.count = 0;
		owners_report(dump, &owners, report);
		ok = dump_flush(dump, report, err);
	}
	if (ok)
		dump_time(dump, 1, (unsigned)dump->options->threads);
	dump_head_deinit(&head);
	owners_deinit(&owners);
	leaks_deinit(&leaks);
	return ok;
}

// ---- a way

// The texts of a step; *name is the caller's to free.
static bool step_name(
	struct dump *dump, const struct telling *telling, struct report_owner *row, char **name)
{
	enum type_kind kind;
	if (!telling_name(dump->image, dump->names, telling, dump->options->redact, &kind, name,
		    &row->module))
		return false;
	row->name = *name;
	row->kind = type_kind_name(kind);
	return true;
}

// "Link +16, Node +8": steps that repeat together. The caller must free it; NULL: no memory.
static char *steps_name(struct dump *dump, const struct way_row *steps)
{
	char *ret = NULL;
	size_t size = 0;
	FILE *list = open_memstream(&ret, &size);
	if (list == NULL)
		return NULL;
	bool ok = true;
	for (unsigned i = 0; ok && i < steps->period; i++) {
		struct report_owner row = {0};
		char *name = NULL;
		ok = step_name(dump, &steps->steps[i].telling, &row, &name);
		if (ok)
			fprintf(list, "%s%s +%" PRIu64, i > 0 ? ", " : "", name,
				steps->steps[i].step.offset);
		free(name);
	}
	if (fclose(list) == 0 && ok)
		return ret;
	free(ret);
	return NULL;
}

static bool step_report(struct dump *dump, const struct way_row *steps, struct report *report)
{
	const struct reach_step *step = &steps->steps[0].step;
	struct report_owner row = {
		.name = "", .kind = "left-out", .module = "", .count = steps->count};
	char *name = NULL;
	if (steps->period == 1) {
		if (!step_name(dump, &steps->steps[0].telling, &row, &name))
			return false;
		row.offset_known = !step->last;
		row.offset = step->offset;
		row.size = step->size;
	} else if (steps->period > 1) {
		name = steps_name(dump, steps);
		if (name == NULL)
			return false;
		row.name = name;
	}
	if (steps->period > 0) {
		row.address = step->address;
		row.kind = steps->count > 1 ? "repeated" : row.kind;
	}
	report_owner(report, &row);
	free(name);
	return true;
}

static bool steps_report_all(
	struct dump *dump, struct teller *teller, struct reach_path *path, struct report *report)
{
	struct way_row row = {.period = 1, .count = 1};
	while (reach_path_next(path, &row.steps[0].step)) {
		row.steps[0].telling = way_look(teller, &row.steps[0].step);
		if (!step_report(dump, &row, report))
			return false;
	}
	return true;
}

static bool steps_report(
	struct dump *dump, struct teller *teller, struct reach_path *path, struct report *report)
{
	struct way way;
	struct reach_step step;
	bool ok = true;
	if (dump->options->all)
		return steps_report_all(dump, teller, path, report);
	way_init(&way, teller, dump->options->top - 1);
	while (ok && reach_path_next(path, &step))
		ok = way_add(&way, &step);
	ok = ok && way_finish(&way);
	for (size_t i = 0; ok && i < way.count; i++)
		ok = step_report(dump, &way.rows[i], report);
	way_deinit(&way);
	return ok;
}

static bool path_report(
	struct dump *dump, struct reach_path *path, struct report *report, struct error *err)
{
	struct teller *teller = malloc(sizeof *teller);
	struct report_owner root = {.count = 1};
	char *name = root_name(dump->image, dump->names, path->root,
		path->root != NULL ? path->where : path->thread, &root.kind, &root.module);
	bool ok = teller != NULL && name != NULL;
	if (ok) {
		root.name = name;
		root.address = path->root != NULL ? path->where : 0;
		teller_init(teller, dump->image, dump->names);
		report_owner(report, &root);
		ok = steps_report(dump, teller, path, report);
	}
	free(teller);
	free(name);
	return ok || error_memory(err);
}

bool answer_path(struct dump *dump, struct report *report, struct error *err)
{
	const uint64_t address = dump->options->path;
	struct leaks leaks = {0};
	struct reach_path path = {0};
	struct dump_head head = {0};
	bool ok = leaks_reach(dump, "--path", err, &leaks) &&
		  (leaks.heap.allocator == HEAP_UNKNOWN ||
			  reach_path_init(leaks.reach, address, err, &path)) &&
		  dump_head_init(
			  dump, "path", words_of(dump), reach_partial(leaks.reach), err, &head);
	if (ok) {
		const struct report_found found = {.count = path.found};
		head_report(dump, address, &found, &head.head, report);
		report_list(report, REPORT_PATH);
		if (path.found)
			ok = path_report(dump, &path, report, err);
		else if (!reach_partial(leaks.reach) && leaks.heap.allocator != HEAP_UNKNOWN)
			diag_warn(dump->diag,
				"%s: the object at 0x%" PRIx64 " is lost: nothing reaches it",
				image_info(dump->image)->path, address);
		report_end(report);
	}
	ok = ok && dump_flush(dump, report, err);
	if (ok)
		dump_time(dump, 1, (unsigned)dump->options->threads);
	dump_head_deinit(&head);
	reach_path_deinit(&path);
	leaks_deinit(&leaks);
	return ok;
}
