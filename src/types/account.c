// SPDX-License-Identifier: MIT
//
// One walk over all segments by address. Of a region of the heap, the bits of 64 units are looked
// at together: no block is looked at alone.
#include "types/account.h"

#include <elf.h>

#include "base/bytes.h"

const char *account_part_name(enum account_part part)
{
	static const char *const names[] = {
		[ACCOUNT_NAMED] = "blocks_named",
		[ACCOUNT_UNNAMED] = "blocks_unnamed",
		[ACCOUNT_FREE] = "blocks_free",
		[ACCOUNT_ALLOCATOR] = "allocator",
		[ACCOUNT_UNWALKED] = "unwalked",
		[ACCOUNT_STACKS] = "stacks",
		[ACCOUNT_DATA] = "data",
		[ACCOUNT_FILES] = "files",
		[ACCOUNT_ANON] = "anonymous",
		[ACCOUNT_ZEROS] = "zero_pages",
		[ACCOUNT_RESERVED] = "reserved",
		[ACCOUNT_LEFT_OUT] = "left_out",
		[ACCOUNT_MISSING] = "missing",
	};
	return names[part];
}

const char *account_part_text(enum account_part part)
{
	static const char *const texts[] = {
		[ACCOUNT_NAMED] = "objects with a name",
		[ACCOUNT_UNNAMED] = "other blocks in use",
		[ACCOUNT_FREE] = "free blocks",
		[ACCOUNT_ALLOCATOR] = "the allocator's own",
		[ACCOUNT_UNWALKED] = "of a heap, but no blocks that are known",
		[ACCOUNT_STACKS] = "stacks",
		[ACCOUNT_DATA] = "data of the program and of libraries",
		[ACCOUNT_FILES] = "other parts of files",
		[ACCOUNT_ANON] = "other memory, of no known allocator",
		[ACCOUNT_ZEROS] = "pages of zeros, most of them never touched",
		[ACCOUNT_RESERVED] = "reserved: addresses without memory",
		[ACCOUNT_LEFT_OUT] = "left out when the dump was written",
		[ACCOUNT_MISSING] = "missing: the file is cut",
	};
	return texts[part];
}

// Positions in lists that are sorted by address: the walk goes up and never back.
struct walk {
	const struct modules *modules;
	const struct places *places;
	const struct heap *heap; // NULL: none
	const struct zeros *zeros;
	struct account *account;
	size_t zero, place, region, gap, internal;
	bool reserves; // of a segment that the process could not write to: its zeros
	uint32_t flags;
	// In the region: the cell that comes next, and whether its first units are of a block in
	// use that begins before it.
	size_t cell;
	bool carried;
};

static void walk_count(struct walk *walk, enum account_part part, uint64_t bytes)
{
	walk->account->parts[part] += bytes;
}

// The run that ends behind address.
static const struct zero_run *walk_zeros(struct walk *walk, uint64_t address)
{
	const struct zeros *zeros = walk->zeros;
	while (walk->zero < zeros->count && zeros->list[walk->zero].end <= address)
		walk->zero++;
	return walk->zero < zeros->count ? &zeros->list[walk->zero] : NULL;
}

static enum account_part zeros_part(const struct walk *walk)
{
	return walk->reserves ? ACCOUNT_RESERVED : ACCOUNT_ZEROS;
}

// What lies from start to end is of one kind, but for zeros.
static void walk_add(struct walk *walk, enum account_part part, uint64_t start, uint64_t end)
{
	while (start < end) {
		const struct zero_run *run = walk_zeros(walk, start);
		const uint64_t touched =
			run == NULL ? end : min_u64(max_u64(run->start, start), end);
		walk_count(walk, part, touched - start);
		start = touched;
		if (start == end)
			return;
		const uint64_t zeros = min_u64(run->end, end);
		walk_count(walk, zeros_part(walk), zeros - start);
		start = zeros;
	}
}

// ---- outside of regions

static enum account_part place_part(const struct walk *walk, size_t index)
{
	const struct place *place = &walk->places->list[index];
	switch (place->type) {
	case PLACE_STACK:
		return ACCOUNT_STACKS;
	case PLACE_MODULE:
		// Shared memory has the name of a file.
		if (walk->places->spans[index].kind == KIND_ANON)
			break;
		return walk->modules->list[place->module].loaded && (walk->flags & PF_W) != 0
			       ? ACCOUNT_DATA
			       : ACCOUNT_FILES;
	case PLACE_BREAK:
	case PLACE_ARENA:
	case PLACE_BLOCKS:
		return ACCOUNT_UNWALKED;
	case PLACE_ANON:
		break;
	}
	return ACCOUNT_ANON;
}

static void walk_places(struct walk *walk, uint64_t start, uint64_t end)
{
	const struct places *places = walk->places;
	while (walk->place < places->count && places->spans[walk->place].end <= start)
		walk->place++;
	for (size_t i = walk->place; start < end; i++) {
		if (i == places->count || places->spans[i].start >= end) {
			walk_add(walk, ACCOUNT_ANON, start, end);
			return;
		}
		const uint64_t from = max_u64(places->spans[i].start, start);
		const uint64_t to = min_u64(places->spans[i].end, end);
		if (from >= to)
			continue;
		walk_add(walk, ACCOUNT_ANON, start, from);
		walk_add(walk, place_part(walk, i), from, to);
		start = to;
	}
}

