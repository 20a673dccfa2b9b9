// SPDX-License-Identifier: MIT
#include "names/debugfile.h"

#if HAVE_LIBDW

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32.h"
#include "base/guard.h"

#define DEBUG_DIR "/usr/lib/debug"

struct search {
	const struct module *module;
	const struct symbols_options *options;
	bool has_sum; // checked only where there is no build-id
	uint32_t sum;
	struct local_file *found;
};

// A section of a few bytes can say that it unpacks to more than there is memory. Compilers' come to
// a tenth, rarely to a fiftieth.
#define UNPACKED_SMALL ((uint64_t)16 << 20)
#define UNPACKED_RATIO 128

static bool section_is_bomb(Elf *elf, Elf_Scn *section, size_t names)
{
	GElf_Shdr header;
	GElf_Chdr packed;
	if (gelf_getshdr(section, &header) == NULL || header.sh_type == SHT_NOBITS)
		return false;
	uint64_t size = 0;
	const char *name = elf_strptr(elf, names, header.sh_name);
	if ((header.sh_flags & SHF_COMPRESSED) != 0) {
		if (gelf_getchdr(section, &packed) != NULL)
			size = packed.ch_size;
	} else if (name != NULL && strncmp(name, ".zdebug", 7) == 0) {
		// "ZLIB", and the size as a big-endian number.
		const Elf_Data *data = elf_rawdata(section, NULL);
		if (data != NULL && data->d_buf != NULL && data->d_size >= 12)
			size = word_load((const char *)data->d_buf + 4, 8, ORDER_BIG);
	}
	return size > UNPACKED_SMALL && size / UNPACKED_RATIO > header.sh_size;
}

static bool elf_is_bomb(Elf *elf)
{
	size_t names;
	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;)
		if (section_is_bomb(elf, section, names))
			return true;
	return false;
}

Elf *debugfile_open(struct local_file *file, int *fd)
{
	elf_version(EV_CURRENT);
	*fd = fcntl(local_file_descriptor(file), F_DUPFD_CLOEXEC, 3);
	if (*fd < 0)
		return NULL;
	// A file that somebody else can cut short is not mapped, since that would end in SIGBUS.
	Elf *elf = elf_begin(*fd, file->shared ? ELF_C_READ : ELF_C_READ_MMAP, NULL);
	if (elf != NULL && elf_kind(elf) == ELF_K_ELF && !elf_is_bomb(elf))
		return elf;
	elf_end(elf);
	close(*fd);
	*fd = -1;
	return NULL;
}

static bool file_sum(struct local_file *file, uint32_t *ret)
{
	unsigned char *buffer AUTO_FREE = malloc(1 << 16);
	if (buffer == NULL)
		return false;
	*ret = 0;
	for (uint64_t at = 0; at < file->size;) {
		const size_t got = local_file_read(file, at, buffer, 1 << 16);
		if (got == 0)
			return false;
		*ret = crc32_add(*ret, buffer, got);
		at += got;
	}
	return true;
}

static bool debugfile_matches(const struct search *search, struct local_file *file)
{
	const struct build_id *wanted = search->module->build_id.size > 0
						? &search->module->build_id
						: &search->module->file_build_id;
	uint32_t sum;
	if (wanted->size == 0)
		return search->has_sum && file_sum(file, &sum) && sum == search->sum;
	int fd;
	Elf *elf = debugfile_open(file, &fd);
	const void *id;
	const bool matches = elf != NULL &&
			     dwelf_elf_gnu_build_id(elf, &id) == (ssize_t)wanted->size &&
			     memcmp(id, wanted->bytes, wanted->size) == 0;
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return matches;
}

static bool search_try(struct search *search, const char *path)
{
	struct local_file *file = local_file_create(path);
	if (file == NULL)
		return false;
	const struct module *module = search->module;
	const bool itself = module->file != NULL && module->file->inode == file->inode &&
			    module->file->device == file->device;
	if (!itself && debugfile_matches(search, file)) {
		search->found = file;
		return true;
	}
	local_file_destroy(file);
	return false;
}

static bool search_build_id(struct search *search, const char *root, const char *directory)
{
	const struct build_id *known = search->module->build_id.size > 0
					       ? &search->module->build_id
					       : &search->module->file_build_id;
	const struct build_id_text id = build_id_format(known);
	char path[PATH_MAX];
	if (directory == NULL || known->size < 2)
		return false;
	const int length = snprintf(path, sizeof path, "%s%s/.build-id/%.2s/%s.debug", root,
		directory, id.text, id.text + 2);
	return length > 0 && (size_t)length < sizeof path && search_try(search, path);
}

static bool search_link(struct search *search, const char *root, const char *directory,
	const char *below, const char *link)
{
	char path[PATH_MAX];
	const int length = snprintf(path, sizeof path, "%s%s%s/%s", root, directory, below, link);
	return length > 0 && (size_t)length < sizeof path && search_try(search, path);
}

// The directory of a path, without a slash at the end.
static bool path_directory(const char *path, char ret[static PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	const size_t length = slash != NULL ? (size_t)(slash - path) : 1;
	if (length >= PATH_MAX)
		return false;
	memcpy(ret, slash != NULL ? path : ".", length);
	ret[length] = '\0';
	return true;
}

static bool search_links(struct search *search, const char *link, const char *sysroot)
{
	const struct symbols_options *options = search->options;
	char local[PATH_MAX], mapped[PATH_MAX];
	if (strchr(link, '/') != NULL || link[0] == '\0' ||
		!path_directory(search->module->file->path, local) ||
		!path_directory(search->module->path, mapped))
		return false;
	if (search_link(search, local, "", "", link) ||
		search_link(search, local, "", "/.debug", link))
		return true;
	// The program may have been found elsewhere than where it was.
	if (search_link(search, sysroot, mapped, "", link) ||
		search_link(search, sysroot, mapped, "/.debug", link))
		return true;
	if (options->debug_dir != NULL &&
		(search_link(search, "", options->debug_dir, mapped, link) ||
			search_link(search, "", options->debug_dir, "", link)))
		return true;
	return (sysroot[0] != '\0' && search_link(search, sysroot, DEBUG_DIR, mapped, link)) ||
	       search_link(search, "", DEBUG_DIR, mapped, link);
}

struct local_file *debugfile_find(
	const struct module *module, Elf *program, const struct symbols_options *options)
{
	struct search search = {.module = module, .options = options};
	const char *sysroot = options->sysroot != NULL ? options->sysroot : "";
	if (search_build_id(&search, "", options->debug_dir) ||
		(sysroot[0] != '\0' && search_build_id(&search, sysroot, DEBUG_DIR)) ||
		search_build_id(&search, "", DEBUG_DIR))
		return search.found;
	GElf_Word sum = 0;
	const char *link = program != NULL ? dwelf_elf_gnu_debuglink(program, &sum) : NULL;
	search.sum = sum;
	search.has_sum = link != NULL;
	if (link != NULL && module->file != NULL && search_links(&search, link, sysroot))
		return search.found;
	if (options->fetch != NULL && module->build_id.size > 0) {
		char *path AUTO_FREE = options->fetch(options->context, &module->build_id);
		if (path != NULL && search_try(&search, path))
			return search.found;
	}
	return NULL;
}

#endif
