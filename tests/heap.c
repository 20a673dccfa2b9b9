// SPDX-License-Identifier: MIT
//
// The walk through the heaps of a core, by itself.
//
//   heap [-j THREADS] [-c] CORE    prints what it found as JSON; -c: with the address of every
//   chunk in
//                                  use
//
//   heap -x CORE                   damages the headers of its chunks in turn, in the file, and
//                                  undoes it
//   heap [-s SEED] -r CASES CORE   damages it at random places
//
// Exit status 1 if the bits contradict each other, or what was counted; or if a damage is not
// found, or costs more than what is near it.
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "alloc/heap.h"
#include "names/names.h"

static const char *const kinds[] = {"main", "arena", "mapped", "slabs"};

static void tally_print(const char *name, struct heap_tally tally)
{
	printf(",\n\"%s\": {\"count\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", name, tally.count,
		tally.bytes);
}

static void number_print(const char *name, uint64_t number)
{
	printf(",\n\"%s\": %" PRIu64, name, number);
}

static size_t region_slots(const struct heap_region *region)
{
	return (size_t)((region->end - region->start) >> region->unit_bits);
}

static void regions_print(const struct heap *heap)
{
	printf(",\n\"regions\": [");
	for (size_t i = 0; i < heap->region_count; i++) {
		const struct heap_region *region = &heap->regions[i];
		printf("%s{\"kind\": \"%s\", \"start\": \"0x%" PRIx64 "\", \"end\": \"0x%" PRIx64
		       "\"}",
			i > 0 ? ", " : "", kinds[region->kind], region->start - region->lead,
			region->end);
	}
	printf("],\n\"breaks\": [");
	for (size_t i = 0; i < heap->break_count && i < HEAP_BREAKS_MAX; i++)
		printf("%s{\"chunk\": \"0x%" PRIx64 "\", \"address\": \"0x%" PRIx64
		       "\", \"resumed\": \"0x%" PRIx64 "\"}",
			i > 0 ? ", " : "", heap->breaks[i].chunk, heap->breaks[i].address,
			heap->breaks[i].resumed);
	printf("]");
}

static void chunks_print(const struct heap *heap)
{
	const char *comma = "";
	printf(",\n\"chunks\": [");
	for (size_t i = 0; i < heap->region_count; i++) {
		const struct heap_region *region = &heap->regions[i];
		for (size_t k = 0; k < region_slots(region); k++)
			if (heap_is_used(heap, region->slot + k)) {
				printf("%s\"0x%" PRIx64 "\"", comma,
					region_address(region, region->slot + k) - 2 * heap->word);
				comma = ",";
			}
	}
	printf("]");
}

// Whether the bits are sound: chunks in use are chunks, as many as were counted, every region
// begins with one, and no cell has bits of two regions. The insides of gaps are not looked at: they
// can be terabytes.
static bool bits_check(const struct heap *heap)
{
	uint64_t used = 0;
	bool right = true;
	size_t gap = 0;
	for (size_t i = 0; i < heap->region_count; i++) {
		const struct heap_region *region = &heap->regions[i];
		const size_t first = region->slot / 64;
		const size_t last = first + (region_slots(region) + 63) / 64;
		right = right && region->slot % 64 == 0 &&
			(last <= (i + 1 < heap->region_count ? region[1].slot : heap->slot_count) /
					 64) &&
			(heap->cells[first].starts & 1) != 0 &&
			heap_region_at(heap, region->start) == region &&
			heap_region_at(heap, region->end) != region;
		for (size_t k = first; k < last; k++) {
			const uint64_t cell = (uint64_t)64 << region->unit_bits;
			const uint64_t at = region->start + (k - first) * cell;
			while (gap < heap->gap_count && heap->gaps[gap].end < at + cell)
				gap++;
			if (gap < heap->gap_count && heap->gaps[gap].start < at)
				k += (size_t)((heap->gaps[gap].end - at) / cell);
			if (k >= last)
				break;
			used += (uint64_t)__builtin_popcountll(heap->cells[k].used);
			right = right && (heap->cells[k].used & ~heap->cells[k].starts) == 0;
		}
	}
	return right && used == heap->in_use.count;
}

static void heap_print(const struct heap *heap, double seconds)
{
	printf("{\"allocator\": \"%s\"", heap_allocator_name(heap->allocator));
	tally_print("in_use", heap->in_use);
	tally_print("mapped", heap->mapped);
	tally_print("binned", heap->binned);
	tally_print("fast", heap->fast);
	tally_print("cached", heap->cached);
	number_print("overhead", heap->overhead);
	number_print("foreign", heap->foreign);
	number_print("outside", heap->outside);
	number_print("broken", heap->broken);
	number_print("missing", heap->missing);
	number_print("break_count", heap->break_count);
	number_print("arenas", heap->arenas);
	number_print("caches", heap->caches);
	number_print("lists_broken", heap->lists_broken);
	number_print("claimed", heap->claimed);
	printf(",\n\"seconds\": %.3f", seconds);
	regions_print(heap);
}

