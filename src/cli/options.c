// SPDX-License-Identifier: MIT
#include "cli/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum type {
	TYPE_FLAG,   // bool
	TYPE_NUMBER, // uint64_t: decimal, or hexadecimal with 0x
	TYPE_SIZE,   // uint64_t: a number with K, M, G or T
	TYPE_CHOICE, // uint64_t: one of the words
	TYPE_SET,    // uint64_t: words with commas between them; their values, each a bit
	TYPE_TEXT,   // const char *
	TYPE_MAYBE,  // the same, and may be missing: then it stays NULL
};

struct choice {
	const char *word;
	uint64_t value;
};

struct option_spec {
	const char *name;
	const char *other; // a further long name, as topleaked has it
	char letter;	   // '\0': none
	enum type type;
	const char *argument; // its name in --help
	const char *help;
	size_t field;		      // offset in struct options
	size_t given;		      // offset of a bool that becomes true too; 0: none
	uint64_t least, most;	      // of numbers and sizes
	const struct choice *choices; // up to one without a word
};

#define FIELD(name) offsetof(struct options, name)

static const struct choice outputs[] = {{"text", OUTPUT_TEXT}, {"human", OUTPUT_TEXT},
	{"json", OUTPUT_JSON}, {"csv", OUTPUT_CSV}, {"gdb", OUTPUT_GDB}, {"folded", OUTPUT_FOLDED},
	{"pprof", OUTPUT_PPROF}, {"speedscope", OUTPUT_SPEEDSCOPE}, {NULL, 0}};
static const struct choice word_sizes[] = {{"4", 4}, {"8", 8}, {NULL, 0}};
static const struct choice orders[] = {{"little", ORDER_LITTLE}, {"big", ORDER_BIG}, {NULL, 0}};
static const struct choice whens[] = {
	{"auto", WHEN_AUTO}, {"always", WHEN_ALWAYS}, {"never", WHEN_NEVER}, {NULL, 0}};
// In the order of enum kind in names/kinds.h.
static const struct choice kinds[] = {{"zero", 1 << 0}, {"number", 1 << 1}, {"text", 1 << 2},
	{"code", 1 << 3}, {"data", 1 << 4}, {"heap", 1 << 5}, {"stack", 1 << 6}, {"anon", 1 << 7},
	{"other", 1 << 8}, {NULL, 0}};
// In the order of enum type_sort in types/types.h and, all of them, stack_sort in stacks/table.h.
static const struct choice sorts[] = {{"bytes", 0}, {"count", 1}, {"size", 2}, {"name", 3},
	{"peak", 4}, {"allocated", 5}, {"temporary", 6}, {"growth", 7}, {NULL, 0}};
#define SORTS_OF_TYPES 4
// In the order of enum stack_by in stacks/table.h.
static const struct choice keys[] = {
	{"stack", 0}, {"function", 1}, {"module", 2}, {"size", 3}, {NULL, 0}};

