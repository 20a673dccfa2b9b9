// SPDX-License-Identifier: MIT
#include "names/symbols.h"

#include <stdlib.h>
#include <string.h>

#if HAVE_LIBDW

#include <elfutils/libdwfl.h>
#include <gelf.h>
#include <unistd.h>

#include "base/memory.h"
#include "names/debugfile.h"
#include "names/lines.h"

// The program's file and its separate debug file.
#define SOURCES_MAX 2
// The steps back from the last symbol before an address: past symbols without a size (gdb has no
// limit), and past those that end before it (gdb: one).
#define STEPS_MAX 4096
#define STEPS_PAST_MAX 4
// What is so far before a section has nothing to do with it.
#define LABEL_DISTANCE_MAX 4096
// The vdso has two or three pages.
#define VDSO_SIZE_MAX ((uint64_t)256 * 1024)

struct entry {
	uint64_t start, end; // end of a symbol without a size: that of its section
	uint32_t index;
	uint16_t rank; // of several at one address, the highest is chosen
	uint8_t source;
	bool sized : 1;
	bool linkage : 1; // in the procedure linkage table
	bool object : 1;  // data, says the symbol
};

struct section {
	uint64_t start, end;
};

// A file that has symbols.
struct source {
	struct local_file *file; // NULL: the dump's memory
	bool owned;		 // file belongs to the symbols, not to the module
	char *memory;		 // an ELF file read from the dump; owned
	size_t memory_size;
	Elf *elf;
	int fd;
	Dwfl *dwfl; // owns elf and fd once it has found them
	Dwfl_Module *module;
	struct lines *lines;
};

struct symbols {
	const struct module *module;
	struct source sources[SOURCES_MAX];
	unsigned source_count;
	struct entry *entries; // sorted by start, one for each address; owned
	size_t count, capacity;
	bool complete;
	uint64_t memory;
	size_t users; // beside the first one
};

static int find_elf(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
	char **file_name, Elf **ret)
{
	(void)module;
	(void)name;
	(void)base;
	struct source *source = *user;
	*file_name = strdup(source->file != NULL ? source->file->path : "");
	*ret = source->elf;
	const int fd = source->fd;
	source->fd = -1;
	return fd;
}

// Separate debug files are found by names/debugfile.h: libdwfl's own search opens whatever has the
// right name, even a FIFO, and asks debuginfod.
static int find_debuginfo(Dwfl_Module *module, void **user, const char *name, Dwarf_Addr base,
	const char *file, const char *link, GElf_Word sum, char **file_name)
{
	(void)module;
	(void)user;
	(void)name;
	(void)base;
	(void)file;
	(void)link;
	(void)sum;
	(void)file_name;
	return -1;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_debuginfo,
};

// Sections of one ELF file by their index, to bound symbols.
struct sections {
	Elf *elf;
	struct section *list; // owned
	size_t count;
};

static void sections_load(struct sections *sections, Elf *elf)
{
	if (sections->elf == elf)
		return;
	free(sections->list);
	*sections = (struct sections){.elf = elf};
	size_t count;
	if (elf_getshdrnum(elf, &count) != 0 || count == 0)
		return;
	sections->list = calloc(count, sizeof *sections->list);
	if (sections->list == NULL)
		return;
	sections->count = count;
	for (size_t i = 1; i < count; i++) {
		GElf_Shdr header;
		uint64_t end;
		if (gelf_getshdr(elf_getscn(elf, i), &header) == NULL ||
			(header.sh_flags & SHF_ALLOC) == 0 || (header.sh_flags & SHF_TLS) != 0 ||
			__builtin_add_overflow(header.sh_addr, header.sh_size, &end))
			continue;
		sections->list[i] = (struct section){header.sh_addr, end};
	}
}

