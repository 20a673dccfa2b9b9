// SPDX-License-Identifier: MIT
#include "types/runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define PAGE ((uint64_t)4096)
// Pages of a pool may begin with so many bytes that are no object: mimalloc 2, src/segment.c,
// _mi_segment_page_start_from_slice.
#define PAGE_LEAD 128
// Single objects begin to be laid out where a page begins, but for a few others.
#define PAGE_FRONT 1024

enum run_flags {
	RUN_LEFT = 1,	    // it began in a piece before
	RUN_RIGHT = 2,	    // it may go on in the next piece
	RUN_FIRST_LOST = 4, // the first or the last object belongs to a denser run
	RUN_LAST_LOST = 8,
	RUN_HOLE = 16, // the next object is at twice the distance
};

bool runs_init(struct runs *runs, const struct size_classes *classes, struct facts *facts,
	uint32_t most, size_t memory, struct error *err)
{
	*runs = (struct runs){.classes = classes, .facts = facts};
	if (classes == NULL || classes->allocator == NULL)
		return true;
	runs->count = most + 1;
	runs->part_most = memory / sizeof *runs->parts;
	// Zeros that are not touched take no memory.
	runs->list = calloc(runs->count, sizeof *runs->list);
	runs->parts = calloc(runs->part_most + 1, sizeof *runs->parts);
	if (runs->list != NULL && runs->parts != NULL)
		return true;
	runs_deinit(runs);
	return error_memory(err);
}

void runs_deinit(struct runs *runs)
{
	free(runs->list);
	free(runs->parts);
	*runs = (struct runs){0};
}

// ---- what a run says

// Of a run that no number stands before: RUN_SINGLES, RUN_EITHER, or 0.
static uint32_t run_look(
	const struct runs *runs, uint64_t first, uint64_t size, uint64_t distance, bool hole)
{
	const uint64_t end = first + size, rounded = size_class_round(runs->classes, size, false);
	const bool near = first % PAGE <= PAGE_LEAD;
	const bool fills = end % PAGE == 0 || end % PAGE + distance > PAGE;
	if ((hole && rounded > size + distance) || (near && fills) ||
		!size_may_begin(runs->classes, rounded, first))
		return RUN_SINGLES;
	return first % PAGE <= PAGE_FRONT && !size_begins_pages(runs->classes, rounded) ? RUN_EITHER
											: 0;
}

static void run_tell(struct runs *runs, const struct run_part *part)
{
	const uint64_t distance = part->distance, word = runs->classes->word;
	const bool first_lost = (part->flags & RUN_FIRST_LOST) != 0;
	const bool last_lost = (part->flags & RUN_LAST_LOST) != 0;
	const uint64_t lost = (uint64_t)first_lost + last_lost;
	const uint64_t objects = (uint64_t)part->steps + 1 - min_u64(lost, part->steps);
	const uint64_t first = part->first + (first_lost ? distance : 0);
	uint32_t kind;
	if (part->steps == 0 || objects < 2)
		return;
	// The block begins a word before.
	if (!first_lost && part->lead == objects && first % (2 * word) == word)
		kind = RUN_COUNTED;
	else
		kind = run_look(
			runs, first, objects * distance, distance, (part->flags & RUN_HOLE) != 0);
	if (size_may_be_mapped(runs->classes, objects * distance, first))
		kind |= RUN_MAPPED;
	if (!facts_count(runs->facts, fact_who(part->id, FACT_RUN, kind),
		    fact_what((unsigned)distance, objects), 1))
		runs->full = true;
}

static void part_add(struct runs *runs, const struct run_part *part)
{
	if (runs->part_count < runs->part_most)
		runs->parts[runs->part_count++] = *part;
	else
		run_tell(runs, part);
}

// The run ends with its last object.
static void run_end(struct runs *runs, uint32_t id, struct run *run)
{
	const struct run_part part = {
		.first = run->last - (uint64_t)run->steps * run->distance,
		.id = id,
		.steps = run->steps,
		.lead = run->lead,
		.distance = run->distance,
		.flags = run->flags,
	};
	if ((run->flags & (RUN_LEFT | RUN_RIGHT)) == 0)
		run_tell(runs, &part);
	else if (run->steps > 0 || (run->flags & (RUN_HOLE | RUN_LAST_LOST)) != 0)
		part_add(runs, &part);
}

// ---- one object after the other