// clang-format off
static const struct option_spec specs[] = {
	{"types", NULL, '\0', TYPE_FLAG, NULL, "print the types of objects, how many, how large",
		FIELD(types), 0, 0, 0, NULL},
	{"leaks", NULL, '\0', TYPE_FLAG, NULL, "print what nothing reaches any more, by type",
		FIELD(leaks), 0, 0, 0, NULL},
	{"heap", NULL, '\0', TYPE_FLAG, NULL, "print what the allocator has: heaps, sizes of blocks, the largest ones",
		FIELD(heap), 0, 0, 0, NULL},
	{"stacks", NULL, '\0', TYPE_FLAG, NULL, "print who allocated it: call stacks that topleak-record recorded",
		FIELD(stacks), 0, 0, 0, NULL},
	{"by", NULL, '\0', TYPE_CHOICE, "KEY", "a row for each stack (the default), function, module, or size of blocks",
		FIELD(by), FIELD(by_given), 0, 0, keys},
	{"at", NULL, '\0', TYPE_NUMBER, "MS", "what was in use so many milliseconds after the beginning",
		FIELD(at), FIELD(at_given), 0, UINT32_MAX, NULL},
	{"exact-pointers", NULL, '\0', TYPE_FLAG, NULL, "only pointers to the beginning of an object, or a base in it, count",
		FIELD(exact_pointers), 0, 0, 0, NULL},
	{"sort", NULL, '\0', TYPE_CHOICE, "KEY", "by bytes (the default), count, size, or name; stacks also by peak, allocated, temporary, or growth",
		FIELD(sort), FIELD(sort_given), 0, 0, sorts},
	{"diff", NULL, '\0', TYPE_TEXT, "OLD", "print what grew since a dump, or its saved -ojson",
		FIELD(diff), 0, 0, 0, NULL},
	{"top", "size", 'n', TYPE_NUMBER, "N", "print the N most frequent words (10)",
		FIELD(top), FIELD(top_given), 1, 1000000, NULL},
	{"min-count", NULL, '\0', TYPE_NUMBER, "C", "print only what occurs at least C times",
		FIELD(min_count), 0, 1, UINT64_MAX, NULL},
	{"kind", NULL, 'k', TYPE_SET, "KIND,...", "count only words of these kinds: zero number text code data heap stack anon other",
		FIELD(kinds), 0, 0, 0, kinds},
	{"strings", NULL, '\0', TYPE_FLAG, NULL, "print the most frequent texts instead of words",
		FIELD(strings), 0, 0, 0, NULL},
	{"find", NULL, 'f', TYPE_TEXT, "PATTERN", "find a word (0x...) or a text: where, and in what",
		FIELD(find), 0, 0, 0, NULL},
	{"type", NULL, '\0', TYPE_TEXT, "NAME", "the objects of a class, or pointers to a symbol",
		FIELD(type), 0, 0, 0, NULL},
	{"member", NULL, '\0', TYPE_TEXT, "OFFSET:TYPE", "the most frequent values of fields of what is found: OFFSET[:TYPE],...",
		FIELD(member), 0, 0, 0, NULL},
	{"memberOffset", NULL, '\0', TYPE_TEXT, "OFFSET", "--member, as topleaked has it",
		FIELD(member_offset), 0, 0, 0, NULL},
	{"memberType", NULL, '\0', TYPE_TEXT, "TYPE", "--member, as topleaked has it",
		FIELD(member_type), 0, 0, 0, NULL},
	{"owners", NULL, '\0', TYPE_FLAG, NULL, "what points at the objects of --type: types and places, and at which offset",
		FIELD(owners), 0, 0, 0, NULL},
	{"path", NULL, '\0', TYPE_NUMBER, "ADDRESS", "the shortest way from a root to the object there",
		FIELD(path), FIELD(path_given), 0, UINT64_MAX, NULL},
	{"around", NULL, '\0', TYPE_MAYBE, "FROM:TO", "the layout of what is found, word by word (-2:16)",
		FIELD(around_range), FIELD(around), 0, 0, NULL},
	{"all", NULL, '\0', TYPE_FLAG, NULL, "print every address, not the first N; with --leaks every lost object, with --path every step, with --stacks every frame, with --strings texts of code",
		FIELD(all), 0, 0, 0, NULL},
	{"exact", NULL, '\0', TYPE_FLAG, NULL, "texts as they are, not those that differ in numbers as one",
		FIELD(exact), 0, 0, 0, NULL},
	{"min-length", NULL, '\0', TYPE_NUMBER, "N", "texts of at least N characters (8)",
		FIELD(min_length), FIELD(min_length_given), 1, 1 << 20, NULL},
	{"ignore-case", NULL, '\0', TYPE_FLAG, NULL, "the case of letters in texts does not matter",
		FIELD(ignore_case), 0, 0, 0, NULL},
	{"output", NULL, 'o', TYPE_CHOICE, "FORMAT", "text (or human), json, csv, or gdb: its commands; stacks also as folded, pprof, or speedscope",
		FIELD(output), 0, 0, 0, outputs},
	{"no-names", NULL, '\0', TYPE_FLAG, NULL, "print values and counts only",
		FIELD(no_names), 0, 0, 0, NULL},
	{"no-demangle", NULL, '\0', TYPE_FLAG, NULL, "print symbols as they are in the file",
		FIELD(no_demangle), 0, 0, 0, NULL},
	{"redact", NULL, '\0', TYPE_FLAG, NULL, "leave out what memory holds: texts, and most values",
		FIELD(redact), 0, 0, 0, NULL},
	{"word", NULL, 'w', TYPE_CHOICE, "4|8", "bytes in a word, instead of what the core says",
		FIELD(word_size), 0, 0, 0, word_sizes},
	{"endian", NULL, 'e', TYPE_CHOICE, "little|big", "byte order, instead of what the core says",
		FIELD(order), FIELD(order_given), 0, 0, orders},
	{"raw", NULL, 'r', TYPE_FLAG, NULL, "read the file as plain bytes, whatever it is",
		FIELD(raw), 0, 0, 0, NULL},
	{"offset", NULL, 's', TYPE_SIZE, "BYTES", "begin at this offset; implies --raw",
		FIELD(offset), FIELD(raw), 0, UINT64_MAX, NULL},
	{"limit", NULL, 'l', TYPE_NUMBER, "WORDS", "read this many words; implies --raw",
		FIELD(limit), FIELD(raw), 1, UINT64_MAX, NULL},
	{"pid", NULL, 'p', TYPE_NUMBER, "PID", "read the memory of a live process instead of a file",
		FIELD(pid), 0, 1, INT32_MAX, NULL},
	{"exe", NULL, 'x', TYPE_TEXT, "FILE", "the program that dumped core",
		FIELD(exe), 0, 0, 0, NULL},
	{"sysroot", NULL, '\0', TYPE_TEXT, "DIR", "look for programs and libraries below it first",
		FIELD(sysroot), 0, 0, 0, NULL},
	{"debug-dir", NULL, '\0', TYPE_TEXT, "DIR", "look for separate debug files there first",
		FIELD(debug_dir), 0, 0, 0, NULL},
	{"debuginfod", NULL, '\0', TYPE_FLAG, NULL, "ask the servers in DEBUGINFOD_URLS for files",
		FIELD(debuginfod), 0, 0, 0, NULL},
	{"threads", NULL, 'j', TYPE_NUMBER, "N", "use at most N threads (one for each processor)",
		FIELD(threads), 0, 1, 256, NULL},
	{"memory", NULL, 'm', TYPE_SIZE, "SIZE", "use at most this much memory (128M)",
		FIELD(memory), 0, (uint64_t)16 << 20, (uint64_t)1 << 46, NULL},
	{"time", NULL, 't', TYPE_FLAG, NULL, "print the time it took to stderr",
		FIELD(time), 0, 0, 0, NULL},
	{"verbose", NULL, 'v', TYPE_FLAG, NULL, "print what the numbers rest on, to stderr",
		FIELD(verbose), 0, 0, 0, NULL},
	{"quiet", NULL, 'q', TYPE_FLAG, NULL, "print nothing to stderr but warnings and errors",
		FIELD(quiet), 0, 0, 0, NULL},
	{"color", NULL, '\0', TYPE_CHOICE, "WHEN", "colour rows: auto (on a terminal), always, never",
		FIELD(color), 0, 0, 0, whens},
	{"progress", NULL, '\0', TYPE_CHOICE, "WHEN", "show on stderr how far it is: auto, always, never",
		FIELD(progress), 0, 0, 0, whens},
	{"help", NULL, 'h', TYPE_FLAG, NULL, "print this help",
		FIELD(help), 0, 0, 0, NULL},
	{"version", NULL, 'V', TYPE_FLAG, NULL, "print the version",
		FIELD(version), 0, 0, 0, NULL},
};
// clang-format on

