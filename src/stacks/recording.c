// SPDX-License-Identifier: MIT
#include "stacks/recording.h"

#include <elf.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../record/format.h"
#include "base/bytes.h"
#include "base/guard.h"
#include "image/localfile.h"

// No program has more; each takes 16 bytes here, or about 150.
#define NODES_MAX ((uint64_t)1 << 27)
#define STACKS_MAX ((uint64_t)1 << 24)
#define MODULES_MAX ((uint64_t)8192)
#define THREADS_MAX ((uint64_t)1 << 17)
#define GRANULES_MAX ((uint64_t)1 << 24)
#define SNAPSHOTS_MAX ((uint64_t)1 << 20)
#define POINTS_MAX ((uint64_t)1 << 26)
// Sizes beyond so many different ones count together, as 0.
#define SIZES_MAX ((size_t)1 << 20)
#define PATH_LENGTH_MAX 4096
// An entry of a table is no larger, in bytes.
#define ENTRY_MAX 65536

// ---- the block and its tables

static bool header_valid(const struct record_header *header)
{
	return memcmp(header->magic, RECORD_MAGIC, sizeof header->magic) == 0;
}

bool recording_probe(const char *path, struct image_memory *ret)
{
	struct record_header header = {0};
	struct local_file *file = path != NULL ? local_file_create(path) : NULL;
	if (file == NULL)
		return false;
	const bool found = local_file_read(file, 0, &header, sizeof header) >=
				   offsetof(struct record_header, sections) &&
			   header_valid(&header);
	local_file_destroy(file);
	*ret = (struct image_memory){
		.address = header.self,
		.size = header.size,
		.machine = (uint16_t)header.machine,
		.pid = header.pid,
	};
	return found;
}

static bool header_at(const struct image *image, uint64_t address, struct record_header *ret)
{
	*ret = (struct record_header){0};
	return image_read(image, address, ret, sizeof ret->magic) == sizeof ret->magic &&
	       header_valid(ret) &&
	       image_read(image, address, ret, sizeof *ret) >=
		       offsetof(struct record_header, sections) &&
	       ret->self == address;
}

bool recording_find(const struct image *image, uint64_t *ret)
{
	const struct image_info *info = image_info(image);
	struct record_header header;
	if (info->elf_class != 64 || info->elf_order != ORDER_LITTLE)
		return false;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		if ((segment->flags & PF_W) == 0 && info->format != IMAGE_MEMORY)
			continue;
		const uint64_t end = segment->address + segment->present;
		uint64_t at = (segment->address + RECORD_ALIGN - 1) & ~(RECORD_ALIGN - 1);
		if (info->format == IMAGE_MEMORY)
			at = segment->address;
		for (; at >= segment->address && at < end; at += RECORD_ALIGN) {
			if (header_at(image, at, &header)) {
				*ret = at;
				return true;
			}
			if (info->format == IMAGE_MEMORY || at > UINT64_MAX - RECORD_ALIGN)
				break;
		}
	}
	return false;
}

// The table of a kind; NULL if there is none. Its entries are within the block.
static const struct record_section *section_find(
	const struct recording *recording, enum record_kind kind)
{
	const struct record_header *header = recording->header;
	for (uint32_t i = 0; i < header->section_count; i++)
		if (header->sections[i].kind == kind)
			return &header->sections[i];
	return NULL;
}

// Cut what does not fit; the header is a copy.
static void sections_check(struct recording *recording)
{
	struct record_header *header = recording->header;
	if (header->section_count > RECORD_SECTIONS) {
		header->section_count = RECORD_SECTIONS;
		recording->damaged = true;
	}
	for (uint32_t i = 0; i < header->section_count; i++) {
		struct record_section *section = &header->sections[i];
		if (section->kind == 0 || section->kind >= RECORD_PRIVATE)
			continue;
		if (section->entry == 0 || section->entry > ENTRY_MAX ||
			section->offset > header->size) {
			section->kind = 0;
			recording->damaged = true;
			continue;
		}
		const uint64_t room = (header->size - section->offset) / section->entry;
		if (section->used > room || section->used > section->capacity) {
			section->used = min_u64(section->used, min_u64(room, section->capacity));
			recording->damaged = true;
		}
	}
}