// Without section headers: the PT_LOAD that holds the address.
static struct section section_from_segments(const struct module *module, uint64_t address)
{
	for (unsigned i = 0; i < module->elf.segment_count; i++) {
		const struct elf_segment *segment = &module->elf.segments[i];
		if (segment->type == PT_LOAD && address - segment->address < segment->memory_size)
			return (struct section){
				segment->address, segment->address + segment->memory_size};
	}
	return (struct section){0, 0};
}

// Names that assemblers and compilers make for themselves: ARM's mapping symbols, local labels.
static bool name_is_internal(const char *name)
{
	if (name[0] == '$' && name[1] != '\0' && strchr("adtxb", name[1]) != NULL)
		return name[2] == '\0' || name[2] == '.';
	return name[0] == '\0' || strncmp(name, ".L", 2) == 0 || strncmp(name, ".annobin", 8) == 0;
}

// A size before none, a type before none, others before local ones, few underscores at the
// beginning (calloc, not __libc_calloc), global before weak.
static uint16_t symbol_rank(const GElf_Sym *symbol, const char *name)
{
	const unsigned type = GELF_ST_TYPE(symbol->st_info);
	const unsigned bind = GELF_ST_BIND(symbol->st_info);
	const unsigned underscores = (unsigned)strspn(name, "_");
	unsigned rank = symbol->st_size > 0;
	rank = rank << 1 | (type != STT_NOTYPE);
	rank = rank << 1 | (bind != STB_LOCAL);
	rank = rank << 4 | (underscores > 15 ? 0 : 15 - underscores);
	rank = rank << 1 | (bind == STB_GLOBAL);
	return (uint16_t)rank;
}

static bool symbol_counts(const GElf_Sym *symbol, GElf_Word section, const char *name)
{
	const unsigned type = GELF_ST_TYPE(symbol->st_info);
	// libdwfl's -1 stands for sections that are not in memory.
	if (name == NULL || section == SHN_ABS || section == (GElf_Word)-1)
		return false;
	if (section == SHN_UNDEF && (type != STT_FUNC || symbol->st_value == 0))
		return false;
	return (type == STT_NOTYPE || type == STT_OBJECT || type == STT_FUNC ||
		       type == STT_COMMON || type == STT_GNU_IFUNC) &&
	       !name_is_internal(name);
}

static bool entry_add(struct symbols *symbols, struct entry entry)
{
	if (symbols->count == symbols->capacity) {
		const size_t wanted = 2 * symbols->capacity + 1024;
		struct entry *grown = reallocarray(symbols->entries, wanted, sizeof *grown);
		if (grown == NULL)
			return false;
		symbols->entries = grown;
		symbols->capacity = wanted;
	}
	symbols->entries[symbols->count++] = entry;
	return true;
}

// Bit 0 of the address of a Thumb function is not part of it.
static uint64_t symbol_address(const struct symbols *symbols, const GElf_Sym *symbol)
{
	if (symbols->module->elf.machine == EM_ARM && GELF_ST_TYPE(symbol->st_info) == STT_FUNC)
		return symbol->st_value & ~(uint64_t)1;
	return symbol->st_value;
}

// What the symbol covers. False if it lies outside its section.
static bool entry_make(const struct symbols *symbols, struct sections *sections,
	const GElf_Sym *symbol, GElf_Word shndx, const char *name, struct entry *ret)
{
	const uint64_t start = symbol_address(symbols, symbol);
	ret->start = start;
	ret->object = GELF_ST_TYPE(symbol->st_info) == STT_OBJECT;
	// The address of a library's function, in an executable that is not position independent:
	// that of its entry in the procedure linkage table.
	if (shndx == SHN_UNDEF) {
		ret->end = start + 1;
		ret->sized = ret->linkage = true;
		return true;
	}
	struct section section = {0, 0};
	if (sections->count == 0)
		section = section_from_segments(symbols->module, start);
	else if (shndx < sections->count)
		section = sections->list[shndx];
	ret->sized = symbol->st_size > 0;
	ret->end = ret->sized ? min_u64(section.end, add_saturated(start, symbol->st_size))
			      : section.end;
	ret->rank = symbol_rank(symbol, name);
	// A label can mark what is right before its section, such as the ELF header.
	const uint64_t before = ret->sized ? 0 : min_u64(section.start, LABEL_DISTANCE_MAX);
	return start >= section.start - before && start < section.end;
}

