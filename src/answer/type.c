// SPDX-License-Identifier: MIT
//
// Finding a class or a symbol by its name: a class first among those that the modules have type
// information of; then either among what the words that point into mapped files are called. So a
// name is found whether it comes from a symbol table or from run time type information.
#include <stdlib.h>
#include <string.h>

#include "answer/answer.h"
#include "names/rtti.h"

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
	uint64_t base;	   // of a class: where in the object this vtable pointer is
	unsigned distance; // from what was asked for
};

struct candidates {
	struct candidate *list; // owned
	size_t count, capacity;
};

static void candidates_deinit(struct candidates *candidates)
{
	for (size_t i = 0; i < candidates->count; i++)
		free(candidates->list[i].name);
	free(candidates->list);
}

static bool candidates_add(
	struct candidates *candidates, const struct identity *identity, uint64_t value)
{
	if (candidates->count == candidates->capacity) {
		const size_t capacity = 2 * candidates->capacity + 64;
		struct candidate *list = reallocarray(candidates->list, capacity, sizeof *list);
		if (list == NULL)
			return false;
		candidates->list = list;
		candidates->capacity = capacity;
	}
	char *name = strdup(identity->name);
	if (name == NULL)
		return false;
	const bool is_class = identity->type == IDENTITY_CLASS;
	candidates->list[candidates->count++] = (struct candidate){.name = name,
		.is_class = is_class,
		.value = value,
		.base = is_class ? identity->offset : 0};
	return true;
}

struct class_search {
	struct names *names;
	struct candidates *candidates;
};

static bool class_visit(void *context, uint64_t address)
{
	const struct class_search *search = context;
	const struct identity identity = names_identify(search->names, address);
	return identity.type != IDENTITY_CLASS ||
	       candidates_add(search->candidates, &identity, address);
}

// The classes that the modules have type information of.
static bool candidates_load_classes(struct dump *dump, struct candidates *ret, struct error *err)
{
	struct class_search search = {dump->names, ret};
	return rtti_each(dump->image, names_modules(dump->names), class_visit, &search) ||
	       error_memory(err);
}

// What the most frequent words that point into mapped files are called.
static bool candidates_load_words(struct dump *dump, struct candidates *ret, struct error *err)
{
	struct kind_filter *filter = NULL;
	struct count_result result = {0};
	bool ok = names_filter(dump->names, (kind_set)1 << KIND_CODE | (kind_set)1 << KIND_DATA,
			  dump->options->level, err, &filter) &&
		  dump_count(dump, filter, POINTERS_MAX, 1, err, &result);
	kind_filter_destroy(filter);
	for (size_t i = 0; ok && i < result.row_count; i++) {
		const uint64_t value = result.rows[i].value;
		const struct identity identity = names_identify(dump->names, value);
		ok = identity.type == IDENTITY_NONE || identity.type == IDENTITY_CONSTRUCTION ||
		     candidates_add(ret, &identity, value) || error_memory(err);
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
	if (candidates->count > 0)
		qsort(candidates->list, candidates->count, sizeof *candidates->list,
			candidate_compare);
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

// A class may be there in several modules, and while one derived from it is made its objects have
// vtables of their own; those of its second and further bases do not count. Of symbols all count.
static size_t candidates_choose(const struct candidates *candidates, const struct candidate *chosen,
	size_t most, uint64_t *values)
{
	size_t count = 0;
	uint64_t base = chosen->base;
	for (size_t i = 0; i < candidates->count; i++) {
		const struct candidate *candidate = &candidates->list[i];
		if (candidate->is_class == chosen->is_class &&
			strcmp(candidate->name, chosen->name) == 0)
			base = min_u64(base, candidate->base);
	}
	for (size_t i = 0; i < candidates->count && count < most; i++) {
		const struct candidate *candidate = &candidates->list[i];
		if (candidate->is_class == chosen->is_class && candidate->base == base &&
			strcmp(candidate->name, chosen->name) == 0)
			values[count++] = candidate->value;
	}
	return count;
}

// The best one; NULL if none has the name. *several: there are others that are as good.
static const struct candidate *candidates_best(
	const struct candidates *candidates, const char *name, bool *several)
{
	const struct candidate *best = NULL;
	unsigned best_rank = 2;
	*several = false;
	for (size_t i = 0; i < candidates->count; i++) {
		const struct candidate *candidate = &candidates->list[i];
		const unsigned rank = candidate_rank(candidate, name);
		// A class before a symbol of the same name: a constructor, say.
		if (rank == 2 || (best != NULL && (rank > best_rank ||
							  (rank == best_rank && best->is_class &&
								  !candidate->is_class))))
			continue;
		*several = best != NULL && rank == best_rank &&
			   best->is_class == candidate->is_class &&
			   (*several || strcmp(best->name, candidate->name) != 0);
		best = candidate;
		best_rank = rank;
	}
	return best;
}

// Look among the candidates; true if one has been chosen.
static bool candidates_find(const struct candidates *candidates, const char *name, size_t most,
	uint64_t *values, size_t *count)
{
	bool several;
	const struct candidate *best = candidates_best(candidates, name, &several);
	if (best == NULL || several)
		return false;
	*count = candidates_choose(candidates, best, most, values);
	return true;
}

static bool candidates_fail(
	const struct dump *dump, struct candidates *candidates, const char *name, struct error *err)
{
	char nearest[700];
	bool several;
	candidates_best(candidates, name, &several);
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
	struct candidates classes = {0}, words = {0};
	if (dump->options->no_names)
		return error_usage(err, "--no-names with --type: a type is found by its name");
	if (!dump_names(dump, "--type", err))
		return false;
	if (!names_has_addresses(dump->names))
		return error_usage(err, "--type: nothing is known of the addresses in %s",
			image_info(dump->image)->path);
	bool ok = candidates_load_classes(dump, &classes, err);
	// Where several classes have the name, one of them may be the only one that has objects.
	if (ok && !candidates_find(&classes, name, most, values, count))
		ok = candidates_load_words(dump, &words, err) &&
		     (candidates_find(&words, name, most, values, count) ||
			     candidates_fail(dump, &words, name, err));
	candidates_deinit(&classes);
	candidates_deinit(&words);
	return ok;
}
