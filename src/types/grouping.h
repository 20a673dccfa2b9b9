// SPDX-License-Identifier: MIT
//
// What the files about groups of blocks share; see groups.h.
#pragma once

#include "alloc/lookup.h"
#include "types/groups.h"
#include "types/parts.h"
#include "types/ranges.h"

// Blocks of a group that are looked at closely.
#define SAMPLES 32
// The words of a rule, and of a group that it splits.
#define RULE_VALUES 20

// Rules of a group, one after the other: each for what those before it leave.
#define RULES_EACH 4

enum rule_kind {
	RULE_POINTER, // to a function or a static object, at an offset
	RULE_WORD,    // one word: of a variable, or a constant
	RULE_TEXT,    // a text at an offset
	RULE_HOLDER,  // where what points at them is; all that is left has it
};

// What many blocks of a group have in common.
struct rule {
	enum rule_kind kind;
	uint32_t offset; // in the block
	unsigned value_count;
	uint64_t values[RULE_VALUES];	      // of RULE_POINTER and RULE_WORD
	_Atomic uint64_t counts[RULE_VALUES]; // blocks that have each; of RULE_TEXT the first
	_Atomic uint64_t firsts[RULE_VALUES]; // the lowest address of these
	char *text;   // of the other kinds, and of one word: what is said; owned
	char *module; // the name of the module that it is of; NULL: none; owned
};

struct ruling {
	struct rule rules[RULES_EACH];
	unsigned count;
	uint32_t left;		// samples that have none of them: a bit for each
	_Atomic uint64_t first; // the lowest address of the blocks that have none of them
};

struct sample {
	uint64_t hash; // of the address: those with the lowest are kept
	uint64_t address;
};

// The blocks of one size.
struct group {
	uint64_t count;	 // first, as hashtable.h wants it
	uint64_t size;	 // bytes that each costs
	uint64_t usable; // bytes that one of them has
	uint64_t first;	 // the lowest address
	unsigned sample_count;
	struct sample samples[SAMPLES]; // sorted by hash
};

struct groups {
	const struct image *image;
	struct names *names;
	const struct groups_options *options;
	const struct types_result *result;
	struct ranges ranges;
	struct lookup lookup;
	struct group *list; // sorted by bytes, the most first; owned
	size_t count;
	struct ruling *rulings; // of the first ones of list; owned
	size_t ruling_count;
	uint64_t bytes; // of all groups
};

// A pass over the memory: told of each piece by several threads at once.
typedef void groups_look(
	void *context, unsigned thread, const struct view *view, const struct parts *parts);
bool groups_scan(struct groups *groups, groups_look *look, void *context, struct error *err);

// A block in use that begins in the view, and has no row yet.
typedef void groups_take(void *context, const struct part *block, const struct view *view);
void groups_each(const struct groups *groups, const struct view *view, const struct parts *parts,
	groups_take *take, void *context);

// Read from a block, or up to its end. Returns how many bytes there are.
size_t group_read(const struct groups *groups, const struct group *group, unsigned sample,
	uint64_t offset, void *buffer, size_t size);

// The word by which an object that begins with these bytes has a row of its own; false if it has
// none.
bool groups_row_of(
	const struct groups *groups, const unsigned char *bytes, size_t size, uint64_t *ret);

// Find rules in the samples of the first groups.
bool rules_find(struct groups *groups, struct error *err);
// Count what each rule with words splits.
bool rules_count(struct groups *groups, struct error *err);
// Find out where the pointers to the blocks of groups without a rule are.
bool keepers_find(struct groups *groups, struct error *err);
