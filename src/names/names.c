// SPDX-License-Identifier: MIT
#include "names/names.h"

#include <elf.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/guard.h"
#include "image/binary.h"
#include "image/places.h"
#include "names/debuginfod.h"
#include "names/demangle.h"
#include "names/lines.h"
#include "names/pointers.h"
#include "names/rtti.h"
#include "names/symbols.h"

// The description that grows.
struct text {
	char *bytes; // owned; ends with a NUL
	size_t length, capacity;
	bool lost; // for lack of memory something was left out
};

struct names {
	struct image *image;
	struct names_options options;
	struct modules *modules;
	struct places places;
	struct kinds kinds;
	struct pointers *pointers; // NULL: not wanted yet
	struct symbols **symbols;  // of each module; NULL: not loaded yet
	struct debuginfod *debuginfod;
	struct text text;
	// Where a live process has its files, in its own mount namespace.
	char live_exe[32], live_root[32];
};

static bool text_reserve(struct text *text, size_t more)
{
	if (text->capacity - text->length > more)
		return true;
	const size_t wanted = 2 * (text->length + more) + 64;
	char *grown = realloc(text->bytes, wanted);
	if (grown == NULL) {
		text->lost = true;
		return false;
	}
	text->bytes = grown;
	text->capacity = wanted;
	return true;
}

