// SPDX-License-Identifier: MIT
#include "types/shapes.h"

// After so many misses without as many matches a shape is not what is frequent.
#define MISSES_MAX 16

bool shape_yields(const struct shape *shape, struct shape_rest *rest)
{
	if (shape->marks == 0)
		return true;
	if (++rest->misses < MISSES_MAX)
		return false;
	if (shape->count - rest->kept < MISSES_MAX)
		return true;
	rest->misses = 0;
	rest->kept = shape->count;
	return false;
}

void shape_learn(struct shape *shape, struct shape_rest *rest, const unsigned char *object,
	uint32_t words, uint64_t marks, unsigned word)
{
	*shape = (struct shape){.marks = marks, .words = words};
	rest->kept = rest->misses = 0;
	for (unsigned i = 0; marks != 0; marks &= marks - 1, i++) {
		const unsigned at = (unsigned)__builtin_ctzll(marks);
		const uint64_t value = shape_word(object, at, word);
		if (i >= SHAPE_FIRST) {
			shape->others |= marks & -marks;
			rest->values[i - SHAPE_FIRST] = value;
			continue;
		}
		for (unsigned k = i; k < SHAPE_FIRST; k++) {
			shape->at[k] = (uint8_t)at;
			shape->first[k] = value;
		}
	}
}
