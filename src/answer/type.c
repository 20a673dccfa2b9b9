// SPDX-License-Identifier: MIT
//
// Finding a class or a symbol by its name: among what the words that point into mapped files are
// called. So a name is found whether it comes from a symbol table or from run time type
// information.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "answer/answer.h"

// So many different pointers into mapped files are looked at, the most frequent ones: a type with
// fewer objects than the last of them is none that leaks.
#define POINTERS_MAX 20000
// The names that are listed if none is right.
#define NEAREST 5
// Of longer names only the beginning is compared for nearness.
#define NEAR_SIZE 128

struct candidate {
	char *name; // of the class, or of the symbol; owned
	bool is_class;
	uint64_t value;
	unsigned distance; // from what was asked for
};

struct candidates {
	struct candidate *list; // owned
	size_t count;
};

static void candidates_deinit(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++)
		free(candidates->list[i].name);
	free(candidates->list);
}

// The name in a description: "vtable for NAME+16 (MODULE)", "vtable for NAME (base at +8)
// (MODULE)", "NAME+8 (MODULE)", "NAME (MODULE) at FILE:LINE".
static size_t name_length(const char *text)
{
	const char *end = NULL;
	for (const char *at = text; (at = strstr(at, " (")) != NULL; at++)
		// The parameters of a function have no blank before them.
		if (end == NULL || strncmp(end, " (base at +", 11) != 0)
			end = at;
	const char *base = strstr(text, " (base at +");
	if (base != NULL)
		end = base;
	size_t length = end != NULL ? (size_t)(end - text) : strlen(text);
	size_t digits = length;
	while (digits > 0 && isdigit((unsigned char)text[digits - 1]))
		digits--;
	return digits < length && digits > 1 && text[digits - 1] == '+' ? digits - 1 : length;
}

static bool candidates_add(
	struct candidates *candidates, const char *text, uint64_t value, struct error *err)
{
	static const char vtable[] = "vtable for ";
	const bool is_class = strncmp(text, vtable, sizeof vtable - 1) == 0;
	const char *name = text + (is_class ? sizeof vtable - 1 : 0);
	char *copy = strndup(name, name_length(name));
	if (copy == NULL)
		return error_memory(err);
	candidates->list[candidates->count++] =
		(struct candidate){.name = copy, .is_class = is_class, .value = value};
	return true;
}

static bool candidates_load(struct dump *dump, struct candidates *ret, struct error *err)
{
	struct kind_filter *filter = NULL;
	struct count_result result = {0};
	bool ok = names_filter(dump->names, (kind_set)1 << KIND_CODE | (kind_set)1 << KIND_DATA,
			  dump->options->level, err, &filter) &&
		  dump_count(dump, filter, POINTERS_MAX, 1, err, &result);
	kind_filter_destroy(filter);
	ret->list = calloc(result.row_count + 1, sizeof *ret->list);
	if (ret->list == NULL) {
		count_result_deinit(&result);
		return ok && error_memory(err);
	}
	for (size_t i = 0; ok && i < result.row_count; i++) {
		const struct name name = names_describe(dump->names, result.rows[i].value);
		ok = candidates_add(ret, name.text, result.rows[i].value, err);
	}
	count_result_deinit(&result);
	return ok;
}

// How well a candidate is named: 0 exactly, 1 without its namespaces, 2 not at all.
static unsigned candidate_rank(const struct candidate *candidate, const char *name)
{
	size_t length = strlen(candidate->name);
	const size_t wanted = strlen(name);
	if (strcmp(candidate->name, name) == 0)
		return 0;
	// A function may be asked for without its parameters.
	if (!candidate->is_class && strchr(name, '(') == NULL)
		length = strcspn(candidate->name, "(");
	if (length < wanted || memcmp(candidate->name + length - wanted, name, wanted) != 0)
		return 2;
	const size_t before = length - wanted;
	// "typeinfo for NAME" is something else.
	const char *blank = memchr(candidate->name, ' ', before);
	return before == 0 || (before > 2 && blank == NULL &&
				      memcmp(candidate->name + before - 2, "::", 2) == 0)
		       ? 1
		       : 2;
}