static void text_add(struct text *text, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

// Append what is short and safe.
static void text_add(struct text *text, const char *format, ...)
{
	char piece[256];
	va_list args;
	va_start(args, format);
	const int length = vsnprintf(piece, sizeof piece, format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof piece || !text_reserve(text, (size_t)length))
		return;
	memcpy(text->bytes + text->length, piece, (size_t)length + 1);
	text->length += (size_t)length;
}

// Append what comes from a file or a dump.
static void text_add_escaped(
	struct text *text, const char *source, size_t length, enum escape_style style)
{
	const size_t room = 4 * length + 1;
	if (text_reserve(text, room))
		text->length += escape(text->bytes + text->length, room, source, length, style);
}

static void text_add_plain(struct text *text, const char *source)
{
	text_add_escaped(text, source, strlen(source), ESCAPE_TERMINAL);
}

// The kernel knows a process's files better than their paths do: they may be deleted, or be those
// of a container.
static void names_use_live(struct names *names)
{
	const struct image_info *info = image_info(names->image);
	if (!info->live)
		return;
	snprintf(names->live_exe, sizeof names->live_exe, "/proc/%" PRId64 "/exe",
		info->process.pid);
	snprintf(names->live_root, sizeof names->live_root, "/proc/%" PRId64 "/root",
		info->process.pid);
	if (names->options.exe == NULL && binary_is_program(names->live_exe))
		names->options.exe = names->live_exe;
	if (names->options.sysroot == NULL)
		names->options.sysroot = names->live_root;
}

bool names_create(struct image *image, const struct names_options *options, struct diag *diag,
	struct error *err, struct names **ret)
{
	const struct image_info *info = image_info(image);
	struct names *names = calloc(1, sizeof *names);
	if (names == NULL)
		return error_memory(err);
	names->image = image;
	names->options = *options;
	names_use_live(names);
	const struct module_options module_options = {
		.exe = names->options.exe,
		.sysroot = names->options.sysroot,
		.debug_dir = options->debug_dir,
		.search = !options->kinds_only,
		.known = options->known,
		.known_count = options->known_count,
	};
	if (!text_reserve(&names->text, 1)) {
		names_destroy(names);
		return error_memory(err);
	}
	if (!modules_create(image, &module_options, diag, err, &names->modules)) {
		names_destroy(names);
		return false;
	}
	names->symbols = calloc(names->modules->count + 1, sizeof *names->symbols);
	if (names->symbols == NULL || !places_init(image, names->modules, err, &names->places)) {
		names_destroy(names);
		return error_memory(err);
	}
	if (options->debuginfod)
		names->debuginfod = debuginfod_create(diag);
	names->kinds = (struct kinds){
		.word_size = info->word_size,
		.order = info->order,
		// Linux on arm64 has the processor ignore the upper byte of an address.
		.address_mask = info->machine == EM_AARCH64 ? UINT64_MAX >> 8 : UINT64_MAX,
		.spans = names->places.spans,
		.span_count = names->places.count,
	};
	*ret = names;
	return true;
}

void names_destroy(struct names *names)
{
	if (names == NULL)
		return;
	if (names->symbols != NULL)
		for (size_t i = 0; i < names->modules->count; i++)
			symbols_destroy(names->symbols[i]);
	free(names->symbols);
	debuginfod_destroy(names->debuginfod);
	pointers_destroy(names->pointers);
	places_deinit(&names->places);
	modules_destroy(names->modules, names->image);
	free(names->text.bytes);
	free(names);
}

const struct modules *names_modules(const struct names *names)
{
	return names->modules;
}

const struct places *names_places(const struct names *names)
{
	return &names->places;
}

bool names_has_addresses(const struct names *names)
{
	const struct image_info *info = image_info(names->image);
	return info->format == IMAGE_ELF_CORE && !info->overridden;
}

void names_measure(const struct names *names, uint64_t ret[static KIND_COUNT])
{
	places_measure(&names->places, names->image, ret);
}

static char *fetch_debug_file(void *context, const struct build_id *id)
{
	return debuginfod_find(context, id, DEBUGINFOD_SYMBOLS);
}

// A hostile dump can name one file as thousands of modules, each of which would have symbols of its
// own. NULL if no other module with the file has any.
static struct symbols *names_same_symbols(const struct names *names, const struct module *module)
{
	for (size_t i = 0; module->file != NULL && i < names->modules->count; i++) {
		const struct local_file *file = names->modules->list[i].file;
		if (names->symbols[i] != NULL && file != NULL &&
			file->device == module->file->device && file->inode == module->file->inode)
			return names->symbols[i];
	}
	return NULL;
}

// The symbols of a module, loaded when the first of its addresses is looked up. NULL if there is no
// memory.
static struct symbols *names_symbols(struct names *names, uint32_t index)
{
	const struct symbols_options options = {
		.debug_dir = names->options.debug_dir,
		.sysroot = names->options.sysroot,
		.fetch = names->debuginfod != NULL ? fetch_debug_file : NULL,
		.context = names->debuginfod,
	};
	struct module *module = &names->modules->list[index];
	if (names->symbols[index] != NULL)
		return names->symbols[index];
	if (names->debuginfod != NULL && module->file == NULL && module->state != MODULE_MEMORY) {
		char *path AUTO_FREE =
			debuginfod_find(names->debuginfod, &module->build_id, DEBUGINFOD_PROGRAM);
		if (path != NULL)
			modules_add_file(names->modules, names->image, module, path);
	}
	struct symbols *same = names_same_symbols(names, module);
	names->symbols[index] =
		same != NULL ? symbols_share(same) : symbols_create(names->image, module, &options);
	return names->symbols[index];
}

// ---- which words are addresses

struct pointers_visit {
	const struct names *names;
	uint32_t module;
	struct pointers *pointers;
};

static bool visit_symbol(void *context, uint64_t address, uint64_t size, bool object)
{
	const struct pointers_visit *visit = context;
	const struct modules *modules = visit->names->modules;
	const uint64_t at = modules->list[visit->module].bias + address;
	const struct module_range *range = modules_find(modules, at);
	const bool code = range != NULL && (range->flags & PF_X) != 0 && !object;
	return pointers_add(visit->pointers, visit->module, at, size, code);
}

const struct pointers *names_pointers(struct names *names)
{
	struct error ignored = {0};
	struct pointers *pointers;
	// Plain bytes, or words of another size.
	if (names->pointers != NULL || names->modules->range_count == 0)
		return names->pointers;
	if (!pointers_create(names->image, names->modules, &ignored, &pointers))
		return NULL;
	bool done = true;
	for (uint32_t i = 0; done && i < names->modules->count; i++) {
		const struct module *module = &names->modules->list[i];
		// Where numbers are below all addresses, what has no table for unwinding is taken
		// as it is.
		// A server is asked only for what owns a row.
		if (!module->loaded || module->start >= POINTERS_LOW || names->options.kinds_only ||
			(names->debuginfod != NULL && names->symbols[i] == NULL))
			continue;
		const struct symbols *symbols = names_symbols(names, i);
		struct pointers_visit visit = {names, i, pointers};
		done = symbols == NULL || symbols_each(symbols, visit_symbol, &visit);
	}
	if (!done || !pointers_settle(pointers, &names->places, &ignored)) {
		pointers_destroy(pointers);
		return NULL;
	}
	names->pointers = pointers;
	return pointers;
}

// Let kinds be told with them where they may be mistaken for others.
static void names_use_pointers(struct names *names)
{
	const struct modules *modules = names->modules;
	if (modules->range_count == 0 || modules->ranges[0].start >= POINTERS_LOW ||
		names->kinds.occurs != NULL)
		return;
	names->kinds.pointers = names_pointers(names);
	if (names->kinds.pointers != NULL)
		names->kinds.occurs = pointers_occur;
}

bool names_filter(struct names *names, kind_set wanted, enum cpu_level level, struct error *err,
	struct kind_filter **ret)
{
	names_use_pointers(names);
	return kind_filter_create(&names->kinds, wanted, level, err, ret);
}

uint64_t names_symbols_memory(const struct names *names)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < names->modules->count; i++)
		if (names->symbols[i] != NULL)
			bytes += symbols_memory(names->symbols[i], &names->modules->list[i]);
	return bytes;
}

