// SPDX-License-Identifier: MIT
#include "alloc/pointers.h"

#include <elf.h>

// Two stretches around all regions, parted at the greatest gap: the heap that grows with brk(2) and
// what is mapped lie far from each other.
void pointers_init(
	struct pointers *pointers, const struct image_info *info, const struct heap *heap)
{
	const struct heap_region *list = heap->regions;
	const size_t count = heap->region_count;
	size_t split = 0; // regions before the gap
	uint64_t most = 0;
	*pointers = (struct pointers){.word = info->word_size,
		.order = info->order,
		// The highest byte is for tags.
		.mask = info->machine == EM_AARCH64 ? UINT64_MAX >> 8 : UINT64_MAX};
	if (count == 0)
		return;
	for (size_t i = 1; i < count; i++)
		if (list[i].start - list[i - 1].end > most) {
			most = list[i].start - list[i - 1].end;
			split = i;
		}
	const struct heap_region *last = split > 0 ? &list[split - 1] : &list[count - 1];
	pointers->extents[0] = (struct extent){list[0].start, last->end - list[0].start};
	if (split > 0)
		pointers->extents[1] =
			(struct extent){list[split].start, list[count - 1].end - list[split].start};
}

static inline void mark_as(const struct pointers *pointers, const unsigned char *bytes,
	size_t count, unsigned word, enum byte_order order, uint64_t *ret)
{
	for (size_t i = 0; i < count; i += 64) {
		const size_t end = min_u64(64, count - i);
		uint64_t marks = 0;
		for (size_t k = 0; k < end; k++) {
			const uint64_t value =
				word_load(bytes + (i + k) * word, word, order) & pointers->mask;
			marks |= (uint64_t)pointers_have(pointers, value) << k;
		}
		ret[i / 64] = marks;
	}
}

void pointers_mark_portable(
	const struct pointers *pointers, const unsigned char *bytes, size_t count, uint64_t *ret)
{
	// Each with constants of its own.
	if (pointers->word == 8 && pointers->order == ORDER_LITTLE)
		mark_as(pointers, bytes, count, 8, ORDER_LITTLE, ret);
	else if (pointers->word == 8)
		mark_as(pointers, bytes, count, 8, ORDER_BIG, ret);
	else if (pointers->order == ORDER_LITTLE)
		mark_as(pointers, bytes, count, 4, ORDER_LITTLE, ret);
	else
		mark_as(pointers, bytes, count, 4, ORDER_BIG, ret);
}

pointers_mark *pointers_mark_for(enum cpu_level level)
{
#ifdef __x86_64__
	if (level == CPU_AVX2)
		return pointers_mark_avx2;
#endif
	(void)level;
	return pointers_mark_portable;
}
