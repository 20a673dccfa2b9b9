// SPDX-License-Identifier: MIT
#include "image/magic.h"

#include <stdbool.h>
#include <string.h>

#define BYTES(text) (text), sizeof(text) - 1
#define HTML_ADVICE "the download went wrong; look at it, and fetch the dump again"

static const struct magic magics[] = {
	// Compression: RFC 1952 (and 8, the only method), bzip2's and xz's format documents, RFC
	// 8878
	// (and the skippable frame that pzstd begins with), lz4_Frame_format.md, lzip's manual,
	// lzop's and ncompress's sources.
	{0, BYTES("\x1f\x8b\x08"), "a gzip file", NULL, PACKING_GZIP},
	{0, BYTES("BZh"), "a bzip2 file", NULL, PACKING_BZIP2},
	{0,
		BYTES("\xfd"
		      "7zXZ\0"),
		"an xz file", NULL, PACKING_XZ},
	{0, BYTES("\x28\xb5\x2f\xfd"), "a zstd file", NULL, PACKING_ZSTD},
	{0, BYTES("\x50\x2a\x4d\x18"), "a zstd file", NULL, PACKING_ZSTD},
	{0, BYTES("\x04\x22\x4d\x18"), "an lz4 file", NULL, PACKING_LZ4},
	{0, BYTES("\x02\x21\x4c\x18"), "an lz4 file", NULL, PACKING_LZ4},
	{0, BYTES("LZIP"), "an lzip file", NULL, PACKING_LZIP},
	{0, BYTES("\x89LZO\0\r\n\x1a\n"), "an lzop file", NULL, PACKING_LZOP},
	{0, BYTES("\x1f\x9d"), "a compress (.Z) file", NULL, PACKING_COMPRESS},
	// Archives.
	{0, BYTES("PK\x03\x04"), "a zip archive", "unpack it with: unzip", PACKING_NONE},
	{0, BYTES("7z\xbc\xaf\x27\x1c"), "a 7z archive", "unpack it with: 7z x", PACKING_NONE},
	{0, BYTES("Rar!\x1a\x07"), "a rar archive", "unpack it with: unrar x", PACKING_NONE},
	{0, BYTES("!<arch>\n"), "an ar archive", "unpack it with: ar x", PACKING_NONE},
	{0, BYTES("070701"), "a cpio archive", "unpack it with: cpio -i", PACKING_NONE},
	{257, BYTES("ustar"), "a tar archive", "unpack it with: tar -xf", PACKING_NONE},
	// Dumps in formats that are not read: breakpad's minidump_format.h, XNU's loader.h and
	// fat.h, makedumpfile's diskdump_mod.h, Windows' DUMP_HEADER.
	{0, BYTES("MDMP"), "a minidump",
		"it holds no full memory; convert it with: minidump-2-core", PACKING_NONE},
	{0, BYTES("\xcf\xfa\xed\xfe"), "a Mach-O file", "only ELF cores are understood",
		PACKING_NONE},
	{0, BYTES("\xce\xfa\xed\xfe"), "a Mach-O file", "only ELF cores are understood",
		PACKING_NONE},
	{0, BYTES("\xfe\xed\xfa\xcf"), "a Mach-O file", "only ELF cores are understood",
		PACKING_NONE},
	{0, BYTES("\xfe\xed\xfa\xce"), "a Mach-O file", "only ELF cores are understood",
		PACKING_NONE},
	{0, BYTES("\xca\xfe\xba\xbe"), "a Mach-O universal binary or a Java class",
		"only ELF cores are understood", PACKING_NONE},
	{0, BYTES("KDUMP   "), "a kdump of a kernel", "convert it with: crash or makedumpfile -E",
		PACKING_NONE},
	// record/format.h.
	{0, BYTES("\x7fTopleakRecord\n"), "a recording of topleak-record",
		"print its call stacks with --stacks, unpacked", PACKING_NONE},
	// makedumpfile's flattened format and diskdump_mod.h, LiME's doc/README.md, the JDK's
	// heapDumper.cpp, apport's report.py, git-lfs's docs/spec.md, V8's
	// heap-snapshot-generator.cc, ESP-IDF's esp_image_format.h (behind the number of segments,
	// the mode, and size and speed of the flash).
	{0, BYTES("DISKDUMP"), "a compressed kdump of a kernel",
		"open it with: crash, or drgn; it is no process's", PACKING_NONE},
	{0, BYTES("makedumpfile\0"), "a flattened kdump of a kernel",
		"make one file of it with: makedumpfile -R", PACKING_NONE},
	{0, BYTES("EMiL"), "a LiME image of a machine's memory",
		"open it with: volatility; it is no process's", PACKING_NONE},
	{0, BYTES("JAVA PROFILE 1.0."), "a Java heap dump",
		"open it with: Eclipse MAT, or VisualVM", PACKING_NONE},
	{0, BYTES("ProblemType: "), "a crash report of apport",
		"unpack it with: apport-unpack FILE DIR, and read DIR/CoreDump", PACKING_NONE},
	{0, BYTES("version https://git-lfs"), "a pointer of Git LFS",
		"fetch what it stands for with: git lfs pull", PACKING_NONE},
	{0, BYTES("{\"snapshot\":{\"meta\":"), "a heap snapshot of V8",
		"open it with: the developer tools of Chrome", PACKING_NONE},
	{0, BYTES("<!DOCTYPE"), "a page of HTML", HTML_ADVICE, PACKING_NONE},
	{0, BYTES("<!doctype"), "a page of HTML", HTML_ADVICE, PACKING_NONE},
	{0, BYTES("<html"), "a page of HTML", HTML_ADVICE, PACKING_NONE},
	{0, BYTES("<HTML"), "a page of HTML", HTML_ADVICE, PACKING_NONE},
	{0, BYTES("PAGEDU"), "a Windows crash dump", "only ELF cores are understood", PACKING_NONE},
};

