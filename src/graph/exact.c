// SPDX-License-Identifier: MIT
#include "graph/exact.h"

#include <stdlib.h>

#include "names/rtti.h"

// Larger ones are arrays, not objects with bases.
#define BASE_MAX 65536
// Elements of an array.
#define ELEMENTS_MAX ((uint64_t)1 << 32)

void exact_init(struct exact *exact, const struct image *image, const struct modules *modules)
{
	*exact = (struct exact){.image = image, .modules = modules};
}

// A base class with virtual functions lies at offset in the complete object: its vtable says so.
static bool exact_is_base(const struct exact *exact, uint64_t pointer, uint64_t offset)
{
	uint64_t vtable;
	struct rtti rtti;
	if (offset > BASE_MAX || !image_read_word(exact->image, pointer, &vtable) ||
		modules_find(exact->modules, vtable) == NULL ||
		!rtti_find(exact->image, exact->modules, vtable, &rtti))
		return false;
	free(rtti.type);
	return rtti.base == offset;
}

bool exact_points(const struct exact *exact, uint64_t pointer, uint64_t start)
{
	const uint64_t word = image_info(exact->image)->word_size;
	const uint64_t offset = pointer - start;
	uint64_t elements;
	if (offset == 0)
		return true;
	if (offset % word != 0)
		return false;
	// Itanium C++ ABI, 2.7: the number of elements stands right before them.
	if (offset == word && image_read_word(exact->image, start, &elements) && elements > 0 &&
		elements < ELEMENTS_MAX)
		return true;
	return exact_is_base(exact, pointer, offset);
}
