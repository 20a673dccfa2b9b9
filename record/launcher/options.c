// SPDX-License-Identifier: MIT
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum code {
	CODE_SAMPLE = 256,
	CODE_FULL,
	CODE_ABOVE,
	CODE_ALL_OF,
	CODE_LOG,
	CODE_LOG_SIZE,
	CODE_SNAPSHOT,
	CODE_WHEN,
	CODE_GUARD,
	CODE_MMAP,
	CODE_SEED,
};

static const struct {
	int code;
	const char *name;
	const char *argument; // NULL: none
	const char *help;
} table[] = {
	{CODE_SAMPLE, "sample", "BYTES",
		"record one block for each BYTES allocated, on average (512K)"},
	{CODE_FULL, "full", NULL, "record every block"},
	{CODE_ABOVE, "all-above", "BYTES",
		"record every block of BYTES and more, and sample the rest"},
	{CODE_ALL_OF, "all-of", "NAME",
		"record every block allocated below a module, function or class"},
	{CODE_SNAPSHOT, "snapshot", "SECONDS", "note what is live every so often"},
	{CODE_WHEN, "when", "CONDITION",
		"rss>SIZE, live>SIZE or rate>SIZE/s: note it, or with :full go to --full"},
	{CODE_LOG, "log", "FILE", "write every event; implies --full"},
	{CODE_LOG_SIZE, "log-size", "BYTES", "keep no more than the last BYTES of events (1G)"},
	{CODE_GUARD, "guard", "N", "stop at the misuse of one in N sampled blocks"},
	{CODE_MMAP, "mmap", NULL, "record anonymous mappings of 64K and more, too"},
	{CODE_SEED, "seed", "N", "sample the same blocks in each run"},
	{'o', "output", "FILE",
		"where to; %p, %h: process, host; with %p every process (topleak-record.PID)"},
	{'p', "pid", "PID",
		"save what a process that runs under topleak-record has recorded so far"},
	{'q', "quiet", NULL, "say nothing but errors"},
	{'h', "help", NULL, "print this"},
	{'V', "version", NULL, "print the version"},
};
#define OPTIONS (sizeof table / sizeof *table)

__attribute__((noreturn, format(printf, 1, 2))) static void usage_error(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fputs("topleak-record: ", stderr);
	vfprintf(stderr, format, arguments);
	fputs("; see topleak-record --help\n", stderr);
	va_end(arguments);
	exit(2);
}

static void help(void)
{
	puts("Usage: topleak-record [OPTION]... PROGRAM [ARG]...\n"
	     "       topleak-record --pid PID [-o FILE]\n"
	     "Run a program and record where it allocates memory; topleak --stacks reads the "
	     "recording.\n");
	for (size_t i = 0; i < OPTIONS; i++) {
		char left[64], letter[8] = "    ";
		if (table[i].code < 256)
			snprintf(letter, sizeof letter, "-%c, ", table[i].code);
		snprintf(left, sizeof left, "%s--%s%s%s", letter, table[i].name,
			table[i].argument ? " " : "", table[i].argument ? table[i].argument : "");
		printf("  %-25s %s\n", left, table[i].help);
	}
}

static uint64_t size_read(const char *option, const char *text, const char **ret_end)
{
	char *end;
	if (*text < '0' || *text > '9')
		usage_error("--%s: not a size: %s", option, text);
	uint64_t value = strtoull(text, &end, 0);
	static const char units[] = "KMGT";
	const char *unit = *end ? strchr(units, *end) : NULL;
	if (unit) {
		const unsigned bits = 10 * ((unsigned)(unit - units) + 1);
		if (value >> (64 - bits))
			usage_error("--%s: too large: %s", option, text);
		value <<= bits;
		end++;
	}
	if (!ret_end && *end)
		usage_error("--%s: not a size: %s", option, text);
	if (ret_end)
		*ret_end = end;
	return value;
}

