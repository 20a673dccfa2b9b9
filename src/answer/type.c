// SPDX-License-Identifier: MIT
//
// Finding a class or a symbol by its name: a class first among those that the modules have type
// information of; then either among what the words that point into mapped files are called. So a
// name is found whether it comes from a symbol table or from run time type information. What a
// table of types calls a pointer is understood, too.
#include <inttypes.h>
#include <limits.h>
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
#define FAR UINT_MAX

// What is asked for: "[-> ]NAME[+INSIDE][ @+WITHIN]".
struct asked {
	const char *text; // as it was given
	char *name;	  // owned
	bool is_pointer;  // with the arrow: no class
	bool inside_known;
	uint64_t inside; // where in the symbol the word points
	bool within_known;
	uint64_t within; // where in the object the word is
};

struct candidate {
	char *name; // of the class, or of the symbol; owned
	bool is_class;
	uint64_t value;
	uint64_t base;	   // of a class: where in the object this vtable pointer is
	uint64_t inside;   // of a symbol: where in it the word points
	unsigned distance; // from what was asked for
};

// Take "+N" off the end of a name, or what else the digits are to follow. False if there is none.
static bool number_take(char *name, const char *before, uint64_t *ret)
{
	char *end = name + strlen(name), *digits = end;
	const size_t length = strlen(before);
	while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
		digits--;
	if (digits == end || end - digits > 18 || (size_t)(digits - name) <= length ||
		memcmp(digits - length, before, length) != 0)
		return false;
	*ret = strtoull(digits, NULL, 10);
	digits[-(ptrdiff_t)length] = '\0';
	return true;
}

static bool asked_init(
	const struct dump *dump, const char *text, struct error *err, struct asked *ret)
{
	const unsigned word = image_info(dump->image)->word_size;
	*ret = (struct asked){.text = text, .is_pointer = strncmp(text, "-> ", 3) == 0};
	ret->name = strdup(ret->is_pointer ? text + 3 : text);
	if (ret->name == NULL)
		return error_memory(err);
	ret->within_known = number_take(ret->name, " @+", &ret->within);
	ret->inside_known = number_take(ret->name, "+", &ret->inside) || ret->is_pointer;
	if (ret->within > TYPE_WITHIN_MAX || ret->within % word != 0)
		return error_usage(err,
			"--type %s: @+%" PRIu64
			" is no offset of a word in an object: a multiple of %u up to %d",
			text, ret->within, word, TYPE_WITHIN_MAX);
	return true;
}

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
		.base = is_class ? identity->offset : 0,
		.inside = is_class ? 0 : identity->offset};
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

// The number of letters to change, add or leave out to make one name of the other (Levenshtein).
static unsigned name_edits(const char *a, size_t a_size, const char *b)
{
	unsigned row[NEAR_SIZE + 1];
	const size_t a_length = strnlen(a, min_u64(a_size, NEAR_SIZE)),
		     b_length = strnlen(b, NEAR_SIZE);
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
	return row[b_length];
}

// A name without what is in front of its last "::", but for that in arguments of a template or
// function, which end it.
static const char *name_last(const char *name, size_t *size)
{
	const size_t length = strcspn(name, "<(");
	const char *last = name;
	for (size_t i = 0; i + 1 < length; i++)
		if (name[i] == ':' && name[i + 1] == ':')
			last = name + i + 2;
	*size = (size_t)(name + length - last);
	return last;
}

// How far a candidate's name is from what was asked for: its last part, or the beginning of that,
// or in the middle, or with so many letters changed; FAR if that is more than half of them.
static unsigned name_distance(const char *candidate, const char *asked)
{
	size_t size;
	const size_t wanted = strlen(asked);
	const char *last = name_last(candidate, &size);
	if (strncasecmp(last, asked, wanted) == 0)
		return size == wanted ? 0 : 1;
	if (strcasestr(candidate, asked) != NULL)
		return 2;
	const unsigned edits = (unsigned)min_u64(
		name_edits(last, size, asked), name_edits(candidate, strlen(candidate), asked));
	return 2 * (uint64_t)edits > wanted ? FAR : edits + 2;
}

static int candidate_compare(const void *left, const void *right)
{
	const struct candidate *a = left, *b = right;
	if (a->distance != b->distance)
		return a->distance < b->distance ? -1 : 1;
	if (a->is_class != b->is_class)
		return a->is_class ? -1 : 1;
	const int order = strcmp(a->name, b->name);
	if (order != 0)
		return order;
	return a->value < b->value ? -1 : a->value > b->value;
}

// "a, b, c": the nearest ones, classes first among those that are as near; "" if all are far.
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
		if (candidate->distance == FAR)
			break;
		if (candidate->name[0] == '\0' || strcmp(candidate->name, last) == 0)
			continue;
		last = candidate->name;
		used += (size_t)snprintf(ret + used, size - used, "%s%.150s",
			shown++ > 0 ? ", " : "", candidate->name);
	}
}

static bool candidate_fits(const struct candidate *candidate, const struct asked *asked)
{
	return candidate->is_class ? !asked->is_pointer && !asked->inside_known
				   : !asked->inside_known || candidate->inside == asked->inside;
}

