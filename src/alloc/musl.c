// SPDX-License-Identifier: MIT
//
// Pages of metadata, linked, all with the same secret, say of each group of up to 32 slots of one
// size where it is, and which slots are free. A block can begin later in its slot than at the first
// byte; four bytes before it tell. A slot can have a group of smaller ones.
//
// Source: musl 1.2.1 to 1.2.5, src/malloc/mallocng/meta.h (struct meta_area, struct meta, struct
// group, enframe), malloc.c (size_classes, alloc_group). Only little endian: its bit fields.
#include "alloc/musl.h"

#include <stdlib.h>

#include "alloc/pages.h"
#include "alloc/statics.h"

#define UNIT 16
#define HEADER 4 // bytes before a block, at the end of the slot before

#define CLASSES 48
#define CLASS_NONE 63 // one block that was mapped by itself
static const uint16_t class_units[CLASSES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 18, 20, 25, 31,
	36, 42, 50, 63, 72, 84, 102, 127, 146, 170, 204, 255, 292, 340, 409, 511, 584, 682, 818,
	1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191};

// In the third byte before a block: the slot's index, and above what is left free at its end, or
// that the slot has a group, or that the block begins later, which the two bytes behind it say.
#define SLOT_GROUP 6
#define SLOT_LATER 7

struct meta {
	uint64_t address, memory;
	uint32_t free;	// a bit for each slot
	unsigned slots; // number
	unsigned class;
	uint64_t pages; // of 4 KiB, if it was mapped
};

struct finder {
	const struct walker_input *input;
	struct slabs *slabs;
	struct pages areas, groups;
	unsigned word;
	struct addresses known; // pages of metadata
	uint64_t secret;
};

static uint64_t area_header(const struct finder *finder)
{
	return finder->word == 8 ? 24 : 16;
}

static uint64_t meta_bytes(const struct finder *finder)
{
	return 4 * (uint64_t)finder->word + 8;
}

// A page of metadata: the secret, the next page, how many there are in it.
static bool area_read(struct finder *finder, uint64_t address, uint64_t *secret, uint64_t *next)
{
	const unsigned char *bytes =
		address % PAGES_STEP == 0 ? pages_get(&finder->areas, address, 24) : NULL;
	const uint64_t room = (PAGES_STEP - area_header(finder)) / meta_bytes(finder);
	if (bytes == NULL || address == 0)
		return false;
	*secret = word_load(bytes, 8, ORDER_LITTLE);
	*next = pages_load(&finder->areas, bytes + 8);
	return *secret != 0 && *next % PAGES_STEP == 0 &&
	       load_u32(bytes + 8 + finder->word, ORDER_LITTLE) == room;
}

static uint64_t meta_stride(const struct meta *meta)
{
	if (meta->slots == 1 && meta->pages != 0)
		return meta->pages * PAGES_STEP - UNIT;
	return UNIT * (uint64_t)class_units[meta->class];
}

// The index-th of a page: two links, the group, masks of slots that are free, and in a word the
// number of the last slot (5 bits), a flag, the class (6), and the number of pages. False if it is
// not in use, or not sound: its group points back.
static bool meta_read(struct finder *finder, uint64_t area, uint64_t index, struct meta *ret)
{
	const unsigned word = finder->word;
	const uint64_t address = area + area_header(finder) + index * meta_bytes(finder);
	const unsigned char *bytes = pages_get(&finder->areas, address, (size_t)meta_bytes(finder));
	uint64_t back;
	if (bytes == NULL)
		return false;
	const uint64_t bits = pages_load(&finder->areas, bytes + 3 * word + 8);
	*ret = (struct meta){
		.address = address,
		.memory = pages_load(&finder->areas, bytes + 2 * word),
		.free = load_u32(bytes + 3 * word, ORDER_LITTLE) |
			load_u32(bytes + 3 * word + 4, ORDER_LITTLE),
		.slots = (unsigned)(bits & 31) + 1,
		.class = (unsigned)(bits >> 6 & 63),
		.pages = bits >> 12,
	};
	return ret->memory % UNIT == 0 && ret->memory != 0 && ret->pages < UINT64_C(1) << 36 &&
	       (ret->class < CLASSES ||
		       (ret->class == CLASS_NONE && ret->slots == 1 && ret->pages != 0)) &&
	       pages_word(&finder->groups, ret->memory, &back) && back == address;
}

static bool area_recognize(struct finder *finder, uint64_t area)
{
	uint64_t secret, next;
	struct meta meta;
	if (!area_read(finder, area, &secret, &next))
		return false;
	const uint64_t room = (PAGES_STEP - area_header(finder)) / meta_bytes(finder);
	for (uint64_t i = 0; i < room; i++)
		if (meta_read(finder, area, i, &meta))
			return true;
	return false;
}

// ---- groups

