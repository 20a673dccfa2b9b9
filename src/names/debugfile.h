// SPDX-License-Identifier: MIT
//
// Finds separate debug files as gdb does: by build-id in DIR/.build-id, by the name in
// .gnu_debuglink next to the program, in .debug there, and below DIR.
#pragma once

#include "image/localfile.h"
#include "image/module.h"
#include "names/symbols.h"

#if HAVE_LIBDW
#include <libelf.h>

// Open an ELF file to be read with libelf. The descriptor, to be closed after elf_end, goes to *fd.
// NULL if it is none, or if a section would unpack to much more than any compiler's does.
Elf *debugfile_open(struct local_file *file, int *fd);

// The debug file of module; program is its ELF file, NULL if there is none. It has the module's
// build-id, or the check sum that the program names. NULL if there is none; else to be released
// with local_file_destroy.
struct local_file *debugfile_find(
	const struct module *module, Elf *program, const struct symbols_options *options);
#endif