// Read entries of a table from index first on, each of size bytes in ret. Returns how many there
// are.
static size_t entries_read(const struct recording *recording, const struct record_section *section,
	uint64_t first, size_t count, size_t size, void *ret)
{
	const uint64_t at = recording->address + section->offset + first * section->entry;
	count = (size_t)min_u64(count, section->used > first ? section->used - first : 0);
	if (section->entry == size)
		return image_read(recording->image, at, ret, count * size) / size;
	memset(ret, 0, count * size);
	const size_t known = (size_t)min_u64(size, section->entry);
	for (size_t i = 0; i < count; i++)
		if (image_read(recording->image, at + i * section->entry, (char *)ret + i * size,
			    known) != known)
			return i;
	return count;
}

// How many entries are asked for at once.
#define BATCH 1024

// Call use for each entry of a table, of size bytes, up to most of them. False if use does.
static bool entries_each(const struct recording *recording, enum record_kind kind, size_t size,
	uint64_t most, bool (*use)(void *context, uint64_t index, const void *entry), void *context)
{
	const struct record_section *section = section_find(recording, kind);
	if (section == NULL)
		return true;
	const size_t batch = size > ENTRY_MAX / 8 ? 1 : BATCH;
	char *buffer AUTO_FREE = malloc(batch * size);
	if (buffer == NULL)
		return false;
	const uint64_t end = min_u64(section->used, most);
	for (uint64_t at = 0; at < end;) {
		const size_t got = entries_read(
			recording, section, at, (size_t)min_u64(batch, end - at), size, buffer);
		if (got == 0)
			return true;
		for (size_t i = 0; i < got; i++)
			if (!use(context, at + i, buffer + i * size))
				return false;
		at += got;
	}
	return true;
}

// Room for one more in an array that grows by halves; false if there is no memory.
static bool array_grow(void *array, size_t count, size_t size)
{
	// Powers of two, and 64 at first.
	if (count != 0 && (count < 64 || (count & (count - 1)) != 0))
		return true;
	void *grown = reallocarray(*(void **)array, count == 0 ? 64 : 2 * count, size);
	if (grown == NULL)
		return false;
	*(void **)array = grown;
	return true;
}

// ---- modules

// A text of the table of strings. The caller must free it; NULL: there is none, or no memory.
static char *string_read(const struct recording *recording, uint64_t offset)
{
	const struct record_section *section = section_find(recording, RECORD_STRINGS);
	char text[PATH_LENGTH_MAX];
	if (section == NULL || section->entry != 1 || offset >= section->used)
		return NULL;
	const size_t got = entries_read(recording, section, offset, sizeof text - 1, 1, text);
	text[got] = '\0';
	return strdup(text);
}

static bool module_use(void *context, uint64_t index, const void *entry)
{
	struct recording *recording = context;
	const struct record_module *from = entry;
	(void)index;
	if (from->start >= from->end)
		return true;
	if (!array_grow(&recording->modules, recording->module_count, sizeof *recording->modules))
		return false;
	struct module_known *module = &recording->modules[recording->module_count];
	*module = (struct module_known){
		.start = from->start,
		.end = from->end,
		.bias = from->bias,
		.is_main = from->main != 0,
	};
	_Static_assert(sizeof from->id <= sizeof module->id.bytes, "a build-id fits");
	module->id.size = from->id_size <= sizeof from->id ? from->id_size : 0;
	memcpy(module->id.bytes, from->id, module->id.size);
	module->path = string_read(recording, from->path);
	if (module->path == NULL)
		module->path = strdup("");
	recording->module_count++;
	return module->path != NULL;
}

