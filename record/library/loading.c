// SPDX-License-Identifier: MIT
//
// dlclose(): other modules may come to where some were. dlopen() is left alone: it looks at who
// calls it.
#include <string.h>

#include "base.h"
#include "modules.h"
#include "real.h"
#include "rules.h"

EXPORT int dlclose(void *handle)
{
	static void *found;
	void *function = LOAD(&found);
	int (*real_dlclose)(void *);
	if (!function) {
		function = real_function("dlclose");
		STORE(&found, function);
	}
	memcpy(&real_dlclose, &function, sizeof function);
	const int result = real_dlclose(handle);
	const uintptr_t busy = local.busy;
	local.busy = (uintptr_t)__builtin_frame_address(0);
	if (LOAD_ACQUIRE(&header) && modules_check())
		rules_clear();
	local.busy = busy;
	return result;
}