#define SPEC_COUNT (sizeof specs / sizeof *specs)

// Parse a whole text as a number; size: K, M, G or T may follow.
static bool number_parse(const char *text, bool size, uint64_t *ret)
{
	const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hex ? text + 2 : text;
	// strtoull would take a sign, white space, and a second 0x.
	const size_t length = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
	if (length == 0)
		return false;
	errno = 0;
	char *end;
	uint64_t number = strtoull(digits, &end, hex ? 16 : 10);
	if (errno != 0 || end != digits + length)
		return false;
	static const char units[] = "KMGT";
	const char *unit =
		size && *end != '\0' ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (unit != NULL) {
		end++;
		if (__builtin_mul_overflow(
			    number, UINT64_C(1) << (10 * (unit - units + 1)), &number))
			return false;
	}
	*ret = number;
	return *end == '\0';
}

static bool choice_parse(const struct choice *choices, const char *text, uint64_t *ret)
{
	for (; choices->word != NULL; choices++)
		if (strcmp(choices->word, text) == 0) {
			*ret = choices->value;
			return true;
		}
	return false;
}

// "text, human, json, csv, gdb"
static void choice_list(const struct choice *choices, size_t size, char *ret)
{
	size_t used = 0;
	for (const struct choice *choice = choices; choice->word != NULL && used < size; choice++)
		used += (size_t)snprintf(ret + used, size - used, "%s%s",
			choice == choices ? "" : ", ", choice->word);
}

