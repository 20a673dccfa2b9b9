// SPDX-License-Identifier: MIT
//
// Prints the stacks of a recording, from a file or a core, one a line: the innermost pc, then live
// bytes and blocks, bytes at the peak, allocated bytes and blocks, temporary blocks, the largest
// block, flags, the number of frames; then the sums of the blocks in use, and "end". For tests of
// topleak-record alone: it trusts what it reads.
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "format.h"

static const char *file;
static size_t size;
static uint64_t base; // of the recording in the core
static const struct record_header *header;

static const void *at(uint64_t offset, uint64_t bytes)
{
	const Elf64_Ehdr *elf = (const void *)file;
	if (!base)
		return offset + bytes <= size ? file + offset : NULL;
	const Elf64_Phdr *segment = (const void *)(file + elf->e_phoff);
	for (unsigned i = 0; i < elf->e_phnum; i++)
		if (segment[i].p_type == PT_LOAD && base + offset >= segment[i].p_vaddr &&
			base + offset + bytes <= segment[i].p_vaddr + segment[i].p_filesz)
			return file + segment[i].p_offset + (base + offset - segment[i].p_vaddr);
	return NULL;
}

static bool find(void)
{
	const Elf64_Ehdr *elf = (const void *)file;
	header = (const void *)file;
	if (!memcmp(header->magic, RECORD_MAGIC, sizeof header->magic))
		return true;
	if (memcmp(file, ELFMAG, SELFMAG))
		return false;
	const Elf64_Phdr *segment = (const void *)(file + elf->e_phoff);
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		if (segment[i].p_type != PT_LOAD)
			continue;
		for (uint64_t address =
				(segment[i].p_vaddr + RECORD_ALIGN - 1) & ~(RECORD_ALIGN - 1);
			address + sizeof *header <= segment[i].p_vaddr + segment[i].p_filesz;
			address += RECORD_ALIGN) {
			header = (const void *)(file + segment[i].p_offset +
						(address - segment[i].p_vaddr));
			base = address;
			if (!memcmp(header->magic, RECORD_MAGIC, sizeof header->magic) &&
				header->self == address)
				return true;
		}
	}
	return false;
}

static const void *entry(uint32_t kind, uint64_t index)
{
	for (uint32_t i = 0; i < header->section_count; i++) {
		const struct record_section *section = &header->sections[i];
		if (section->kind == kind)
			return index < section->used ? at(section->offset + index * section->entry,
							       section->entry)
						     : NULL;
	}
	return NULL;
}

static void stack_print(uint32_t index, const struct record_stack *stack)
{
	struct record_stack sum = *stack;
	uint64_t peak = stack->peak_bytes;
	const bool noted = stack->peak_number == header->peak_number;
	const struct record_thread *thread;
	if (!noted)
		peak = stack->bytes - stack->freed_bytes;
	for (uint64_t t = 0; (thread = entry(RECORD_THREADS, t)); t++) {
		for (size_t i = 0; thread->used && i < RECORD_CHANGES; i++) {
			const struct record_change *change = &thread->changes[i];
			if (change->stack != index)
				continue;
			sum.bytes += change->bytes;
			sum.freed_bytes += change->freed_bytes;
			sum.blocks += change->blocks;
			sum.freed_blocks += change->freed_blocks;
			sum.temporary += change->temporary;
			if (change->largest > sum.largest)
				sum.largest = change->largest;
			if (change->peak_number != header->peak_number)
				peak += change->bytes - change->freed_bytes;
		}
	}
	unsigned frames = 0;
	uint64_t pc = 0;
	for (uint32_t n = stack->node; n; frames++) {
		const struct record_node *node = entry(RECORD_NODES, n);
		if (!node)
			break;
		pc = pc ? pc : node->pc;
		n = node->parent;
	}
	printf("stack %" PRIx64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64
	       " %" PRIu64 " %" PRIu64 " %u %u\n",
		pc, (int64_t)(sum.bytes - sum.freed_bytes),
		(int64_t)(sum.blocks - sum.freed_blocks), (int64_t)peak, sum.bytes, sum.blocks,
		sum.temporary, sum.largest, stack->flags, frames);
}