// ---- damages

struct patient {
	struct image *image;
	const struct places *places;
	struct heap sound;
	int file;
	uint64_t damages, silent;
};

static bool patient_walk(const struct patient *patient, struct heap *ret)
{
	static const atomic_int stop;
	const struct heap_options options = {.threads = 1, .stop = &stop};
	struct error err = {0};
	const bool ok = heap_walk(patient->image, patient->places, &options, &err, ret);
	if (!ok)
		printf("%s\n", err.text);
	return ok;
}

// All bytes of the heaps, whatever was said of them.
static uint64_t bytes_sum(const struct heap *heap)
{
	return heap->in_use.bytes + heap->binned.bytes + heap->fast.bytes + heap->cached.bytes +
	       heap->overhead + heap->foreign + heap->outside + heap->broken + heap->missing;
}

// Flip bits of one byte of the field at address, walk, and flip them back.
static bool damage_try(
	struct patient *patient, uint64_t address, unsigned byte, unsigned char bits, bool found)
{
	const struct image_segment *segment = image_segment_at(patient->image, address);
	const off_t at = (off_t)(segment->offset + (address - segment->address) + byte);
	struct heap heap = {0};
	unsigned char right, wrong;
	if (pread(patient->file, &right, 1, at) != 1)
		return false;
	wrong = right ^ bits;
	if (pwrite(patient->file, &wrong, 1, at) != 1)
		return false;
	bool ok = patient_walk(patient, &heap) && bits_check(&heap);
	const bool said = heap.break_count + heap.lists_broken > 0;
	const uint64_t lost = patient->sound.in_use.count - heap.in_use.count;
	patient->damages++;
	patient->silent += !said;
	if (ok && found && !said) {
		printf("0x%" PRIx64 ", byte %u, bits 0x%x: not found\n", address, byte, bits);
		ok = false;
	}
	if (ok && bytes_sum(&heap) != bytes_sum(&patient->sound)) {
		printf("0x%" PRIx64 ", byte %u, bits 0x%x: %" PRIu64 " bytes, not %" PRIu64 "\n",
			address, byte, bits, bytes_sum(&heap), bytes_sum(&patient->sound));
		ok = false;
	}
	if (ok && lost > 30 && lost < UINT64_MAX / 2) {
		printf("0x%" PRIx64 ", byte %u, bits 0x%x: %" PRIu64 " chunks are lost\n", address,
			byte, bits, lost);
		ok = false;
	}
	heap_deinit(&heap);
	return pwrite(patient->file, &right, 1, at) == 1 && ok;
}

// The header of a chunk. Its first word is a size only if the chunk before is free.
static bool header_damage(struct patient *patient, uint64_t chunk, bool first)
{
	static const unsigned char bits[] = {0xff, 0x01, 0x02, 0x08, 0x10, 0x80};
	const struct heap *heap = &patient->sound;
	bool right = true;
	uint64_t field;
	if (!image_read_word(patient->image, chunk + heap->word, &field))
		return false;
	for (unsigned i = 0; i < 2 * heap->word; i++)
		for (size_t k = 0; k < sizeof bits; k++) {
			const bool size = i >= heap->word;
			// That the chunk before is free is said in one bit only.
			const bool found = size ? bits[k] == 0xff : (field & 1) == 0 && !first;
			right = damage_try(patient, chunk, i, bits[k], found) && right;
		}
	return right;
}

static uint64_t random_state;

// splitmix64
static uint64_t random_below(uint64_t limit)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % limit;
}

// A word of the heaps or of the allocator's own data.
static uint64_t random_address(const struct heap *heap)
{
	const size_t i = (size_t)random_below(heap->region_count + heap->internal_count);
	uint64_t start, end;
	if (i < heap->region_count) {
		start = heap->regions[i].start - heap->regions[i].lead;
		end = heap->regions[i].end;
	} else {
		start = heap->internals[i - heap->region_count].start;
		end = heap->internals[i - heap->region_count].end;
	}
	// Where headers, caches and arenas are most likely.
	if (random_below(2) == 0)
		end = start + min_u64(end - start, 4096);
	return start + random_below((end - start) / heap->word) * heap->word;
}

// What is worth writing there.
static uint64_t random_word(const struct patient *patient)
{
	uint64_t word = 0;
	switch (random_below(5)) {
	case 0:
		return random_below(UINT64_MAX) >> random_below(64);
	case 1:
		return random_below(1 << 20);
	case 2:
		return UINT64_MAX - random_below(1 << 20);
	case 3:
		return random_address(&patient->sound) + random_below(8);
	default:
		image_read_word(patient->image, random_address(&patient->sound), &word);
		return word;
	}
}