static void trigger_read(const char *text, struct options *ret)
{
	static const struct {
		const char *start;
		enum trigger_kind kind;
	} kinds[] = {{"rss>", TRIGGER_RSS}, {"live>", TRIGGER_LIVE}, {"rate>", TRIGGER_RATE}};
	if (ret->trigger_count == TRIGGERS_MOST)
		usage_error("--when: no more than %d", TRIGGERS_MOST);
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const size_t length = strlen(kinds[i].start);
		if (strncmp(text, kinds[i].start, length))
			continue;
		const char *end;
		struct trigger *trigger = &ret->triggers[ret->trigger_count++];
		trigger->kind = kinds[i].kind;
		trigger->bytes = size_read("when", text + length, &end);
		if (trigger->kind == TRIGGER_RATE && !strncmp(end, "/s", 2))
			end += 2;
		trigger->goes_full = !strcmp(end, ":full");
		if (*end && !trigger->goes_full)
			break;
		return;
	}
	usage_error(
		"--when: not rss>SIZE, live>SIZE or rate>SIZE/s, with :full or without: %s", text);
}

static void set(int code, const char *value, struct options *ret)
{
	switch (code) {
	case CODE_SAMPLE:
		ret->sample = size_read("sample", value, NULL);
		if (!ret->sample)
			usage_error("--sample: at least 1");
		break;
	case CODE_FULL:
		ret->full = true;
		break;
	case CODE_ABOVE:
		ret->above = size_read("all-above", value, NULL);
		break;
	case CODE_ALL_OF:
		if (ret->chosen_count == CHOSEN_MOST)
			usage_error("--all-of: no more than %d", CHOSEN_MOST);
		ret->chosen[ret->chosen_count++] = value;
		break;
	case CODE_LOG:
		ret->log = value;
		ret->full = true;
		break;
	case CODE_LOG_SIZE:
		ret->log_size = size_read("log-size", value, NULL);
		break;
	case CODE_SNAPSHOT: {
		char *end;
		const double seconds = strtod(value, &end);
		if (end == value || *end || !(seconds >= 0.1 && seconds <= 1e9))
			usage_error("--snapshot: not a number of seconds from 0.1 on: %s", value);
		ret->snapshot = (uint64_t)(seconds * 1000);
		break;
	}
	case CODE_WHEN:
		trigger_read(value, ret);
		break;
	case CODE_GUARD:
		ret->guard = size_read("guard", value, NULL);
		if (!ret->guard)
			usage_error("--guard: at least 1");
		break;
	case CODE_MMAP:
		ret->mappings = true;
		break;
	case CODE_SEED:
		ret->seed = size_read("seed", value, NULL);
		break;
	case 'o':
		ret->output = value;
		break;
	case 'p':
		ret->pid = (int)(size_read("pid", value, NULL) & 0x7fffffff);
		break;
	case 'q':
		ret->quiet = true;
		break;
	case 'h':
		help();
		exit(fflush(stdout) ? 1 : 0);
	case 'V':
		puts("topleak-record " TOPLEAK_VERSION);
		exit(fflush(stdout) ? 1 : 0);
	default:
		exit(2);
	}
}

void options_read(int argc, char **argv, struct options *ret)
{
	struct option known[OPTIONS + 1] = {{0}};
	char letters[2 * OPTIONS + 2] = "+", *letter = letters + 1;
	for (size_t i = 0; i < OPTIONS; i++) {
		known[i] = (struct option){table[i].name,
			table[i].argument ? required_argument : no_argument, NULL, table[i].code};
		if (table[i].code < 256) {
			*letter++ = (char)table[i].code;
			if (table[i].argument)
				*letter++ = ':';
		}
	}
	*ret = (struct options){.sample = 512 << 10, .log_size = 1 << 30};
	for (int code; (code = getopt_long(argc, argv, letters, known, NULL)) != -1;)
		set(code, optarg, ret);
	ret->program = argv + optind;
	if (!*ret->program && !ret->pid)
		usage_error("which program?");
	if (*ret->program && ret->pid)
		usage_error("--pid and a program exclude each other");
	if (ret->full && (ret->above || ret->chosen_count))
		usage_error("--full records everything; --all-above and --all-of refine --sample");
	if (ret->full && ret->guard)
		usage_error("--guard needs sampled blocks, not --full or --log");
}