// A symbol's name without its version ("@@GLIBC_2.2.5"), demangled if it can be and is wanted. The
// caller must free it.
static char *symbol_display(const struct names *names, const char *symbol)
{
	const char *version = strchr(symbol + 1, '@');
	char *plain =
		version != NULL ? strndup(symbol, (size_t)(version - symbol)) : strdup(symbol);
	bool too_long;
	char *readable =
		plain != NULL && !names->options.mangled ? demangle(plain, &too_long) : NULL;
	if (readable == NULL)
		return plain;
	free(plain);
	return readable;
}

bool names_has_symbols(struct names *names)
{
	const struct module *program = names->modules->main;
	if (program == NULL || !program->stripped || names->options.kinds_only)
		return program != NULL && program->file != NULL;
	const uint32_t index = (uint32_t)(program - names->modules->list);
	// A server is asked only for a program that owns a row.
	const struct symbols *symbols =
		names->debuginfod != NULL ? names->symbols[index] : names_symbols(names, index);
	return symbols != NULL && symbols_complete(symbols);
}

size_t names_program_match(struct names *names, const char *const *list, size_t count)
{
	const struct module *program = names->modules->main;
	if (program == NULL || names->options.kinds_only || names->debuginfod != NULL)
		return count;
	const struct symbols *symbols =
		names_symbols(names, (uint32_t)(program - names->modules->list));
	return symbols != NULL ? symbols_match(symbols, list, count) : count;
}

static void names_add_module(struct names *names, const struct module *module)
{
	text_add(&names->text, " (");
	text_add_plain(&names->text, module->name);
	text_add(&names->text, ")");
}

static void names_add_symbol(
	struct names *names, const struct module *module, const struct symbol *symbol)
{
	char *name AUTO_FREE = symbol_display(names, symbol->name);
	if (name != NULL)
		text_add_plain(&names->text, name);
	else
		names->text.lost = true;
	if (symbol->linkage)
		text_add(&names->text, "@plt");
	if (symbol->offset != 0)
		text_add(&names->text, "+%" PRIu64, symbol->offset);
	names_add_module(names, module);
}

// Add the name of the class whose vtable pointer address is; with_vtable: in front of it what a
// symbol has there. ret->type is NULL afterwards.
static bool names_add_rtti(
	struct names *names, uint64_t address, bool with_vtable, struct rtti *ret)
{
	if (!rtti_find(names->image, names->modules, address, ret))
		return false;
	char *mangled AUTO_FREE = ret->type;
	ret->type = NULL;
	bool too_long = false;
	char *readable AUTO_FREE = demangle_type(mangled, &too_long);
	// What the demangler does not take is no type.
	if (readable == NULL && !too_long && DEMANGLE_AVAILABLE)
		return false;
	const char *name = names->options.mangled ? NULL : readable;
	if (with_vtable)
		text_add(&names->text, name != NULL ? "vtable for " : "_ZTV");
	text_add_plain(&names->text, name != NULL ? name : mangled);
	return true;
}