// The allocator's own structures, and the rest.
static void walk_outside(struct walk *walk, uint64_t start, uint64_t end)
{
	const struct heap *heap = walk->heap;
	for (; heap != NULL && start < end && walk->internal < heap->internal_count;
		walk->internal++) {
		const struct heap_range *range = &heap->internals[walk->internal];
		if (range->end <= start)
			continue;
		if (range->start >= end)
			break;
		const uint64_t from = max_u64(range->start, start), to = min_u64(range->end, end);
		walk_places(walk, start, from);
		walk_add(walk, ACCOUNT_ALLOCATOR, from, to);
		start = to;
		if (range->end > end)
			break;
	}
	if (start < end)
		walk_places(walk, start, end);
}

// ---- regions

// The units of a cell from one address to another, both in its region or around it.
static uint64_t cell_mask(
	const struct heap_region *region, size_t cell, uint64_t start, uint64_t end)
{
	const size_t slot = cell * 64;
	const uint64_t base = region_address(region, slot);
	const uint64_t unit = (uint64_t)1 << region->unit_bits;
	const uint64_t limit = base + 64 * unit;
	start = max_u64(start, base);
	end = min_u64(end, limit);
	if (start >= end)
		return 0;
	const uint64_t first = (start - base) >> region->unit_bits;
	const uint64_t last = (end - 1 - base) >> region->unit_bits;
	return (UINT64_MAX >> (63 - last)) & (UINT64_MAX << first);
}

// The units that blocks in use cover.
static uint64_t cell_used(struct walk *walk, size_t cell)
{
	const struct heap_cell *bits = &walk->heap->cells[cell];
	// Each stretch of units in which no block begins is all ones. Adding 1 at its lowest unit,
	// if a block in use reaches there, clears it.
	const uint64_t inner = ~bits->starts;
	const uint64_t reached = (bits->used << 1 | (walk->carried ? 1 : 0)) & inner;
	const uint64_t used = bits->used | (inner & ~(inner + reached));
	walk->carried = used >> 63 != 0;
	return used;
}

struct cell_counts {
	uint64_t units[ACCOUNT_PARTS];
	enum account_part first, last; // of the first and the last unit
};

static void cell_count(struct cell_counts *counts, enum account_part part, uint64_t mask,
	uint64_t first, uint64_t last)
{
	counts->units[part] += (unsigned)__builtin_popcountll(mask);
	if ((mask & first) != 0)
		counts->first = part;
	if ((mask & last) != 0)
		counts->last = part;
}

// Units of a cell that lie from start to end, by what they are.
static void walk_cell(struct walk *walk, const struct heap_region *region, uint64_t start,
	uint64_t end, struct cell_counts *counts)
{
	const struct heap *heap = walk->heap;
	const size_t cell = walk->cell++;
	const uint64_t used = cell_used(walk, cell);
	const uint64_t mask = cell_mask(region, cell, start, end);
	const uint64_t limit =
		region_address(region, cell * 64) + ((uint64_t)64 << region->unit_bits);
	uint64_t untouched = 0, gaps = 0;
	if (mask == 0)
		return;
	const uint64_t first = mask & -mask, last = UINT64_C(1) << (63 - __builtin_clzll(mask));
	const uint64_t base = max_u64(start, region_address(region, cell * 64));
	const struct zero_run *run = walk_zeros(walk, base);
	for (size_t i = walk->zero; run != NULL && i < walk->zeros->count; i++) {
		run = &walk->zeros->list[i];
		if (run->start >= limit)
			break;
		const uint64_t zeros =
			cell_mask(region, cell, run->start, run->end) & mask & ~untouched;
		cell_count(counts, zeros_part(walk), zeros, first, last);
		untouched |= zeros;
	}
	while (walk->gap < heap->gap_count && heap->gaps[walk->gap].end <= base)
		walk->gap++;
	for (size_t i = walk->gap; i < heap->gap_count && heap->gaps[i].start < limit; i++)
		gaps |= cell_mask(region, cell, heap->gaps[i].start, heap->gaps[i].end);
	const uint64_t rest = mask & ~untouched;
	cell_count(counts, ACCOUNT_UNWALKED, rest & gaps, first, last);
	cell_count(counts, ACCOUNT_UNNAMED, rest & ~gaps & used, first, last);
	cell_count(counts, ACCOUNT_FREE, rest & ~gaps & ~used, first, last);
}

