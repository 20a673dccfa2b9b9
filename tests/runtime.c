// SPDX-License-Identifier: MIT
//
// The objects of managed languages in a core, by themselves.
//
//   runtime [-j THREADS] CORE    prints a line for each runtime and each of its classes: count, bytes
//                                and size (- if they differ) of its objects, an address, its name
//
//   runtime -t NAME CORE         prints address, size and name of each object of a class; * is all
//
//   runtime [-s SEED] -r CASES CORE    damages random words of a copy of the core, in memory, each time
//                                      anew, and looks only whether it comes through
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "names/names.h"
#include "runtime/runtime.h"

static void runtime_print(const struct runtime *runtime)
{
	printf("# %s: %" PRIu64 " objects, %" PRIu64 " bytes, %" PRIu64 " free", runtime->name,
		runtime->count, runtime->bytes, runtime->free_bytes);
	if (runtime->doubt != NULL)
		printf("; %s (0x%" PRIx64 "-0x%" PRIx64 ")", runtime->doubt, runtime->heap_start,
			runtime->heap_end);
	printf("\n");
	for (size_t i = 0; i < runtime->type_count; i++) {
		const struct runtime_type *type = &runtime->types[i];
		char size[24] = "-";
		if (type->size > 0)
			snprintf(size, sizeof size, "%" PRIu64, type->size);
		printf("%" PRIu64 "\t%" PRIu64 "\t%s\t0x%" PRIx64 "\t%s\n", type->count, type->bytes,
			size, type->example_count > 0 ? type->examples[0] : 0, type->name);
	}
}

// ---- damages

static uint64_t random_state;

// xorshift64
static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t damage_word(const unsigned char *bytes, size_t words)
{
	uint64_t other;
	memcpy(&other, bytes + 8 * (random_next() % words), 8);
	switch (random_next() % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return random_next() % 65536;
	case 3:
		return UINT64_C(1) << random_next() % 64;
	case 4:
		return random_next();
	case 5:
		return other + random_next() % 64 - 32;
	default:
		return other;
	}
}

static void object_print(void *context, uint64_t address, uint64_t size, const char *name)
{
	(void)context;
	printf("0x%" PRIx64 "\t%" PRIu64 "\t%s\n", address, size, name);
}

static bool core_read(const char *path, const struct runtime_options *options, const char *wanted,
	struct diag *diag, struct runtimes *ret)
{
	struct error err = {0};
	struct image *image = NULL;
	struct names *names = NULL;
	const struct image_options image_options = {.memory = 64 << 20};
	const struct names_options names_options = {0};
	const struct runtime_watch watch = {.name = wanted != NULL && strcmp(wanted, "*") != 0 ? wanted : NULL, .object = object_print};
	const bool ok = image_open(path, &image_options, diag, &err, &image) &&
			names_create(image, &names_options, diag, &err, &names) &&
			runtimes_find(image, names_modules(names), names_places(names), options,
				wanted != NULL ? &watch : NULL, &err, ret);
	if (!ok)
		diag_error(diag, &err);
	else if (diag->stream == stderr && wanted == NULL)
		for (size_t i = 0; i < ret->count; i++)
			runtime_print(&ret->list[i]);
	if (ok)
		runtimes_deinit(ret);
	names_destroy(names);
	image_close(image);
	return ok;
}

#define DAMAGES_MAX 256

// The words of segments are damaged, and a few of the headers.
static int cases_run(
	const char *path, unsigned cases, const struct runtime_options *options, struct diag *diag)
{
	char copy[32];
	struct stat status;
	const int from = open(path, O_RDONLY), to = memfd_create("core", 0);
	if (from < 0 || to < 0 || fstat(from, &status) != 0 || ftruncate(to, status.st_size) != 0)
		return 1;
	const size_t size = (size_t)status.st_size, words = size / 8;
	unsigned char *whole = mmap(NULL, size, PROT_READ, MAP_PRIVATE, from, 0);
	unsigned char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0);
	if (whole == MAP_FAILED || bytes == MAP_FAILED || words == 0)
		return 1;
	memcpy(bytes, whole, size);
	snprintf(copy, sizeof copy, "/proc/self/fd/%d", to);
	for (unsigned i = 0; i < cases; i++) {
		size_t places[DAMAGES_MAX];
		const unsigned count = 1 + (unsigned)(random_next() % DAMAGES_MAX);
		for (unsigned k = 0; k < count; k++) {
			places[k] = random_next() % words;
			// Most of a core is zeros.
			for (unsigned tries = 0; tries < 20; tries++) {
				uint64_t word;
				memcpy(&word, whole + 8 * places[k], 8);
				if (word != 0)
					break;
				places[k] = random_next() % words;
			}
			const uint64_t word = damage_word(whole, words);
			memcpy(bytes + 8 * places[k], &word, 8);
		}
		struct runtimes runtimes;
		core_read(copy, options, NULL, diag, &runtimes);
		for (unsigned k = 0; k < count; k++)
			memcpy(bytes + 8 * places[k], whole + 8 * places[k], 8);
	}
	printf("%u cases\n", cases);
	return 0;
}

int main(int argc, char **argv)
{
	struct runtime_options options = {.threads = 2};
	unsigned cases = 0;
	const char *wanted = NULL;
	int option;
	random_state = 4711;
	while ((option = getopt(argc, argv, "j:r:s:t:")) != -1)
		if (option == 'j')
			options.threads = (unsigned)atoi(optarg);
		else if (option == 'r')
			cases = (unsigned)atoi(optarg);
		else if (option == 't')
			wanted = optarg;
		else if (option == 's')
			random_state = strtoull(optarg, NULL, 10) | 1;
		else
			return 2;
	if (optind + 1 != argc)
		return 2;
	struct diag diag;
	struct runtimes runtimes;
	struct timespec begin, end;
	bool ok;
	FILE *nowhere = cases > 0 ? fopen("/dev/null", "w") : NULL;
	diag_init(&diag, cases > 0 ? nowhere : stderr);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (cases > 0)
		ok = cases_run(argv[optind], cases, &options, &diag) == 0;
	else
		ok = core_read(argv[optind], &options, wanted, &diag, &runtimes);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (getenv("RUNTIME_TIME") != NULL)
		fprintf(stderr, "%.2f s\n",
			(double)(end.tv_sec - begin.tv_sec) +
				(double)(end.tv_nsec - begin.tv_nsec) / 1e9);
	diag_deinit(&diag);
	return ok ? 0 : 1;
}
