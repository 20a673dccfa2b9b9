// SPDX-License-Identifier: MIT
#include "base/memory.h"

#include <malloc.h>

uint64_t memory_used(void)
{
#if defined __GLIBC__ && __GLIBC_PREREQ(2, 33)
	const struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
#else
	return 0;
#endif
}

uint64_t memory_since(uint64_t before)
{
	const uint64_t now = memory_used();
	return now > before ? now - before : 0;
}