// A class of a stripped program.
static bool names_add_class(struct names *names, const struct module *module, uint64_t address)
{
	struct rtti rtti;
	if (!names_add_rtti(names, address, true, &rtti))
		return false;
	if (rtti.primary)
		text_add(&names->text, "+%u", 2 * image_info(names->image)->elf_class / 8);
	else
		text_add(&names->text, " (base at +%" PRIu64 ")", rtti.base);
	names_add_module(names, module);
	return true;
}

static bool names_find_symbol(struct names *names, uint64_t address, struct symbol *ret)
{
	const struct module_range *range = modules_find(names->modules, address);
	if (range == NULL || names->options.kinds_only)
		return false;
	uint64_t inside;
	const struct module *module = modules_locate(
		names->modules, &names->modules->list[range->module], address, &inside);
	const struct symbols *symbols =
		names_symbols(names, (uint32_t)(module - names->modules->list));
	return symbols != NULL && symbols_find(symbols, inside, ret);
}

// A vtable of Rust has no symbol of its own: a destructor, the size and the alignment of the type,
// then the methods (rustc, compiler/rustc_middle/src/ty/vtable.rs).
static bool names_add_rust(struct names *names, uint64_t address)
{
	static const char prefix[] = "core::ptr::drop_in_place<";
	const unsigned word = image_info(names->image)->elf_class / 8;
	uint64_t drop, size, align;
	struct symbol symbol;
	if (!image_read_word(names->image, address, &drop) ||
		!image_read_word(names->image, address + word, &size) ||
		!image_read_word(names->image, address + 2 * (uint64_t)word, &align) ||
		align == 0 || (align & (align - 1)) != 0 || size % align != 0 ||
		!names_find_symbol(names, drop, &symbol) || symbol.offset != 0)
		return false;
	bool too_long;
	char *name AUTO_FREE = demangle(symbol.name, &too_long);
	if (name == NULL || strncmp(name, prefix, sizeof prefix - 1) != 0)
		return false;
	text_add(&names->text, "vtable with ");
	text_add_plain(
		&names->text, names->options.mangled ? symbol.name : name + strlen("core::ptr::"));
	return true;
}

static void names_add_line(struct names *names, uint32_t index, uint64_t address)
{
	const char *file;
	int line;
	struct symbols *symbols = names_symbols(names, index);
	if (symbols == NULL || !symbols_line(symbols, address, &file, &line))
		return;
	text_add(&names->text, " at ");
	text_add_plain(&names->text, file);
	text_add(&names->text, ":%d", line);
}

// An address in a mapped file.
static void names_add_address(struct names *names, uint32_t index, uint64_t address)
{
	uint64_t inside;
	const struct module *module =
		modules_locate(names->modules, &names->modules->list[index], address, &inside);
	const struct module_range *range = modules_find(names->modules, address);
	const bool code = range != NULL && (range->flags & PF_X) != 0;
	const bool data = range != NULL && modules_range_has_data(names->modules, range);
	struct symbol symbol;
	const bool found = names_find_symbol(names, address, &symbol);
	if (found && symbol.sized)
		names_add_symbol(names, module, &symbol);
	else if (data && module->loaded && !names->options.kinds_only &&
		 names_add_class(names, module, address))
		return;
	else if (data && module->loaded && !names->options.kinds_only &&
		 names_add_rust(names, address)) {
		names_add_module(names, module);
		return;
	} else if (found)
		names_add_symbol(names, module, &symbol);
	else {
		text_add_plain(&names->text, module->name);
		text_add(&names->text, "+0x%" PRIx64, inside);
	}
	if (code)
		names_add_line(names, (uint32_t)(module - names->modules->list), inside);
}

