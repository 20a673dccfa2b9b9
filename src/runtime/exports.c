// SPDX-License-Identifier: MIT
#include "runtime/exports.h"

#include <elf.h>
#include <string.h>

// No dynamic section has more entries, and no chain of the hash table more symbols.
#define DYNAMIC_MAX 1024
#define CHAIN_MAX 4096
// No program exports more.
#define SYMBOLS_MAX (UINT32_C(1) << 22)

// Entries are addresses once the dynamic linker has relocated them, as glibc does, and relative to
// the module before that, as musl leaves them.
static uint64_t entry_address(const struct module *module, uint64_t value)
{
	return value >= module->start && value < module->end ? value : value + module->bias;
}

bool exports_init(struct exports *exports, struct reader *reader, const struct module *module)
{
	uint64_t hash = 0;
	*exports = (struct exports){.bias = module->bias};
	if (!module->loaded || module->elf.elf_class != 64 || module->elf.order != ORDER_LITTLE)
		return false;
	const struct elf_segment *dynamic = elf_segment_find(&module->elf, PT_DYNAMIC);
	if (dynamic == NULL)
		return false;
	const uint64_t start = dynamic->address + module->bias;
	for (unsigned i = 0; i < DYNAMIC_MAX; i++) {
		Elf64_Dyn entry;
		if (!reader_get(reader, start + i * sizeof entry, &entry, sizeof entry) ||
			entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_SYMTAB)
			exports->symbols = entry_address(module, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRTAB)
			exports->strings = entry_address(module, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_GNU_HASH)
			hash = entry_address(module, entry.d_un.d_ptr);
	}
	uint32_t head[4]; // buckets, first symbol, words of the bloom filter, its shift
	if (exports->symbols == 0 || exports->strings == 0 || hash == 0 ||
		!reader_get(reader, hash, head, sizeof head) || head[0] == 0)
		return false;
	exports->bucket_count = head[0];
	exports->first = head[1];
	exports->buckets = hash + sizeof head + 8 * (uint64_t)head[2];
	exports->chains = exports->buckets + 4 * (uint64_t)head[0];
	return true;
}

static uint32_t name_hash(const char *name)
{
	uint32_t hash = 5381;
	for (; *name != '\0'; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

bool exports_find(const struct exports *exports, struct reader *reader, const char *name,
	uint64_t *ret_size, uint64_t *ret)
{
	char text[128];
	const size_t length = strlen(name);
	const uint32_t hash = name_hash(name);
	uint32_t index =
		reader_u32(reader, exports->buckets + 4 * (uint64_t)(hash % exports->bucket_count));
	if (index < exports->first || index == 0 || length + 1 >= sizeof text)
		return false;
	for (unsigned i = 0; i < CHAIN_MAX; i++, index++) {
		const uint64_t link = exports->chains + 4 * (uint64_t)(index - exports->first);
		unsigned char bytes[4];
		Elf64_Sym symbol;
		if (!reader_get(reader, link, bytes, sizeof bytes))
			return false;
		const uint32_t other = load_u32(bytes, ORDER_LITTLE);
		if ((other | 1) == (hash | 1) &&
			reader_get(reader, exports->symbols + index * sizeof symbol, &symbol,
				sizeof symbol) &&
			symbol.st_shndx != SHN_UNDEF) {
			reader_text(reader, exports->strings + symbol.st_name, text, length + 2);
			if (strcmp(text, name) == 0) {
				*ret = symbol.st_value + exports->bias;
				if (ret_size != NULL)
					*ret_size = symbol.st_size;
				return true;
			}
		}
		if (other & 1)
			return false;
	}
	return false;
}

// The first symbol that no bucket leads to.
static uint32_t symbols_end(const struct exports *exports, struct reader *reader)
{
	uint32_t last = 0;
	for (uint32_t i = 0; i < exports->bucket_count && i < SYMBOLS_MAX; i++) {
		const uint32_t first = reader_u32(reader, exports->buckets + 4 * (uint64_t)i);
		last = first > last ? first : last;
	}
	if (last < exports->first || last == 0)
		return 0;
	for (unsigned i = 0; i < CHAIN_MAX && last < SYMBOLS_MAX; i++, last++)
		if (reader_u32(reader, exports->chains + 4 * (uint64_t)(last - exports->first)) & 1)
			break;
	return last + 1;
}

void exports_each(const struct exports *exports, struct reader *reader, const char *prefix,
	void (*tell)(void *context, const char *name, uint64_t address), void *context)
{
	const size_t length = strlen(prefix);
	const uint32_t end = symbols_end(exports, reader);
	for (uint32_t i = exports->first; i < end && i < SYMBOLS_MAX; i++) {
		char name[128];
		Elf64_Sym symbol;
		if (!reader_get(
			    reader, exports->symbols + i * sizeof symbol, &symbol, sizeof symbol) ||
			symbol.st_shndx == SHN_UNDEF)
			continue;
		const uint64_t at = exports->strings + symbol.st_name;
		// Most names are not asked for, and are long.
		if (!reader_get(reader, at, name, length) || memcmp(name, prefix, length) != 0)
			continue;
		reader_text(reader, at + length, name, sizeof name);
		tell(context, name, symbol.st_value + exports->bias);
	}
}
