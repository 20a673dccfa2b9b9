// SPDX-License-Identifier: MIT
#include "base/cpu.h"

#include <string.h>

static bool cpu_has_avx2(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx2");
#else
	return false;
#endif
}

bool cpu_choose(const char *wanted, struct error *err, enum cpu_level *ret)
{
	const bool avx2 = cpu_has_avx2();
	*ret = avx2 ? CPU_AVX2 : CPU_PORTABLE;
	if (wanted == NULL || wanted[0] == '\0')
		return true;
	if (strcmp(wanted, "portable") == 0)
		*ret = CPU_PORTABLE;
	else if (strcmp(wanted, "avx2") != 0)
		return error_usage(err, "TOPLEAK_SIMD: '%s' is none of: portable, avx2", wanted);
	else if (!avx2)
		return error_usage(err, "TOPLEAK_SIMD: this processor has no avx2");
	return true;
}