// Damage some words at random, walk, and undo it: nothing may contradict itself.
static bool random_damage(const struct patient *patient)
{
	enum { WORDS = 8 };
	const struct image_info *info = image_info(patient->image);
	const size_t words = 1 + (size_t)random_below(WORDS);
	unsigned char old[WORDS][8], new[8];
	off_t at[WORDS];
	struct heap heap = {0};
	for (size_t i = 0; i < words; i++) {
		const uint64_t address = random_address(&patient->sound);
		const struct image_segment *segment = image_segment_at(patient->image, address);
		at[i] = (off_t)(segment->offset + (address - segment->address));
		word_store(new, random_word(patient), info->word_size, info->order);
		if (pread(patient->file, old[i], info->word_size, at[i]) != info->word_size ||
			pwrite(patient->file, new, info->word_size, at[i]) != info->word_size)
			return false;
	}
	const bool ok = patient_walk(patient, &heap) && bits_check(&heap);
	heap_deinit(&heap);
	for (size_t i = words; i-- > 0;)
		if (pwrite(patient->file, old[i], info->word_size, at[i]) != info->word_size)
			return false;
	return ok;
}

static bool random_run(struct patient *patient, uint64_t cases, uint64_t seed)
{
	bool right = true;
	printf("seed %" PRIu64 "\n", seed);
	for (uint64_t i = 0; i < cases && right; i++) {
		random_state = seed + i;
		right = random_damage(patient);
		if (!right)
			printf("repeat it with: -s %" PRIu64 " -r 1\n", seed + i);
	}
	return right;
}

static bool headers_run(struct patient *patient)
{
	const struct heap *heap = &patient->sound;
	bool right = true;
	for (size_t i = 0; i < heap->region_count; i++) {
		const struct heap_region *region = &heap->regions[i];
		// A chunk that was mapped by itself is known by its header only.
		for (size_t k = 0; region->kind != HEAP_MAPPED && k < region_slots(region);
			k++) {
			const size_t slot = region->slot + k;
			if ((heap->cells[slot / 64].starts >> slot % 64 & 1) != 0)
				right = header_damage(
						patient, region_address(region, slot) - region->lead,
						k == 0) &&
					right;
		}
	}
	printf("%" PRIu64 " damages, %" PRIu64 " silent\n", patient->damages, patient->silent);
	return right;
}

// ---- the whole

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct orders {
	unsigned threads;
	bool chunks, damage;
	uint64_t cases, seed;
};

static bool patient_run(struct image *image, const struct places *places, const char *path,
	const struct orders *orders)
{
	struct patient patient = {.image = image, .places = places, .file = open(path, O_RDWR)};
	const bool ok = patient.file >= 0 && patient_walk(&patient, &patient.sound) &&
			(orders->cases > 0 ? random_run(&patient, orders->cases, orders->seed)
					   : headers_run(&patient));
	heap_deinit(&patient.sound);
	close(patient.file);
	return ok;
}

static int run(const char *path, const struct orders *orders)
{
	static const atomic_int stop;
	const struct image_options image_options = {.memory = (size_t)32 << 20};
	const struct heap_options options = {.threads = orders->threads, .stop = &stop};
	const struct names_options names_options = {0};
	struct image *image = NULL;
	struct names *names = NULL;
	struct heap heap = {0};
	struct diag diag;
	struct error err = {0};
	double seconds = 0;
	diag_init(&diag, stderr);
	bool ok = image_open(path, &image_options, &diag, &err, &image) &&
		  names_create(image, &names_options, &diag, &err, &names);
	if (ok && orders->damage) {
		ok = patient_run(image, names_places(names), path, orders) ||
		     error_set(&err, "%s: damages", path);
	} else if (ok) {
		seconds = now();
		ok = heap_walk(image, names_places(names), &options, &err, &heap);
		seconds = now() - seconds;
	}
	if (ok && !orders->damage) {
		heap_print(&heap, seconds);
		if (orders->chunks)
			chunks_print(&heap);
		puts("}");
		ok = bits_check(&heap);
		if (!ok)
			error_set(&err, "%s: wrong bits", path);
	}
	if (!ok)
		diag_error(&diag, &err);
	heap_deinit(&heap);
	names_destroy(names);
	image_close(image);
	diag_deinit(&diag);
	return !ok;
}

int main(int argc, char **argv)
{
	struct orders orders = {.threads = 1, .seed = (uint64_t)time(NULL) << 20};
	int option;
	while ((option = getopt(argc, argv, "cj:r:s:x")) != -1)
		switch (option) {
		case 'c':
			orders.chunks = true;
			break;
		case 'j':
			orders.threads = (unsigned)atoi(optarg);
			break;
		case 'r':
			orders.damage = true;
			orders.cases = strtoull(optarg, NULL, 10);
			break;
		case 's':
			orders.seed = strtoull(optarg, NULL, 10);
			break;
		case 'x':
			orders.damage = true;
			break;
		default:
			return 2;
		}
	return optind + 1 == argc ? run(argv[optind], &orders) : 2;
}