// What the third byte before the begin of a slot says; *later: bytes to where its block begins.
static unsigned slot_read(struct finder *finder, uint64_t slot, uint64_t *later)
{
	const unsigned char *bytes = pages_get(&finder->groups, slot - HEADER, HEADER);
	*later = 0;
	if (bytes == NULL)
		return 0;
	const unsigned kind = bytes[1] >> 5;
	if (kind == SLOT_LATER)
		*later = UNIT * (uint64_t)load_u16(bytes + 2, ORDER_LITTLE);
	return kind;
}

// Slots from first on, and before end, are a slab. Which of them are in use is in the group.
static bool group_add_slots(
	struct finder *finder, const struct meta *meta, unsigned first, unsigned end)
{
	const uint64_t stride = meta_stride(meta), storage = meta->memory + UNIT;
	if (first == end)
		return true;
	if (!slabs_add(finder->slabs, HEAP_MUSL, storage + first * stride, stride, end - first))
		return false;
	for (unsigned i = first; i < end; i++) {
		const uint64_t slot = storage + i * stride;
		uint64_t later;
		if ((meta->free >> i & 1) != 0)
			continue;
		slot_read(finder, slot, &later);
		if (later + HEADER >= stride)
			finder->slabs->damaged += stride;
		else if (later > 0 && !addresses_add(&finder->slabs->moved, slot + later))
			return false;
		slabs_use(finder->slabs, i - first);
	}
	return true;
}

static bool group_add(struct finder *finder, const struct meta *meta)
{
	const uint64_t stride = meta_stride(meta), storage = meta->memory + UNIT;
	unsigned first = 0;
	if (!slabs_add_range(finder->slabs, meta->memory, storage, false))
		return false;
	for (unsigned i = 0; i < meta->slots; i++) {
		const uint64_t slot = storage + i * stride;
		uint64_t later, inner;
		if ((meta->free >> i & 1) != 0)
			continue;
		// What begins later in the slot can be a group, too.
		unsigned kind = slot_read(finder, slot, &later);
		if (kind == SLOT_LATER && later < stride)
			kind = slot_read(finder, slot + later, &inner);
		if (kind != SLOT_GROUP)
			continue;
		if (!group_add_slots(finder, meta, first, i))
			return false;
		first = i + 1;
	}
	// What is behind the last slot.
	const uint64_t end = storage + meta->slots * stride;
	const uint64_t limit = meta->pages != 0 ? meta->memory + meta->pages * PAGES_STEP : end;
	return group_add_slots(finder, meta, first, meta->slots) &&
	       slabs_add_range(finder->slabs, end, max_u64(end, limit), false);
}

// ---- pages of metadata

static bool area_known(const struct finder *finder, uint64_t area)
{
	for (size_t i = finder->known.count; i-- > 0;)
		if (finder->known.list[i] == area)
			return true;
	return false;
}

static bool area_add(struct finder *finder, uint64_t area)
{
	const uint64_t room = (PAGES_STEP - area_header(finder)) / meta_bytes(finder);
	struct meta meta;
	for (uint64_t i = 0; i < room; i++) {
		if (meta_read(finder, area, i, &meta)) {
			if (!group_add(finder, &meta))
				return false;
		} else if (meta.memory != 0 && meta.slots > 1) {
			finder->slabs->damaged +=
				meta.class < CLASSES ? meta_stride(&meta) * meta.slots : 0;
		}
	}
	return slabs_add_range(finder->slabs, area, area + PAGES_STEP, false);
}

static bool area_try(void *context, uint64_t at, uint64_t area)
{
	struct finder *finder = context;
	uint64_t secret, next;
	(void)at;
	if (area % PAGES_STEP != 0 || !area_read(finder, area, &secret, &next) ||
		(finder->secret != 0 && secret != finder->secret) || area_known(finder, area) ||
		!area_recognize(finder, area))
		return true;
	finder->secret = secret;
	// A ring would not end.
	const uint64_t most = image_info(finder->input->image)->bytes_present / PAGES_STEP + 1;
	while (finder->known.count < most && area_read(finder, area, &secret, &next) &&
		secret == finder->secret) {
		if (walker_stopped(finder->input) || !addresses_add(&finder->known, area))
			return walker_stopped(finder->input);
		if (!area_add(finder, area))
			return false;
		area = next;
	}
	return true;
}

bool musl_walk(const struct walker_input *input, struct slabs *slabs)
{
	const struct image_info *info = image_info(input->image);
	struct finder finder = {.input = input, .slabs = slabs, .word = info->word_size};
	if (info->order != ORDER_LITTLE)
		return true;
	const bool ok = pages_init(&finder.areas, input->image, 8192) &&
			pages_init(&finder.groups, input->image, 16384) &&
			statics_each(input, UINT32_MAX, area_try, &finder);
	if (finder.known.count > 0)
		slabs->padding[HEAP_MUSL] = HEADER;
	pages_deinit(&finder.areas);
	pages_deinit(&finder.groups);
	free(finder.known.list);
	return ok;
}
