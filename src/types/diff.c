// SPDX-License-Identifier: MIT
#include "types/diff.h"

#include <stdlib.h>
#include <string.h>

static const struct type *growth_type(const struct growth *growth)
{
	return growth->now != NULL ? growth->now : growth->old;
}

static int by_identity(const struct type *a, const struct type *b)
{
	int order = strcmp(a->name, b->name);
	if (order == 0)
		order = strcmp(a->module, b->module);
	if (order == 0)
		order = (int)a->kind - (int)b->kind;
	// What has no type is told apart by its size.
	if (order == 0 && (a->kind == TYPE_TEXT || a->kind == TYPE_PLAIN) && a->size != b->size)
		order = a->size < b->size ? -1 : 1;
	return order;
}

static int compare_identity(const void *left, const void *right)
{
	return by_identity(*(const struct type *const *)left, *(const struct type *const *)right);
}

static int by_number(int64_t a, int64_t b)
{
	return a > b ? -1 : a < b;
}

static int compare_bytes(const void *left, const void *right)
{
	const struct growth *a = left, *b = right;
	int order = by_number(a->bytes, b->bytes);
	if (order == 0)
		order = by_number(a->count, b->count);
	return order != 0 ? order : by_identity(growth_type(a), growth_type(b));
}

static int compare_count(const void *left, const void *right)
{
	const struct growth *a = left, *b = right;
	const int order = by_number(a->count, b->count);
	return order != 0 ? order : compare_bytes(left, right);
}

static int compare_size(const void *left, const void *right)
{
	const uint64_t a = growth_type(left)->size, b = growth_type(right)->size;
	return a != b ? (a > b ? -1 : 1) : compare_bytes(left, right);
}

static int compare_name(const void *left, const void *right)
{
	return by_identity(growth_type(left), growth_type(right));
}

static int64_t difference(uint64_t now, uint64_t old)
{
	const int64_t most = INT64_MAX;
	return now >= old ? (int64_t)min_u64(now - old, (uint64_t)most)
			  : -(int64_t)min_u64(old - now, (uint64_t)most);
}

// The types of a result, sorted by identity; the caller must free them.
static const struct type **types_list(const struct types_result *result)
{
	const struct type **list = calloc(result->count + 1, sizeof *list);
	if (list == NULL)
		return NULL;
	for (size_t i = 0; i < result->count; i++)
		list[i] = &result->list[i];
	qsort(list, result->count, sizeof *list, compare_identity);
	return list;
}

static size_t types_match(const struct type **now, size_t now_count, const struct type **old,
	size_t old_count, struct growth *ret)
{
	size_t count = 0;
	for (size_t i = 0, k = 0; i < now_count || k < old_count;) {
		const int order = i == now_count   ? 1
				  : k == old_count ? -1
						   : by_identity(now[i], old[k]);
		struct growth growth = {
			.now = order <= 0 ? now[i++] : NULL,
			.old = order >= 0 ? old[k++] : NULL,
		};
		growth.count = difference(growth.now != NULL ? growth.now->count : 0,
			growth.old != NULL ? growth.old->count : 0);
		growth.bytes = difference(growth.now != NULL ? growth.now->bytes : 0,
			growth.old != NULL ? growth.old->bytes : 0);
		if (growth.count != 0 || growth.bytes != 0)
			ret[count++] = growth;
	}
	return count;
}

bool types_compare(const struct types_result *now, const struct types_result *old,
	enum type_sort sort, struct error *err, struct growth **ret, size_t *count)
{
	static int (*const compare[])(const void *, const void *) = {
		[SORT_BYTES] = compare_bytes,
		[SORT_COUNT] = compare_count,
		[SORT_SIZE] = compare_size,
		[SORT_NAME] = compare_name,
	};
	const struct type **now_list = types_list(now), **old_list = types_list(old);
	*ret = calloc(now->count + old->count + 1, sizeof **ret);
	const bool ok = now_list != NULL && old_list != NULL && *ret != NULL;
	if (ok) {
		*count = types_match(now_list, now->count, old_list, old->count, *ret);
		qsort(*ret, *count, sizeof **ret, compare[sort]);
	} else {
		free(*ret);
		*ret = NULL;
		error_memory(err);
	}
	free(now_list);
	free(old_list);
	return ok;
}