bool recording_open(
	const struct image *image, uint64_t address, struct error *err, struct recording **ret)
{
	struct recording *recording = calloc(1, sizeof *recording);
	struct record_header *header = calloc(1, sizeof *header);
	if (recording == NULL || header == NULL) {
		free(recording);
		free(header);
		return error_memory(err);
	}
	recording->image = image;
	recording->address = address;
	recording->header = header;
	if (!header_at(image, address, header) || header->version != RECORD_VERSION) {
		error_set(err,
			"%s: the recording in it is of version %" PRIu32
			", this topleak reads version %d",
			image_info(image)->path, header->version, RECORD_VERSION);
		recording_destroy(recording);
		return false;
	}
	sections_check(recording);
	recording->full = header->mode == RECORD_FULL;
	recording->sample_mean = header->sample_mean;
	recording->pid = header->pid;
	recording->start = header->start_realtime;
	recording->duration = header->ended != 0 ? header->ended : header->now;
	recording->peak_bytes = header->peak_bytes;
	recording->peak_time = header->peak_time;
	recording->stacks_cut = header->stacks_cut;
	recording->blocks_lost = header->blocks_lost;
	recording->bytes_lost = header->bytes_lost;
	if (entries_each(recording, RECORD_MODULES, sizeof(struct record_module), MODULES_MAX,
		    module_use, recording)) {
		*ret = recording;
		return true;
	}
	recording_destroy(recording);
	return error_memory(err);
}

// ---- stacks

void stack_values_add(struct stack_values *to, const struct stack_values *more)
{
	to->live_bytes = add_saturated(to->live_bytes, more->live_bytes);
	to->live_blocks = add_saturated(to->live_blocks, more->live_blocks);
	to->peak_bytes = add_saturated(to->peak_bytes, more->peak_bytes);
	to->peak_blocks = add_saturated(to->peak_blocks, more->peak_blocks);
	to->bytes = add_saturated(to->bytes, more->bytes);
	to->blocks = add_saturated(to->blocks, more->blocks);
	to->temporary = add_saturated(to->temporary, more->temporary);
	to->largest = max_u64(to->largest, more->largest);
	to->variance += more->variance;
	to->sampled = add_saturated(to->sampled, more->sampled);
	if (more->first != 0 && (to->first == 0 || more->first < to->first))
		to->first = more->first;
	to->last = max_u64(to->last, more->last);
	to->aged = add_saturated(to->aged, more->aged);
	to->age_sum = add_saturated(to->age_sum, more->age_sum);
	to->age_most = max_u64(to->age_most, more->age_most);
}

static bool node_use(void *context, uint64_t index, const void *entry)
{
	struct recording *recording = context;
	const struct record_node *from = entry;
	if (!array_grow(&recording->nodes, (size_t)index, sizeof *recording->nodes))
		return false;
	recording->nodes[index] = (struct stack_node){from->pc, from->parent};
	recording->node_count = (size_t)index + 1;
	return true;
}

static bool stack_use(void *context, uint64_t index, const void *entry)
{
	struct recording *recording = context;
	const struct record_stack *from = entry;
	if (!array_grow(&recording->stacks, (size_t)index, sizeof *recording->stacks))
		return false;
	struct stack *stack = &recording->stacks[index];
	recording->stack_count = (size_t)index + 1;
	*stack = (struct stack){.node = from->node};
	if (index == 0)
		return true;
	if (from->node >= recording->node_count) {
		stack->node = 0;
		recording->damaged = true;
	}
	const bool noted = from->peak_number == recording->header->peak_number;
	stack->values = (struct stack_values){
		// Until the blocks are read.
		.live_bytes = from->bytes - from->freed_bytes,
		.live_blocks = from->blocks - from->freed_blocks,
		.bytes = from->bytes,
		.blocks = from->blocks,
		.temporary = from->temporary,
		.largest = from->largest,
		.first = from->first,
		.last = from->last,
	};
	stack->values.peak_bytes = noted ? from->peak_bytes : stack->values.live_bytes;
	stack->values.peak_blocks = noted ? from->peak_blocks : stack->values.live_blocks;
	return true;
}