// An address in memory.
static void names_add_place(struct names *names, uint64_t address)
{
	size_t index;
	if (!places_find(&names->places, address, &index))
		return;
	const struct place *place = &names->places.list[index];
	switch (place->type) {
	case PLACE_MODULE:
		names_add_address(names, place->module, address);
		return;
	case PLACE_BREAK:
		text_add(&names->text, "heap");
		break;
	case PLACE_ARENA:
		text_add(&names->text, "malloc arena at 0x%" PRIx64, place->base);
		break;
	case PLACE_BLOCKS:
		text_add(&names->text, "malloc blocks at 0x%" PRIx64, place->base);
		break;
	case PLACE_STACK:
		text_add(&names->text, "stack of thread %" PRId64, place->thread);
		break;
	case PLACE_ANON:
		text_add(&names->text, "anonymous memory at 0x%" PRIx64, place->base);
		break;
	}
	text_add(&names->text, "+0x%" PRIx64, address - place->base);
}

// glibc, malloc/malloc.c: the word before an object is its chunk's size, a multiple of two words
// and at least four, with PREV_INUSE in bit 0, and NON_MAIN_ARENA in bit 2 if a thread's arena has
// it.
uint64_t names_malloc_size(uint64_t value, unsigned word_size)
{
	const uint64_t size = value & ~(uint64_t)7;
	const bool possible = (value & 3) == 1 && size >= 4 * (uint64_t)word_size &&
			      size % (2 * (uint64_t)word_size) == 0 && size < (uint64_t)128 * 1024;
	return possible ? size : 0;
}

// The last characters of a text are often a word of their own, with NULs behind them. Fewer than
// three tell nothing.
static void names_add_short_text(struct names *names, uint64_t value)
{
	char bytes[8];
	size_t length = 0;
	word_store((unsigned char *)bytes, value, names->kinds.word_size, names->kinds.order);
	while (length < names->kinds.word_size && bytes[length] >= ' ' && bytes[length] < 0x7f)
		length++;
	for (size_t i = length; i < names->kinds.word_size; i++)
		if (bytes[i] != '\0')
			return;
	if (length < 3 || names->kinds.spans == NULL)
		return;
	text_add(&names->text, ", or \"");
	text_add_escaped(&names->text, bytes, length, ESCAPE_QUOTED);
	text_add(&names->text, "\"");
}

static void names_add_number(struct names *names, uint64_t value)
{
	// Negative numbers of the word's own width.
	const unsigned word = names->kinds.word_size;
	text_add(&names->text, "%" PRId64,
		word == 8 ? (int64_t)value : (int64_t)(int32_t)(uint32_t)value);
	const uint64_t size = names_malloc_size(value, word);
	if (size != 0)
		text_add(&names->text, ", or malloc size %" PRIu64, size);
	names_add_short_text(names, value);
}

static void names_add_text(struct names *names, uint64_t value)
{
	unsigned char bytes[8];
	const size_t length = kinds_text(&names->kinds, value, bytes);
	text_add(&names->text, "\"");
	text_add_escaped(&names->text, (const char *)bytes, length, ESCAPE_QUOTED);
	text_add(&names->text, "\"");
}

// The units of UTF-16 that a word of 8 bytes is, if all are printable ASCII.
static bool wide_text(const unsigned char bytes[static 8], bool big, char ret[static 4])
{
	for (size_t i = 0; i < 4; i++) {
		const unsigned char byte = bytes[2 * i + big];
		if (bytes[2 * i + !big] != 0 || byte < 0x20 || byte >= 0x7f)
			return false;
		ret[i] = (char)byte;
	}
	return true;
}

// What is no text may be a part of one: in UTF-16, or with a byte before, behind or inside it that
// is shown as a dot. Of shorter words too many would be.
static void names_add_other(struct names *names, uint64_t value)
{
	unsigned char bytes[8];
	char text[8];
	size_t others = 0;
	if (names->kinds.word_size != 8)
		return;
	word_store(bytes, value, 8, names->kinds.order);
	for (size_t i = 0; i < 8; i++) {
		const bool printable = bytes[i] >= 0x20 && bytes[i] < 0x7f;
		others += !printable;
		text[i] = printable ? (char)bytes[i] : '.';
	}
	char units[4];
	const bool wide = wide_text(bytes, false, units) || wide_text(bytes, true, units);
	if (!wide && others != 1)
		return;
	text_add(&names->text, wide ? "u\"" : "\"");
	text_add_escaped(&names->text, wide ? units : text, wide ? 4 : 8, ESCAPE_QUOTED);
	text_add(&names->text, "\"");
}

