// SPDX-License-Identifier: MIT
//
// What most blocks of a size have in common, at one offset: found in a sample, and then counted.
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "names/kinds.h"
#include "types/grouping.h"

// Groups that are looked at: the largest ones, with one in so many of the bytes of all at least.
#define RULES_MAX 512
#define RULE_SHARE 4096
// Of a block so much is looked at, in bytes, of all in a sample so much together.
#define BLOCK_SIZE ((size_t)64 << 10)
#define SAMPLE_SIZE ((size_t)1 << 20)
// Texts and constants are at the beginning of blocks.
#define FRONT ((size_t)256)
// Of the blocks that have no rule yet so many of a hundred must have it, but of a constant that is
// nothing else. What is the same in few blocks is so by chance.
#define MANY 25
#define MOST 60
#define SAMPLE_MIN 4

struct finder {
	struct groups *groups;
	unsigned char *bytes; // of the samples, `length` of each; SAMPLE_SIZE; owned
	size_t length;
	unsigned count;		   // samples without a rule
	unsigned samples[SAMPLES]; // their indices
	struct kinds kinds;
};

static const unsigned char *finder_at(const struct finder *finder, unsigned index, size_t offset)
{
	return finder->bytes + finder->samples[index] * finder->length + offset;
}

static uint64_t finder_word(const struct finder *finder, unsigned index, size_t offset)
{
	return word_load(
		finder_at(finder, index, offset), finder->kinds.word_size, finder->kinds.order);
}

static void finder_load(struct finder *finder, const struct group *group)
{
	const struct groups *groups = finder->groups;
	const size_t word = finder->kinds.word_size;
	const size_t most = min_u64(BLOCK_SIZE, SAMPLE_SIZE / max_u64(group->sample_count, 1));
	finder->length = (size_t)min_u64(group->usable, most) / word * word;
	finder->count = 0;
	for (unsigned i = 0; i < group->sample_count; i++)
		if (finder->length > 0 &&
			group_read(groups, group, i, 0, finder->bytes + i * finder->length,
				finder->length) == finder->length)
			finder->samples[finder->count++] = i;
}

static bool is_most(const struct finder *finder, unsigned part, unsigned percent)
{
	return part >= SAMPLE_MIN && part * 100 >= finder->count * percent;
}

static bool word_is_text(const struct kinds *kinds, uint64_t value)
{
	unsigned char bytes[8];
	return kinds_text(kinds, value, bytes) == kinds->word_size;
}

// The index of the rule's value that a word is; value_count if it is none.
static unsigned rule_match(const struct rule *rule, const struct kinds *kinds, uint64_t value)
{
	if (rule->kind == RULE_TEXT)
		return word_is_text(kinds, value) ? 0 : rule->value_count;
	unsigned i = 0;
	while (i < rule->value_count && rule->values[i] != value)
		i++;
	return i;
}

// Only those samples remain that do not have the rule.
static void finder_leave(struct finder *finder, const struct rule *rule)
{
	unsigned kept = 0;
	for (unsigned i = 0; i < finder->count; i++)
		if (rule_match(rule, &finder->kinds, finder_word(finder, i, rule->offset)) ==
			rule->value_count)
			finder->samples[kept++] = finder->samples[i];
	finder->count = kept;
}

// ---- words

struct vote {
	uint64_t value;
	unsigned count;
};

static int vote_compare(const void *left, const void *right)
{
	const struct vote *a = left, *b = right;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return a->value < b->value ? -1 : a->value > b->value;
}

// The words at an offset that `wanted` likes, the most frequent ones first. Returns how many
// samples have them.
static unsigned words_vote(const struct finder *finder, size_t offset,
	bool (*wanted)(const struct finder *finder, uint64_t value),
	struct vote ret[static SAMPLES], unsigned *different)
{
	unsigned sum = 0;
	*different = 0;
	for (unsigned i = 0; i < finder->count; i++) {
		const uint64_t value = finder_word(finder, i, offset);
		unsigned k = 0;
		while (k < *different && ret[k].value != value)
			k++;
		if (k == *different) {
			if (!wanted(finder, value))
				continue;
			ret[(*different)++] = (struct vote){.value = value};
		}
		ret[k].count++;
		sum++;
	}
	qsort(ret, *different, sizeof *ret, vote_compare);
	return sum;
}

// Whether a value points to the beginning of what has a name, or at least may be one: not into the
// allocator's own data, nor to an odd place.
static bool value_tells(const struct finder *finder, uint64_t value)
{
	const struct groups *groups = finder->groups;
	const struct heap *heap = groups->options->heap;
	if (!ranges_have(&groups->ranges, value) ||
		modules_find(groups->ranges.modules, value) == NULL)
		return false;
	for (size_t i = 0; i < heap->internal_count; i++)
		if (value - heap->internals[i].start <
			heap->internals[i].end - heap->internals[i].start)
			return false;
	const struct identity identity = names_identify(groups->names, value);
	if (identity.module == NULL)
		return false;
	return identity.type == IDENTITY_CLASS || identity.type == IDENTITY_CONSTRUCTION ||
	       (identity.type == IDENTITY_NONE ? value % 4 == 0 : identity.offset == 0);
}