// Whether a stack's blocks all are recorded, kept until they are read.
struct flags {
	unsigned char *list; // owned
};

static bool flags_use(void *context, uint64_t index, const void *entry)
{
	struct flags *flags = context;
	const struct record_stack *from = entry;
	flags->list[index] = (from->flags & RECORD_STACK_FULL) != 0;
	return true;
}

// What is in use can be less than nothing until all threads are added up: numbers wrap around.
// peak: the change was there at the peak.
static void thread_add(struct stack_values *values, const struct record_change *change, bool peak)
{
	values->bytes += change->bytes;
	values->blocks += change->blocks;
	values->temporary += change->temporary;
	values->live_bytes += change->bytes - change->freed_bytes;
	values->live_blocks += (uint64_t)change->blocks - change->freed_blocks;
	values->largest = max_u64(values->largest, change->largest);
	if (!peak)
		return;
	values->peak_bytes += change->bytes - change->freed_bytes;
	values->peak_blocks += (uint64_t)change->blocks - change->freed_blocks;
}

static uint64_t not_negative(uint64_t number)
{
	return number <= INT64_MAX ? number : 0;
}

static bool thread_use(void *context, uint64_t index, const void *entry)
{
	struct recording *recording = context;
	const struct record_thread *thread = entry;
	(void)index;
	if (thread->used == 0)
		return true;
	for (size_t i = 0; i < RECORD_CHANGES; i++) {
		const struct record_change *change = &thread->changes[i];
		if (change->stack == 0)
			continue;
		if (change->stack >= recording->stack_count) {
			recording->damaged = true;
			continue;
		}
		thread_add(&recording->stacks[change->stack].values, change,
			change->peak_number != recording->header->peak_number);
	}
	return true;
}

size_t recording_frames(
	const struct recording *recording, uint32_t stack, uint64_t ret[static STACK_DEPTH_MAX])
{
	size_t count = 0;
	if (stack >= recording->stack_count)
		return 0;
	uint32_t node = recording->stacks[stack].node;
	while (node != 0 && node < recording->node_count && count < STACK_DEPTH_MAX) {
		ret[count++] = recording->nodes[node].address;
		node = recording->nodes[node].parent;
	}
	return count;
}

// A well mixed number (the finalizer of MurmurHash3, public domain).
static uint64_t mix(uint64_t number)
{
	number ^= number >> 33;
	number *= UINT64_C(0xff51afd7ed558ccd);
	number ^= number >> 33;
	number *= UINT64_C(0xc4ceb9fe1a85ec53);
	return number ^ number >> 33;
}

static uint64_t bytes_hash(const void *bytes, size_t size)
{
	uint64_t hash = size;
	for (size_t i = 0; i < size; i++)
		hash = mix(hash ^ ((const unsigned char *)bytes)[i]);
	return hash;
}

// Something of a module that is the same in every process: its build-id, or else its path.
static uint64_t module_hash(const struct module *module)
{
	return module->build_id.size > 0 ? bytes_hash(module->build_id.bytes, module->build_id.size)
					 : bytes_hash(module->path, strlen(module->path));
}

static bool stacks_identify(struct recording *recording, const struct modules *modules)
{
	uint64_t *hashes AUTO_FREE = calloc(modules->count + 1, sizeof *hashes);
	uint64_t frames[STACK_DEPTH_MAX];
	if (hashes == NULL)
		return false;
	for (size_t i = 0; i < modules->count; i++)
		hashes[i] = module_hash(&modules->list[i]);
	for (uint32_t i = 1; i < recording->stack_count; i++) {
		uint64_t identity = 0;
		for (size_t k = recording_frames(recording, i, frames); k-- > 0;) {
			const struct module_range *range = modules_find(modules, frames[k] - 1);
			const uint64_t place = range != NULL
						       ? mix(hashes[range->module]) + frames[k] -
								 modules->list[range->module].bias
						       : frames[k];
			identity = mix(identity + place);
		}
		recording->stacks[i].identity = identity;
	}
	return true;
}