static const struct {
	const char *name, *command;
} packings[] = {
	[PACKING_NONE] = {NULL, NULL},
	[PACKING_GZIP] = {"gzip", "gzip -dc"},
	[PACKING_BZIP2] = {"bzip2", "bzip2 -dc"},
	[PACKING_XZ] = {"xz", "xz -dc"},
	[PACKING_ZSTD] = {"zstd", "zstd -dc"},
	[PACKING_LZ4] = {"lz4", "lz4 -dc"},
	[PACKING_LZIP] = {"lzip", "lzip -dc"},
	[PACKING_LZOP] = {"lzop", "lzop -dc"},
	[PACKING_COMPRESS] = {"compress", "gzip -dc"},
};

const char *packing_name(enum packing packing)
{
	return packings[packing].name;
}

const char *packing_command(enum packing packing)
{
	return packings[packing].command;
}

// ESP-IDF, components/bootloader_support/include/esp_app_format.h: 0xe9, the number of segments (1
// to 16), the mode of the flash (0 to 5), its size and speed; the entry point; and at 32, behind
// the header of the first segment, the magic number of the description of an application.
static bool is_esp_image(const unsigned char *bytes, size_t size)
{
	return size >= 36 && bytes[0] == 0xe9 && bytes[1] >= 1 && bytes[1] <= 16 && bytes[2] <= 5 &&
	       memcmp(bytes + 32, "\x32\x54\xcd\xab", 4) == 0;
}

const struct magic *magic_find(const void *bytes, size_t size)
{
	static const struct magic esp = {0, "", 0, "a flash image of ESP",
		"give the core dump that espcoredump.py info_corefile --save-core makes",
		PACKING_NONE};
	if (is_esp_image(bytes, size))
		return &esp;
	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++) {
		const struct magic *magic = &magics[i];
		if (size >= magic->offset + magic->size &&
			memcmp((const char *)bytes + magic->offset, magic->bytes, magic->size) == 0)
			return magic;
	}
	return NULL;
}