static void source_load_symbols(struct symbols *symbols, unsigned index)
{
	struct source *source = &symbols->sources[index];
	const int count = dwfl_module_getsymtab(source->module);
	struct sections sections = {0};
	for (int i = 1; i < count; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		GElf_Word shndx;
		Elf *elf;
		const char *name = dwfl_module_getsym_info(
			source->module, i, &symbol, &address, &shndx, &elf, NULL);
		if (!symbol_counts(&symbol, shndx, name))
			continue;
		sections_load(&sections, elf);
		struct entry entry = {.index = (uint32_t)i, .source = (uint8_t)index};
		if (entry_make(symbols, &sections, &symbol, shndx, name, &entry) &&
			!entry_add(symbols, entry))
			break;
	}
	free(sections.list);
}

static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

// Sort, and keep the best symbol of each address.
static void entries_sort(struct symbols *symbols)
{
	if (symbols->count == 0)
		return;
	struct entry *entries = symbols->entries;
	qsort(entries, symbols->count, sizeof *entries, entry_compare);
	size_t kept = 1;
	for (size_t i = 1; i < symbols->count; i++)
		if (entries[i].start != entries[kept - 1].start)
			entries[kept++] = entries[i];
	symbols->count = kept;
}

static bool elf_has_section(Elf *elf, GElf_Word type, const char *name)
{
	size_t names;
	if (elf_getshdrstrndx(elf, &names) != 0)
		return false;
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section)) != NULL;) {
		GElf_Shdr header;
		if (gelf_getshdr(section, &header) == NULL)
			continue;
		const char *found = elf_strptr(elf, names, header.sh_name);
		if (header.sh_type == type &&
			(name == NULL || (found != NULL && strcmp(found, name) == 0)))
			return true;
	}
	return false;
}

// Give the source to libdwfl, which works with the file's own addresses here.
static bool source_begin(struct symbols *symbols, struct source *source)
{
	uint64_t start, end;
	const bool whole = elf_has_section(source->elf, SHT_SYMTAB, NULL);
	symbols->complete |= whole;
	// A few bytes of .gnu_debugdata can unpack to more than there is memory: only where nobody
	// but root and this user could have put them there.
	if (!whole && source->file != NULL && source->file->shared &&
		elf_has_section(source->elf, SHT_PROGBITS, ".gnu_debugdata"))
		return false;
	if (!elf_extent(&symbols->module->elf, &start, &end))
		return false;
	source->dwfl = dwfl_begin(&callbacks);
	if (source->dwfl == NULL)
		return false;
	dwfl_report_begin(source->dwfl);
	source->module = dwfl_report_module(
		source->dwfl, symbols->module->name, start & ~(uint64_t)0xfff, end);
	void **user;
	if (source->module != NULL) {
		dwfl_module_info(source->module, &user, NULL, NULL, NULL, NULL, NULL, NULL);
		*user = source;
	}
	GElf_Addr bias;
	if (dwfl_report_end(source->dwfl, NULL, NULL) != 0 || source->module == NULL)
		return false;
	// Where libdwfl does not like the file, it has released it.
	source->elf = dwfl_module_getelf(source->module, &bias);
	return source->elf != NULL;
}

static void source_end(struct source *source)
{
	lines_destroy(source->lines);
	if (source->dwfl != NULL)
		dwfl_end(source->dwfl);
	if (source->module == NULL)
		elf_end(source->elf);
	if (source->fd >= 0)
		close(source->fd);
	if (source->owned)
		local_file_destroy(source->file);
	free(source->memory);
}