struct label {
	char text[32];
};

// "-n, --top"
static struct label option_label(const struct option_spec *spec)
{
	struct label label;
	if (spec->letter != '\0')
		snprintf(label.text, sizeof label.text, "-%c, --%s", spec->letter, spec->name);
	else
		snprintf(label.text, sizeof label.text, "--%s", spec->name);
	return label;
}

// A number as it can be given: "16M" for a size.
static struct label option_number(const struct option_spec *spec, uint64_t number)
{
	static const char *const units[] = {"", "K", "M", "G", "T"};
	struct label label;
	size_t unit = 0;
	while (spec->type == TYPE_SIZE && unit < 4 && number != 0 && number % 1024 == 0) {
		number /= 1024;
		unit++;
	}
	snprintf(label.text, sizeof label.text, "%" PRIu64 "%s", number, units[unit]);
	return label;
}

static bool option_set_number(
	const struct option_spec *spec, const char *argument, struct error *err, uint64_t *ret)
{
	uint64_t number;
	if (!number_parse(argument, spec->type == TYPE_SIZE, &number))
		return error_usage(err, "%s: '%s' is not a %s", option_label(spec).text, argument,
			spec->type == TYPE_SIZE ? "size (a number, then K, M, G or T if you like)"
						: "number; hexadecimal ones begin with 0x");
	if (number < spec->least || number > spec->most)
		return error_usage(err, "%s: %s is out of range, from %s to %s",
			option_label(spec).text, argument, option_number(spec, spec->least).text,
			option_number(spec, spec->most).text);
	*ret = number;
	return true;
}

static bool option_set_words(
	const struct option_spec *spec, const char *argument, struct error *err, uint64_t *ret)
{
	char list[128] = "";
	choice_list(spec->choices, sizeof list, list);
	if (spec->type == TYPE_CHOICE) {
		if (choice_parse(spec->choices, argument, ret))
			return true;
		return error_usage(err, "--%s: '%s' is none of: %s", spec->name, argument, list);
	}
	for (const char *word = argument;;) {
		char copy[16];
		const size_t length = strcspn(word, ",");
		uint64_t value;
		snprintf(copy, sizeof copy, "%.*s", (int)min_u64(length, sizeof copy), word);
		if (!choice_parse(spec->choices, copy, &value))
			return error_usage(err, "--%s: '%.*s' is none of: %s", spec->name,
				(int)min_u64(length, 64), word, list);
		*ret |= value;
		if (word[length] == '\0')
			return true;
		word += length + 1;
	}
}

static bool option_set(struct options *options, const struct option_spec *spec,
	const char *argument, struct error *err)
{
	void *field = (char *)options + spec->field;
	if (spec->given != 0)
		*(bool *)((char *)options + spec->given) = true;
	switch (spec->type) {
	case TYPE_FLAG:
		*(bool *)field = true;
		return true;
	case TYPE_NUMBER:
	case TYPE_SIZE:
		return option_set_number(spec, argument, err, field);
	case TYPE_CHOICE:
	case TYPE_SET:
		return option_set_words(spec, argument, err, field);
	case TYPE_TEXT:
		if (argument[0] == '\0')
			return error_usage(err, "--%s: is empty", spec->name);
		*(const char **)field = argument;
		return true;
	case TYPE_MAYBE:
		*(const char **)field = argument;
		return true;
	}
	return false;
}

