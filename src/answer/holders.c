// SPDX-License-Identifier: MIT
//
// Who holds objects: --type NAME --owners, and --path ADDRESS.
#include <inttypes.h>
#include <stdlib.h>

#include "answer/answer.h"
#include "answer/leaks.h"
#include "graph/holders.h"
#include "types/owners.h"
#include "types/telling.h"

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
			.lost_known = true,
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

// One object of the way. offset: of the pointer to the next one; none in the last.
static bool step_report(struct dump *dump, struct teller *teller, const struct reach_path *path,
	size_t index, struct report *report)
{
	const struct reach_step *step = &path->steps[index];
	const bool last = index + 1 == path->count;
	unsigned char bytes[TELLING_SIZE];
	const size_t size = image_read(
		dump->image, step->address, bytes, (size_t)min_u64(sizeof bytes, step->size));
	const struct telling telling = teller_look(teller, bytes, size);
	enum type_kind kind;
	char *name;
	const char *module;
	if (!telling_name(dump->image, dump->names, &telling, dump->options->redact, &kind, &name,
		    &module))
		return false;
	const struct report_owner row = {
		.name = name,
		.kind = type_kind_name(kind),
		.module = module,
		.offset_known = !last,
		.offset = last ? 0 : path->steps[index + 1].offset,
		.address = step->address,
		.size = step->size,
	};
	report_owner(report, &row);
	free(name);
	return true;
}

static bool path_report(
	struct dump *dump, const struct reach_path *path, struct report *report, struct error *err)
{
	struct teller *teller = malloc(sizeof *teller);
	struct report_owner root = {0};
	char *name = root_name(dump->image, dump->names, path->root,
		path->root != NULL ? path->where : path->thread, &root.kind, &root.module);
	bool ok = teller != NULL && name != NULL;
	if (ok) {
		root.name = name;
		root.address = path->root != NULL ? path->where : 0;
		teller_init(teller, dump->image, dump->names);
		report_owner(report, &root);
	}
	for (size_t i = 0; ok && i < path->count; i++)
		ok = step_report(dump, teller, path, i, report);
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
		  reach_find_path(leaks.reach, address, err, &path) &&
		  dump_head_init(
			  dump, "path", words_of(dump), reach_partial(leaks.reach), err, &head);
	if (ok) {
		const struct report_found found = {.count = path.count > 0};
		head_report(dump, address, &found, &head.head, report);
		report_list(report, REPORT_PATH);
		if (path.count > 0)
			ok = path_report(dump, &path, report, err);
		else if (!reach_partial(leaks.reach))
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