struct name names_describe(struct names *names, uint64_t value)
{
	if (value < POINTERS_LOW && value > 0)
		names_use_pointers(names);
	const enum kind kind = kinds_of(&names->kinds, value);
	if (kind == KIND_OTHER)
		names_pointers(names);
	names->text.length = 0;
	names->text.bytes[0] = '\0';
	switch (kind) {
	case KIND_ZERO:
		text_add(&names->text, "zero");
		break;
	case KIND_NUMBER:
		names_add_number(names, value);
		break;
	case KIND_TEXT:
		names_add_text(names, value);
		break;
	case KIND_CODE:
	case KIND_DATA:
	case KIND_HEAP:
	case KIND_STACK:
	case KIND_ANON:
		names_add_place(names, value & names->kinds.address_mask);
		break;
	case KIND_OTHER:
		if (names->pointers != NULL && pointers_unloaded(names->pointers, value))
			text_add(&names->text, "not mapped (a library that was unloaded?)");
		else
			names_add_other(names, value);
		break;
	case KIND_COUNT:
		break;
	}
	return (struct name){kind, names->text.bytes};
}

struct name names_describe_address(struct names *names, uint64_t address)
{
	size_t index;
	names->text.length = 0;
	names->text.bytes[0] = '\0';
	if (!places_find(&names->places, address, &index))
		return (struct name){KIND_OTHER, names->text.bytes};
	names_add_place(names, address);
	return (struct name){names->places.spans[index].kind, names->text.bytes};
}

// Where a vtable pointer lies in an object: minus the offset to top, two words before the
// functions.
static uint64_t vtable_base(const struct names *names, uint64_t address)
{
	const unsigned word = image_info(names->image)->elf_class / 8;
	uint64_t top;
	if (!image_read_word(names->image, address - 2 * (uint64_t)word, &top))
		return 0;
	return word == 8 ? 0 - top : (uint32_t)(0 - top);
}

// The class whose vtable symbol this is, if it is one.
static bool identify_vtable(
	struct names *names, uint64_t address, const struct symbol *symbol, struct identity *ret)
{
	static const char vtable[] = "vtable for ", construction[] = "construction vtable for ";
	const bool whole = strncmp(symbol->name, "_ZTV", 4) == 0;
	if (!whole && strncmp(symbol->name, "_ZTC", 4) != 0)
		return false;
	char *name AUTO_FREE = symbol_display(names, symbol->name);
	if (name == NULL)
		return false;
	const char *skipped = strncmp(name, vtable, sizeof vtable - 1) == 0
				      ? name + sizeof vtable - 1
			      : strncmp(name, construction, sizeof construction - 1) == 0
				      ? name + sizeof construction - 1
			      : strncmp(name, "_ZTV", 4) == 0 ? name + 4
							      : name;
	text_add_plain(&names->text, skipped);
	ret->type = whole ? IDENTITY_CLASS : IDENTITY_CONSTRUCTION;
	ret->offset = vtable_base(names, address);
	return true;
}

static bool identify_class(struct names *names, uint64_t address, struct identity *ret)
{
	struct rtti rtti;
	if (!names_add_rtti(names, address, false, &rtti))
		return false;
	ret->type = IDENTITY_CLASS;
	ret->offset = rtti.base;
	return true;
}