// What getopt_long needs, made from the table. A long option's value is 256 and its index.
struct getopt_tables {
	char letters[2 * SPEC_COUNT + 2];
	struct option names[2 * SPEC_COUNT + 1];
};

static void getopt_tables_init(struct getopt_tables *tables)
{
	*tables = (struct getopt_tables){0};
	char *letter = tables->letters;
	struct option *name = tables->names;
	// A missing argument and an unknown option are told apart.
	*letter++ = ':';
	for (size_t i = 0; i < SPEC_COUNT; i++) {
		const int argument = specs[i].type == TYPE_FLAG	   ? no_argument
				     : specs[i].type == TYPE_MAYBE ? optional_argument
								   : required_argument;
		if (specs[i].letter != '\0') {
			*letter++ = specs[i].letter;
			if (argument == required_argument)
				*letter++ = ':';
		}
		*name++ = (struct option){specs[i].name, argument, NULL, 256 + (int)i};
		if (specs[i].other != NULL)
			*name++ = (struct option){specs[i].other, argument, NULL, 256 + (int)i};
	}
}

static const struct option_spec *spec_find(int option)
{
	if (option >= 256 && option < 256 + (int)SPEC_COUNT)
		return &specs[option - 256];
	for (size_t i = 0; i < SPEC_COUNT; i++)
		if (option != '\0' && specs[i].letter == option)
			return &specs[i];
	return NULL;
}

// So many characters of a name are the beginning of it, or mistyped from there on.
#define ALIKE_MIN 2

static size_t text_common(const char *a, const char *b)
{
	size_t length = 0;
	while (a[length] != '\0' && a[length] == b[length])
		length++;
	return length;
}

// "--member, --memberOffset": the options that begin as most of the text does.
static void options_alike(const char *text, size_t size, char *ret)
{
	size_t longest = ALIKE_MIN, used = 0;
	for (size_t i = 0; i < SPEC_COUNT; i++)
		longest = max_u64(longest, text_common(text, specs[i].name));
	ret[0] = '\0';
	for (size_t i = 0; i < SPEC_COUNT && used < size; i++)
		if (text_common(text, specs[i].name) == longest)
			used += (size_t)snprintf(ret + used, size - used, "%s--%s",
				used == 0 ? "" : ", ", specs[i].name);
}

static bool option_refuse_long(const char *text, struct error *err)
{
	char alike[256], name[64];
	snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 2, "="), text + 2);
	options_alike(name, sizeof alike, alike);
	bool begins = false;
	for (size_t i = 0; i < SPEC_COUNT; i++)
		begins = begins || strncmp(name, specs[i].name, strlen(name)) == 0;
	if (alike[0] == '\0')
		return error_usage(err, "%s: no such option; see topleak --help", text);
	return error_usage(err,
		begins ? "%s: more than one option begins so: %s"
		       : "%s: no such option; alike: %s; see topleak --help",
		text, alike);
}

// What getopt_long did not like.
static bool option_refuse(char **argv, int option, struct error *err)
{
	const char *text = argv[optind - 1];
	if (option == ':')
		return error_usage(err, "%s: needs an argument", text);
	if (optopt >= 256)
		return error_usage(err, "%s: takes no argument", text);
	if (optopt != 0)
		return error_usage(err, "-%c: no such option; see topleak --help", optopt);
	return option_refuse_long(text, err);
}

static bool options_read(int argc, char **argv, struct error *err, struct options *options)
{
	struct getopt_tables tables;
	getopt_tables_init(&tables);
	opterr = 0;
	for (;;) {
		const int option = getopt_long(argc, argv, tables.letters, tables.names, NULL);
		if (option == -1)
			return true;
		const struct option_spec *spec = spec_find(option);
		if (spec == NULL)
			return option_refuse(argv, option, err);
		if (!option_set(options, spec, optarg, err))
			return false;
	}
}

// An option, and whether it is given.
struct use {
	bool given;
	const char *name;
};

// The first one given; NULL if none.
static const char *use_first(const struct use *uses)
{
	for (; uses->name != NULL; uses++)
		if (uses->given)
			return uses->name;
	return NULL;
}