static bool value_is_word(const struct finder *finder, uint64_t value)
{
	(void)finder;
	return value != 0;
}

static bool in_module(const struct finder *finder, uint64_t value)
{
	return ranges_have(&finder->groups->ranges, value);
}

// Whether there may be a rule at an offset: many samples point into modules.
static bool offset_is_likely(const struct finder *finder, size_t offset)
{
	unsigned inside = 0;
	for (unsigned i = 0; i < finder->count; i++)
		inside += in_module(finder, finder_word(finder, i, offset));
	return is_most(finder, inside, MANY);
}

static void rule_take(struct rule *rule, enum rule_kind kind, size_t offset,
	const struct vote *votes, unsigned count)
{
	rule->kind = kind;
	rule->offset = (uint32_t)offset;
	rule->value_count = (unsigned)min_u64(count, RULE_VALUES);
	for (unsigned i = 0; i < rule->value_count; i++)
		rule->values[i] = votes[i].value;
}

// A pointer to a function or a static object, where many have one of a few. One with a name is
// better, then one that more have, then the first.
static void pointer_find(struct finder *finder, struct rule *rule)
{
	const unsigned word = finder->kinds.word_size;
	unsigned best = 0;
	for (size_t offset = 0; offset < finder->length; offset += word) {
		struct vote votes[SAMPLES];
		unsigned different;
		if (!offset_is_likely(finder, offset))
			continue;
		unsigned sum = words_vote(finder, offset, value_tells, votes, &different);
		if (different == 0 || different > RULE_VALUES || !is_most(finder, sum, MANY) ||
			different * 2 > sum)
			continue;
		const bool named =
			names_identify(finder->groups->names, votes[0].value).type != IDENTITY_NONE;
		sum += named ? SAMPLES : 0;
		if (sum <= best)
			continue;
		best = sum;
		rule_take(rule, RULE_POINTER, offset, votes, different);
	}
}

// ---- words that all have

// The places in the data of modules where a word is: the first one that has a name, or else the
// first one. False if there is none.
static bool variable_find(struct groups *groups, uint64_t value, uint64_t *ret)
{
	const struct image_info *info = image_info(groups->image);
	const struct modules *modules = names_modules(groups->names);
	const unsigned word = info->word_size;
	bool found = false;
	for (size_t i = 0; i < modules->range_count; i++) {
		const struct module_range *range = &modules->ranges[i];
		unsigned char block[4096];
		size_t size;
		if ((range->flags & PF_W) == 0)
			continue;
		for (uint64_t at = range->start; at < range->end; at += sizeof block) {
			size = image_read(groups->image, at, block,
				(size_t)min_u64(sizeof block, range->end - at));
			for (size_t k = 0; k + word <= size; k += word) {
				if (word_load(block + k, word, info->order) != value)
					continue;
				const struct identity identity =
					names_identify(groups->names, at + k);
				if (!found)
					*ret = at + k;
				found = true;
				if (identity.type != IDENTITY_OBJECT || identity.offset != 0)
					continue;
				*ret = at + k;
				return true;
			}
		}
	}
	return found;
}

// "value of rb_cString @+8". False if memory ran out; without a variable rule->text stays NULL.
static bool variable_say(struct groups *groups, uint64_t value, size_t offset, struct rule *rule)
{
	uint64_t variable;
	if (!variable_find(groups, value, &variable))
		return true;
	const struct identity identity = names_identify(groups->names, variable);
	if (identity.module == NULL)
		return true;
	char *name = type_name_pointer(&identity, variable, OFFSET_DEEP);
	const char *bare = name != NULL && strncmp(name, "-> ", 3) == 0 ? name + 3 : name;
	rule->module = strdup(identity.module->name);
	if (name == NULL || rule->module == NULL ||
		asprintf(&rule->text, "value of %s @+%zu", bare, offset) < 0)
		rule->text = NULL;
	free(name);
	return rule->text != NULL;
}

// Whether at least three quarters of a word are printable: texts tell more.
static bool is_nearly_text(const struct kinds *kinds, uint64_t value)
{
	unsigned printable = 0;
	for (unsigned i = 0; i < kinds->word_size; i++, value >>= 8)
		printable += (value & 0xff) >= ' ' && (value & 0xff) < 0x7f;
	return printable * 4 >= kinds->word_size * 3;
}

