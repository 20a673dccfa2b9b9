// SPDX-License-Identifier: MIT
#include "image/machine.h"

#include <elf.h>
#include <stddef.h>

const char *machine_name(uint16_t machine)
{
	static const struct {
		uint16_t machine;
		const char *name;
	} names[] = {
		{EM_386, "i386"},
		{EM_68K, "m68k"},
		{EM_AARCH64, "aarch64"},
		{EM_ALPHA, "alpha"},
		{EM_ARM, "arm"},
		{EM_CSKY, "csky"},
		{EM_IA_64, "ia64"},
		{EM_LOONGARCH, "loongarch"},
		{EM_MICROBLAZE, "microblaze"},
		{EM_MIPS, "mips"},
		{EM_OPENRISC, "openrisc"},
		{EM_PARISC, "parisc"},
		{EM_PPC, "powerpc"},
		{EM_PPC64, "powerpc64"},
		{EM_RISCV, "riscv"},
		{EM_S390, "s390"},
		{EM_SH, "sh"},
		{EM_SPARC, "sparc"},
		{EM_SPARC32PLUS, "sparc"},
		{EM_SPARCV9, "sparc64"},
		{EM_X86_64, "x86-64"},
		{EM_XTENSA, "xtensa"},
	};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].machine == machine)
			return names[i].name;
	return "unknown machine";
}

const char *signal_name(int number)
{
	static const char *const names[] = {
		[1] = "SIGHUP",
		[2] = "SIGINT",
		[3] = "SIGQUIT",
		[4] = "SIGILL",
		[5] = "SIGTRAP",
		[6] = "SIGABRT",
		[8] = "SIGFPE",
		[9] = "SIGKILL",
		[11] = "SIGSEGV",
		[13] = "SIGPIPE",
		[14] = "SIGALRM",
		[15] = "SIGTERM",
	};
	if (number < 0 || (size_t)number >= sizeof names / sizeof *names)
		return NULL;
	return names[number];
}
