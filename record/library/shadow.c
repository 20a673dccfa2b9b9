// SPDX-License-Identifier: MIT
#include "shadow.h"

#include "lock.h"
#include "memory.h"
#include "table.h"

// What others look up; RECORD_DIRECTORY is the same for readers, without the order of a table.
static struct table *granules;
static struct record_slot *slots;

bool shadow_init(void)
{
	slots = memory_start(RECORD_SHADOW);
	granules = table_create(1U << 10);
	return granules != NULL;
}

static uint64_t chunk_add(uint64_t granule)
{
	lock_take(LOCK_BLOCKS);
	uint64_t chunk = table_find(&granules, mix(granule));
	struct record_section *shadow = memory_section(RECORD_SHADOW),
			      *directory = memory_section(RECORD_DIRECTORY);
	const uint64_t at = directory->used;
	if (!chunk && memory_grow(RECORD_DIRECTORY, at + 1) &&
		memory_grow(RECORD_SHADOW, shadow->used + RECORD_SLOTS) &&
		table_add(&granules, at, mix(granule), at + 1)) {
		chunk = at + 1;
		shadow->used += RECORD_SLOTS;
		((struct record_granule *)memory_start(RECORD_DIRECTORY))[at] =
			(struct record_granule){
				.number = (uint32_t)granule, .chunk = (uint32_t)chunk};
		STORE_RELEASE(&directory->used, at + 1);
	}
	lock_release(LOCK_BLOCKS);
	return chunk;
}

struct record_slot *shadow_chunk(uint64_t address, bool make)
{
	const uint64_t granule = address >> RECORD_GRANULE_BITS;
	uint64_t chunk = table_find(&granules, mix(granule));
	if (!chunk && make)
		chunk = chunk_add(granule);
	return chunk ? &slots[(chunk - 1) * RECORD_SLOTS] : NULL;
}