static void symbols_add_source(struct symbols *symbols, struct source source)
{
	if (source.elf == NULL) {
		source_end(&source);
		return;
	}
	const unsigned index = symbols->source_count++;
	symbols->sources[index] = source;
	if (source_begin(symbols, &symbols->sources[index]))
		source_load_symbols(symbols, index);
}

// The vdso: an ELF file as it is in the dump's memory.
static void symbols_add_memory(struct symbols *symbols, const struct image *image)
{
	const struct module *module = symbols->module;
	const uint64_t size = module->end - module->start;
	struct source source = {.fd = -1};
	if (size > VDSO_SIZE_MAX)
		return;
	source.memory = malloc((size_t)size);
	if (source.memory == NULL)
		return;
	source.memory_size = image_read(image, module->start, source.memory, (size_t)size);
	elf_version(EV_CURRENT);
	if (source.memory_size > 0)
		source.elf = elf_memory(source.memory, source.memory_size);
	if (source.elf != NULL && elf_kind(source.elf) != ELF_K_ELF) {
		elf_end(source.elf);
		source.elf = NULL;
	}
	symbols_add_source(symbols, source);
}

static void symbols_load(
	struct symbols *symbols, const struct image *image, const struct symbols_options *options)
{
	const struct module *module = symbols->module;
	if (module->state == MODULE_MEMORY) {
		symbols_add_memory(symbols, image);
	} else {
		if (module->file != NULL) {
			struct source program = {.file = module->file, .fd = -1};
			program.elf = debugfile_open(module->file, &program.fd);
			symbols_add_source(symbols, program);
		}
		struct source debug = {.fd = -1, .owned = true};
		debug.file = debugfile_find(module,
			symbols->source_count > 0 ? symbols->sources[0].elf : NULL, options);
		if (debug.file != NULL) {
			debug.elf = debugfile_open(debug.file, &debug.fd);
			symbols_add_source(symbols, debug);
		}
	}
	entries_sort(symbols);
}

struct symbols *symbols_create(const struct image *image, const struct module *module,
	const struct symbols_options *options)
{
	struct symbols *symbols = calloc(1, sizeof *symbols);
	if (symbols == NULL)
		return NULL;
	symbols->module = module;
	if (module->loaded) {
		const uint64_t before = memory_used();
		symbols_load(symbols, image, options);
		symbols->memory = memory_since(before);
	}
	return symbols;
}

struct symbols *symbols_share(struct symbols *symbols)
{
	symbols->users++;
	return symbols;
}

void symbols_destroy(struct symbols *symbols)
{
	if (symbols == NULL || symbols->users-- > 0)
		return;
	for (unsigned i = 0; i < symbols->source_count; i++)
		source_end(&symbols->sources[i]);
	free(symbols->entries);
	free(symbols);
}

// gdb's rules (lookup_minimal_symbol_by_pc_section), so that both say the same.
static const struct entry *entry_find(const struct symbols *symbols, uint64_t address)
{
	size_t low = 0, high = symbols->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (symbols->entries[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	const struct entry *label = NULL;
	unsigned past = 0;
	for (unsigned step = 0; step < STEPS_MAX && step < low; step++) {
		const struct entry *entry = &symbols->entries[low - 1 - step];
		if (entry->sized && address < entry->end)
			return entry;
		if (!entry->sized && label == NULL && address < entry->end)
			label = entry;
		past += entry->sized;
		if (past > STEPS_PAST_MAX)
			break;
	}
	return label;
}

bool symbols_find(const struct symbols *symbols, uint64_t address, struct symbol *ret)
{
	const struct entry *entry = entry_find(symbols, address);
	if (entry == NULL)
		return false;
	GElf_Sym symbol;
	GElf_Addr ignored;
	ret->name = dwfl_module_getsym_info(symbols->sources[entry->source].module,
		(int)entry->index, &symbol, &ignored, NULL, NULL, NULL);
	ret->offset = address - entry->start;
	ret->sized = entry->sized;
	ret->linkage = entry->linkage;
	ret->object = entry->object;
	return ret->name != NULL;
}

bool symbols_each(const struct symbols *symbols, symbols_visit *visit, void *context)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const struct entry *entry = &symbols->entries[i];
		if (!visit(context, entry->start, entry->sized ? entry->end - entry->start : 0,
			    entry->object))
			return false;
	}
	return true;
}