// ---- blocks

struct walk {
	const struct recording *recording;
	bool (*use)(void *context, const struct stack_block *block);
	void *context;
	uint64_t chunks_left;
	struct record_slot *slots; // of one granule; owned
};

static bool block_use(void *context, uint64_t index, const void *entry)
{
	const struct walk *walk = context;
	const struct record_block *block = entry;
	(void)index;
	return block->address == 0 || block->stack == 0 ||
	       walk->use(walk->context, &(struct stack_block){block->address, block->size,
						block->stack, block->born});
}

// Where the slots of a chunk begin; false if it is not there.
static bool chunk_find(const struct recording *recording, uint32_t chunk, uint64_t *ret)
{
	const struct record_section *section = section_find(recording, RECORD_SHADOW);
	if (chunk == 0 || section == NULL || section->entry != sizeof(struct record_slot) ||
		chunk > section->used / RECORD_SLOTS)
		return false;
	*ret = recording->address + section->offset +
	       (uint64_t)(chunk - 1) * RECORD_SLOTS * sizeof(struct record_slot);
	return true;
}

static bool granule_use(void *context, uint64_t index, const void *entry)
{
	struct walk *walk = context;
	const struct record_granule *granule = entry;
	const size_t size = RECORD_SLOTS * sizeof *walk->slots;
	uint64_t at, end;
	(void)index;
	// Each chunk belongs to one granule: there are no more granules than chunks.
	if (granule->number == 0 || walk->chunks_left == 0 ||
		!chunk_find(walk->recording, granule->chunk, &at))
		return true;
	walk->chunks_left--;
	if (!image_has_data(walk->recording->image, at, at + size, &end) && end == at + size)
		return true;
	const size_t count =
		image_read(walk->recording->image, at, walk->slots, size) / sizeof *walk->slots;
	for (size_t i = 0; i < count; i++) {
		const struct record_slot slot = walk->slots[i];
		if (slot.stack == 0)
			continue;
		const struct stack_block block = {
			.address = ((uint64_t)granule->number << RECORD_GRANULE_BITS) + 16 * i,
			.size = slot.size,
			.stack = (uint32_t)slot.stack,
			.born = (uint32_t)min_u64(
				(uint64_t)slot.born * RECORD_BORN_UNIT, UINT32_MAX),
		};
		if (!walk->use(walk->context, &block))
			return false;
	}
	return true;
}

bool recording_blocks(const struct recording *recording,
	bool (*use)(void *context, const struct stack_block *block), void *context)
{
	const struct record_section *shadow = section_find(recording, RECORD_SHADOW);
	struct walk walk = {.recording = recording, .use = use, .context = context};
	walk.chunks_left = shadow != NULL ? shadow->used / RECORD_SLOTS : 0;
	walk.slots = malloc(RECORD_SLOTS * sizeof *walk.slots);
	const bool done = walk.slots != NULL &&
			  entries_each(recording, RECORD_BLOCKS, sizeof(struct record_block),
				  UINT64_MAX, block_use, &walk) &&
			  entries_each(recording, RECORD_DIRECTORY, sizeof(struct record_granule),
				  GRANULES_MAX, granule_use, &walk);
	free(walk.slots);
	return done;
}

// ---- what is in use

struct estimate {
	double bytes, blocks;
};

struct size_slot {
	uint64_t size; // + 1; 0: empty
	struct estimate estimate;
};

struct sum {
	struct recording *recording;
	const unsigned char *full; // of each stack: recorded in full
	struct estimate *stacks;
	struct size_slot *sizes; // a hash table
	size_t size_count, size_room;
	struct estimate other_sizes;
	uint64_t now; // milliseconds
};

