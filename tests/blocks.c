// SPDX-License-Identifier: MIT
// The blocks in use that the walkers find in a core, a line "ADDRESS SIZE" for each, in hex: what the keeper fixture
// writes of itself. The rest of what they say goes to standard error.
//
//   test-blocks [-j THREADS] [-a ALLOCATOR] CORE      of one allocator only
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "alloc/heap.h"
#include "alloc/lookup.h"
#include "names/names.h"

static void region_print(const struct heap *heap, const struct lookup *lookup, const struct heap_region *region)
{
	const size_t end = region_end_slot(region);
	for (size_t slot = region->slot, next; slot < end; slot = next) {
		next = lookup_next(lookup, slot, end);
		if (!heap_is_used(heap, slot))
			continue;
		const uint64_t address = region_address(region, slot);
		const uint64_t limit = next < end ? region_address(region, next) : region->end;
		// A mapping ends with its block.
		const unsigned slack = next == end && region->kind == HEAP_MAPPED ? 0 : region->slack;
		printf("%" PRIx64 " %" PRIx64 "\n", address, limit - slack - address);
	}
}

static bool heap_print(const struct heap *heap, enum heap_allocator only, struct error *err)
{
	struct lookup lookup;
	if (!lookup_init(&lookup, heap, err))
		return false;
	for (size_t i = 0; i < heap->region_count; i++)
		if (only == HEAP_UNKNOWN || heap->regions[i].allocator == only)
			region_print(heap, &lookup, &heap->regions[i]);
	lookup_deinit(&lookup);
	fprintf(stderr,
		"%s: %zu regions, in use %" PRIu64 " (%" PRIu64 " bytes), free %" PRIu64 " (%" PRIu64 "), cached %" PRIu64 " (%" PRIu64
		"), overhead %" PRIu64 ", damaged %" PRIu64 ", missing %" PRIu64 ", broken lists %zu, caches %zu\n",
		heap_allocator_name(heap->allocator), heap->region_count, heap->in_use.count, heap->in_use.bytes, heap->binned.count,
		heap->binned.bytes, heap->cached.count, heap->cached.bytes, heap->overhead, heap->broken, heap->missing,
		heap->lists_broken, heap->caches);
	return true;
}

int main(int argc, char **argv)
{
	static const atomic_int stop;
	const struct image_options image_options = {.memory = (size_t)32 << 20};
	struct heap_options options = {.threads = 1, .stop = &stop};
	const struct names_options names_options = {0};
	struct image *image = NULL;
	struct names *names = NULL;
	struct heap heap = {0};
	struct diag diag;
	struct error err = {0};
	enum heap_allocator only = HEAP_UNKNOWN;
	int option;
	while ((option = getopt(argc, argv, "j:a:")) != -1) {
		if (option == 'j')
			options.threads = (unsigned)atoi(optarg);
		else if (option == 'a')
			only = heap_allocator_named(optarg);
		else
			return 2;
	}
	if (optind + 1 != argc)
		return 2;
	diag_init(&diag, stderr);
	const bool ok = image_open(argv[optind], &image_options, &diag, &err, &image) &&
			names_create(image, &names_options, &diag, &err, &names) &&
			heap_walk(image, names_places(names), &options, &err, &heap) && heap_print(&heap, only, &err);
	if (!ok)
		diag_error(&diag, &err);
	heap_deinit(&heap);
	names_destroy(names);
	image_close(image);
	diag_deinit(&diag);
	return !ok;
}
