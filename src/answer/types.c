// SPDX-License-Identifier: MIT
#include "answer/types.h"

#include <stdlib.h>
#include <string.h>

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

static struct report_types head_of(
	const struct types_result *result, const size_t *rows, size_t row_count)
{
	struct report_types ret = {
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
	for (size_t i = 0; i < row_count; i++) {
		const struct type *type = &result->list[rows[i]];
		ret.name_width = width_add(ret.name_width, type->name, NAME_WIDTH_MAX);
		ret.module_width = width_add(ret.module_width, type->module, MODULE_WIDTH_MAX);
	}
	return ret;
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

bool types_answer(struct types_result *result, const struct options *options,
	struct report_head *head, struct report *report, struct error *err)
{
	types_sort(result, (enum type_sort)options->sort);
	size_t *rows = calloc(result->count + 1, sizeof *rows);
	size_t count = 0;
	if (rows == NULL)
		return error_memory(err);
	for (size_t i = 0; i < result->count && count < options->top; i++)
		if (result->list[i].count >= options->min_count)
			rows[count++] = i;
	const struct report_types types = head_of(result, rows, count);
	head->mode = "types";
	head->types = &types;
	report_begin(report, head);
	for (size_t i = 0; i < count; i++) {
		const struct report_type row = row_of(&result->list[rows[i]], result);
		report_type(report, &row);
	}
	report_end(report);
	head->types = NULL;
	free(rows);
	return report_flush(report, err);
}
