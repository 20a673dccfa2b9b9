// SPDX-License-Identifier: MIT
//
// A saved result, as --diff reads it: loaded, and compared with itself and with a part of it.
#include "types/saved.h"
#include "base/guard.h"
#include "fuzz.h"
#include "types/diff.h"

static void compare(const struct types_result *now, const struct types_result *old, bool same)
{
	struct error err = {0};
	for (enum type_sort sort = SORT_BYTES; sort <= SORT_NAME; sort++) {
		struct growth *rows = NULL;
		size_t count;
		CHECK(types_compare(now, old, sort, &err, &rows, &count));
		CHECK(count <= now->count + old->count && (!same || count == 0));
		for (size_t i = 0; i < count; i++)
			CHECK(rows[i].now != NULL || rows[i].old != NULL);
		free(rows);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	int fd AUTO_CLOSE = memory_file(data, size, path);
	struct saved saved;
	struct error err = {0};
	CHECK(fd >= 0);
	saved_is(path);
	if (!saved_load(path, "types", &err, &saved) && !saved_load(path, "leaks", &err, &saved)) {
		CHECK(err.text[0] != '\0');
		return 0;
	}
	for (size_t i = 0; i < saved.result.count; i++) {
		const struct type *type = &saved.result.list[i];
		CHECK(type->name != NULL && type->module != NULL && type->kind < TYPE_KIND_COUNT);
	}
	compare(&saved.result, &saved.result, true);
	struct types_result half = saved.result;
	half.count /= 2;
	compare(&half, &saved.result, false);
	compare(&saved.result, &half, false);
	saved_deinit(&saved);
	return 0;
}
