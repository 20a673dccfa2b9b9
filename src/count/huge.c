// SPDX-License-Identifier: MIT
#include "count/huge.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// Of x86-64 and arm64. If the system has others, or none, it is only slower.
#define HUGE_PAGE ((size_t)2 << 20)

void *huge_alloc(size_t size)
{
	void *memory = aligned_alloc(HUGE_PAGE, (size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
	if (memory == NULL)
		return NULL;
	// Not the last one if it is not full: all of it would count as used.
	(void)madvise(memory, size / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
	memset(memory, 0, size);
	return memory;
}