static struct size_slot *size_slot_of(struct size_slot *slots, size_t room, uint64_t size)
{
	size_t at = (size_t)mix(size) & (room - 1);
	while (slots[at].size != 0 && slots[at].size != size + 1)
		at = (at + 1) & (room - 1);
	return &slots[at];
}

static bool sizes_grow(struct sum *sum)
{
	if (2 * sum->size_count < sum->size_room)
		return true;
	const size_t room = sum->size_room == 0 ? 1024 : 2 * sum->size_room;
	struct size_slot *grown = calloc(room, sizeof *grown);
	if (grown == NULL)
		return false;
	for (size_t i = 0; i < sum->size_room; i++)
		if (sum->sizes[i].size != 0)
			*size_slot_of(grown, room, sum->sizes[i].size - 1) = sum->sizes[i];
	free(sum->sizes);
	sum->sizes = grown;
	sum->size_room = room;
	return true;
}

static bool sum_block(void *context, const struct stack_block *block)
{
	struct sum *sum = context;
	struct recording *recording = sum->recording;
	if (block->stack >= recording->stack_count || block->size > INT64_MAX) {
		recording->damaged = true;
		return true;
	}
	// The probability with which a block of this size is sampled.
	const bool all = recording->full || recording->sample_mean == 0 || sum->full[block->stack];
	const double size = (double)block->size;
	const double chance =
		all ? 1 : -expm1(-(size > 1 ? size : 1) / (double)recording->sample_mean);
	struct stack_values *values = &recording->stacks[block->stack].values;
	struct estimate *estimate = &sum->stacks[block->stack];
	estimate->bytes += size / chance;
	estimate->blocks += 1 / chance;
	values->variance += size * size * (1 - chance) / (chance * chance);
	values->sampled++;
	values->largest = max_u64(values->largest, block->size);
	if (block->born != UINT32_MAX && block->born <= sum->now) {
		const uint64_t age = sum->now - block->born;
		values->aged++;
		values->age_sum += age;
		values->age_most = max_u64(values->age_most, age);
	}
	if (!sizes_grow(sum))
		return false;
	struct size_slot *slot = size_slot_of(sum->sizes, sum->size_room, block->size);
	struct estimate *of_size = &slot->estimate;
	if (slot->size == 0 && sum->size_count >= SIZES_MAX) {
		of_size = &sum->other_sizes;
	} else if (slot->size == 0) {
		slot->size = block->size + 1;
		sum->size_count++;
	}
	of_size->bytes += size / chance;
	of_size->blocks += 1 / chance;
	return true;
}

static uint64_t rounded(double number)
{
	return number < 9e18 ? (uint64_t)(number + 0.5) : (uint64_t)9e18;
}

static bool sizes_keep(struct sum *sum)
{
	struct recording *recording = sum->recording;
	recording->sizes = calloc(sum->size_count + 1, sizeof *recording->sizes);
	if (recording->sizes == NULL)
		return false;
	for (size_t i = 0; i <= sum->size_room; i++) {
		const bool rest = i == sum->size_room;
		const struct estimate *estimate =
			rest ? &sum->other_sizes : &sum->sizes[i].estimate;
		if (rest ? estimate->blocks == 0 : sum->sizes[i].size == 0)
			continue;
		recording->sizes[recording->size_count++] = (struct stack_size){
			.size = rest ? 0 : sum->sizes[i].size - 1,
			.values = {.live_bytes = rounded(estimate->bytes),
				.live_blocks = rounded(estimate->blocks)},
		};
	}
	return true;
}

