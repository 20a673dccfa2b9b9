// SPDX-License-Identifier: MIT
#include "count/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

bool hash_random(void *ret, size_t size, struct error *err)
{
	ssize_t got;
	do
		got = getrandom(ret, size, 0);
	while (got < 0 && errno == EINTR);
	// As much as this comes at once.
	return got == (ssize_t)size || error_set(err, "no random numbers: %s", strerror(errno));
}