// What the tables of types and of leaks cannot honour, or needs them.
static bool options_check_tables(const struct options *options, struct error *err)
{
	const struct use excluded[] = {{options->kinds != 0, "--kind"},
		{options->offset != 0, "--offset"}, {options->limit != UINT64_MAX, "--limit"},
		{options->raw, "--raw"}, {options->no_names, "--no-names"},
		{options->word_size != 0, "--word"}, {options->order_given, "--endian"},
		{options->output == OUTPUT_GDB, "--output gdb"}};
	const struct use needing[] = {
		{options->sort_given, "--sort"}, {options->diff != NULL, "--diff"}};
	const struct use asked[] = {{options->types, "--types"}, {options->leaks, "--leaks"},
		{options->heap, "--heap"}, {options->stacks, "--stacks"},
		{options->owners, "--owners"}, {options->path_given, "--path"}, {false, NULL}};
	const char *question = use_first(asked);
	if (options->exact_pointers && (question == NULL || options->types || options->heap))
		return error_usage(err, "--exact-pointers: needs --leaks, --owners or --path");
	if (!options->types && !options->leaks && !options->stacks) {
		for (size_t i = 0; i < sizeof needing / sizeof *needing; i++)
			if (needing[i].given)
				return error_usage(err, "%s: needs --types, --leaks or --stacks",
					needing[i].name);
	}
	if (question == NULL)
		return true;
	for (size_t i = 0; i < sizeof excluded / sizeof *excluded; i++)
		if (excluded[i].given)
			return error_usage(
				err, "%s and %s: do not go together", question, excluded[i].name);
	return true;
}

// There is one question in a run, and what refines one must have it.
static bool options_check_question(const struct options *options, struct error *err)
{
	const struct use questions[] = {{options->types, "--types"}, {options->leaks, "--leaks"},
		{options->heap, "--heap"}, {options->stacks, "--stacks"},
		{options->strings, "--strings"}, {options->find != NULL, "--find"},
		{options->type != NULL, "--type"}, {options->path_given, "--path"}, {false, NULL}};
	const char *question = use_first(questions);
	for (const struct use *use = questions; use->name != NULL; use++)
		if (use->given && use->name != question)
			return error_usage(err, "%s and %s: one question in a run; choose one",
				question, use->name);
	if (options->kinds != 0 && question != NULL && !options->types && !options->leaks &&
		!options->heap && !options->path_given)
		return error_usage(
			err, "--kind with %s: chooses among words that are counted", question);
	const struct use refined[] = {{options->member != NULL, "--member"},
		{options->member_offset != NULL, "--memberOffset"},
		{options->member_type != NULL, "--memberType"}, {options->around, "--around"},
		{options->all && !options->path_given && !options->leaks && !options->stacks &&
				!options->strings,
			"--all"},
		{options->owners, "--owners"}, {false, NULL}};
	const char *refinement = use_first(refined);
	if (refinement != NULL &&
		(question == NULL || options->strings || options->types || options->stacks ||
			options->leaks || options->heap || options->path_given))
		return error_usage(err, "%s%s%s: needs %s--type", refinement,
			question != NULL ? " with " : "", question != NULL ? question : "",
			options->owners ? "" : "--find 0x... or ");
	if (options->all && options->leaks && options->diff != NULL)
		return error_usage(err, "--all and --diff: do not go together");
	if (options->owners && options->type == NULL)
		return error_usage(err, "--owners with %s: needs --type", question);
	if (options->min_length_given && !options->strings)
		return error_usage(err, "--min-length%s%s: needs --strings",
			question != NULL ? " with " : "", question != NULL ? question : "");
	if (options->exact && options->find == NULL && !options->strings)
		return error_usage(err, "--exact%s%s: needs --strings or --find TEXT",
			question != NULL ? " with " : "", question != NULL ? question : "");
	if (options->ignore_case && options->find == NULL && !options->strings)
		return error_usage(err, "--ignore-case%s%s: needs --strings or --find TEXT",
			question != NULL ? " with " : "", question != NULL ? question : "");
	for (const struct use *a = refined; a->name != NULL; a++)
		for (const struct use *b = a + 1; b->name != NULL; b++)
			if (a->given && b->given &&
				!(a->name == refined[1].name && b->name == refined[2].name))
				return error_usage(err, "%s and %s: choose one", a->name, b->name);
	return true;
}

