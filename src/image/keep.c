// SPDX-License-Identifier: MIT
//
// What is kept of the memory of a dump that comes as a stream, for image_read: what names are found
// in. These are the segments that belong to mapped files, and small ones: the vdso, the dynamic
// linker's data.
#include <stdlib.h>

#include "image/internal.h"
#include "image/sequence.h"
#include "image/stream.h"

#define SMALL_SEGMENT ((uint64_t)64 * 1024)
// More parts are in damaged dumps only.
#define PARTS_MAX ((size_t)8192)

static bool is_mapped(const struct image_process *process, const struct image_segment *segment)
{
	size_t low = 0, high = process->mapping_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (process->mappings[middle].end <= segment->address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < process->mapping_count &&
	       process->mappings[low].start < segment->address + segment->present;
}

struct plan {
	struct stream_part *parts;
	size_t count;
	uint64_t room; // bytes
	uint64_t lost; // bytes of mapped files for which there was no room
};

// Take the segments of mapped files, or else the small ones among the others.
static void plan_add(struct plan *plan, const struct image *image, bool mapped)
{
	const struct image_info *info = &image->info;
	const uint64_t head = stream_head(image->file.stream);
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		if (segment->present == 0 || segment->offset + segment->present <= head ||
			is_mapped(&info->process, segment) != mapped ||
			(!mapped && segment->present > SMALL_SEGMENT))
			continue;
		if (segment->present > plan->room || plan->count == PARTS_MAX) {
			plan->lost += mapped ? segment->present : 0;
			continue;
		}
		plan->room -= segment->present;
		plan->parts[plan->count++] =
			(struct stream_part){segment->offset, segment->present};
	}
}

bool image_keep(struct image *image, size_t memory, struct diag *diag, struct error *err)
{
	const size_t used = (size_t)stream_head(image->file.stream) + SEQUENCE_MEMORY;
	struct plan plan = {
		.parts = calloc(PARTS_MAX, sizeof *plan.parts),
		.room = memory > used ? memory - used : 0,
	};
	if (plan.parts == NULL)
		return error_memory(err);
	if (memory > 0) {
		plan_add(&plan, image, true);
		plan_add(&plan, image, false);
	}
	const bool ok = stream_keep(image->file.stream, plan.parts, plan.count, err);
	free(plan.parts);
	if (ok && plan.lost > 0)
		diag_warn(diag,
			"%s: %s of its mapped files do not fit the memory set aside for them: "
			"names "
			"may be missing; use a larger --memory, or unpack it first",
			image->info.path, size_format(plan.lost).text);
	return ok;
}