struct identity names_identify(struct names *names, uint64_t address)
{
	struct identity ret = {.type = IDENTITY_NONE};
	names->text.length = 0;
	names->text.bytes[0] = '\0';
	const struct module_range *range = modules_find(names->modules, address);
	if (range == NULL)
		return ret;
	ret.module = &names->modules->list[range->module];
	const bool code = (range->flags & PF_X) != 0;
	const bool data = modules_range_has_data(names->modules, range);
	struct symbol symbol;
	const bool found = names_find_symbol(names, address, &symbol) && symbol.sized;
	if (found && data && identify_vtable(names, address, &symbol, &ret)) {
		// Done.
	} else if (!found && data && ret.module->loaded && identify_class(names, address, &ret)) {
		// Done.
	} else if (!found && data && ret.module->loaded && names_add_rust(names, address)) {
		ret.type = IDENTITY_OBJECT;
	} else if (found) {
		char *name AUTO_FREE = symbol_display(names, symbol.name);
		if (name != NULL)
			text_add_plain(&names->text, name);
		ret.type = code && !symbol.object ? IDENTITY_FUNCTION : IDENTITY_OBJECT;
		ret.offset = symbol.offset;
		const unsigned word = image_info(names->image)->elf_class / 8;
		const bool thumb = image_info(names->image)->machine == EM_ARM && ret.offset == 1;
		ret.inside = ret.type == IDENTITY_FUNCTION ? ret.offset != 0 && !thumb
							   : ret.offset != 0 && address % word != 0;
	}
	ret.name = names->text.bytes;
	return ret;
}

// Append a text with its NUL; returns where it begins.
static size_t text_keep(struct text *text, const char *source)
{
	const size_t at = text->length;
	text_add_plain(text, source);
	if (!text_reserve(text, 1))
		return 0;
	text->bytes[text->length++] = '\0';
	return at;
}

size_t names_frames(struct names *names, uint64_t address,
	struct name_frame ret[static NAME_FRAMES_MAX], const struct module **ret_module,
	uint64_t *ret_inside)
{
	struct line_frame lines[NAME_FRAMES_MAX];
	size_t functions[NAME_FRAMES_MAX], files[NAME_FRAMES_MAX];
	const struct module_range *range = modules_find(names->modules, address);
	*ret_module = NULL;
	*ret_inside = address;
	if (range == NULL)
		return 0;
	const struct module *module = modules_locate(
		names->modules, &names->modules->list[range->module], address, ret_inside);
	*ret_module = module;
	struct symbols *symbols =
		names->options.kinds_only
			? NULL
			: names_symbols(names, (uint32_t)(module - names->modules->list));
	size_t count =
		symbols != NULL ? symbols_frames(symbols, *ret_inside, lines, NAME_FRAMES_MAX) : 0;
	if (count == 0) {
		count = 1;
		lines[0] = (struct line_frame){0};
		if (symbols != NULL &&
			!symbols_line(symbols, *ret_inside, &lines[0].file, &lines[0].line))
			lines[0] = (struct line_frame){0};
	}
	// The function that has the code is named as a word is that points there.
	struct symbol symbol;
	if (symbols != NULL && symbols_find(symbols, *ret_inside, &symbol) &&
		(symbol.sized || lines[count - 1].function == NULL))
		lines[count - 1].function = symbol.name;
	names->text.length = 0;
	for (size_t i = 0; i < count; i++) {
		char *name AUTO_FREE = lines[i].function != NULL && lines[i].function[0] != '\0'
					       ? symbol_display(names, lines[i].function)
					       : NULL;
		functions[i] = text_keep(&names->text, name != NULL ? name : "");
		files[i] = text_keep(&names->text, lines[i].file != NULL ? lines[i].file : "");
	}
	for (size_t i = 0; i < count; i++)
		ret[i] = (struct name_frame){names->text.bytes + functions[i],
			names->text.bytes + files[i], lines[i].line, i + 1 < count};
	return count;
}

bool names_lost(const struct names *names)
{
	return names->text.lost;
}

size_t names_spans(const struct names *names, const struct span **ret)
{
	*ret = names->places.spans;
	return names->places.count;
}

const char *names_span(struct names *names, size_t index)
{
	const struct place *place = &names->places.list[index];
	names->text.length = 0;
	names->text.bytes[0] = '\0';
	switch (place->type) {
	case PLACE_MODULE:
		text_add(&names->text, "%s of ", kind_name(names->places.spans[index].kind));
		text_add_plain(&names->text, names->modules->list[place->module].name);
		break;
	case PLACE_BREAK:
	case PLACE_ARENA:
	case PLACE_BLOCKS:
		text_add(&names->text, "heap");
		break;
	case PLACE_STACK:
		text_add(&names->text, "stack of thread %" PRId64, place->thread);
		break;
	case PLACE_ANON:
		text_add(&names->text, "anonymous memory");
		break;
	}
	return names->text.bytes;
}