// What call stacks need, and what needs them.
static bool options_check_stacks(const struct options *options, struct error *err)
{
	const struct use needing[] = {{options->by_given, "--by"}, {options->at_given, "--at"},
		{options->output == OUTPUT_FOLDED, "--output folded"},
		{options->output == OUTPUT_PPROF, "--output pprof"},
		{options->output == OUTPUT_SPEEDSCOPE, "--output speedscope"},
		{options->sort >= SORTS_OF_TYPES, "--sort by what is recorded"}, {false, NULL}};
	const char *given = use_first(needing);
	const bool growth = strcmp(sorts[options->sort].word, "growth") == 0;
	if (!options->stacks)
		return given == NULL || error_usage(err, "%s: needs --stacks", given);
	if (growth && (options->diff != NULL || options->by != 0))
		return error_usage(err, "--sort growth and %s: do not go together",
			options->diff != NULL ? "--diff" : "--by");
	return !options->at_given || options->diff == NULL ||
	       error_usage(err, "--at and --diff: do not go together");
}

// Where there is no file, it may have been taken for the argument of an option.
static bool options_check_files(const struct options *options, char **files, struct error *err)
{
	const struct {
		const char *name, *value, *meant;
	} texts[] = {{"--type", options->type, " (did you mean --types?)"},
		{"--find", options->find, ""}, {"--diff", options->diff, ""},
		{"--exe", options->exe, ""}, {"--sysroot", options->sysroot, ""},
		{"--debug-dir", options->debug_dir, ""}};
	for (size_t i = 0; i < options->file_count; i++)
		if (files[i][0] == '\0')
			return error_usage(err, "an empty text is no file");
	if (options->pid != 0 || options->file_count > 0)
		return true;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (texts[i].value != NULL)
			return error_usage(err,
				"no file: '%s' is the argument of %s%s; give the core dump after "
				"it",
				texts[i].value, texts[i].name, texts[i].meant);
	return error_usage(err, "no file: give the core dump to read; see topleak --help");
}

// What cannot be asked together.
static bool options_check(const struct options *options, char **files, struct error *err)
{
	if (options->pid != 0 && options->file_count > 0)
		return error_usage(err, "--pid: takes no file (%s)", files[0]);
	if (options->pid != 0 && options->raw)
		return error_usage(err,
			"--pid: a process is no plain bytes; --raw, --offset and --limit are for "
			"files");
	return options_check_files(options, files, err) && options_check_question(options, err) &&
	       options_check_tables(options, err) && options_check_stacks(options, err);
}

bool options_parse(int argc, char **argv, struct error *err, struct options *ret)
{
	struct options options = {
		.top = 10,
		.min_count = 1,
		.min_length = 8,
		.limit = UINT64_MAX,
		.memory = (uint64_t)128 << 20,
	};
	if (!options_read(argc, argv, err, &options))
		return false;
	// A caller may give no argument at all, not even the program's name.
	options.file_count = argc > optind ? (size_t)(argc - optind) : 0;
	if (!options.help && !options.version && !options_check(&options, argv + optind, err))
		return false;
	options.files = calloc(options.file_count + 1, sizeof *options.files);
	if (options.files == NULL)
		return error_memory(err);
	for (size_t i = 0; i < options.file_count; i++)
		options.files[i] = argv[optind + (int)i];
	if (options.pid != 0)
		options.file_count = 1;
	*ret = options;
	return true;
}

void options_deinit(struct options *options)
{
	free(options->files);
	options->files = NULL;
}

#define HELP_WIDTH 80
#define HELP_INDENT 29

// The words of a text in lines that begin below each other.
static void help_write(FILE *stream, const char *text)
{
	int at = HELP_INDENT;
	for (const char *word = text; *word != '\0';) {
		const int length = (int)strcspn(word, " ");
		if (word != text && at + 1 + length >= HELP_WIDTH) {
			fprintf(stream, "\n%*s", HELP_INDENT, "");
			at = HELP_INDENT;
		} else if (word != text) {
			putc(' ', stream);
			at++;
		}
		fwrite(word, 1, (size_t)length, stream);
		at += length;
		word += length + (word[length] != '\0');
	}
	putc('\n', stream);
}

