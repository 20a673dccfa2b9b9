// SPDX-License-Identifier: MIT
#include "image/magic.h"

#include <string.h>

#define BYTES(text) text, sizeof text - 1

static const struct magic magics[] = {
	// Compression: RFC 1952, bzip2's and xz's format documents, RFC 8878, lz4_Frame_format.md.
	{0, BYTES("\x1f\x8b"), "a gzip file", "unpack it with: gzip -d"},
	{0, BYTES("BZh"), "a bzip2 file", "unpack it with: bzip2 -d"},
	{0,
		BYTES("\xfd"
		      "7zXZ\0"),
		"an xz file", "unpack it with: xz -d"},
	{0, BYTES("\x28\xb5\x2f\xfd"), "a zstd file", "unpack it with: zstd -d"},
	{0, BYTES("\x04\x22\x4d\x18"), "an lz4 file", "unpack it with: lz4 -d"},
	{0, BYTES("\x02\x21\x4c\x18"), "a legacy lz4 file", "unpack it with: lz4 -d"},
	{0, BYTES("LZIP"), "an lzip file", "unpack it with: lzip -d"},
	{0, BYTES("\x89LZO\0\r\n\x1a\n"), "an lzop file", "unpack it with: lzop -d"},
	{0, BYTES("\x1f\x9d"), "a compress (.Z) file", "unpack it with: gzip -d"},
	// Archives.
	{0, BYTES("PK\x03\x04"), "a zip archive", "unpack it with: unzip"},
	{0, BYTES("7z\xbc\xaf\x27\x1c"), "a 7z archive", "unpack it with: 7z x"},
	{0, BYTES("Rar!\x1a\x07"), "a rar archive", "unpack it with: unrar x"},
	{0, BYTES("!<arch>\n"), "an ar archive", "unpack it with: ar x"},
	{0, BYTES("070701"), "a cpio archive", "unpack it with: cpio -i"},
	{257, BYTES("ustar"), "a tar archive", "unpack it with: tar -xf"},
	// Dumps in formats that are not read: breakpad's minidump_format.h, XNU's loader.h and
	// fat.h, makedumpfile's diskdump_mod.h, Windows' DUMP_HEADER.
	{0, BYTES("MDMP"), "a minidump",
		"it holds no full memory; convert it with: minidump-2-core"},
	{0, BYTES("\xcf\xfa\xed\xfe"), "a Mach-O file", "only ELF cores are understood"},
	{0, BYTES("\xce\xfa\xed\xfe"), "a Mach-O file", "only ELF cores are understood"},
	{0, BYTES("\xfe\xed\xfa\xcf"), "a Mach-O file", "only ELF cores are understood"},
	{0, BYTES("\xfe\xed\xfa\xce"), "a Mach-O file", "only ELF cores are understood"},
	{0, BYTES("\xca\xfe\xba\xbe"), "a Mach-O universal binary or a Java class",
		"only ELF cores are understood"},
	{0, BYTES("KDUMP   "), "a kdump of a kernel", "convert it with: crash or makedumpfile -E"},
	{0, BYTES("PAGEDU"), "a Windows crash dump", "only ELF cores are understood"},
};

const struct magic *magic_find(const void *bytes, size_t size)
{
	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
		const struct magic *magic = &magics[i];
		if (size >= magic->offset + magic->size &&
			memcmp((const char *)bytes + magic->offset, magic->bytes, magic->size) == 0)
			return magic;
	}
	return NULL;
}