// The number of letters to change, add or leave out to make one name of the other (Levenshtein); a
// name that contains the other is nearer than any that does not.
static unsigned name_distance(const char *a, const char *b)
{
	unsigned row[NEAR_SIZE + 1];
	const size_t a_length = strnlen(a, NEAR_SIZE), b_length = strnlen(b, NEAR_SIZE);
	if (strcasestr(a, b) != NULL)
		return 0;
	for (size_t j = 0; j <= b_length; j++)
		row[j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++) {
		unsigned before = row[0];
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b_length; j++) {
			const unsigned same = before + (a[i - 1] != b[j - 1]);
			before = row[j];
			row[j] = row[j] + 1 < row[j - 1] + 1 ? row[j] + 1 : row[j - 1] + 1;
			if (same < row[j])
				row[j] = same;
		}
	}
	return row[b_length] + 1;
}

static int candidate_compare(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	const int order = strcmp(a->name, b->name);
	if (order != 0)
		return order;
	if (a->is_class != b->is_class)
		return a->is_class ? -1 : 1;
	return a->value < b->value ? -1 : a->value > b->value;
}

// "a, b, c": the nearest ones, classes only if there are any that are as near.
static void candidates_list(struct candidates *candidates, const char *name, char *ret, size_t size)
{
	size_t used = 0, shown = 0;
	const char *last = "";
	for (size_t i = 0; i < candidates->count; i++)
		candidates->list[i].distance = name_distance(candidates->list[i].name, name);
	qsort(candidates->list, candidates->count, sizeof *candidates->list, candidate_compare);
	ret[0] = '\0';
	for (size_t i = 0; i < candidates->count && shown < NEAREST && used < size; i++) {
		const struct candidate *candidate = &candidates->list[i];
		if (candidate->name[0] == '\0' || strcmp(candidate->name, last) == 0)
			continue;
		last = candidate->name;
		used += (size_t)snprintf(ret + used, size - used, "%s%.150s",
			shown++ > 0 ? ", " : "", candidate->name);
	}
}

// Of several vtable pointers of a class the first in memory is that of the object itself, the
// others those of its bases; but the class may be there in several modules. Of symbols all count.
static size_t candidates_choose(const struct candidates *candidates, const struct candidate *chosen,
	size_t most, uint64_t *values)
{
	size_t count = 0;
	for (size_t i = 0; i < candidates->count && count < most; i++) {
		const struct candidate *candidate = &candidates->list[i];
		if (candidate->is_class != chosen->is_class ||
			strcmp(candidate->name, chosen->name) != 0)
			continue;
		if (chosen->is_class && count > 0) {
			if (candidate->value < values[0])
				values[0] = candidate->value;
			continue;
		}
		values[count++] = candidate->value;
	}
	return count;
}

static bool candidates_search(struct dump *dump, struct candidates *candidates, const char *name,
	size_t most, struct error *err, uint64_t *values, size_t *count)
{
	const struct candidate *best = NULL;
	bool several = false;
	unsigned best_rank = 2;
	for (size_t i = 0; i < candidates->count; i++) {
		const struct candidate *candidate = &candidates->list[i];
		const unsigned rank = candidate_rank(candidate, name);
		// A class before a symbol of the same name: a constructor, say.
		if (rank == 2 || (best != NULL && (rank > best_rank ||
							  (rank == best_rank && best->is_class &&
								  !candidate->is_class))))
			continue;
		several = best != NULL && rank == best_rank &&
			  best->is_class == candidate->is_class &&
			  (several || strcmp(best->name, candidate->name) != 0);
		best = candidate;
		best_rank = rank;
	}
	if (best != NULL && !several) {
		*count = candidates_choose(candidates, best, most, values);
		return true;
	}
	char nearest[700];
	candidates_list(candidates, name, nearest, sizeof nearest);
	if (several)
		return error_usage(
			err, "--type %s: more than one has this name: %s", name, nearest);
	return error_usage(err,
		"--type %s: no word in %s points to a class or a symbol of this name; the nearest: "
		"%s",
		name, image_info(dump->image)->path, nearest[0] != '\0' ? nearest : "none");
}

bool type_find(struct dump *dump, const char *name, size_t most, struct error *err,
	uint64_t *values, size_t *count)
{
	struct candidates candidates = {0};
	if (dump->options->no_names)
		return error_usage(err, "--no-names with --type: a type is found by its name");
	if (!dump_names(dump, "--type", err))
		return false;
	if (!names_has_addresses(dump->names))
		return error_usage(err, "--type: nothing is known of the addresses in %s",
			image_info(dump->image)->path);
	const bool ok = candidates_load(dump, &candidates, err) &&
			candidates_search(dump, &candidates, name, most, err, values, count);
	candidates_deinit(&candidates);
	return ok;
}