// Replace what counts tell of live blocks by what the blocks tell.
static bool recording_sum(struct recording *recording, const unsigned char *full)
{
	struct sum sum = {
		.recording = recording,
		.full = full,
		.stacks = calloc(recording->stack_count + 1, sizeof *sum.stacks),
		.now = recording->duration / 1000000,
	};
	bool done = sum.stacks != NULL;
	const bool blocks = section_find(recording, RECORD_BLOCKS) != NULL ||
			    section_find(recording, RECORD_DIRECTORY) != NULL;
	if (done && blocks)
		done = recording_blocks(recording, sum_block, &sum) && sizes_keep(&sum);
	for (size_t i = 1; done && blocks && i < recording->stack_count; i++) {
		recording->stacks[i].values.live_bytes = rounded(sum.stacks[i].bytes);
		recording->stacks[i].values.live_blocks = rounded(sum.stacks[i].blocks);
	}
	for (size_t i = 1; i < recording->stack_count; i++) {
		struct stack_values *values = &recording->stacks[i].values;
		values->live_bytes = not_negative(values->live_bytes);
		values->live_blocks = not_negative(values->live_blocks);
		values->peak_bytes = not_negative(values->peak_bytes);
		values->peak_blocks = not_negative(values->peak_blocks);
		stack_values_add(&recording->total, values);
	}
	free(sum.stacks);
	free(sum.sizes);
	return done;
}

// ---- snapshots

static bool snapshot_use(void *context, uint64_t index, const void *entry)
{
	struct recording *recording = context;
	const struct record_snapshot *from = entry;
	(void)index;
	if (from->first > recording->point_count ||
		from->count > recording->point_count - from->first) {
		recording->damaged = true;
		return true;
	}
	if (!array_grow(
		    &recording->snapshots, recording->snapshot_count, sizeof *recording->snapshots))
		return false;
	recording->snapshots[recording->snapshot_count++] = (struct stack_snapshot){from->time,
		from->live_bytes, from->live_blocks, from->resident, from->first, from->count};
	return true;
}

static bool point_use(void *context, uint64_t index, const void *entry)
{
	struct recording *recording = context;
	const struct record_point *from = entry;
	if (!array_grow(&recording->points, (size_t)index, sizeof *recording->points))
		return false;
	// A point without a stack counts for none.
	recording->points[index] = (struct stack_point){
		from->stack < recording->stack_count ? from->stack : 0, from->bytes, from->blocks};
	recording->point_count = (size_t)index + 1;
	return true;
}

bool recording_load(struct recording *recording, const struct modules *modules, size_t memory,
	struct error *err)
{
	// Half for nodes and stacks, the rest for what is made of them.
	const uint64_t nodes = min_u64(NODES_MAX, memory / 4 / sizeof(struct stack_node));
	const uint64_t stacks = min_u64(STACKS_MAX, memory / 4 / sizeof(struct stack));
	const struct record_section *section = section_find(recording, RECORD_STACKS);
	if (section != NULL && section->used > stacks)
		return error_usage(err, "%s: has %" PRIu64 " stacks; use a larger --memory",
			image_info(recording->image)->path, section->used);
	struct flags flags = {0};
	bool done = entries_each(recording, RECORD_NODES, sizeof(struct record_node), nodes,
			    node_use, recording) &&
		    entries_each(recording, RECORD_STACKS, sizeof(struct record_stack), stacks,
			    stack_use, recording);
	flags.list = done ? calloc(recording->stack_count + 1, 1) : NULL;
	if (section != NULL && section->used != recording->stack_count)
		recording->damaged = true;
	done = flags.list != NULL &&
	       entries_each(recording, RECORD_STACKS, sizeof(struct record_stack),
		       recording->stack_count, flags_use, &flags) &&
	       entries_each(recording, RECORD_THREADS, sizeof(struct record_thread), THREADS_MAX,
		       thread_use, recording) &&
	       recording_sum(recording, flags.list) && stacks_identify(recording, modules) &&
	       entries_each(recording, RECORD_POINTS, sizeof(struct record_point), POINTS_MAX,
		       point_use, recording) &&
	       entries_each(recording, RECORD_SNAPSHOTS, sizeof(struct record_snapshot),
		       SNAPSHOTS_MAX, snapshot_use, recording);
	free(flags.list);
	return done || error_memory(err);
}

