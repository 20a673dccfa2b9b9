// SPDX-License-Identifier: MIT
//
// Scope guards: a variable declared with one of these releases its resource when it leaves scope.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define GUARD(function) __attribute__((cleanup(function)))

static inline void guard_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void guard_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

// char *text AUTO_FREE = NULL;
#define AUTO_FREE GUARD(guard_free)
// int fd AUTO_CLOSE = -1;
#define AUTO_CLOSE GUARD(guard_close)
