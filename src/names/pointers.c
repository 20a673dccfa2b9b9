// SPDX-License-Identifier: MIT
#include "names/pointers.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "names/functions.h"
#include "names/sightings.h"

// Between two functions there is so much padding at most; where there is more, a function may be of
// which nothing is known.
#define PADDING_MAX 64
// So much of a text is looked at.
#define TEXT_MAX 64
// What is looked at of one stack, and of all: the frames that did the work are at its end.
#define STACK_MAX ((uint64_t)1 << 20)
#define STACKS_MAX ((uint64_t)64 << 20)
// Of so many addresses of code at most one begins a function.
#define CODE_LIKELIHOOD 16
#define DYNAMIC_MAX 256
// Libraries lie side by side; what was between two of them leaves at most so much free.
#define UNLOADED_MAX ((uint64_t)64 << 20)

struct mark {
	uint64_t start, end;
};

// Sorted by start once they are settled.
struct marks {
	struct mark *list; // owned
	size_t count, capacity;
};

struct entry {
	struct functions functions; // from tables for unwinding
	struct marks code, data;    // from symbols
	uint64_t head_end;	    // headers, and what is for the dynamic linker only, end here
};

struct pointers {
	const struct image *image;
	const struct modules *modules;
	unsigned word;
	struct entry *entries; // one for each module; owned
	struct sightings sightings;
	uint64_t *returns; // sorted; owned
	size_t return_count, return_capacity;
};

// ---- symbols

static int mark_compare(const void *left, const void *right)
{
	const struct mark *a = left, *b = right;
	return a->start != b->start ? (a->start < b->start ? -1 : 1)
				    : (a->end > b->end) - (a->end < b->end);
}