static bool is_heap_address(const struct groups *groups, uint64_t value)
{
	return heap_region_at(groups->options->heap, value) != NULL;
}

static bool word_find(struct finder *finder, struct rule *rule)
{
	struct groups *groups = finder->groups;
	const unsigned word = finder->kinds.word_size;
	for (size_t offset = 0; offset < min_u64(FRONT, finder->length); offset += word) {
		struct vote votes[SAMPLES];
		unsigned different;
		words_vote(finder, offset, value_is_word, votes, &different);
		if (different == 0 || !is_most(finder, votes[0].count, MANY))
			continue;
		const uint64_t value = votes[0].value;
		if (is_heap_address(groups, value)) {
			if (!variable_say(groups, value, offset, rule))
				return false;
		} else if (value > UINT16_MAX && is_most(finder, votes[0].count, MOST) &&
			   !groups->options->redact && !in_module(finder, value) &&
			   !is_nearly_text(&finder->kinds, value) &&
			   asprintf(&rule->text, "0x%0*" PRIx64 " @+%zu", (int)(2 * word), value,
				   offset) < 0) {
			rule->text = NULL;
			return false;
		}
		if (rule->text == NULL)
			continue;
		rule_take(rule, RULE_WORD, offset, votes, 1);
		return true;
	}
	return true;
}

// ---- texts

// So much of what texts begin with is shown, in bytes.
#define SHOWN ((size_t)40)

static bool is_printable(unsigned char byte)
{
	return byte >= ' ' && byte < 0x7f;
}

// Where the text begins that has the byte at an offset.
static size_t text_start(const struct finder *finder, unsigned index, size_t offset)
{
	while (offset > 0 && is_printable(finder_at(finder, index, offset - 1)[0]))
		offset--;
	return offset;
}

// How many bytes from an offset on all texts have that begin there; without the number that they
// may end with, of which the first digits are the same by chance.
static size_t text_common(
	const struct finder *finder, const struct rule *rule, unsigned first, size_t start)
{
	const unsigned char *text = finder_at(finder, first, start);
	size_t length = 0;
	while (length < min_u64(SHOWN, finder->length - start) && is_printable(text[length]))
		length++;
	for (unsigned i = first + 1; i < finder->count; i++) {
		const unsigned char *other = finder_at(finder, i, start);
		size_t same = 0;
		if (!word_is_text(&finder->kinds, finder_word(finder, i, rule->offset)) ||
			text_start(finder, i, rule->offset) != start)
			continue;
		while (same < length && other[same] == text[same])
			same++;
		length = same;
	}
	while (length > 0 && text[length - 1] >= '0' && text[length - 1] <= '9')
		length--;
	return length;
}

// Texts of many blocks have a word at one offset. What they begin with is shown.
static bool text_take(struct finder *finder, unsigned first, struct rule *rule)
{
	const size_t start = text_start(finder, first, rule->offset);
	const size_t length = text_common(finder, rule, first, start);
	char shown[4 * SHOWN + 1];
	escape(shown, sizeof shown, (const char *)finder_at(finder, first, start), length,
		ESCAPE_QUOTED);
	if ((length > 1 ? asprintf(&rule->text, "text \"%s...\" @+%zu", shown, start)
			: asprintf(&rule->text, "text @+%zu", start)) < 0)
		rule->text = NULL;
	return rule->text != NULL;
}

static bool text_find(struct finder *finder, struct rule *rule)
{
	const unsigned word = finder->kinds.word_size;
	for (size_t offset = 0; offset < min_u64(FRONT, finder->length); offset += word) {
		unsigned texts = 0, first = 0;
		for (unsigned i = 0; i < finder->count; i++) {
			const bool is =
				word_is_text(&finder->kinds, finder_word(finder, i, offset));
			first = is && texts == 0 ? i : first;
			texts += is;
		}
		if (!is_most(finder, texts, MANY))
			continue;
		rule->kind = RULE_TEXT;
		rule->offset = (uint32_t)offset;
		rule->value_count = 1;
		return text_take(finder, first, rule);
	}
	return true;
}

// ---- the whole

static bool rule_find(struct finder *finder, struct rule *rule)
{
	pointer_find(finder, rule);
	if (rule->value_count == 0 && !word_find(finder, rule))
		return false;
	return rule->value_count > 0 || finder->groups->options->redact || text_find(finder, rule);
}

static bool ruling_find(struct finder *finder, const struct group *group, struct ruling *ruling)
{
	finder_load(finder, group);
	ruling->first = UINT64_MAX;
	// The last one is for what holds the rest.
	while (ruling->count + 1 < RULES_EACH && finder->count >= SAMPLE_MIN) {
		struct rule *rule = &ruling->rules[ruling->count];
		if (!rule_find(finder, rule))
			return false;
		if (rule->value_count == 0)
			break;
		for (unsigned i = 0; i < rule->value_count; i++)
			rule->firsts[i] = UINT64_MAX;
		finder_leave(finder, rule);
		ruling->count++;
	}
	for (unsigned i = 0; i < finder->count; i++)
		ruling->left |= UINT32_C(1) << finder->samples[i];
	return true;
}

