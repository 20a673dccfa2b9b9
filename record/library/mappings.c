// SPDX-License-Identifier: MIT
//
// --mmap: anonymous mappings of MAPPING_LEAST bytes and more, by the calls of the program itself:
// what an allocator maps for its own use is not its business here, it calls the kernel past these
// functions or from inside the recorder.
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mappings.h"
#include "recorder.h"
#include "settings.h"
#include "threads.h"

#define MAPPING_LEAST (64U << 10)

static bool is_on;

void mappings_init(const struct settings *settings)
{
	is_on = settings->mappings;
}

static NOINLINE void mapping_note(void *start, size_t size, struct cursor from)
{
	const int error = errno;
	struct thread *thread = recorder_enter();
	if (thread) {
		recorder_note(thread, (uintptr_t)start, size,
			RECORD_STACK_MAPPING | RECORD_STACK_FULL, from);
		recorder_leave();
	}
	errno = error;
}

static void mapping_forget(void *start)
{
	struct thread *thread = recorder_enter();
	struct record_block old;
	if (thread) {
		recorder_forget(thread, (uintptr_t)start, &old);
		recorder_leave();
	}
}

static bool is_recorded(size_t size, int flags)
{
	return is_on && size >= MAPPING_LEAST && flags & MAP_ANONYMOUS && !local.busy;
}

// The system calls themselves: a function that is looked up could not be called before it is found.
EXPORT void *mmap(void *start, size_t size, int protection, int flags, int file, off_t offset)
{
	void *mapped = (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
	if (mapped != MAP_FAILED && is_recorded(size, flags))
		mapping_note(mapped, size, CURSOR_HERE());
	return mapped;
}

#ifdef __GLIBC__ // musl has one name for both
EXPORT void *mmap64(void *start, size_t size, int protection, int flags, int file, off_t offset)
{
	void *mapped = (void *)syscall(SYS_mmap, start, size, protection, flags, file, offset);
	if (mapped != MAP_FAILED && is_recorded(size, flags))
		mapping_note(mapped, size, CURSOR_HERE());
	return mapped;
}
#endif

EXPORT int munmap(void *start, size_t size)
{
	if (is_on && size >= MAPPING_LEAST && !local.busy)
		mapping_forget(start);
	return (int)syscall(SYS_munmap, start, size);
}

EXPORT void *mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
	va_list arguments;
	va_start(arguments, flags);
	void *wanted = flags & MREMAP_FIXED ? va_arg(arguments, void *) : NULL;
	va_end(arguments);
	struct record_block before;
	bool known = false;
	struct thread *thread = is_on && !local.busy ? recorder_enter() : NULL;
	if (thread) {
		known = recorder_forget(thread, (uintptr_t)old, &before);
		recorder_leave();
	}
	void *mapped = (void *)syscall(SYS_mremap, old, old_size, size, flags, wanted);
	if (known)
		mapping_note(mapped != MAP_FAILED ? mapped : old,
			mapped != MAP_FAILED ? size : before.size, CURSOR_HERE());
	return mapped;
}
