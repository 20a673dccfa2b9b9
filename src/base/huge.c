// SPDX-License-Identifier: MIT
#include "base/huge.h"

#include <stdint.h>
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

void *huge_reserve(size_t size)
{
	char *memory = calloc(1, size);
	const uintptr_t start = ((uintptr_t)memory + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
	const uintptr_t end = ((uintptr_t)memory + size) / HUGE_PAGE * HUGE_PAGE;
	if (memory != NULL && start < end)
		(void)madvise(memory + (start - (uintptr_t)memory), end - start, MADV_HUGEPAGE);
	return memory;
}