static bool is_stopped(const struct groups *groups)
{
	return atomic_load(groups->options->stop) != 0;
}

bool rules_find(struct groups *groups, struct error *err)
{
	const struct image_info *info = image_info(groups->image);
	struct finder finder = {
		.groups = groups,
		.bytes = malloc(SAMPLE_SIZE),
		.kinds = {.word_size = info->word_size, .order = info->order},
	};
	groups->rulings = calloc(RULES_MAX, sizeof *groups->rulings);
	bool ok = finder.bytes != NULL && groups->rulings != NULL;
	while (ok && groups->ruling_count < min_u64(groups->count, RULES_MAX) &&
		!is_stopped(groups)) {
		const struct group *group = &groups->list[groups->ruling_count];
		if (group->size == 0 || group->count * group->size < groups->bytes / RULE_SHARE)
			break;
		ok = ruling_find(&finder, group, &groups->rulings[groups->ruling_count++]);
	}
	free(finder.bytes);
	return ok || error_memory(err);
}

// ---- counting

struct splitting {
	struct groups *groups;
	struct kinds kinds;
	size_t *by_size; // indices of groups with rules, sorted by size; owned
	size_t count;
};

static struct ruling *ruling_of(const struct splitting *splitting, uint64_t size)
{
	const struct groups *groups = splitting->groups;
	size_t low = 0, high = splitting->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (groups->list[splitting->by_size[middle]].size < size)
			low = middle + 1;
		else
			high = middle;
	}
	return low < splitting->count && groups->list[splitting->by_size[low]].size == size
		       ? &groups->rulings[splitting->by_size[low]]
		       : NULL;
}

static bool block_word(const struct splitting *splitting, const struct part *block,
	const struct view *view, uint64_t offset, uint64_t *ret)
{
	const unsigned word = splitting->kinds.word_size;
	const uint64_t inside = block->address + offset - view->address;
	if (block->limit - block->address < offset + word)
		return false;
	if (inside >= view->size || view->size - inside < word)
		return image_read_word(splitting->groups->image, block->address + offset, ret);
	*ret = word_load(view->bytes + inside, word, splitting->kinds.order);
	return true;
}

static void first_note(_Atomic uint64_t *first, uint64_t address)
{
	uint64_t seen = atomic_load_explicit(first, memory_order_relaxed);
	while (address < seen && !atomic_compare_exchange_weak(first, &seen, address))
		continue;
}

static void block_split(void *context, const struct part *block, const struct view *view)
{
	const struct splitting *splitting = context;
	struct ruling *ruling = ruling_of(splitting, block->size);
	for (unsigned i = 0; ruling != NULL && i < ruling->count; i++) {
		struct rule *rule = &ruling->rules[i];
		uint64_t value;
		if (!block_word(splitting, block, view, rule->offset, &value))
			continue;
		const unsigned match = rule_match(rule, &splitting->kinds, value);
		if (match == rule->value_count)
			continue;
		atomic_fetch_add_explicit(&rule->counts[match], 1, memory_order_relaxed);
		first_note(&rule->firsts[match], block->address);
		return;
	}
	if (ruling != NULL)
		first_note(&ruling->first, block->address);
}

static void piece_split(
	void *context, unsigned thread, const struct view *view, const struct parts *parts)
{
	struct splitting *splitting = context;
	(void)thread;
	groups_each(splitting->groups, view, parts, block_split, splitting);
}

static int size_compare(const void *left, const void *right, void *context)
{
	const struct groups *groups = context;
	const uint64_t a = groups->list[*(const size_t *)left].size,
		       b = groups->list[*(const size_t *)right].size;
	return a < b ? -1 : a > b;
}

bool rules_count(struct groups *groups, struct error *err)
{
	const struct image_info *info = image_info(groups->image);
	struct splitting splitting = {
		.groups = groups,
		.kinds = {.word_size = info->word_size, .order = info->order},
		.by_size = calloc(RULES_MAX, sizeof(size_t)),
	};
	if (splitting.by_size == NULL)
		return error_memory(err);
	for (size_t i = 0; i < groups->ruling_count; i++)
		if (groups->rulings[i].count > 0)
			splitting.by_size[splitting.count++] = i;
	qsort_r(splitting.by_size, splitting.count, sizeof *splitting.by_size, size_compare,
		groups);
	const bool ok = splitting.count == 0 || groups_scan(groups, piece_split, &splitting, err);
	free(splitting.by_size);
	return ok;
}