size_t symbols_match(const struct symbols *symbols, const char *const *list, size_t count)
{
	for (size_t i = 0; i < symbols->count; i++) {
		const struct entry *entry = &symbols->entries[i];
		GElf_Sym symbol;
		GElf_Addr ignored;
		const char *found = dwfl_module_getsym_info(symbols->sources[entry->source].module,
			(int)entry->index, &symbol, &ignored, NULL, NULL, NULL);
		for (size_t k = 0; found != NULL && k < count; k++)
			if (strcmp(found, list[k]) == 0)
				return k;
	}
	return count;
}

// The line tables of a source, loaded when first needed; NULL: none.
static struct lines *source_lines(struct symbols *symbols, struct source *source)
{
	if (source->module == NULL)
		return NULL;
	if (source->lines == NULL) {
		const uint64_t before = memory_used();
		source->lines =
			lines_create(source->elf, source->file != NULL ? source->file->path : NULL);
		symbols->memory += memory_since(before);
	}
	return source->lines;
}

bool symbols_line(struct symbols *symbols, uint64_t address, const char **file, int *line)
{
	// The debug file has more than the program, if there is one.
	for (unsigned i = symbols->source_count; i-- > 0;) {
		struct lines *lines = source_lines(symbols, &symbols->sources[i]);
		if (lines != NULL && lines_find(lines, address, file, line))
			return true;
	}
	return false;
}

size_t symbols_frames(
	struct symbols *symbols, uint64_t address, struct line_frame *ret, size_t most)
{
	size_t count = 0;
	for (unsigned i = symbols->source_count; count == 0 && i-- > 0;) {
		struct lines *lines = source_lines(symbols, &symbols->sources[i]);
		if (lines != NULL)
			count = lines_frames(lines, address, ret, most);
	}
	return count;
}

uint64_t symbols_memory(const struct symbols *symbols, const struct module *module)
{
	return symbols->module == module ? symbols->memory : 0;
}

bool symbols_complete(const struct symbols *symbols)
{
	return symbols->complete;
}

#else

struct symbols {
	size_t users; // beside the first one
};

struct symbols *symbols_create(const struct image *image, const struct module *module,
	const struct symbols_options *options)
{
	(void)image;
	(void)module;
	(void)options;
	return calloc(1, sizeof(struct symbols));
}

struct symbols *symbols_share(struct symbols *symbols)
{
	symbols->users++;
	return symbols;
}

void symbols_destroy(struct symbols *symbols)
{
	if (symbols != NULL && symbols->users-- == 0)
		free(symbols);
}

bool symbols_find(const struct symbols *symbols, uint64_t address, struct symbol *ret)
{
	(void)symbols;
	(void)address;
	(void)ret;
	return false;
}

bool symbols_each(const struct symbols *symbols, symbols_visit *visit, void *context)
{
	(void)symbols;
	(void)visit;
	(void)context;
	return true;
}

size_t symbols_match(const struct symbols *symbols, const char *const *list, size_t count)
{
	(void)symbols;
	(void)list;
	return count;
}

bool symbols_line(struct symbols *symbols, uint64_t address, const char **file, int *line)
{
	(void)symbols;
	(void)address;
	(void)file;
	(void)line;
	return false;
}

size_t symbols_frames(
	struct symbols *symbols, uint64_t address, struct line_frame *ret, size_t most)
{
	(void)symbols;
	(void)address;
	(void)ret;
	(void)most;
	return 0;
}

uint64_t symbols_memory(const struct symbols *symbols, const struct module *module)
{
	(void)symbols;
	(void)module;
	return 0;
}

bool symbols_complete(const struct symbols *symbols)
{
	(void)symbols;
	return false;
}

#endif
