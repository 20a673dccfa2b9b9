// SPDX-License-Identifier: MIT
#include "alloc/targets.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "base/huge.h"

// Room is taken in such pieces: more than what 64 units can have, the last one's object reaching
// beyond them.
#define ROOM ((size_t)16 * 1024)
#define CELL_MAX (128 + 2 * TARGETS_MAX)

// What is left of a sixteenth of the heap and 128 MiB, when all bits are taken off; but no more
// than its words, of which a unit has two, and a little for each of some threads.
static size_t list_capacity(size_t slots, unsigned unit_bits)
{
	const size_t bytes = ((slots / 128) << unit_bits) + ((size_t)96 << 20);
	const uint64_t most = min_u64(bytes / sizeof(uint32_t), 2 * (uint64_t)slots + 8 * ROOM);
	return (size_t)min_u64(most, UINT32_MAX) / ROOM * ROOM;
}

bool targets_init(size_t slots, unsigned unit_bits, struct targets *ret)
{
	const size_t cells = slots / 64 + 1;
	*ret = (struct targets){
		.leaves = huge_reserve(cells * sizeof *ret->leaves),
		.listed = huge_reserve(cells * sizeof *ret->listed),
		.first = huge_reserve(cells * sizeof *ret->first),
		.capacity = list_capacity(slots, unit_bits),
	};
	// Only what is used takes memory. Where so much may not be reserved it is done without.
	ret->list = calloc(ret->capacity, sizeof *ret->list);
	if (ret->list == NULL)
		ret->capacity = 0;
	return ret->leaves != NULL && ret->listed != NULL && ret->first != NULL;
}

void targets_release(struct targets *targets)
{
	free(targets->listed);
	free(targets->first);
	free(targets->list);
	targets->listed = NULL;
	targets->first = targets->list = NULL;
}

void targets_deinit(struct targets *targets)
{
	targets_release(targets);
	free(targets->leaves);
	targets->leaves = NULL;
}

uint32_t *targets_begin(struct targets *targets, struct target_writer *writer, size_t slot)
{
	const size_t cell = slot / 64;
	if (writer->cell == cell + 1)
		return writer->at;
	if (writer->at == NULL || (size_t)(writer->end - writer->at) < CELL_MAX) {
		size_t room = atomic_load(&targets->taken);
		if (room < targets->capacity)
			room = atomic_fetch_add(&targets->taken, ROOM);
		writer->at = room < targets->capacity ? targets->list + room : NULL;
		writer->end = writer->at != NULL ? writer->at + ROOM : NULL;
	}
	writer->cell = cell + 1;
	if (writer->at != NULL)
		targets->first[cell] = (uint32_t)(writer->at - targets->list);
	return writer->at;
}

void targets_end(struct targets *targets, struct target_writer *writer, size_t slot, size_t count)
{
	const uint64_t bit = UINT64_C(1) << slot % 64;
	if (count == 0) {
		targets->leaves[slot / 64] |= bit;
		return;
	}
	writer->at[count - 1] |= TARGET_LAST;
	writer->at += count;
	targets->listed[slot / 64] |= bit;
}
