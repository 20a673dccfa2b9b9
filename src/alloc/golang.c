// SPDX-License-Identifier: MIT
//
// A static variable has a slice of pointers to all spans that there ever were. A span is a number
// of pages of 8 KiB with objects of one size, and a bitmap of those that were in use when it was
// swept; what lies before its free index was handed out since.
//
// Source: Go 1.18 to 1.24, src/runtime/mheap.go (mheap.allspans, mspan), mbitmap.go (isFree). The
// stacks of goroutines are in spans of another state, and stay roots.
#include "alloc/golang.h"

#include <stdlib.h>

#include "alloc/pages.h"
#include "alloc/statics.h"

#define PAGE_BITS 13
#define SPAN_START 24
#define SPAN_PAGES 32
#define SPAN_BYTES 160 // at least so many are the span's
#define SPANS_MAX (UINT64_C(1) << 32)
#define SPANS_TRIED 256
#define BLOCKS_MAX 65536
#define STATE_IN_USE 1

// Offsets in a span: the free index and the number of objects (8 bytes, since 1.22 2), the bitmap,
// the state, the size of an object, the end of the last one. Up to 1.20; 1.21; since 1.22.
static const struct layout {
	unsigned index, count, bytes, bits, state, size, limit;
} layouts[] = {
	{48, 56, 8, 72, 99, 104, 112},
	{48, 56, 8, 72, 107, 112, 120},
	{48, 50, 2, 64, 99, 104, 112},
};
#define LAYOUTS (sizeof layouts / sizeof *layouts)

struct go_span {
	uint64_t start, pages, index, count, bits, size, limit;
	unsigned state;
};

struct finder {
	const struct walker_input *input;
	struct slabs *slabs;
	struct pages list, spans, bitmaps;
	bool found;
};

static bool span_read(
	struct finder *finder, const struct layout *layout, uint64_t address, struct go_span *ret)
{
	const unsigned char *bytes = address % 8 == 0 && address != 0
					     ? pages_get(&finder->spans, address, SPAN_BYTES)
					     : NULL;
	const enum byte_order order = finder->spans.order;
	if (bytes == NULL)
		return false;
	*ret = (struct go_span){
		.start = word_load(bytes + SPAN_START, 8, order),
		.pages = word_load(bytes + SPAN_PAGES, 8, order),
		.index = layout->bytes == 8 ? word_load(bytes + layout->index, 8, order)
					    : load_u16(bytes + layout->index, order),
		.count = layout->bytes == 8 ? word_load(bytes + layout->count, 8, order)
					    : load_u16(bytes + layout->count, order),
		.bits = word_load(bytes + layout->bits, 8, order),
		.size = word_load(bytes + layout->size, 8, order),
		.limit = word_load(bytes + layout->limit, 8, order),
		.state = bytes[layout->state],
	};
	return true;
}

// Whether the fields of a span in use agree with each other.
static bool span_is_sound(const struct go_span *span)
{
	const uint64_t bytes = span->pages << PAGE_BITS;
	return span->start != 0 && span->start % ((uint64_t)1 << PAGE_BITS) == 0 &&
	       span->pages != 0 && span->pages < UINT64_C(1) << (48 - PAGE_BITS) &&
	       bytes <= UINT64_MAX - span->start && span->size != 0 && span->count != 0 &&
	       span->count <= BLOCKS_MAX && span->size % 8 == 0 &&
	       span->size <= bytes / span->count && span->index <= span->count &&
	       span->limit > span->start && span->limit <= span->start + bytes && span->bits != 0;
}

// The layout of the spans in a list of so many; NULL if it is none.
static const struct layout *list_recognize(struct finder *finder, uint64_t list, uint64_t count)
{
	for (size_t i = 0; i < LAYOUTS; i++) {
		unsigned right = 0, wrong = 0;
		for (uint64_t k = 0; k < count && k < SPANS_TRIED && wrong <= 1 + right / 16; k++) {
			struct go_span span;
			uint64_t address;
			if (!pages_word(&finder->list, list + 8 * k, &address) ||
				!span_read(finder, &layouts[i], address, &span) || span.state > 2)
				wrong++;
			else if (span.state == STATE_IN_USE)
				*(span_is_sound(&span) ? &right : &wrong) += 1;
		}
		if (right > 4 && wrong <= right / 16)
			return &layouts[i];
	}
	return NULL;
}

static bool span_add(struct finder *finder, uint64_t address, const struct go_span *span)
{
	struct slabs *slabs = finder->slabs;
	const uint64_t end = span->start + (span->pages << PAGE_BITS);
	// It points at its first object and behind its last one.
	if (!slabs_add_range(slabs, address, address + SPAN_BYTES, false) ||
		!slabs_add(slabs, HEAP_GO, span->start, span->size, (uint32_t)span->count))
		return false;
	for (uint64_t i = 0; i < span->count; i++) {
		const unsigned char *byte =
			i < span->index ? NULL : pages_get(&finder->bitmaps, span->bits + i / 8, 1);
		if (i >= span->index && byte == NULL) {
			slabs->missing += span->size * (span->count - i);
			break;
		}
		if (byte == NULL || (*byte >> i % 8 & 1) != 0)
			slabs_use(slabs, (uint32_t)i);
	}
	return slabs_add_range(slabs, span->start + span->size * span->count, end, false);
}

static bool list_try(void *context, uint64_t at, uint64_t list)
{
	struct finder *finder = context;
	const struct image *image = finder->input->image;
	uint64_t count, capacity;
	if (finder->found || list % 8 != 0 || !image_read_word(image, at + 8, &count) ||
		count < 5 || count > SPANS_MAX || !image_read_word(image, at + 16, &capacity) ||
		capacity < count || capacity > SPANS_MAX)
		return true;
	const struct layout *layout = list_recognize(finder, list, count);
	if (layout == NULL)
		return true;
	finder->found = true;
	for (uint64_t i = 0; i < count && !walker_stopped(finder->input); i++) {
		struct go_span span;
		uint64_t address;
		if (!pages_word(&finder->list, list + 8 * i, &address)) {
			// Nobody knows how large those are.
			finder->slabs->lists_broken++;
			break;
		}
		if (!span_read(finder, layout, address, &span) || span.state != STATE_IN_USE)
			continue;
		if (!span_is_sound(&span))
			finder->slabs->damaged += min_u64(span.pages, 1) << PAGE_BITS;
		else if (!span_add(finder, address, &span))
			return false;
	}
	return slabs_add_range(finder->slabs, list, list + 8 * count, false);
}

bool golang_walk(const struct walker_input *input, struct slabs *slabs)
{
	struct finder finder = {.input = input, .slabs = slabs};
	if (image_info(input->image)->word_size != 8)
		return true;
	const bool ok = pages_init(&finder.list, input->image, 16384) &&
			pages_init(&finder.spans, input->image, 16384) &&
			pages_init(&finder.bitmaps, input->image, 8192) &&
			statics_each(input, UINT32_MAX, list_try, &finder);
	pages_deinit(&finder.list);
	pages_deinit(&finder.spans);
	pages_deinit(&finder.bitmaps);
	return ok;
}