// A class may be there in several modules, and while one derived from it is made its objects have
// vtables of their own; those of its second and further bases do not count. Of symbols all count
// that point where it was asked for.
static void candidates_choose(const struct candidates *candidates, const struct candidate *chosen,
	const struct asked *asked, struct type_words *ret)
{
	uint64_t base = chosen->base;
	for (size_t i = 0; i < candidates->count; i++) {
		const struct candidate *candidate = &candidates->list[i];
		if (candidate->is_class == chosen->is_class &&
			strcmp(candidate->name, chosen->name) == 0)
			base = min_u64(base, candidate->base);
	}
	for (size_t i = 0; i < candidates->count && ret->count < TYPE_WORDS_MAX; i++) {
		const struct candidate *candidate = &candidates->list[i];
		if (candidate->is_class == chosen->is_class && candidate->base == base &&
			candidate_fits(candidate, asked) &&
			strcmp(candidate->name, chosen->name) == 0)
			ret->values[ret->count++] = candidate->value;
	}
}

// The best one; NULL if none has the name. *several: there are others that are as good.
static const struct candidate *candidates_best(
	const struct candidates *candidates, const struct asked *asked, bool *several)
{
	const struct candidate *best = NULL;
	unsigned best_rank = 2;
	*several = false;
	for (size_t i = 0; i < candidates->count; i++) {
		const struct candidate *candidate = &candidates->list[i];
		const unsigned rank = candidate_fits(candidate, asked)
					      ? candidate_rank(candidate, asked->name)
					      : 2;
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
static bool candidates_find(
	const struct candidates *candidates, const struct asked *asked, struct type_words *ret)
{
	bool several;
	const struct candidate *best = candidates_best(candidates, asked, &several);
	if (best == NULL || several)
		return false;
	candidates_choose(candidates, best, asked, ret);
	return true;
}

static bool candidates_fail(const struct dump *dump, struct candidates *candidates,
	const struct asked *asked, struct error *err)
{
	char nearest[700];
	bool several;
	candidates_best(candidates, asked, &several);
	candidates_list(candidates, asked->name, nearest, sizeof nearest);
	if (several)
		return error_usage(
			err, "--type %s: more than one has this name: %s", asked->text, nearest);
	// The name may be that of a program that could not be read.
	const struct module *program = names_modules(dump->names)->main;
	char why[400] = "";
	if (program != NULL &&
		(program->state == MODULE_MISSING || program->state == MODULE_MISMATCH))
		snprintf(why, sizeof why, "; %.300s %s: give the right one with --exe or --sysroot",
			program->path,
			program->state == MODULE_MISSING ? "is missing" : "is of another build");
	return error_usage(err,
		"--type %s: no word in %s points to a class or a symbol of this name; the nearest: "
		"%s%s",
		asked->text, image_info(dump->image)->path, nearest[0] != '\0' ? nearest : "none",
		why);
}

// "MODULE+0xOFFSET": what has no name. True if there is such a module.
static bool place_find(const struct dump *dump, const char *name, struct type_words *ret)
{
	const struct modules *modules = names_modules(dump->names);
	const char *plus = strrchr(name, '+');
	if (plus == NULL || strncmp(plus, "+0x", 3) != 0 || strlen(plus) > 3 + 16 ||
		plus[3] == '\0' || plus[3 + strspn(plus + 3, "0123456789abcdefABCDEF")] != '\0')
		return false;
	const uint64_t offset = strtoull(plus + 3, NULL, 16);
	for (size_t i = 0; i < modules->range_count; i++) {
		const struct module_range *range = &modules->ranges[i];
		const struct module *module = &modules->list[range->module];
		const uint64_t address = module->bias + offset;
		if (strlen(module->name) == (size_t)(plus - name) &&
			strncmp(module->name, name, (size_t)(plus - name)) == 0 &&
			address - range->start < range->end - range->start &&
			ret->count < TYPE_WORDS_MAX)
			ret->values[ret->count++] = address;
	}
	return ret->count > 0;
}

static bool name_find(
	struct dump *dump, const struct asked *asked, struct error *err, struct type_words *ret)
{
	struct candidates classes = {0}, words = {0};
	bool ok = candidates_load_classes(dump, &classes, err);
	// Where several classes have the name, one of them may be the only one that has objects.
	if (ok && !candidates_find(&classes, asked, ret))
		ok = candidates_load_words(dump, &words, err) &&
		     (candidates_find(&words, asked, ret) ||
			     candidates_fail(dump, &words, asked, err));
	candidates_deinit(&classes);
	candidates_deinit(&words);
	return ok;
}

bool type_find(struct dump *dump, const char *name, struct error *err, struct type_words *ret)
{
	struct asked asked;
	*ret = (struct type_words){0};
	if (dump->options->no_names)
		return error_usage(err, "--no-names with --type: a type is found by its name");
	if (!dump_names(dump, "--type", err))
		return false;
	if (!names_has_addresses(dump->names))
		return error_usage(err, "--type: nothing is known of the addresses in %s",
			image_info(dump->image)->path);
	const bool ok = asked_init(dump, name, err, &asked) &&
			(place_find(dump, asked.name, ret) || name_find(dump, &asked, err, ret));
	ret->within_known = asked.within_known;
	ret->within = asked.within;
	free(asked.name);
	return ok;
}
