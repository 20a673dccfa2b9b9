// SPDX-License-Identifier: MIT
#include "base/bytes.h"

#include <stdio.h>

struct size_text size_format(uint64_t bytes)
{
	static const char unit[] = "KMGTPE";
	struct size_text ret;
	if (bytes < 1024) {
		snprintf(ret.text, sizeof ret.text, "%u byte%s", (unsigned)bytes,
			bytes == 1 ? "" : "s");
		return ret;
	}
	double size = (double)bytes / 1024;
	size_t step = 0;
	// 1023.95 would print as 1024.0.
	for (; size >= 1023.95; step++)
		size /= 1024;
	snprintf(ret.text, sizeof ret.text, "%.1f %ciB", size, unit[step]);
	return ret;
}
