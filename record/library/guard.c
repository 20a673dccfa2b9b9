// SPDX-License-Identifier: MIT
#include "guard.h"

void guard_init(const struct settings *settings)
{
	(void)settings;
}
void *guard_allocate(struct thread *thread, size_t alignment, size_t size, uint32_t stack)
{
	(void)thread, (void)alignment, (void)size, (void)stack;
	return NULL;
}
bool guard_owns(const void *block)
{
	(void)block;
	return false;
}
size_t guard_size(const void *block)
{
	(void)block;
	return 0;
}
bool guard_free(void *block)
{
	(void)block;
	return false;
}