// Begin a run with the last object and the next one, which is so far behind; distance: of the run
// before, 0: none.
static void run_begin(struct run *run, uint64_t behind, uint16_t distance)
{
	run->distance = (uint16_t)behind;
	run->steps = behind != 0;
	run->lead = run->before;
	run->flags = distance != 0 && distance < behind ? RUN_FIRST_LOST : 0;
}

static void run_set_last(struct run *run, uint32_t piece, uint64_t address, uint64_t before)
{
	run->last = address;
	run->piece = piece;
	run->before = before <= UINT32_MAX ? (uint32_t)before : 0;
}

void runs_recall(struct runs *runs, uint32_t id, uint32_t piece, uint64_t address, uint64_t before)
{
	struct run *run = &runs->list[id];
	if (run->piece != piece) {
		if (run->piece != 0)
			run_end(runs, id, run);
		*run = (struct run){0};
	} else {
		const uint64_t behind = address - run->last;
		run->distance = (uint16_t)(behind <= RUN_DISTANCE_MAX ? behind : 0);
		run->flags = run->distance != 0 ? RUN_LEFT : 0;
	}
	run_set_last(run, piece, address, before);
}

void runs_add(struct runs *runs, uint32_t id, uint32_t piece, uint64_t address, uint64_t before,
	uint64_t reach)
{
	struct run *run = &runs->list[id];
	uint64_t behind = run->piece == piece ? address - run->last : 0;
	if (behind > min_u64(reach, RUN_DISTANCE_MAX))
		behind = 0;
	if (behind != 0 && behind == run->distance) {
		run->steps++;
	} else {
		const uint16_t distance = run->distance;
		if (behind != 0 && behind < distance)
			run->flags |= RUN_LAST_LOST;
		if (behind != 0 && behind == 2 * (uint64_t)distance)
			run->flags |= RUN_HOLE;
		if (run->piece != 0)
			run_end(runs, id, run);
		run_begin(run, behind, run->piece == piece ? distance : 0);
	}
	run_set_last(run, piece, address, before);
}

void runs_leave(struct runs *runs, uint32_t id, uint32_t piece, uint64_t end)
{
	struct run *run = &runs->list[id];
	if (run->piece != piece || run->distance == 0 ||
		add_saturated(run->last, 2 * (uint64_t)run->distance) < end)
		return;
	run->flags |= RUN_RIGHT;
	run_end(runs, id, run);
	*run = (struct run){0};
}

void runs_finish(struct runs *runs)
{
	for (uint32_t id = 0; runs->list != NULL && id < runs->count; id++)
		if (runs->list[id].piece != 0)
			run_end(runs, id, &runs->list[id]);
}

// ---- what lies in several pieces

static int part_compare(const void *left, const void *right)
{
	const struct run_part *a = left, *b = right;
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	// What belongs to the run before comes before a run that begins there.
	return (b->flags & RUN_LEFT) - (a->flags & RUN_LEFT);
}

// Whether next is the part behind another, which has grown by those before.
static bool part_follows(const struct run_part *part, const struct run_part *next)
{
	return (part->flags & RUN_RIGHT) != 0 && (next->flags & RUN_LEFT) != 0 &&
	       next->id == part->id && next->distance == part->distance &&
	       next->first == part->first + (uint64_t)part->steps * part->distance;
}

bool runs_join(struct runs *const *all, unsigned threads, struct error *err)
{
	size_t count = 0;
	for (unsigned i = 0; i < threads; i++)
		count += all[i]->part_count;
	if (count == 0)
		return true;
	struct run_part *list = calloc(count, sizeof *list);
	if (list == NULL)
		return error_memory(err);
	count = 0;
	for (unsigned i = 0; i < threads; i++) {
		memcpy(list + count, all[i]->parts, all[i]->part_count * sizeof *list);
		count += all[i]->part_count;
		all[i]->part_count = 0;
	}
	qsort(list, count, sizeof *list, part_compare);
	for (size_t i = 0, next; i < count; i = next) {
		struct run_part part = list[i];
		for (next = i + 1; next < count && part_follows(&part, &list[next]); next++) {
			part.steps += list[next].steps;
			part.flags = (uint8_t)((part.flags & ~RUN_RIGHT) |
					       (list[next].flags & ~RUN_LEFT));
		}
		run_tell(all[0], &part);
	}
	free(list);
	return true;
}
