// SPDX-License-Identifier: MIT
// Compares size classes with what an allocator says of itself: lines of a size, what a block of
// it takes, and the block's address, from standard input. Prints each that is wrong, and fails if
// any is, or if none came.
//
//   test-sizes LIBRARY

#include <inttypes.h>
#include <stdio.h>

#include "types/sizeclass.h"

int main(int argc, char **argv)
{
	struct size_classes classes;
	uint64_t size, takes, address;
	unsigned right = 0, wrong = 0;
	if (argc < 2 || !size_classes_init(argv[1], sizeof(void *), &classes))
		return 2;
	while (scanf("%" SCNu64 " %" SCNu64 " %" SCNx64, &size, &takes, &address) == 3) {
		const uint64_t rounded = size_class_round(
			&classes, size, size_may_be_mapped(&classes, size, address));
		// With musl it depends on what else there is.
		if (rounded == takes || size_class_round(&classes, size, false) == takes) {
			right++;
			continue;
		}
		printf("%s: %" PRIu64 " bytes take %" PRIu64 ", not %" PRIu64 "\n", argv[1], size,
			takes, rounded);
		wrong++;
	}
	return right < 1000 || wrong > 0;
}
