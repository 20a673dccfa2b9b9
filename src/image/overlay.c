// SPDX-License-Identifier: MIT
#include "image/overlay.h"

#include <stdlib.h>

bool overlay_add(struct overlay *overlay, struct overlay_range range)
{
	if (overlay->count == overlay->capacity) {
		const size_t wanted = 2 * overlay->capacity + 64;
		struct overlay_range *grown = reallocarray(overlay->ranges, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		overlay->ranges = grown;
		overlay->capacity = wanted;
	}
	overlay->ranges[overlay->count++] = range;
	return true;
}

static int range_compare(const void *a, const void *b)
{
	const struct overlay_range *x = a, *y = b;
	return x->address < y->address ? -1 : x->address > y->address;
}

void overlay_sort(struct overlay *overlay)
{
	if (overlay->count == 0)
		return;
	qsort(overlay->ranges, overlay->count, sizeof *overlay->ranges, range_compare);
	size_t kept = 1;
	for (size_t i = 1; i < overlay->count; i++) {
		const struct overlay_range *last = &overlay->ranges[kept - 1];
		if (overlay->ranges[i].address - last->address >= last->size)
			overlay->ranges[kept++] = overlay->ranges[i];
	}
	overlay->count = kept;
}

void overlay_deinit(struct overlay *overlay)
{
	free(overlay->ranges);
	*overlay = (struct overlay){0};
}

// The number of ranges that begin at address or before.
static size_t ranges_up_to(const struct overlay *overlay, uint64_t address)
{
	size_t low = 0, high = overlay->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (overlay->ranges[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

size_t overlay_read(const struct overlay *overlay, uint64_t address, void *buffer, size_t size)
{
	const size_t count = ranges_up_to(overlay, address);
	if (count == 0)
		return 0;
	const struct overlay_range *range = &overlay->ranges[count - 1];
	const uint64_t inside = address - range->address;
	if (inside >= range->size)
		return 0;
	return local_file_read(range->file, range->offset + inside, buffer,
		(size_t)min_u64(size, range->size - inside));
}

uint64_t overlay_next(const struct overlay *overlay, uint64_t address)
{
	const size_t count = ranges_up_to(overlay, address);
	return count < overlay->count ? overlay->ranges[count].address : UINT64_MAX;
}
