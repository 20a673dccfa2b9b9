// SPDX-License-Identifier: MIT
#include "real.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct allocator real;
bool real_is_libc;

#define EARLY_BYTES (64U * PAGE)
static char early[EARLY_BYTES] __attribute__((aligned(PAGE)));
static size_t early_used;

void *real_early(size_t size)
{
	const size_t pages = (size / PAGE + 1) * PAGE;
	const size_t at = ADD(&early_used, pages) - pages;
	if (size > EARLY_BYTES || at > EARLY_BYTES - pages) {
		static const char text[] = "topleak-record: no memory to start with\n";
		(void)!write(2, text, sizeof text - 1);
		_exit(127);
	}
	return early + at;
}

bool real_is_early(const void *block)
{
	return (uintptr_t)block - (uintptr_t)early < EARLY_BYTES;
}

size_t real_early_room(const void *block)
{
	return (size_t)(early + EARLY_BYTES - (const char *)block);
}

void *real_function(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void find(const char *prefix, const char *name, void *ret)
{
	char whole[64];
	const size_t length = strlen(prefix);
	memcpy(whole, prefix, length);
	memcpy(whole + length, name, strlen(name) + 1);
	void *function = real_function(whole);
	if (function)
		memcpy(ret, &function, sizeof function);
}

void real_find_prefixed(const char *prefix, struct allocator *ret)
{
	find(prefix, "calloc", &ret->calloc);
	find(prefix, "realloc", &ret->realloc);
	find(prefix, "memalign", &ret->memalign);
#ifndef __GLIBC__
	// musl's memalign calls aligned_alloc by that name, and so the library's.
	find(prefix, "aligned_alloc", &ret->memalign);
#endif
	find(prefix, "posix_memalign", &ret->posix_memalign);
	find(prefix, "malloc_usable_size", &ret->usable);
	find(prefix, "free", &ret->free);
	void *(*function)(size_t) = NULL;
	find(prefix, "malloc", &function);
	STORE_RELEASE(&ret->malloc, function);
}

void real_find(void)
{
	struct allocator found = {0};
	real_find_prefixed("", &found);
	Dl_info of_malloc, of_libc;
	void *function;
	memcpy(&function, &found.malloc, sizeof function);
	void *exit_function = real_function("_exit");
	real_is_libc = function && exit_function && dladdr(function, &of_malloc) &&
		       dladdr(exit_function, &of_libc) && of_malloc.dli_fbase == of_libc.dli_fbase;
	void *(*last)(size_t) = found.malloc;
	found.malloc = NULL;
	real = found;
	STORE_RELEASE(&real.malloc, last);
}
