// SPDX-License-Identifier: MIT
//
// The functions of malloc's family, which programs call instead of their own. Each has a quick way,
// and a slow one that is a function of its own: its caller is the program's, as the quick one jumps
// to it.
#include <errno.h>
#include <string.h>

#include "guard.h"
#include "real.h"
#include "recorder.h"

static bool is_known(void)
{
	if (LIKELY(LOAD_ACQUIRE(&real.malloc) != NULL))
		return true;
	recorder_init();
	return LOAD_ACQUIRE(&real.malloc) != NULL;
}

static inline bool is_quick(size_t size)
{
	if (UNLIKELY(size >= local.left))
		return false;
	local.left -= size;
	return true;
}

// Nothing looks closer when this block is freed.
static inline bool frees_quickly(const void *block)
{
	return LIKELY(((uintptr_t)block & recorder_free_mask) > MARK_MOST);
}

static NOINLINE void *malloc_slowly(size_t size)
{
	if (!is_known())
		return real_early(size);
	return recorder_allocate(&real, 0, size, false, CURSOR_HERE());
}

EXPORT void *malloc(size_t size)
{
	if (is_quick(size))
		return real.malloc(size);
	return malloc_slowly(size);
}

static NOINLINE void *calloc_slowly(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	if (!is_known())
		return real_early(bytes); // of zeros, and never used before
	return recorder_allocate(&real, 0, bytes, true, CURSOR_HERE());
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;
	if (LIKELY(!__builtin_mul_overflow(count, size, &bytes)) && is_quick(bytes))
		return real.calloc(count, size);
	return calloc_slowly(count, size);
}

static void *move(void *old, size_t room, size_t size, struct cursor from)
{
	void *new = recorder_allocate(&real, 0, size, false, from);
	if (new)
		memcpy(new, old, room < size ? room : size);
	return new;
}

static NOINLINE void *realloc_slowly(void *old, size_t size)
{
	if (!is_known())
		return real_early(size);
	if (real_is_early(old))
		return move(old, real_early_room(old), size, CURSOR_HERE());
	if (guard_owns(old)) {
		void *new = move(old, guard_size(old), size, CURSOR_HERE());
		if (new || !size)
			recorder_free(&real, old);
		return new;
	}
	return recorder_reallocate(&real, old, size, CURSOR_HERE());
}

EXPORT void *realloc(void *old, size_t size)
{
	if (frees_quickly(old) && is_quick(size))
		return real.realloc(old, size);
	return realloc_slowly(old, size);
}

EXPORT void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	if (frees_quickly(old) && is_quick(bytes))
		return real.realloc(old, bytes);
	return realloc_slowly(old, bytes);
}

static NOINLINE void free_slowly(void *block)
{
	if (!block || real_is_early(block) || !is_known())
		return;
	recorder_free(&real, block);
}

EXPORT void free(void *block)
{
	if (frees_quickly(block)) {
		real.free(block);
		return;
	}
	free_slowly(block);
}

EXPORT void free_sized(void *block, size_t size)
{
	(void)size;
	free(block);
}

EXPORT void free_aligned_sized(void *block, size_t alignment, size_t size)
{
	(void)alignment;
	(void)size;
	free(block);
}

static NOINLINE void *aligned_slowly(size_t alignment, size_t size)
{
	if (!is_known()) {
		if (alignment <= PAGE)
			return real_early(size);
		errno = ENOMEM;
		return NULL;
	}
	return recorder_allocate(&real, alignment, size, false, CURSOR_HERE());
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	if (is_quick(size))
		return real.memalign(alignment, size);
	return aligned_slowly(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	if (is_quick(size))
		return real.memalign(alignment, size);
	return aligned_slowly(alignment, size);
}

EXPORT void *valloc(size_t size)
{
	if (is_quick(size))
		return real.memalign(PAGE, size);
	return aligned_slowly(PAGE, size);
}

EXPORT void *pvalloc(size_t size)
{
	if (size > SIZE_MAX - PAGE) {
		errno = ENOMEM;
		return NULL;
	}
	return aligned_slowly(PAGE, (size + PAGE - 1) & ~(size_t)(PAGE - 1));
}

static NOINLINE int posix_memalign_slowly(void **ret, size_t alignment, size_t size)
{
	const int before = errno;
	void *block = NULL;
	if (is_known())
		block = recorder_allocate(&real, alignment, size, false, CURSOR_HERE());
	else if (alignment <= PAGE)
		block = real_early(size);
	errno = before;
	if (!block)
		return ENOMEM;
	*ret = block;
	return 0;
}

EXPORT int posix_memalign(void **ret, size_t alignment, size_t size)
{
	if (alignment < sizeof(void *) || alignment & (alignment - 1))
		return EINVAL;
	if (is_quick(size))
		return real.posix_memalign(ret, alignment, size);
	return posix_memalign_slowly(ret, alignment, size);
}

EXPORT size_t malloc_usable_size(void *block)
{
	if (!block || !is_known())
		return 0;
	if (real_is_early(block))
		return 0;
	return guard_owns(block) ? guard_size(block) : real.usable(block);
}
