// SPDX-License-Identifier: MIT
#include "image/places.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/guard.h"
#include "image/auxv.h"

#define PAGE ((uint64_t)4096)
// The heap begins at a random distance behind the program: 32 MiB on x86, 1 GiB on others
// (arch_randomize_brk in Linux).
#define BREAK_DISTANCE_MAX ((uint64_t)1 << 30)
#define POWERPC_BREAK ((uint64_t)1 << 40)
// What follows the program in its last segment, if it is smaller, is what pages of 64 KiB have left
// of its uninitialized data.
#define BREAK_REST_MIN ((uint64_t)64 << 10)
// A thread's stack is at most so large in practice; where more memory hangs together (goroutines,
// coroutines in a pool) only the part near the stack pointer is called a stack.
#define STACK_MAX ((uint64_t)256 << 20)
#define STACK_ABOVE ((uint64_t)8 << 20)
#define STACK_BELOW ((uint64_t)64 << 10)
// Blocks of malloc that are followed one by one, in the whole dump: each is a read.
#define BLOCKS_MAX 4096
// Places in the whole dump that are looked at for an arena: 4 TiB have so many.
#define ARENAS_MAX 65536

struct stack {
	uint64_t pointer;
	int64_t thread;
};

struct builder {
	const struct image *image;
	const struct modules *modules;
	struct places *places;
	struct stack *stacks; // sorted by pointer; owned
	size_t stack_count;
	uint64_t program_end; // address behind the main program; 0: unknown
	// Where the heap begins, if it is not behind the program; 0: it is behind.
	uint64_t break_least, break_most;
	uint64_t break_start, break_end;
	size_t blocks_left, arenas_left;
};

// A piece of a segment that no file is mapped to.
struct piece {
	uint64_t start, end;
	uint32_t flags;
	bool rest; // does not begin where the segment does
};

static bool place_add(
	struct builder *builder, uint64_t start, uint64_t end, enum kind kind, struct place place)
{
	struct places *places = builder->places;
	if (start >= end)
		return true;
	if (places->count == places->capacity) {
		const size_t wanted = 2 * places->capacity + 64;
		struct span *spans = reallocarray(places->spans, wanted, sizeof *spans);
		if (spans == NULL)
			return false;
		places->spans = spans;
		struct place *list = reallocarray(places->list, wanted, sizeof *list);
		if (list == NULL)
			return false;
		places->list = list;
		places->capacity = wanted;
	}
	places->spans[places->count] = (struct span){start, end, kind};
	places->list[places->count++] = place;
	return true;
}

static bool place_add_anon(
	struct builder *builder, const struct piece *piece, uint64_t start, uint64_t end)
{
	return place_add(builder, start, end, KIND_ANON,
		(struct place){.type = PLACE_ANON, .base = piece->start});
}

// Files that are but a way to get memory.
static bool module_is_memory(const struct module *module)
{
	static const char *const prefixes[] = {
		"/dev/zero", "/dev/shm/", "/SYSV", "/memfd:", "/anon_hugepage", "/[aio]"};
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
		if (strncmp(module->path, prefixes[i], strlen(prefixes[i])) == 0)
			return !module->loaded;
	return false;
}

static bool place_add_module(struct builder *builder, const struct module_range *range)
{
	const struct module *module = &builder->modules->list[range->module];
	const bool code = (range->flags & PF_X) != 0;
	const enum kind kind = module_is_memory(module) ? KIND_ANON : code ? KIND_CODE : KIND_DATA;
	return place_add(builder, range->start, range->end, kind,
		(struct place){
			.type = PLACE_MODULE, .base = module->bias, .module = range->module});
}

