// SPDX-License-Identifier: MIT
#include "functions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols.h"

#define LIBRARIES_MOST 512
#define MANGLED_MOST 1024

struct search {
	const struct options *options;
	FILE *out;
	bool found[CHOSEN_MOST];
	char *libraries[LIBRARIES_MOST]; // paths, without repeats
	size_t library_count;
	char id[65]; // of the file that is looked at
};

// A name as C++ mangles it in parts: "a::B::f" is "1a1B1f" (Itanium C++ ABI, section 5.1.3).
static bool mangle(const char *name, char ret[MANGLED_MOST])
{
	size_t used = 0;
	while (*name) {
		const char *end = strstr(name, "::");
		const size_t length = end ? (size_t)(end - name) : strlen(name);
		if (used + length + 8 > MANGLED_MOST)
			return false;
		used += (size_t)sprintf(ret + used, "%zu%.*s", length, (int)length, name);
		name = end ? end + 2 : name + length;
	}
	ret[used] = '\0';
	return used > 0;
}

static bool is_of(const char *symbol, const char *name)
{
	char mangled[MANGLED_MOST];
	if (!strcmp(symbol, name))
		return true;
	if (strncmp(symbol, "_Z", 2) || !mangle(name, mangled))
		return false;
	// No digit before it: 13foo is not 3foo.
	const char *at = strstr(symbol, mangled);
	return at && (at[-1] < '0' || at[-1] > '9');
}

static bool function_look(void *context, const char *name, uint64_t start, uint64_t size)
{
	struct search *search = context;
	for (size_t i = 0; i < search->options->chosen_count; i++) {
		if (!size || !is_of(name, search->options->chosen[i]))
			continue;
		fprintf(search->out, "%s %llx %llx\n", search->id, (unsigned long long)start,
			(unsigned long long)(start + size));
		search->found[i] = true;
	}
	return true;
}

static void library_add(void *context, const char *name)
{
	static const char *const folders[] = {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
		"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64",
		"/lib", "/usr/lib", "/usr/local/lib"};
	struct search *search = context;
	const char *paths = getenv("LD_LIBRARY_PATH");
	char whole[4096];
	for (size_t i = 0; i < search->library_count; i++)
		if (!strcmp(strrchr(search->libraries[i], '/') + 1, name))
			return;
	if (search->library_count == LIBRARIES_MOST || strchr(name, '/'))
		return;
	whole[0] = '\0';
	while (paths && *paths) {
		const size_t length = strcspn(paths, ":");
		snprintf(whole, sizeof whole, "%.*s/%s", (int)length, paths, name);
		if (length && !access(whole, R_OK))
			break;
		whole[0] = '\0';
		paths += length + (paths[length] == ':');
	}
	for (size_t i = 0; !whole[0] && i < sizeof folders / sizeof *folders; i++) {
		snprintf(whole, sizeof whole, "%s/%s", folders[i], name);
		if (access(whole, R_OK))
			whole[0] = '\0';
	}
	if (whole[0])
		search->libraries[search->library_count++] = strdup(whole);
}

static void file_look(struct search *search, const char *path)
{
	struct elf elf;
	if (!elf_open(path, &elf))
		return;
	const char *name = strrchr(path, '/');
	name = name ? name + 1 : path;
	if (elf_build_id(&elf, search->id)) {
		for (size_t i = 0; i < search->options->chosen_count; i++) {
			const char *wanted = search->options->chosen[i];
			const size_t length = strlen(wanted);
			// libx.so names libx.so.1, too.
			if (strcmp(path, wanted) &&
				(strncmp(name, wanted, length) ||
					(name[length] && strncmp(name + length, ".so", 3) &&
						name[length] != '.')))
				continue;
			fprintf(search->out, "%s 0 0\n", search->id);
			search->found[i] = true;
		}
		elf_functions(&elf, function_look, search);
	}
	elf_needed(&elf, library_add, search);
	elf_close(&elf);
}

char *functions_find(const struct options *options, const char *program)
{
	char *path = strdup("/tmp/topleak-record.XXXXXX");
	const int file = path ? mkstemp(path) : -1;
	struct search search = {.options = options, .out = file < 0 ? NULL : fdopen(file, "w")};
	if (!search.out) {
		perror("topleak-record: /tmp");
		free(path);
		return NULL;
	}
	file_look(&search, program);
	for (size_t i = 0; i < search.library_count; i++)
		file_look(&search, search.libraries[i]);
	bool done = fclose(search.out) == 0;
	for (size_t i = 0; i < options->chosen_count; i++) {
		if (search.found[i])
			continue;
		fprintf(stderr,
			"topleak-record: --all-of: no module, function or class of this name with "
			"a build-id in %s or what it needs: %s\n",
			program, options->chosen[i]);
		done = false;
	}
	for (size_t i = 0; i < search.library_count; i++)
		free(search.libraries[i]);
	if (done)
		return path;
	unlink(path);
	free(path);
	return NULL;
}
