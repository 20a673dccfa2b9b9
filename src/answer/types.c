// SPDX-License-Identifier: MIT
#include "answer/types.h"

#include <stdlib.h>
#include <string.h>

#include "types/diff.h"

// A longer name moves the columns behind it in its own row only.
#define NAME_WIDTH_MAX 60
#define MODULE_WIDTH_MAX 24

_Static_assert((int)REPORT_SITES == (int)SITE_COUNT, "the same places");

static unsigned width_add(unsigned width, const char *text, unsigned most)
{
	// Characters, not bytes: the texts are valid UTF-8.
	unsigned length = 0;
	for (; *text != '\0'; text++)
		length += ((unsigned char)*text & 0xc0) != 0x80;
	return (unsigned)max_u64(width, min_u64(length, most));
}

static struct report_types head_of(const struct types_result *result)
{
	return (struct report_types){
		.types = result->count,
		.named_count = result->named_count,
		.named_bytes = result->named_bytes,
		.heap_bytes = result->heap_bytes,
		.zeros = result->zeros,
		.left_out = result->left_out,
		.walked = result->walked,
		.lower = result->lower,
		.name_width = 4,
		.module_width = 6,
	};
}

static void head_fit(struct report_types *head, const struct type *type)
{
	head->name_width = width_add(head->name_width, type->name, NAME_WIDTH_MAX);
	head->module_width = width_add(head->module_width, type->module, MODULE_WIDTH_MAX);
}

static enum site main_site(const struct type *type)
{
	enum site best = SITE_HEAP;
	for (enum site site = SITE_HEAP; site < SITE_COUNT; site++)
		if (type->sites[site] > type->sites[best])
			best = site;
	return best;
}

static struct report_type row_of(const struct type *type, const struct types_result *result)
{
	struct report_type row = {
		.name = type->name,
		.kind = type_kind_name(type->kind),
		.module = type->module,
		.method = type->method != METHOD_NONE ? type_method_name(type->method) : NULL,
		.where = site_name(main_site(type)),
		.count = type->count,
		.size = type->size,
		.agreement = type->agreement,
		.bytes = type->bytes,
		.bytes_known = type->bytes_known,
		.share = result->heap_bytes > 0 ? (double)type->bytes / (double)result->heap_bytes
						: 0,
		.secondary = type->secondary,
		.embedded = type->embedded,
		.freed = type->freed,
		.examples = type->examples,
		.example_count = type->example_count,
	};
	memcpy(row.sites, type->sites, sizeof row.sites);
	return row;
}

static bool table_answer(struct types_result *result, const struct options *options,
	struct report_head *head, struct report *report, struct error *err)
{
	struct report_types types = head_of(result);
	size_t *rows = calloc(result->count + 1, sizeof *rows);
	size_t count = 0;
	if (rows == NULL)
		return error_memory(err);
	types_sort(result, (enum type_sort)options->sort);
	for (size_t i = 0; i < result->count && count < options->top; i++)
		if (result->list[i].count >= options->min_count) {
			head_fit(&types, &result->list[i]);
			rows[count++] = i;
		}
	head->mode = "types";
	head->types = &types;
	report_begin(report, head);
	for (size_t i = 0; i < count; i++) {
		const struct report_type row = row_of(&result->list[rows[i]], result);
		report_type(report, &row);
	}
	report_end(report);
	free(rows);
	return true;
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
	row.share = 0;
	row.example_count = 0;
	memset(row.sites, 0, sizeof row.sites);
	return row;
}

static bool diff_answer(const struct types_result *result, const struct old_types *old,
	const struct options *options, struct report_head *head, struct report *report,
	struct error *err)
{
	struct report_types types = head_of(result);
	struct growth *rows;
	size_t count;
	if (!types_compare(result, old->result, (enum type_sort)options->sort, err, &rows, &count))
		return false;
	size_t shown = 0;
	for (size_t i = 0; i < count && shown < options->top; i++) {
		const struct type *type = rows[i].now != NULL ? rows[i].now : rows[i].old;
		if (type->count < options->min_count)
			continue;
		head_fit(&types, type);
		rows[shown++] = rows[i];
	}
	types.types = count;
	types.old = &old->report;
	head->mode = "types-diff";
	head->types = &types;
	report_begin(report, head);
	for (size_t i = 0; i < shown; i++) {
		const struct report_type row = growth_row(&rows[i], result);
		report_type(report, &row);
	}
	report_end(report);
	free(rows);
	return true;
}

bool types_answer(struct types_result *result, const struct old_types *old,
	const struct options *options, struct report_head *head, struct report *report,
	struct error *err)
{
	const bool ok = old->result == NULL ? table_answer(result, options, head, report, err)
					    : diff_answer(result, old, options, head, report, err);
	head->types = NULL;
	return ok && report_flush(report, err);
}
