// SPDX-License-Identifier: MIT
//
// In `make static` only: what is here takes the place of functions in libraries, and so keeps out
// what those would bring along.
#include <archive.h>
#include <dlfcn.h>
#include <stddef.h>

// A static program can load a library only where the C library is the one it was linked with. libdw
// would try even if nobody wants debuginfod.
void *dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

// libarchive's readers of archives, which topleak does not use, need libxml2, ICU, nettle and a
// resolver.
int archive_read_support_format_by_code(struct archive *archive, int code)
{
	return code == ARCHIVE_FORMAT_RAW ? archive_read_support_format_raw(archive)
					  : ARCHIVE_FATAL;
}