bool recording_log(const struct recording *recording, uint64_t *ret_address, uint64_t *ret_size)
{
	const struct record_section *section = section_find(recording, RECORD_LOG);
	if (section == NULL || section->entry != 1 || section->used == 0)
		return false;
	*ret_address = recording->address + section->offset;
	*ret_size = section->used;
	return true;
}

// ---- the stack of a block

struct block_entry {
	uint64_t address; // of a block, or the number of a granule
	uint32_t value;	  // its stack, or its chunk
};

struct block_index {
	struct block_entry *blocks, *granules; // sorted by address; owned
	size_t block_count, granule_count;
};

static int block_entry_compare(const void *a, const void *b)
{
	const struct block_entry *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

static bool index_block(void *context, uint64_t index, const void *entry)
{
	struct block_index *ret = context;
	const struct record_block *block = entry;
	(void)index;
	if (block->address == 0)
		return true;
	if (!array_grow(&ret->blocks, ret->block_count, sizeof *ret->blocks))
		return false;
	ret->blocks[ret->block_count++] = (struct block_entry){block->address, block->stack};
	return true;
}

static bool index_granule(void *context, uint64_t index, const void *entry)
{
	struct block_index *ret = context;
	const struct record_granule *granule = entry;
	(void)index;
	if (granule->number == 0)
		return true;
	if (!array_grow(&ret->granules, ret->granule_count, sizeof *ret->granules))
		return false;
	ret->granules[ret->granule_count++] = (struct block_entry){granule->number, granule->chunk};
	return true;
}

static void index_destroy(struct block_index *index)
{
	if (index == NULL)
		return;
	free(index->blocks);
	free(index->granules);
	free(index);
}

static struct block_index *index_create(const struct recording *recording)
{
	struct block_index *index = calloc(1, sizeof *index);
	if (index == NULL ||
		!entries_each(recording, RECORD_BLOCKS, sizeof(struct record_block), UINT64_MAX,
			index_block, index) ||
		!entries_each(recording, RECORD_DIRECTORY, sizeof(struct record_granule),
			GRANULES_MAX, index_granule, index)) {
		index_destroy(index);
		return NULL;
	}
	if (index->block_count > 0)
		qsort(index->blocks, index->block_count, sizeof *index->blocks,
			block_entry_compare);
	if (index->granule_count > 0)
		qsort(index->granules, index->granule_count, sizeof *index->granules,
			block_entry_compare);
	return index;
}

static const struct block_entry *index_find(
	const struct block_entry *list, size_t count, uint64_t address)
{
	const struct block_entry wanted = {.address = address};
	return count > 0 ? bsearch(&wanted, list, count, sizeof *list, block_entry_compare) : NULL;
}

uint32_t recording_block(struct recording *recording, uint64_t address)
{
	if (recording->index == NULL)
		recording->index = index_create(recording);
	const struct block_index *index = recording->index;
	if (index == NULL)
		return 0;
	const struct block_entry *found = index_find(index->blocks, index->block_count, address);
	if (found != NULL)
		return found->value < recording->stack_count ? found->value : 0;
	found = index_find(index->granules, index->granule_count, address >> RECORD_GRANULE_BITS);
	uint64_t at;
	struct record_slot slot;
	if (found == NULL || address % 16 != 0 || !chunk_find(recording, found->value, &at))
		return 0;
	at += (address % ((uint64_t)1 << RECORD_GRANULE_BITS)) / 16 * sizeof slot;
	return image_read(recording->image, at, &slot, sizeof slot) == sizeof slot &&
			       slot.stack < recording->stack_count
		       ? (uint32_t)slot.stack
		       : 0;
}

void recording_destroy(struct recording *recording)
{
	if (recording == NULL)
		return;
	for (size_t i = 0; i < recording->module_count; i++)
		free((char *)recording->modules[i].path);
	free(recording->modules);
	free(recording->stacks);
	free(recording->nodes);
	free(recording->snapshots);
	free(recording->points);
	free(recording->sizes);
	free(recording->header);
	index_destroy(recording->index);
	free(recording);
}