// The number of stacks whose pointer is below address.
static size_t stacks_below(const struct builder *builder, uint64_t address)
{
	size_t low = 0, high = builder->stack_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (builder->stacks[middle].pointer < address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

// The stacks in a piece, which may follow each other without a gap: each one ends where the next
// one's pointer is.
static bool piece_add_stacks(
	struct builder *builder, const struct piece *piece, size_t first, size_t last)
{
	uint64_t at = piece->start;
	const bool large = piece->end - piece->start > STACK_MAX;
	for (size_t i = first; i < last; i++) {
		const uint64_t pointer = builder->stacks[i].pointer;
		uint64_t start = at, end = piece->end;
		if (i + 1 < last)
			end = builder->stacks[i + 1].pointer & ~(PAGE - 1);
		if (large) {
			start = max_u64(at, pointer - min_u64(pointer, STACK_BELOW));
			end = min_u64(end, add_saturated(pointer, STACK_ABOVE));
		}
		const struct place place = {.type = PLACE_STACK,
			.base = large ? start : piece->start,
			.thread = builder->stacks[i].thread};
		if (!place_add_anon(builder, piece, at, start) ||
			!place_add(builder, start, end, KIND_STACK, place))
			return false;
		at = max_u64(at, end);
	}
	return place_add_anon(builder, piece, at, piece->end);
}

// glibc, malloc/arena.c: every heap of a further arena is aligned to its greatest size and begins
// with struct heap_info: ar_ptr, prev, size, mprotect_size. In the first heap of an arena the arena
// itself follows. Returns the heap's size, 0 if there is no heap at address.
static uint64_t arena_size(const struct builder *builder, uint64_t address)
{
	const unsigned word = image_info(builder->image)->elf_class / 8;
	const uint64_t most = word == 8 ? (uint64_t)64 << 20 : (uint64_t)1 << 20;
	uint64_t fields[4];
	for (unsigned i = 0; i < 4; i++)
		if (!image_read_word(builder->image, address + (uint64_t)i * word, &fields[i]))
			return 0;
	const uint64_t arena = fields[0], previous = fields[1], size = fields[3];
	const uint64_t inside = arena & (most - 1);
	if (fields[2] == 0 || fields[2] > size || size > most || size % PAGE != 0 ||
		fields[2] % PAGE != 0 || arena < most || inside < 4 * (uint64_t)word ||
		inside > 256 || previous % most != 0)
		return 0;
	return (previous == 0) == (arena - inside == address) ? size : 0;
}

static bool piece_add_arenas(struct builder *builder, const struct piece *piece)
{
	const uint64_t most = image_info(builder->image)->elf_class == 64 ? (uint64_t)64 << 20
									  : (uint64_t)1 << 20;
	uint64_t at = piece->start;
	uint64_t address = (piece->start + most - 1) & ~(most - 1);
	for (; address >= piece->start && address < piece->end && builder->arenas_left > 0;
		address += most) {
		const uint64_t next = image_next(builder->image, address);
		builder->arenas_left--;
		if (next > address) {
			// The loop goes on from the last such place before what is there.
			address += min_u64(next - 1, piece->end - 1) / most * most - address;
			continue;
		}
		const uint64_t size = arena_size(builder, address);
		const uint64_t end = min_u64(piece->end, add_saturated(address, size));
		if (size == 0)
			continue;
		if (!place_add_anon(builder, piece, at, address) ||
			!place_add(builder, address, end, KIND_HEAP,
				(struct place){.type = PLACE_ARENA, .base = address}))
			return false;
		at = end;
		if (address > UINT64_MAX - most)
			break;
	}
	return place_add_anon(builder, piece, at, piece->end);
}

// glibc, malloc/malloc.c: a block that is too large for a heap is mapped by itself. Its size, in
// whole pages with IS_MMAPPED in bit 1, is its second word. Newer blocks lie below older ones, side
// by side. Returns the address behind the blocks that begin at start.
static uint64_t blocks_end(struct builder *builder, const struct piece *piece)
{
	const unsigned word = image_info(builder->image)->elf_class / 8;
	uint64_t at = piece->start;
	for (; at < piece->end && builder->blocks_left > 0; builder->blocks_left--) {
		uint64_t size;
		if (!image_read_word(builder->image, at + word, &size) || (size & 7) != 2)
			break;
		size -= 2;
		if (size < PAGE || size % PAGE != 0 || size > piece->end - at)
			break;
		at += size;
	}
	return at;
}

static bool piece_is_break(struct builder *builder, const struct piece *piece)
{
	if ((piece->flags & PF_W) == 0 || builder->program_end == 0)
		return false;
	// Parts of the heap can have been given other properties; they still follow each other.
	if (builder->break_start != 0)
		return piece->start == builder->break_end;
	const struct image_process *process = &image_info(builder->image)->process;
	uint64_t least = builder->program_end, most = add_saturated(least, BREAK_DISTANCE_MAX);
	if (process->break_start != 0) {
		least = process->break_start;
		most = process->break_end - 1;
	} else if (builder->break_least != 0) {
		least = builder->break_least;
		most = builder->break_most;
	}
	if (piece->start < least || piece->start > most ||
		(piece->rest && piece->end - piece->start < BREAK_REST_MIN &&
			process->break_start == 0))
		return false;
	builder->break_start = piece->start;
	return true;
}

// Where the kernel put the break, if that is not behind the program.
static void break_expect(struct builder *builder)
{
	const struct module *program = builder->modules->main;
	const struct image_info *info = image_info(builder->image);
	uint64_t base;
	// Linux, arch/powerpc/mm/book3s64/hash_utils.c (before 6.1 kernel/process.c),
	// arch_randomize_brk: not below 1 TiB, where segments of that size begin.
	if (info->machine == EM_PPC64 && builder->program_end < POWERPC_BREAK) {
		builder->break_least = POWERPC_BREAK;
		builder->break_most = POWERPC_BREAK + BREAK_DISTANCE_MAX;
	}
	// Linux, fs/binfmt_elf.c, load_elf_binary: a program that is position independent and needs
	// no dynamic linker is mapped where libraries are, and the break is where other programs
	// would be: two thirds of the addresses, far below.
	if (program->loaded && program->elf.type == ET_DYN && info->elf_class == 64 &&
		elf_segment_find(&program->elf, PT_INTERP) == NULL &&
		(!auxv_find(info, AT_BASE, &base) || base == 0)) {
		builder->break_least = program->start / 2;
		builder->break_most = program->start;
	}
}

static bool piece_add(struct builder *builder, const struct piece *piece)
{
	const size_t first = stacks_below(builder, piece->start);
	const size_t last = stacks_below(builder, piece->end);
	if (first < last && (piece->flags & PF_W) != 0)
		return piece_add_stacks(builder, piece, first, last);
	if (piece_is_break(builder, piece)) {
		builder->break_end = piece->end;
		return place_add(builder, piece->start, piece->end, KIND_HEAP,
			(struct place){.type = PLACE_BREAK, .base = builder->break_start});
	}
	if ((piece->flags & PF_W) == 0)
		return place_add_anon(builder, piece, piece->start, piece->end);
	const uint64_t end = blocks_end(builder, piece);
	if (!place_add(builder, piece->start, end, KIND_HEAP,
		    (struct place){.type = PLACE_BLOCKS, .base = piece->start}))
		return false;
	const struct piece rest = {end, piece->end, piece->flags, true};
	return rest.start >= rest.end || piece_add_arenas(builder, &rest);
}

// Segments and the ranges of modules, both sorted, in one walk: what belongs to a module is the
// module's; the rest of a segment is a piece.
static bool places_walk(struct builder *builder)
{
	const struct image_info *info = image_info(builder->image);
	const struct modules *modules = builder->modules;
	size_t next = 0;
	uint64_t done = 0; // all below is dealt with
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t end = add_saturated(segment->address, segment->size);
		while (done < end) {
			const bool more = next < modules->range_count;
			const uint64_t start = more ? modules->ranges[next].start : end;
			const uint64_t limit = min_u64(end, max_u64(done, start));
			const struct piece piece = {max_u64(done, segment->address), limit,
				segment->flags, done > segment->address};
			if (piece.start < piece.end && !piece_add(builder, &piece))
				return false;
			done = max_u64(done, limit);
			if (!more || start > done || limit >= end)
				break;
			if (!place_add_module(builder, &modules->ranges[next]))
				return false;
			done = modules->ranges[next++].end;
		}
	}
	for (; next < modules->range_count; next++)
		if (!place_add_module(builder, &modules->ranges[next]))
			return false;
	return true;
}

static int stack_compare(const void *a, const void *b)
{
	const struct stack *x = a, *y = b;
	if (x->pointer != y->pointer)
		return x->pointer < y->pointer ? -1 : 1;
	return (x->thread > y->thread) - (x->thread < y->thread);
}

// One stack for each thread; the program's first one holds its name even if no stack pointer is
// known.
static bool stacks_init(struct builder *builder)
{
	const struct image_process *process = &image_info(builder->image)->process;
	builder->stacks = calloc(process->thread_count + 1, sizeof *builder->stacks);
	if (builder->stacks == NULL)
		return false;
	bool first = false;
	uint64_t name = 0;
	const struct image_segment *segment = NULL;
	if (auxv_find(image_info(builder->image), AT_EXECFN, &name))
		segment = image_segment_at(builder->image, name);
	for (size_t i = 0; i < process->thread_count; i++) {
		const struct image_thread *thread = &process->threads[i];
		if (thread->stack_pointer == 0)
			continue;
		if (segment != NULL && thread->stack_pointer - segment->address < segment->size)
			first = true;
		builder->stacks[builder->stack_count++] =
			(struct stack){thread->stack_pointer, thread->id};
	}
	if (!first && segment != NULL)
		builder->stacks[builder->stack_count++] = (struct stack){name, process->pid};
	qsort(builder->stacks, builder->stack_count, sizeof *builder->stacks, stack_compare);
	return true;
}

bool places_init(const struct image *image, const struct modules *modules, struct error *err,
	struct places *ret)
{
	struct builder builder = {.image = image,
		.modules = modules,
		.places = ret,
		.blocks_left = BLOCKS_MAX,
		.arenas_left = ARENAS_MAX};
	*ret = (struct places){0};
	const struct image_info *info = image_info(image);
	if (info->format != IMAGE_ELF_CORE || info->overridden)
		return true;
	if (modules->main != NULL) {
		builder.program_end = modules->main->end;
		break_expect(&builder);
	}
	const bool done = stacks_init(&builder) && places_walk(&builder);
	free(builder.stacks);
	if (done)
		return true;
	places_deinit(ret);
	return error_memory(err);
}

void places_deinit(struct places *places)
{
	free(places->spans);
	free(places->list);
	*places = (struct places){0};
}

bool places_find(const struct places *places, uint64_t address, size_t *ret)
{
	size_t low = 0, high = places->count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (places->spans[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	*ret = low;
	return low < places->count && address >= places->spans[low].start;
}

void places_measure(
	const struct places *places, const struct image *image, uint64_t ret[static KIND_COUNT])
{
	const struct image_info *info = image_info(image);
	memset(ret, 0, KIND_COUNT * sizeof *ret);
	uint64_t done = 0;
	size_t next = 0;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t end = add_saturated(segment->address, segment->present);
		for (; next < places->count && places->spans[next].start < end; next++) {
			const struct span *span = &places->spans[next];
			const uint64_t from = max_u64(max_u64(span->start, segment->address), done);
			const uint64_t to = min_u64(span->end, end);
			if (from < to) {
				ret[span->kind] += to - from;
				done = to;
			}
			if (span->end > end)
				break;
		}
	}
}
