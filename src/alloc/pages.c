// SPDX-License-Identifier: MIT
#include "alloc/pages.h"

#include <elf.h>
#include <stdlib.h>

bool pages_init(struct pages *pages, const struct image *image, size_t capacity)
{
	const struct image_info *info = image_info(image);
	*pages = (struct pages){.image = image,
		.word = info->word_size,
		.order = info->order,
		.capacity = capacity,
		.bytes = malloc(capacity)};
	return pages->bytes != NULL;
}

void pages_deinit(struct pages *pages)
{
	free(pages->bytes);
	*pages = (struct pages){0};
}

size_t pages_some(struct pages *pages, uint64_t address, const unsigned char **ret)
{
	uint64_t inside = address - pages->address;
	if (inside >= pages->size ||
		(pages->size == pages->capacity && pages->size - inside < PAGES_STEP)) {
		const uint64_t page = address & ~(uint64_t)(PAGES_STEP - 1);
		pages->address = page;
		pages->size = image_read(pages->image, page, pages->bytes, pages->capacity);
		// A segment need not begin with a page.
		if (address - page >= pages->size) {
			pages->address = address;
			pages->size =
				image_read(pages->image, address, pages->bytes, pages->capacity);
		}
		inside = address - pages->address;
	}
	*ret = pages->bytes + inside;
	return pages->size - (size_t)inside;
}

const unsigned char *pages_get(struct pages *pages, uint64_t address, size_t size)
{
	const uint64_t inside = address - pages->address;
	const unsigned char *bytes;
	if (inside < pages->size && pages->size - inside >= size)
		return pages->bytes + inside;
	if (size > UINT64_MAX - address)
		return NULL;
	pages->size = 0;
	return pages_some(pages, address, &bytes) >= size ? bytes : NULL;
}

bool pages_each_data(
	const struct image *image, uint64_t start, uint64_t end, pages_found *found, void *context)
{
	const struct image_info *info = image_info(image);
	uint64_t at = start;
	for (size_t i = 0; i < info->segment_count && at < end; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t limit = min_u64(end, segment->address + segment->present);
		if ((segment->flags & PF_W) == 0)
			continue;
		for (at = max_u64(at, segment->address); at < limit;) {
			uint64_t stop;
			if (image_has_data(image, at, limit, &stop) && !found(context, at, stop))
				return false;
			at = max_u64(stop, at + 1);
		}
	}
	return true;
}