// A part of a region that the dump has.
static void walk_region(
	struct walk *walk, const struct heap_region *region, uint64_t start, uint64_t end)
{
	const uint64_t unit = (uint64_t)1 << region->unit_bits;
	const size_t from = region_slot(region, start), to = region_slot(region, end - 1);
	struct cell_counts counts = {.first = ACCOUNT_PARTS};
	while (walk->cell < from / 64)
		cell_used(walk, walk->cell++);
	enum account_part first = ACCOUNT_PARTS, last = ACCOUNT_PARTS;
	bool before = walk->carried;
	while (walk->cell <= to / 64) {
		before = walk->carried;
		walk_cell(walk, region, start, end, &counts);
		first = first == ACCOUNT_PARTS ? counts.first : first;
		last = counts.last;
	}
	for (enum account_part i = 0; i < ACCOUNT_PARTS; i++)
		walk_count(walk, i, counts.units[i] << region->unit_bits);
	// The first and the last unit may be cut.
	walk->account->parts[first] -= start - region_address(region, from);
	walk->account->parts[last] -= region_address(region, to) + unit - end;
	// A part that follows may begin in the same cell.
	if (to % 64 != 63) {
		walk->cell = to / 64;
		walk->carried = before;
	}
}

// ---- segments

// Memory that the dump has, of one segment.
static void walk_saved(struct walk *walk, uint64_t start, uint64_t end)
{
	const struct heap *heap = walk->heap;
	for (; heap != NULL && start < end && walk->region < heap->region_count; walk->region++) {
		const struct heap_region *region = &heap->regions[walk->region];
		const uint64_t lead = region->start - min_u64(region->start, region->lead);
		if (region->end <= start)
			continue;
		if (lead >= end)
			break;
		walk_outside(walk, start, max_u64(lead, start));
		const uint64_t at = max_u64(lead, start);
		const uint64_t first = min_u64(max_u64(region->start, at), end);
		walk_add(walk, ACCOUNT_ALLOCATOR, at, first);
		const uint64_t to = min_u64(region->end, end);
		if (walk->cell < region->slot / 64) {
			walk->cell = region->slot / 64;
			walk->carried = false;
		}
		if (first < to)
			walk_region(walk, region, first, to);
		start = max_u64(first, to);
		if (region->end > end)
			return;
	}
	if (start < end)
		walk_outside(walk, start, end);
}

// Whether all that the dump has of a segment is zeros.
static bool segment_is_zero(struct walk *walk, const struct image_segment *segment)
{
	uint64_t at = segment->address;
	const uint64_t end = add_saturated(at, segment->present);
	const struct zero_run *run = walk_zeros(walk, at);
	for (size_t i = walk->zero; run != NULL && at < end && i < walk->zeros->count; i++) {
		if (walk->zeros->list[i].start > at)
			return false;
		at = walk->zeros->list[i].end;
	}
	return at >= end;
}

static void walk_segments(struct walk *walk, const struct image_info *info)
{
	uint64_t done = 0;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t start = max_u64(segment->address, done);
		const uint64_t end = add_saturated(segment->address, segment->size);
		const uint64_t present = add_saturated(segment->address, segment->present);
		const uint64_t saved = add_saturated(segment->address, segment->saved);
		size_t place = 0;
		walk->flags = segment->flags;
		// What a process can only read, and is no file, has been written before: gdb writes
		// memory so that was reserved, as zeros.
		walk->reserves = (segment->flags & PF_W) == 0 &&
				 (!places_find(walk->places, segment->address, &place) ||
					 walk->places->list[place].type != PLACE_MODULE) &&
				 segment_is_zero(walk, segment);
		if (start < present)
			walk_saved(walk, start, present);
		if (max_u64(start, present) < saved)
			walk_count(walk, ACCOUNT_MISSING, saved - max_u64(start, present));
		done = max_u64(done, end);
	}
}

bool account_init(const struct image *image, const struct modules *modules,
	const struct places *places, const struct heap *heap, const struct zeros *zeros,
	struct account *ret)
{
	struct error err;
	struct account mapped = {0};
	struct walk walk = {
		.modules = modules, .places = places, .zeros = zeros, .account = &mapped};
	*ret = (struct account){0};
	if (!left_outs_find(image, &err, &ret->left_outs))
		return false;
	walk_segments(&walk, image_info(image));
	ret->objects = mapped.parts[ACCOUNT_UNWALKED] + mapped.parts[ACCOUNT_ANON];
	walk = (struct walk){
		.modules = modules, .places = places, .heap = heap, .zeros = zeros, .account = ret};
	walk_segments(&walk, image_info(image));
	ret->parts[ACCOUNT_LEFT_OUT] = ret->left_outs.bytes;
	ret->parts[ACCOUNT_RESERVED] += ret->left_outs.reserved;
	for (enum account_part i = 0; i < ACCOUNT_PARTS; i++) {
		ret->bytes += ret->parts[i];
		ret->touched += i < ACCOUNT_UNTOUCHED ? ret->parts[i] : 0;
	}
	return true;
}

void account_deinit(struct account *account)
{
	left_outs_deinit(&account->left_outs);
}

void account_name(struct account *account, uint64_t bytes)
{
	static const enum account_part from[] = {ACCOUNT_UNNAMED, ACCOUNT_ANON, ACCOUNT_UNWALKED};
	for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
		const uint64_t taken = min_u64(bytes, account->parts[from[i]]);
		account->parts[from[i]] -= taken;
		account->parts[ACCOUNT_NAMED] += taken;
		bytes -= taken;
	}
}
