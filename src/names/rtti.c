// SPDX-License-Identifier: MIT
#include "names/rtti.h"

#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "image/linkmap.h"

// No class name is longer, with templates of templates.
#define NAME_MAX_SIZE ((size_t)64 * 1024)
// Objects are smaller.
#define BASE_MAX ((uint64_t)1 << 32)
// Classes looked at for virtual bases, and how deep they are nested. Typeinfo can go round in
// circles in a damaged dump.
#define CLASSES_MAX 256
#define DEPTH_MAX 32

// What kind of type information an object is (2.9.5): that of a class without bases, with a single
// public non-virtual one at offset 0, or with any.
enum class_type { CLASS_UNKNOWN, CLASS_PLAIN, CLASS_SINGLE, CLASS_MULTIPLE };

struct walk {
	const struct image *image;
	const struct modules *modules;
	unsigned word;
	unsigned left; // classes that may still be looked at
};

static bool walk_read(const struct walk *walk, uint64_t address, uint64_t *ret)
{
	return modules_find(walk->modules, address) != NULL &&
	       image_read_word(walk->image, address, ret);
}

static char *name_read(const struct walk *walk, uint64_t typeinfo)
{
	uint64_t name;
	if (!walk_read(walk, typeinfo + walk->word, &name) ||
		modules_find(walk->modules, name) == NULL)
		return NULL;
	char *text = image_read_string(walk->image, name, NAME_MAX_SIZE);
	// The "*" says that names must be compared by address: local and anonymous types.
	if (text != NULL && text[0] == '*')
		memmove(text, text + 1, strlen(text));
	return text;
}

// A type's mangled name begins with its length, or is nested, in std, local, or substituted, and
// has no odd characters. What it is worth in full the demangler says.
static bool name_is_type(const char *name)
{
	if (name[0] == '\0' || strchr("0123456789NSZU", name[0]) == NULL || name[1] == '\0')
		return false;
	for (; *name != '\0'; name++)
		if ((unsigned char)*name <= ' ' || (unsigned char)*name == 0x7f)
			return false;
	return true;
}

// Whether there is typeinfo at address; CLASS_UNKNOWN if that cannot be told.
static enum class_type typeinfo_guess_base(const struct walk *walk, uint64_t address)
{
	uint64_t name;
	if (!image_read_word(walk->image, address + walk->word, &name))
		return CLASS_UNKNOWN;
	const struct module_range *range = modules_find(walk->modules, name);
	if (range == NULL || !modules_range_has_data(walk->modules, range))
		return CLASS_PLAIN;
	char *text AUTO_FREE = name_read(walk, address);
	if (text == NULL)
		return CLASS_UNKNOWN;
	return name_is_type(text) ? CLASS_SINGLE : CLASS_PLAIN;
}

// Without the C++ library's file the classes of typeinfo objects have no names. What follows the
// first two words tells them apart: the typeinfo of a base; flags, a count, and such a pointer; or
// anything else.
static enum class_type typeinfo_guess(const struct walk *walk, uint64_t typeinfo)
{
	const uint64_t at = typeinfo + 2 * (uint64_t)walk->word;
	const enum byte_order order = image_info(walk->image)->elf_order;
	unsigned char counts[8];
	uint64_t third, base;
	if (!image_read_word(walk->image, at, &third) ||
		image_read(walk->image, at, counts, sizeof counts) != sizeof counts)
		return CLASS_UNKNOWN;
	if (modules_find(walk->modules, third) != NULL)
		return typeinfo_guess_base(walk, third);
	const uint32_t flags = load_u32(counts, order), count = load_u32(counts + 4, order);
	if (flags >= 16 || count == 0 || count > CLASSES_MAX)
		return CLASS_PLAIN;
	return walk_read(walk, at + sizeof counts, &base) &&
			       typeinfo_guess_base(walk, base) == CLASS_SINGLE
		       ? CLASS_MULTIPLE
		       : CLASS_UNKNOWN;
}

// The class of a typeinfo object is named by its own typeinfo.
static enum class_type typeinfo_type(const struct walk *walk, uint64_t typeinfo)
{
	uint64_t vtable, itself;
	if (!walk_read(walk, typeinfo, &vtable) || !walk_read(walk, vtable - walk->word, &itself))
		return CLASS_UNKNOWN;
	char *name AUTO_FREE = name_read(walk, itself);
	if (name == NULL)
		return typeinfo_guess(walk, typeinfo);
	if (strcmp(name, "N10__cxxabiv117__class_type_infoE") == 0)
		return CLASS_PLAIN;
	if (strcmp(name, "N10__cxxabiv120__si_class_type_infoE") == 0)
		return CLASS_SINGLE;
	if (strcmp(name, "N10__cxxabiv121__vmi_class_type_infoE") == 0)
		return CLASS_MULTIPLE;
	return CLASS_UNKNOWN;
}

