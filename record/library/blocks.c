// SPDX-License-Identifier: MIT
#include "blocks.h"

#include <string.h>
#include <sys/mman.h>

#include "memory.h"

#define FIRST_SLOTS (1U << 12)

static struct record_block *blocks;
static uint64_t mask;
static uint64_t count;
static bool is_growing;

bool blocks_init(void)
{
	blocks = memory_start(RECORD_BLOCKS);
	if (!memory_grow(RECORD_BLOCKS, FIRST_SLOTS))
		return false;
	memory_section(RECORD_BLOCKS)->used = FIRST_SLOTS;
	mask = FIRST_SLOTS - 1;
	return true;
}

static uint64_t slot_of(uint64_t address)
{
	return (address >> 4) * 0x9e3779b97f4a7c15U >> 36 & mask;
}

static uint64_t find(uint64_t address)
{
	uint64_t i = slot_of(address);
	while (blocks[i].address && blocks[i].address != address)
		i = (i + 1) & mask;
	return i;
}

static void put(const struct record_block *block)
{
	struct record_block *to = &blocks[find(block->address)];
	to->size = block->size;
	to->stack = block->stack;
	to->born = block->born;
	STORE_RELEASE(&to->address, block->address);
}

// Twice as many slots, in place. Blocks that are moved are in the table at their old or new place,
// or not for a moment.
static bool grow(void)
{
	const uint64_t slots = mask + 1, bytes = slots * sizeof *blocks;
	struct record_block *old = memory_private(bytes);
	if (!old)
		return false;
	if (!memory_grow(RECORD_BLOCKS, slots * 2)) {
		munmap(old, bytes);
		return false;
	}
	memcpy(old, blocks, bytes);
	__atomic_store_n(&is_growing, true, __ATOMIC_SEQ_CST);
	memset(blocks, 0, bytes);
	STORE_RELEASE(&mask, slots * 2 - 1);
	STORE_RELEASE(&memory_section(RECORD_BLOCKS)->used, slots * 2);
	for (uint64_t i = 0; i < slots; i++)
		if (old[i].address)
			put(&old[i]);
	__atomic_store_n(&is_growing, false, __ATOMIC_SEQ_CST);
	munmap(old, bytes);
	return true;
}

bool block_add(uint64_t address, uint64_t size, uint32_t stack)
{
	if (count > mask / 2 && !grow() && count > mask - mask / 8)
		return false;
	const struct record_block block = {.address = address,
		.size = size,
		.stack = stack,
		.born = (uint32_t)(LOAD(&header->now) / 1000000)};
	put(&block);
	count++;
	return true;
}

bool block_find(uint64_t address, struct record_block *ret)
{
	*ret = blocks[find(address)];
	return ret->address != 0;
}

bool block_remove(uint64_t address, struct record_block *ret)
{
	uint64_t hole = find(address);
	*ret = blocks[hole];
	if (!ret->address)
		return false;
	// Moves up what would not be found behind a hole: for a moment it is there twice.
	for (uint64_t i = hole;;) {
		i = (i + 1) & mask;
		if (!blocks[i].address)
			break;
		if (((i - slot_of(blocks[i].address)) & mask) < ((i - hole) & mask))
			continue;
		blocks[hole] = blocks[i];
		hole = i;
	}
	STORE_RELEASE(&blocks[hole].address, 0);
	count--;
	return true;
}

bool block_may_be(uint64_t address)
{
	// While blocks move, one can be missed without the lock; and a removal moves some, too.
	const uint64_t i = slot_of(address);
	return LOAD_ACQUIRE(&blocks[i].address) || __atomic_load_n(&is_growing, __ATOMIC_SEQ_CST);
}