// The number of marks that begin at address or before.
static size_t marks_up_to(const struct marks *marks, uint64_t address)
{
	size_t low = 0, high = marks->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (marks->list[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

enum where { WHERE_UNKNOWN, WHERE_BEGINS, WHERE_INSIDE };

static enum where marks_look(const struct marks *marks, uint64_t address)
{
	const size_t next = marks_up_to(marks, address);
	if (next == 0)
		return WHERE_UNKNOWN;
	const struct mark *mark = &marks->list[next - 1];
	if (mark->start == address)
		return WHERE_BEGINS;
	return address < mark->end ? WHERE_INSIDE : WHERE_UNKNOWN;
}

bool pointers_add(
	struct pointers *pointers, uint32_t module, uint64_t address, uint64_t size, bool function)
{
	struct entry *entry = &pointers->entries[module];
	struct marks *marks = function ? &entry->code : &entry->data;
	if (marks->count == marks->capacity) {
		const size_t wanted = 2 * marks->capacity + 256;
		struct mark *list = reallocarray(marks->list, wanted, sizeof *list);
		if (list == NULL)
			return false;
		marks->list = list;
		marks->capacity = wanted;
	}
	marks->list[marks->count++] = (struct mark){address, add_saturated(address, size)};
	return true;
}

// ---- what an address is

// The first instructions of an entry of a procedure linkage table, which one entry for unwinding
// covers whole: a jump through the table of addresses, on x86 perhaps behind ENDBR, on arm64 the
// page of its slot in register 16, perhaps behind BTI.
static bool is_linkage(const struct pointers *pointers, uint64_t address)
{
	static const unsigned char endbr[] = {0xf3, 0x0f, 0x1e, 0xfa},
				   bti[] = {0x5f, 0x24, 0x03, 0xd5};
	const uint16_t machine = image_info(pointers->image)->machine;
	unsigned char code[12] = {0};
	if (image_read(pointers->image, address, code, sizeof code) != sizeof code)
		return false;
	if (machine == EM_X86_64 || machine == EM_386) {
		const unsigned char *at = code + (memcmp(code, endbr, 4) == 0 ? 4 : 0);
		at += *at == 0xf2;
		return at[0] == 0xff && (at[1] == 0x25 || at[1] == 0xa3);
	}
	if (machine == EM_AARCH64) {
		const unsigned char *at = code + (memcmp(code, bti, 4) == 0 ? 4 : 0);
		return (load_u32(at, ORDER_LITTLE) & 0x9f00001f) == 0x90000010;
	}
	return false;
}

// Where nothing is known of a program at low addresses, its functions begin where compilers that
// care for speed put them.
static bool code_can_be(const struct pointers *pointers, uint64_t address)
{
	const uint16_t machine = image_info(pointers->image)->machine;
	const uint64_t alignment = machine == EM_X86_64 || machine == EM_386 ? 16 : 2;
	return address >= POINTERS_LOW || address % alignment == 0;
}

static enum where code_look(
	const struct pointers *pointers, const struct entry *entry, uint64_t address)
{
	const enum where symbol = marks_look(&entry->code, address);
	uint64_t before, next;
	if (symbol == WHERE_BEGINS || marks_look(&entry->data, address) == WHERE_BEGINS)
		return WHERE_BEGINS;
	switch (functions_look(&entry->functions, pointers->image, address, &before, &next)) {
	case FUNCTION_BEGINS:
		return WHERE_BEGINS;
	case FUNCTION_INSIDE:
		return is_linkage(pointers, address) ? WHERE_BEGINS : WHERE_INSIDE;
	case FUNCTION_BETWEEN:
		if (next - before <= PADDING_MAX)
			return WHERE_INSIDE;
		break;
	case FUNCTION_UNKNOWN:
		break;
	}
	return symbol;
}

static bool is_printable(unsigned char byte)
{
	return (byte >= ' ' && byte < 0x7f) || byte == '\n' || byte == '\t' || byte >= 0x80;
}

// Whether a constant text begins at address: behind another one, or padding, and it ends.
static bool is_text(const struct pointers *pointers, uint64_t address)
{
	unsigned char bytes[TEXT_MAX + 1];
	const size_t size = image_read(pointers->image, address - 1, bytes, sizeof bytes);
	if (size < 3 || bytes[0] != '\0' || !is_printable(bytes[1]))
		return false;
	for (size_t i = 1; i < size; i++)
		if (bytes[i] == '\0')
			return true;
		else if (!is_printable(bytes[i]))
			return false;
	return size == sizeof bytes;
}

static bool data_can_be(
	const struct pointers *pointers, const struct entry *entry, uint64_t address)
{
	const bool low = address < POINTERS_LOW;
	const enum where symbol = marks_look(&entry->data, address);
	if (symbol == WHERE_BEGINS)
		return true;
	// Members of structs and elements of arrays are aligned; those of symbols that are not read
	// may be numbers of 32 bits.
	return address % (low ? pointers->word : 4) == 0 ||
	       (symbol == WHERE_UNKNOWN && is_text(pointers, address));
}

// Whether an address is one that can be stored, by what lies there. *likelihood: of how many
// addresses by chance one is such.
static bool address_fits(const struct pointers *pointers, uint64_t address, unsigned *likelihood)
{
	const struct modules *modules = pointers->modules;
	const struct module_range *range = modules_find(modules, address);
	*likelihood = pointers->word;
	if (range == NULL)
		return false;
	uint64_t inside;
	const struct module *module =
		modules_locate(modules, &modules->list[range->module], address, &inside);
	const struct entry *entry = &pointers->entries[module - modules->list];
	// What is mapped again at another place, the program has at this one.
	if (module != &modules->list[range->module])
		address = module->bias + inside;
	if (address < entry->head_end)
		return false;
	if ((range->flags & PF_X) == 0)
		return data_can_be(pointers, entry, address);
	// Instructions that were written at run time have no functions of which anything is known.
	if (!module->loaded && module->state != MODULE_MEMORY)
		return false;
	// Bit 0 of a pointer to a Thumb function is set.
	const bool thumb = image_info(pointers->image)->machine == EM_ARM;
	*likelihood = CODE_LIKELIHOOD;
	switch (code_look(pointers, entry, thumb ? address & ~(uint64_t)1 : address)) {
	case WHERE_BEGINS:
		return true;
	case WHERE_INSIDE:
		return false;
	case WHERE_UNKNOWN:
		break;
	}
	*likelihood = pointers->word;
	// Constants can be there, too.
	return thumb ||
	       (modules_range_has_data(modules, range) ? data_can_be(pointers, entry, address)
						       : code_can_be(pointers, address));
}

bool pointers_can_be(const struct pointers *pointers, uint64_t address)
{
	unsigned likelihood;
	return address_fits(pointers, address, &likelihood) &&
	       (address >= POINTERS_LOW ||
		       !sightings_are_chance(&pointers->sightings, address, likelihood));
}

bool pointers_unloaded(const struct pointers *pointers, uint64_t address)
{
	const struct modules *modules = pointers->modules;
	size_t low = 0, high = modules->range_count;
	if (address < POINTERS_LOW || address % pointers->word != 0)
		return false;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (modules->ranges[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && low < modules->range_count && modules->ranges[low].start > address &&
	       modules->ranges[low].start - modules->ranges[low - 1].end <= UNLOADED_MAX &&
	       image_segment_at(pointers->image, address) == NULL;
}

// ---- return addresses

// Whether the instruction before address can be a call. True for processors of which that is not
// known here.
static bool is_behind_call(const struct pointers *pointers, uint64_t address)
{
	const uint16_t machine = image_info(pointers->image)->machine;
	unsigned char code[8];
	if (machine != EM_X86_64 && machine != EM_386 && machine != EM_AARCH64)
		return true;
	if (image_read(pointers->image, address - sizeof code, code, sizeof code) != sizeof code)
		return true;
	if (machine == EM_AARCH64) {
		// BL, BLR and those that authenticate.
		const uint32_t last = load_u32(code + 4, ORDER_LITTLE);
		return (last & 0xfc000000) == 0x94000000 || (last & 0xfefff000) == 0xd63f0000;
	}
	const unsigned char *end = code + sizeof code;
	if (end[-5] == 0xe8)
		return true;
	// FF /2: the register or the memory that has the address makes 2 to 7 bytes.
	for (int length = 2; length <= 7; length++)
		if (end[-length] == 0xff && (end[-length + 1] >> 3 & 7) == 2)
			return true;
	return false;
}

static bool return_note(struct pointers *pointers, uint64_t address)
{
	if (pointers->return_count == pointers->return_capacity) {
		const size_t wanted = 2 * pointers->return_capacity + 256;
		uint64_t *list = reallocarray(pointers->returns, wanted, sizeof *list);
		if (list == NULL)
			return false;
		pointers->returns = list;
		pointers->return_capacity = wanted;
	}
	pointers->returns[pointers->return_count++] = address;
	return true;
}

static bool stack_scan(struct pointers *pointers, uint64_t start, uint64_t end)
{
	const struct image_info *info = image_info(pointers->image);
	unsigned char bytes[4096];
	for (uint64_t at = start; at < end;) {
		const size_t size = image_read(
			pointers->image, at, bytes, (size_t)min_u64(sizeof bytes, end - at));
		for (size_t i = 0; i + pointers->word <= size; i += pointers->word) {
			const uint64_t word = word_load(bytes + i, pointers->word, info->elf_order);
			const struct module_range *range =
				word < POINTERS_LOW ? modules_find(pointers->modules, word) : NULL;
			if (range != NULL && (range->flags & PF_X) != 0 &&
				!pointers_can_be(pointers, word) &&
				is_behind_call(pointers, word) && !return_note(pointers, word))
				return false;
		}
		if (size < sizeof bytes)
			break;
		at += size;
	}
	return true;
}

static bool stacks_scan(struct pointers *pointers, const struct places *places)
{
	const struct image_process *process = &image_info(pointers->image)->process;
	uint64_t left = STACKS_MAX;
	for (size_t i = 0; i < process->thread_count && left > 0; i++) {
		const uint64_t start = process->threads[i].stack_pointer & ~(uint64_t)7;
		size_t index;
		if (!places_find(places, start, &index) || places->list[index].type != PLACE_STACK)
			continue;
		const uint64_t size =
			min_u64(min_u64(left, STACK_MAX), places->spans[index].end - start);
		left -= size;
		if (!stack_scan(pointers, start, start + size))
			return false;
	}
	return true;
}

static int address_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return (a > b) - (a < b);
}

// Of low addresses: what pointers point at lies at the beginnings, or what is a return address of a
// stack that is not known for one, such as a goroutine's; the rest is chance.
static enum fitness address_fitness(const void *context, uint64_t address)
{
	const struct pointers *pointers = context;
	unsigned likelihood;
	if (address_fits(pointers, address, &likelihood))
		return FITNESS_POINTER;
	const struct module_range *range = modules_find(pointers->modules, address);
	if (range == NULL)
		return FITNESS_NEITHER;
	return (range->flags & PF_X) != 0 && image_info(pointers->image)->machine != EM_ARM &&
			       is_behind_call(pointers, address)
		       ? FITNESS_NEITHER
		       : FITNESS_CHANCE;
}

static bool sightings_settle(struct pointers *pointers, const struct places *places)
{
	const struct modules *modules = pointers->modules;
	uint64_t end = 0;
	for (size_t i = 0; i < modules->range_count && modules->ranges[i].start < POINTERS_LOW; i++)
		end = min_u64(modules->ranges[i].end, POINTERS_LOW);
	return sightings_find(pointers->image, places, modules->ranges[0].start, end,
		address_fitness, pointers, &pointers->sightings);
}

bool pointers_settle(struct pointers *pointers, const struct places *places, struct error *err)
{
	for (size_t i = 0; i < pointers->modules->count; i++) {
		struct entry *entry = &pointers->entries[i];
		if (entry->code.count > 0)
			qsort(entry->code.list, entry->code.count, sizeof *entry->code.list,
				mark_compare);
		if (entry->data.count > 0)
			qsort(entry->data.list, entry->data.count, sizeof *entry->data.list,
				mark_compare);
	}
	const struct modules *modules = pointers->modules;
	if (modules->range_count == 0 || modules->ranges[0].start >= POINTERS_LOW)
		return true;
	if (!sightings_settle(pointers, places) || !stacks_scan(pointers, places))
		return error_memory(err);
	if (pointers->return_count > 0)
		qsort(pointers->returns, pointers->return_count, sizeof *pointers->returns,
			address_compare);
	return true;
}

bool pointers_occur(const struct pointers *pointers, uint64_t address)
{
	if (pointers_can_be(pointers, address))
		return true;
	// A number can be one by chance, and be elsewhere as often as others.
	return pointers->return_count > 0 &&
	       !sightings_are_chance(&pointers->sightings, address, CODE_LIKELIHOOD) &&
	       bsearch(&address, pointers->returns, pointers->return_count,
		       sizeof *pointers->returns, address_compare) != NULL;
}

// ---- the whole

// Where the headers and what the dynamic linker needs end, which come first: no object is in them.
static uint64_t head_end(const struct image *image, const struct module *module)
{
	const struct elf *elf = &module->elf;
	const unsigned word = elf->elf_class / 8;
	const struct elf_segment *dynamic = elf_segment_find(elf, PT_DYNAMIC);
	uint64_t ends[4] = {0}, sizes[4] = {0}, tag, value, first, end, ret = 0;
	if (!module->loaded || !elf_extent(elf, &first, &end))
		return 0;
	for (unsigned i = 0; i < elf->segment_count; i++) {
		const struct elf_segment *segment = &elf->segments[i];
		if (segment->type == PT_PHDR || segment->type == PT_INTERP)
			ret = max_u64(ret, segment->address + segment->memory_size);
	}
	ret = max_u64(ret, first + 64 + 56 * (uint64_t)elf->segment_count);
	for (unsigned i = 0; dynamic != NULL && i < DYNAMIC_MAX; i++) {
		const uint64_t at = module->bias + dynamic->address + 2 * (uint64_t)i * word;
		if (!image_read_word(image, at, &tag) ||
			!image_read_word(image, at + word, &value) || tag == DT_NULL)
			break;
		static const struct {
			uint64_t tag;
			unsigned index;
			bool size;
		} known[] = {{DT_STRTAB, 0, false}, {DT_STRSZ, 0, true}, {DT_RELA, 1, false},
			{DT_RELASZ, 1, true}, {DT_JMPREL, 2, false}, {DT_PLTRELSZ, 2, true},
			{DT_REL, 3, false}, {DT_RELSZ, 3, true}};
		for (size_t k = 0; k < sizeof known / sizeof *known; k++)
			if (known[k].tag == tag)
				*(known[k].size ? &sizes[known[k].index] : &ends[known[k].index]) =
					value;
	}
	for (unsigned i = 0; i < 4; i++)
		if (ends[i] >= first && ends[i] < end)
			ret = max_u64(ret, ends[i] + min_u64(sizes[i], end - ends[i]));
	// Elsewhere than at the beginning they say nothing.
	const struct elf_segment *segment = &elf->segments[0];
	for (unsigned i = 0; i < elf->segment_count; i++)
		if (elf->segments[i].type == PT_LOAD && elf->segments[i].address == first)
			segment = &elf->segments[i];
	return module->bias + min_u64(ret, segment->address + segment->file_size);
}

// Functions whose beginnings are kept, of all modules: 32 MiB. Of a module whose functions do not
// fit nothing is known.
#define FUNCTIONS_MAX ((size_t)2 << 20)

bool pointers_create(const struct image *image, const struct modules *modules, struct error *err,
	struct pointers **ret)
{
	struct pointers *pointers = calloc(1, sizeof *pointers);
	if (pointers == NULL)
		return error_memory(err);
	pointers->image = image;
	pointers->modules = modules;
	pointers->word = image_info(image)->elf_class / 8;
	pointers->entries = calloc(modules->count + 1, sizeof *pointers->entries);
	bool done = pointers->entries != NULL;
	size_t count = 0;
	for (size_t i = 0; done && i < modules->count; i++) {
		const struct module *module = &modules->list[i];
		struct functions *functions = &pointers->entries[i].functions;
		done = functions_load(image, modules, module, functions);
		pointers->entries[i].head_end = head_end(image, module);
		count += functions->frames.count + functions->go.count;
		if (count <= FUNCTIONS_MAX)
			continue;
		count -= functions->frames.count + functions->go.count;
		functions_deinit(functions);
	}
	if (!done) {
		pointers_destroy(pointers);
		return error_memory(err);
	}
	*ret = pointers;
	return true;
}

void pointers_destroy(struct pointers *pointers)
{
	if (pointers == NULL)
		return;
	for (size_t i = 0; pointers->entries != NULL && i < pointers->modules->count; i++) {
		functions_deinit(&pointers->entries[i].functions);
		free(pointers->entries[i].code.list);
		free(pointers->entries[i].data.list);
	}
	free(pointers->entries);
	sightings_deinit(&pointers->sightings);
	free(pointers->returns);
	free(pointers);
}