// Whether a class has no virtual base, direct or not. False also where it cannot be told.
static bool class_is_plain(struct walk *walk, uint64_t typeinfo, unsigned depth)
{
	if (walk->left == 0 || depth > DEPTH_MAX)
		return false;
	walk->left--;
	const unsigned word = walk->word;
	uint64_t base, head = 0;
	unsigned char counts[8];
	switch (typeinfo_type(walk, typeinfo)) {
	case CLASS_PLAIN:
		return true;
	case CLASS_SINGLE:
		return walk_read(walk, typeinfo + 2 * (uint64_t)word, &base) &&
		       class_is_plain(walk, base, depth + 1);
	case CLASS_MULTIPLE:
		break;
	case CLASS_UNKNOWN:
		return false;
	}
	// Two unsigned ints: flags, and the number of bases. For each a pointer to its typeinfo and
	// a long: bit 0 means virtual.
	if (!walk_read(walk, typeinfo + 2 * (uint64_t)word, &head) ||
		image_read(walk->image, typeinfo + 2 * (uint64_t)word, counts, sizeof counts) !=
			sizeof counts)
		return false;
	const uint32_t count = load_u32(counts + 4, image_info(walk->image)->elf_order);
	for (uint32_t i = 0; i < count; i++) {
		const uint64_t at = typeinfo + 2 * (uint64_t)word + 8 + (uint64_t)i * 2 * word;
		uint64_t flags;
		if (!walk_read(walk, at, &base) || !walk_read(walk, at + word, &flags) ||
			(flags & 1) != 0 || !class_is_plain(walk, base, depth + 1))
			return false;
	}
	return true;
}

bool rtti_find(const struct image *image, const struct modules *modules, uint64_t address,
	struct rtti *ret)
{
	const unsigned word = image_info(image)->elf_class / 8;
	struct walk walk = {image, modules, word, CLASSES_MAX};
	uint64_t typeinfo, top, vtable;
	if (word == 0 || address % word != 0 || !walk_read(&walk, address - word, &typeinfo) ||
		!walk_read(&walk, address - 2 * (uint64_t)word, &top) || typeinfo % word != 0 ||
		!walk_read(&walk, typeinfo, &vtable) || modules_find(modules, vtable) == NULL)
		return false;
	const uint64_t base = word == 8 ? 0 - top : (uint32_t)(0 - top);
	if (base >= BASE_MAX || (word == 4 && base > INT32_MAX) || base % word != 0)
		return false;
	char *name = name_read(&walk, typeinfo);
	if (name == NULL || !name_is_type(name)) {
		free(name);
		return false;
	}
	*ret = (struct rtti){
		.type = name,
		.base = base,
		.primary = base == 0 && class_is_plain(&walk, typeinfo, 0),
	};
	return true;
}

// Whether a vtable's pointer to its typeinfo can have this value.
static bool value_is_typeinfo(const struct walk *walk, uint64_t value)
{
	if (value == 0 || value % walk->word != 0)
		return false;
	const struct module_range *range = modules_find(walk->modules, value);
	return range != NULL && modules_range_has_data(walk->modules, range);
}

static bool range_each(const struct walk *walk, const struct module_range *range,
	bool (*visit)(void *context, uint64_t address), void *context)
{
	const enum byte_order order = image_info(walk->image)->elf_order;
	const uint64_t page = 4096;
	unsigned char buffer[16 * 4096];
	uint64_t at = range->start;
	// A range may be as large as a hostile dump likes.
	while ((at = image_next(walk->image, at)) < range->end) {
		at -= at % walk->word;
		const size_t wanted = min_u64(sizeof buffer, range->end - at);
		const size_t size = image_read(walk->image, at, buffer, wanted) / walk->word;
		for (size_t i = 0; i < size; i++) {
			const size_t offset = i * walk->word;
			const uint64_t vtable = at + offset + walk->word;
			struct rtti rtti;
			if (!value_is_typeinfo(
				    walk, word_load(buffer + offset, walk->word, order)) ||
				!rtti_find(walk->image, walk->modules, vtable, &rtti))
				continue;
			free(rtti.type);
			if (!visit(context, vtable))
				return false;
		}
		// What is missing is missing in whole pages.
		if (size == 0 && at >= range->end - range->end % page)
			break;
		at = size > 0 ? at + size * walk->word : at - at % page + page;
	}
	return true;
}

bool rtti_each(const struct image *image, const struct modules *modules,
	bool (*visit)(void *context, uint64_t address), void *context)
{
	const struct walk walk = {image, modules, image_info(image)->elf_class / 8, 0};
	for (size_t i = 0; walk.word != 0 && i < modules->range_count; i++) {
		const struct module_range *range = &modules->ranges[i];
		if (modules_range_has_data(modules, range) && modules->list[range->module].loaded &&
			!range_each(&walk, range, visit, context))
			return false;
	}
	return true;
}
