// SPDX-License-Identifier: MIT
#include "program.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "symbols.h"

char *program_find(const char *name)
{
	const char *path = getenv("PATH");
	if (strchr(name, '/') || !path)
		return access(name, X_OK) ? NULL : strdup(name);
	while (*path) {
		const size_t length = strcspn(path, ":");
		char *whole = malloc(length + strlen(name) + 3);
		if (!whole)
			abort();
		sprintf(whole, "%.*s/%s", length ? (int)length : 1, length ? path : ".", name);
		struct stat status;
		if (!access(whole, X_OK) && !stat(whole, &status) && S_ISREG(status.st_mode))
			return whole;
		free(whole);
		path += length + (path[length] == ':');
	}
	return NULL;
}

static bool refuse(const char *path, const char *why)
{
	fprintf(stderr, "topleak-record: %s %s; nothing of it can be recorded\n", path, why);
	return false;
}

bool program_check(const char *path, bool quiet)
{
	struct stat status;
	if (!stat(path, &status) && geteuid() != 0 &&
		((status.st_mode & S_ISUID && status.st_uid != geteuid()) ||
			(status.st_mode & S_ISGID && status.st_gid != getegid()) ||
			getxattr(path, "security.capability", NULL, 0) > 0))
		return refuse(path,
			"changes its user or has capabilities, and loads no library of others");
	struct elf elf;
	if (!elf_open(path, &elf)) // a script, perhaps: its interpreter is what is recorded
		return true;
	const char *interpreter = elf_interpreter(&elf);
	bool done = true;
#ifdef __aarch64__
	const uint16_t machine = EM_AARCH64;
#else
	const uint16_t machine = EM_X86_64;
#endif
	if (elf.header->e_ident[EI_CLASS] != ELFCLASS64 || elf.header->e_machine != machine)
		done = refuse(path, "is made for another processor than the recorder");
	else if (!interpreter)
		done = refuse(path, "is linked statically, and loads no library");
#ifdef __GLIBC__
	else if (strstr(interpreter, "ld-musl"))
#else
	else if (!strstr(interpreter, "ld-musl"))
#endif
		done = refuse(path,
			"uses another C library than the recorder, which has to be built for it");
	else if (!quiet && elf_defines(&elf, "malloc"))
		fprintf(stderr,
			"topleak-record: %s has a malloc of its own in it: what it calls there "
			"directly is not seen\n",
			path);
	elf_close(&elf);
	return done;
}