void options_help(FILE *stream)
{
	// Above the options with these names.
	static const struct {
		const char *before, *title;
	} titles[] = {{"types", "Objects by type"}, {"top", "Rows"}, {"strings", "A closer look"},
		{"output", "Output"}, {"word", "Input"}, {"exe", "Names"}, {"threads", "The run"}};
	fputs("Usage: topleak [OPTION]... [EXE] CORE...\n"
	      "       topleak [OPTION]... --pid PID\n"
	      "Print the most frequent words of a core dump, and what they are.\n",
		stream);
	for (size_t i = 0; i < SPEC_COUNT; i++) {
		const struct option_spec *spec = &specs[i];
		char names[64];
		for (size_t k = 0; k < sizeof titles / sizeof *titles; k++)
			if (strcmp(titles[k].before, spec->name) == 0)
				fprintf(stream, "\n%s:\n", titles[k].title);
		int used = snprintf(names, sizeof names, "--%s", spec->name);
		if (spec->other != NULL)
			used += snprintf(
				names + used, sizeof names - (size_t)used, ", --%s", spec->other);
		if (spec->argument != NULL)
			snprintf(names + used, sizeof names - (size_t)used,
				spec->type == TYPE_MAYBE ? "[=%s]" : " %s", spec->argument);
		if (spec->letter != '\0')
			fprintf(stream, "  -%c, ", spec->letter);
		else
			fputs("      ", stream);
		fprintf(stream, "%-22s ", names);
		help_write(stream, spec->help);
	}
	fputs("\nA CORE may be compressed; - is standard input, which may be a pipe.\n"
	      "Sizes take K, M, G, T (1024). Numbers are decimal, or hexadecimal with 0x.\n"
	      "Exit status: 0 done, 1 something could not be read or written, 2 wrong usage,\n"
	      "130 and 143 ended by SIGINT and SIGTERM, with what was found so far.\n"
	      "The manual has it all: man topleak\n",
		stream);
}

void options_version(FILE *stream)
{
	fprintf(stream, "topleak %s\n", TOPLEAK_VERSION);
	// What each library is for.
	static const struct {
		bool missing;
		const char *text;
	} libraries[] = {{!HAVE_LIBDW, "libdw (symbols, source lines)"},
		{!HAVE_LIBIBERTY, "libiberty (names of C++ as in the source)"},
		{!HAVE_LIBARCHIVE, "libarchive (compressed dumps)"},
		{!HAVE_JANSSON, "jansson (JSON)"}};
	const char *before = "Built without ";
	for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
		if (!libraries[i].missing)
			continue;
		fprintf(stream, "%s%s", before, libraries[i].text);
		before = ", ";
	}
	if (before[0] == ',')
		fputs(".\n", stream);
	// See tools/static.c.
	if (TOPLEAK_STATIC)
		fputs("Static build: --debuginfod is not possible. It contains parts of the GNU C\n"
		      "library and GCC's (LGPL 2.1, GPL 3 with the runtime exception), libelf and\n"
		      "libdw (LGPL 3 or GPL 2), libiberty (LGPL 2.1), jansson (MIT), libarchive\n"
		      "(BSD), bzip2, lz4, xz, zlib and zstd (BSD, zlib, public domain);\n"
		      "topleak.licenses, which comes with it, has the texts.\n",
			stream);
}

bool options_info(size_t index, struct option_info *ret)
{
	if (index >= SPEC_COUNT)
		return false;
	const struct option_spec *spec = &specs[index];
	*ret = (struct option_info){
		.name = spec->name,
		.other = spec->other,
		.letter = spec->letter,
		.argument = spec->argument,
		.help = spec->help,
		.list = spec->type == TYPE_SET,
	};
	const size_t most = sizeof ret->words / sizeof *ret->words - 1;
	for (size_t i = 0; spec->choices != NULL && spec->choices[i].word != NULL && i < most; i++)
		ret->words[i] = spec->choices[i].word;
	return true;
}