static uint64_t number(const uint8_t **at)
{
	uint64_t value = 0;
	unsigned shift = 0;
	do
		value |= (uint64_t)(**at & 127) << shift, shift += 7;
	while (*(*at)++ & 128);
	return value;
}

static uint64_t unzigzag(uint64_t value)
{
	return value >> 1 ^ -(value & 1);
}

// Prints "allocate ADDRESS SIZE STACK" and "free ADDRESS" for each event of the log, and then "log
// CHUNKS BYTES EVENTS".
static void log_print(void)
{
	const struct record_section *section = NULL;
	uint64_t chunks = 0, events = 0, bytes = 0;
	for (uint32_t i = 0; i < header->section_count; i++)
		if (header->sections[i].kind == RECORD_LOG)
			section = &header->sections[i];
	for (uint64_t from = 0; section && from < section->used; chunks++) {
		const struct record_chunk *chunk = at(section->offset + from, sizeof *chunk);
		if (!chunk || chunk->magic != RECORD_CHUNK_MAGIC)
			break;
		const uint8_t *in = (const uint8_t *)(chunk + 1), *end = in + chunk->bytes,
			      *used = in;
		uint64_t address = 0, stack = 0, size_of = 0;
		while (in < end) {
			const uint64_t first = number(&in);
			if ((first & 3) == RECORD_TIME)
				continue;
			if ((first & 3) == RECORD_ALLOCATE) {
				stack += unzigzag(first >> 2);
				size_of = number(&in);
				address += unzigzag(number(&in));
			} else {
				address += unzigzag(first >> 2);
			}
			if ((first & 3) == RECORD_FREE)
				printf("free %" PRIx64 "\n", address << 3);
			else
				printf("allocate %" PRIx64 " %" PRIu64 " %" PRIu64 "\n",
					address << 3, size_of, stack);
			used = in;
			events++;
		}
		bytes += (uint64_t)(used - (const uint8_t *)(chunk + 1));
		from += sizeof *chunk + chunk->bytes;
	}
	if (section)
		printf("log %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", chunks, bytes, events);
}

int main(int argc, char **argv)
{
	struct stat status;
	const int in = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	if (in < 0 || fstat(in, &status))
		return 2;
	size = (size_t)status.st_size;
	file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, in, 0);
	if (file == MAP_FAILED || !find()) {
		fputs("no recording\n", stderr);
		return 1;
	}
	const struct record_stack *stack;
	for (uint32_t i = 1; (stack = entry(RECORD_STACKS, i)); i++)
		stack_print(i, stack);
	uint64_t bytes = 0, blocks = 0;
	const struct record_block *block;
	const struct record_slot *slot;
	for (uint64_t i = 0; (block = entry(RECORD_BLOCKS, i)); i++) {
		blocks += block->address != 0;
		bytes += block->address ? block->size : 0;
	}
	for (uint64_t i = 0; (slot = entry(RECORD_SHADOW, i)); i++) {
		blocks += slot->stack != 0;
		bytes += slot->stack ? slot->size : 0;
	}
	printf("blocks %" PRIu64 " %" PRIu64 "\n", bytes, blocks);
	const struct record_snapshot *snapshot;
	for (uint64_t i = 0; (snapshot = entry(RECORD_SNAPSHOTS, i)); i++)
		printf("snapshot %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", snapshot->time,
			snapshot->live_bytes, snapshot->count);
	const struct record_module *module;
	for (uint64_t i = 0; (module = entry(RECORD_MODULES, i)); i++)
		printf("module %s %u %s\n", (const char *)entry(RECORD_STRINGS, module->path),
			module->id_size, module->closed ? "closed" : "");
	log_print();
	printf("end mode %u pid %u live %" PRIu64 " peak %" PRIu64 " lost %" PRIu64
	       " status %" PRIu64 " %u\n",
		header->mode, header->pid, header->live_bytes, header->peak_bytes,
		header->blocks_lost, header->exit_status, header->exit_known);
	return 0;
}
