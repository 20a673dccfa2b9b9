// SPDX-License-Identifier: MIT
//
// The lost objects of a core, each with its address.
//
//   lost [-j THREADS] [-x] [-r] CORE    prints a line for each: ADDRESS SIZE direct|indirect
//
// -x: pointers to the inside of objects do not count. -r: all objects are read, as if nothing had
// been noted while the heap was walked.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "alloc/heap.h"
#include "graph/reach.h"
#include "names/names.h"

static atomic_int stop;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void lost_print(void *context, unsigned thread, const struct reach_object *object)
{
	(void)context;
	(void)thread;
	pthread_mutex_lock(&lock);
	printf("%" PRIx64 " %" PRIu64 " %s\n", object->address, object->size,
		object->direct ? "direct" : "indirect");
	pthread_mutex_unlock(&lock);
}

static bool heap_forget(struct heap *heap)
{
	targets_release(&heap->targets);
	memset(heap->targets.leaves, 0, heap->slot_count / 64 * sizeof *heap->targets.leaves);
	return true;
}

int main(int argc, char **argv)
{
	struct reach_options options = {.threads = 2, .stop = &stop};
	bool read_all = false;
	for (int option; (option = getopt(argc, argv, "j:xr")) != -1;)
		if (option == 'j')
			options.threads = (unsigned)atoi(optarg);
		else if (option == 'x')
			options.exact = true;
		else if (option == 'r')
			read_all = true;
		else
			return 2;
	struct error err = {0};
	if (!cpu_choose(getenv("TOPLEAK_SIMD"), &err, &options.level))
		return 2;
	const struct heap_options heap_options = {
		.threads = options.threads, .targets = true, .level = options.level, .stop = &stop};
	const struct image_options image_options = {.memory = 128 << 20, .keep = true};
	const struct names_options names_options = {.kinds_only = false};
	struct diag diag;
	struct image *image;
	struct names *names = NULL;
	struct heap heap = {0};
	struct reach *reach = NULL;
	diag_init(&diag, stderr);
	if (optind + 1 != argc || !image_open(argv[optind], &image_options, &diag, &err, &image) ||
		!names_create(image, &names_options, &diag, &err, &names) ||
		!heap_walk(image, names_places(names), &heap_options, &err, &heap) ||
		(read_all && !heap_forget(&heap)) ||
		!reach_create(image, names_modules(names), names_places(names), &heap, &options,
			&err, &reach) ||
		!reach_link_lost(reach, NULL, NULL, &err) ||
		!reach_visit_lost(reach, lost_print, NULL, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	reach_destroy(reach);
	heap_deinit(&heap);
	names_destroy(names);
	image_close(image);
	diag_deinit(&diag);
	return 0;
}
