// SPDX-License-Identifier: MIT
//
// HotSpot, JDK 8 to 25. Its heap is regions that are filled with objects from the beginning up to a
// top; an object says its class, a class how large its objects are. Where everything is, libjvm
// says itself (vmstructs.h). Counted is what is there, reachable or not, as by `jmap -histo` (and
// not `jmap -histo:live`), with what the collectors fill gaps with.
//
// Layouts: src/hotspot/share/oops/{oop,markWord,klass,symbol}.hpp (Klass::layout_helper),
// gc/{serial,parallel,g1,shenandoah,z,epsilon}/vmStructs_*.hpp, memory/virtualspace.hpp of OpenJDK
// jdk8u, 17 and 25. Tried on dumps of 17 and 25.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "runtime/exports.h"
#include "runtime/internal.h"
#include "runtime/vmstructs.h"

#define THREADS_LIST_MAX 65536
#define FLAGS_MAX 16384
#define REGIONS_MAX (UINT64_C(1) << 20)
#define GRANULES_MAX (UINT64_C(1) << 24)
#define CLASS_NAME_MAX 1024
#define SHAPES ((size_t)1 << 14)

// Memory that a thread has got to allocate in and has not used yet.
struct hole {
	uint64_t start, end;
};

struct hotspot {
	struct vmstructs structs;
	bool compact;	 // the class is in the mark word
	bool compressed; // it is a number of 32 bits
	uint64_t klass_at, klass_base, klass_shift;
	uint64_t klass_shift_mark;   // in the mark word
	uint64_t length_at;	     // of an array
	uint64_t name_at, layout_at; // in a Klass
	uint64_t symbol_length, symbol_body;
	uint64_t mirror_size; // where a java.lang.Class says how large it is; 0: nowhere
	uint64_t align;
	struct hole *holes; // sorted; owned
	size_t hole_count, hole_capacity;
};

// PIECE_LARGE: of one object, which may go on behind it.
enum { PIECE_REGION, PIECE_LARGE };

struct shape {
	uint64_t klass; // as in the object
	uint32_t type;	// NO_TYPE: this is no class
	int32_t layout;
	bool mirror;
};

// ---- reading what libjvm says

static uint64_t static_word(
	const struct hotspot *vm, struct reader *reader, const char *type, const char *field)
{
	uint64_t address;
	return vm_static(&vm->structs, type, field, &address) ? reader_word(reader, address) : 0;
}

static uint32_t static_u32(
	const struct hotspot *vm, struct reader *reader, const char *type, const char *field)
{
	uint64_t address;
	return vm_static(&vm->structs, type, field, &address) ? reader_u32(reader, address) : 0;
}

// The address of a field of the object at base, or 0. Of several types that have had the field the
// first one counts.
static uint64_t field_at(
	const struct hotspot *vm, uint64_t base, const char *const *types, const char *field)
{
	uint64_t offset;
	for (; base != 0 && *types != NULL; types++)
		if (vm_field(&vm->structs, *types, field, &offset))
			return base + offset;
	return 0;
}

static uint64_t field_word(const struct hotspot *vm, struct reader *reader, uint64_t base,
	const char *const *types, const char *field)
{
	const uint64_t at = field_at(vm, base, types, field);
	return at != 0 ? reader_word(reader, at) : 0;
}

#define TYPES(...) ((const char *const[]){__VA_ARGS__, NULL})

// The value of a flag of the command line; otherwise if there is none of this name.
static uint64_t flag_value(const struct hotspot *vm, struct reader *reader, const char *name,
	unsigned size, uint64_t otherwise)
{
	static const char *const types[] = {"JVMFlag", "Flag"};
	for (size_t i = 0; i < 2; i++) {
		uint64_t stride, name_at, addr_at, list;
		if (!vm_size(&vm->structs, types[i], &stride) ||
			!vm_field(&vm->structs, types[i], "_name", &name_at) ||
			!vm_field(&vm->structs, types[i], "_addr", &addr_at) ||
			(list = static_word(vm, reader, types[i], "flags")) == 0)
			continue;
		const uint64_t count = static_word(vm, reader, types[i], "numFlags");
		for (uint64_t k = 0; k < count && k < FLAGS_MAX; k++) {
			char text[64];
			reader_text(reader, reader_word(reader, list + k * stride + name_at), text,
				sizeof text);
			if (strcmp(text, name) != 0)
				continue;
			const uint64_t at = reader_word(reader, list + k * stride + addr_at);
			return size == 1 ? reader_u8(reader, at) : reader_u32(reader, at);
		}
	}
	return otherwise;
}

// ---- regions

static bool space_add(struct runtime_scan *scan, uint64_t bottom, uint64_t top)
{
	if (bottom == 0 || top < bottom)
		return true;
	scan->runtime->heap_bytes += top - bottom;
	return bottom == top || scan_add(scan, bottom, top, PIECE_REGION, false);
}

static bool contiguous_add(struct runtime_scan *scan, struct reader *reader, uint64_t space)
{
	const struct hotspot *vm = scan->state;
	return space_add(scan,
		field_word(vm, reader, space, TYPES("ContiguousSpace", "Space"), "_bottom"),
		field_word(vm, reader, space, TYPES("ContiguousSpace"), "_top"));
}

static bool mutable_add(struct runtime_scan *scan, struct reader *reader, uint64_t space)
{
	const struct hotspot *vm = scan->state;
	return space_add(scan, field_word(vm, reader, space, TYPES("MutableSpace"), "_bottom"),
		field_word(vm, reader, space, TYPES("MutableSpace"), "_top"));
}

static bool serial_find(struct runtime_scan *scan, struct reader *reader, uint64_t heap)
{
	const struct hotspot *vm = scan->state;
	const char *const *heaps = TYPES("SerialHeap", "GenCollectedHeap");
	uint64_t young = field_word(vm, reader, heap, heaps, "_young_gen");
	uint64_t old = field_word(vm, reader, heap, heaps, "_old_gen");
	const uint64_t list = field_at(vm, heap, TYPES("GenCollectedHeap"), "_gens"); // JDK 8
	if (young == 0 && list != 0) {
		young = reader_word(reader, list);
		old = reader_word(reader, list + 8);
	}
	const char *const *news = TYPES("DefNewGeneration");
	return young != 0 &&
	       contiguous_add(scan, reader, field_word(vm, reader, young, news, "_eden_space")) &&
	       contiguous_add(scan, reader, field_word(vm, reader, young, news, "_from_space")) &&
	       contiguous_add(scan, reader, field_word(vm, reader, young, news, "_to_space")) &&
	       contiguous_add(scan, reader,
		       field_word(vm, reader, old,
			       TYPES("TenuredGeneration", "OneContigSpaceCardGeneration"),
			       "_the_space"));
}

static bool parallel_find(struct runtime_scan *scan, struct reader *reader, uint64_t heap)
{
	const struct hotspot *vm = scan->state;
	(void)heap;
	const uint64_t young = static_word(vm, reader, "ParallelScavengeHeap", "_young_gen");
	const uint64_t old = static_word(vm, reader, "ParallelScavengeHeap", "_old_gen");
	const char *const *news = TYPES("PSYoungGen");
	return young != 0 && old != 0 &&
	       mutable_add(scan, reader, field_word(vm, reader, young, news, "_eden_space")) &&
	       mutable_add(scan, reader, field_word(vm, reader, young, news, "_from_space")) &&
	       mutable_add(scan, reader, field_word(vm, reader, young, news, "_to_space")) &&
	       mutable_add(scan, reader,
		       field_word(vm, reader, old, TYPES("PSOldGen"), "_object_space"));
}

static bool g1_find(struct runtime_scan *scan, struct reader *reader, uint64_t heap)
{
	const struct hotspot *vm = scan->state;
	const uint64_t table = field_at(vm, field_at(vm, heap, TYPES("G1CollectedHeap"), "_hrm"),
		TYPES("G1HeapRegionManager", "HeapRegionManager"), "_regions");
	const char *const *tables = TYPES("G1HeapRegionTable");
	const uint64_t list = field_word(vm, reader, table, tables, "_base");
	const uint64_t count = field_word(vm, reader, table, tables, "_length");
	const char *const *regions = TYPES("G1HeapRegion", "HeapRegion", "G1OffsetTableContigSpace",
		"G1ContiguousSpace", "Space");
	uint64_t starts, goes_on, mask = 4;
	if (list == 0 || count > REGIONS_MAX)
		return false;
	if ((!vm_constant(&vm->structs, "G1HeapRegionType::StartsHumongousTag", &starts) &&
		    !vm_constant(&vm->structs, "HeapRegionType::StartsHumongousTag", &starts)) ||
		(!vm_constant(&vm->structs, "G1HeapRegionType::ContinuesHumongousTag", &goes_on) &&
			!vm_constant(
				&vm->structs, "HeapRegionType::ContinuesHumongousTag", &goes_on)))
		starts = 4, goes_on = 5;
	vm_constant(&vm->structs, "G1HeapRegionType::HumongousMask", &mask);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t region = reader_word(reader, list + 8 * i);
		const uint64_t type = field_at(vm, region, regions, "_type");
		const uint64_t tag_at =
			field_at(vm, type, TYPES("G1HeapRegionType", "HeapRegionType"), "_tag");
		const uint64_t bottom = field_word(vm, reader, region, regions, "_bottom");
		const uint64_t top = field_word(vm, reader, region, regions, "_top");
		const uint32_t tag = tag_at != 0 ? reader_u32(reader, tag_at) : 0;
		if (bottom == 0 || top <= bottom || tag == 0)
			continue;
		scan->runtime->heap_bytes += top - bottom;
		if (tag != goes_on &&
			!scan_add(scan, bottom, top, (tag & mask) != 0 ? PIECE_LARGE : PIECE_REGION,
				false))
			return false;
	}
	return true;
}

static bool shenandoah_find(struct runtime_scan *scan, struct reader *reader, uint64_t heap)
{
	const struct hotspot *vm = scan->state;
	const char *const *heaps = TYPES("ShenandoahHeap");
	const char *const *regions = TYPES("ShenandoahHeapRegion");
	const uint64_t list = field_word(vm, reader, heap, heaps, "_regions");
	const uint64_t count = field_word(vm, reader, heap, heaps, "_num_regions");
	uint64_t goes_on = 4, starts = 3, pinned = 5;
	vm_constant(&vm->structs, "ShenandoahHeapRegion::_humongous_start", &starts);
	vm_constant(&vm->structs, "ShenandoahHeapRegion::_humongous_cont", &goes_on);
	vm_constant(&vm->structs, "ShenandoahHeapRegion::_pinned_humongous_start", &pinned);
	uint64_t trash = 9;
	vm_constant(&vm->structs, "ShenandoahHeapRegion::_trash", &trash);
	if (list == 0 || count > REGIONS_MAX)
		return false;
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t region = reader_word(reader, list + 8 * i);
		const uint64_t state_at = field_at(vm, region, regions, "_state");
		const uint64_t bottom = field_word(vm, reader, region, regions, "_bottom");
		const uint64_t top = field_word(vm, reader, region, regions, "_top");
		const uint32_t state = state_at != 0 ? reader_u32(reader, state_at) : 0;
		if (bottom == 0 || top <= bottom || state == trash)
			continue;
		scan->runtime->heap_bytes += top - bottom;
		if (state != goes_on &&
			!scan_add(scan, bottom, top,
				state == starts || state == pinned ? PIECE_LARGE : PIECE_REGION,
				false))
			return false;
	}
	return true;
}

// Where in memory an offset in ZGC's heap is: above the bits of all offsets since it has
// generations, and before that at the view of which pointers have the good color.
static uint64_t z_base(const struct hotspot *vm, struct reader *reader)
{
	const char *const *types = TYPES("ZGlobalsForVMStructs");
	const uint64_t globals = static_word(vm, reader, "ZGlobalsForVMStructs", "_instance_p");
	const uint64_t good = field_word(vm, reader, globals, types, "_ZAddressGoodMask");
	const uint64_t offsets = field_word(vm, reader, globals, types, "_ZAddressOffsetMask");
	return good != 0      ? reader_word(reader, good)
	       : offsets != 0 ? reader_word(reader, offsets) + 1
			      : 0;
}

// Granules of 2 MiB: ZGranuleSizeShift, src/hotspot/share/gc/z/zGlobals.hpp.
#define Z_GRANULE_SHIFT 21

static bool z_find(struct runtime_scan *scan, struct reader *reader, uint64_t heap)
{
	const struct hotspot *vm = scan->state;
	const uint64_t inner = field_at(vm, heap, TYPES("ZCollectedHeap"), "_heap");
	const uint64_t table = field_at(vm, inner, TYPES("ZHeap"), "_page_table");
	const uint64_t map = field_at(vm, table, TYPES("ZPageTable"), "_map");
	const char *const *maps = TYPES("ZGranuleMapForPageTable");
	const char *const *pages = TYPES("ZPage");
	const uint64_t list = field_word(vm, reader, map, maps, "_map");
	const uint64_t base = z_base(vm, reader);
	// The number of granules is the map's first word.
	const uint64_t count = map != 0 ? reader_word(reader, map) : 0;
	uint64_t last = 0;
	if (list == 0 || base == 0 || count == 0 || count > GRANULES_MAX)
		return false;
	for (uint64_t i = 0; i < count && !scan->lost; i++) {
		unsigned char bytes[8];
		const uint64_t entry = list + 8 * i;
		if (!reader_get(reader, entry, bytes, 8)) {
			// What was never used is not there.
			const uint64_t next = image_next(scan->image, entry);
			if (next <= entry || (next - list) / 8 <= i)
				continue;
			i = (next - list) / 8 - 1;
			continue;
		}
		const uint64_t page = word_load(bytes, 8, ORDER_LITTLE);
		const uint64_t at = field_at(vm, page, pages, "_virtual");
		const uint64_t start =
			field_word(vm, reader, at, TYPES("ZVirtualMemory"), "_start");
		const uint64_t top = field_word(vm, reader, page, pages, "_top");
		// A page of several granules is there as often.
		if (page == 0 || page == last || top <= start || start >> Z_GRANULE_SHIFT != i)
			continue;
		last = page;
		if (start >= base || top > base || !space_add(scan, base | start, base | top))
			return false;
	}
	return true;
}

static bool epsilon_find(struct runtime_scan *scan, struct reader *reader, uint64_t heap)
{
	const struct hotspot *vm = scan->state;
	return contiguous_add(
		scan, reader, field_word(vm, reader, heap, TYPES("EpsilonHeap"), "_space"));
}

static const struct collector {
	const char *flag;
	bool (*find)(struct runtime_scan *scan, struct reader *reader, uint64_t heap);
} collectors[] = {
	{"UseG1GC", g1_find},
	{"UseParallelGC", parallel_find},
	{"UseParallelOldGC", parallel_find},
	{"UseSerialGC", serial_find},
	{"UseShenandoahGC", shenandoah_find},
	{"UseZGC", z_find},
	{"UseEpsilonGC", epsilon_find},
};

// ---- what threads have not used yet

static int hole_compare(const void *left, const void *right)
{
	const struct hole *a = left, *b = right;
	return a->start < b->start ? -1 : a->start > b->start;
}

static bool hole_add(struct runtime_scan *scan, struct reader *reader, uint64_t thread)
{
	struct hotspot *vm = scan->state;
	const char *const *types = TYPES("ThreadLocalAllocBuffer");
	const uint64_t tlab = field_at(vm, thread, TYPES("Thread"), "_tlab");
	const uint64_t top = field_word(vm, reader, tlab, types, "_top");
	const uint64_t end_at = field_at(vm, tlab, types, "_end");
	if (end_at == 0 || top == 0)
		return true;
	uint64_t end = reader_word(reader, end_at);
	// Sampling may have moved the end; the real one follows (_allocation_end, since JDK 11).
	const uint64_t real = reader_word(reader, end_at + 8);
	if (real > end && real - end < UINT64_C(1) << 30)
		end = real;
	if (top >= end)
		return true;
	if (vm->hole_count == vm->hole_capacity) {
		const size_t capacity = vm->hole_capacity * 2 + 64;
		struct hole *grown = reallocarray(vm->holes, capacity, sizeof *grown);
		if (grown == NULL)
			return false;
		vm->holes = grown;
		vm->hole_capacity = capacity;
	}
	vm->holes[vm->hole_count++] = (struct hole){top, end};
	return true;
}

static bool holes_find(struct runtime_scan *scan, struct reader *reader)
{
	struct hotspot *vm = scan->state;
	const uint64_t list = static_word(vm, reader, "ThreadsSMRSupport", "_java_thread_list");
	const uint64_t length_at = field_at(vm, list, TYPES("ThreadsList"), "_length");
	if (length_at != 0) {
		const uint64_t threads =
			field_word(vm, reader, list, TYPES("ThreadsList"), "_threads");
		const uint32_t count = reader_u32(reader, length_at);
		for (uint32_t i = 0; i < count && i < THREADS_LIST_MAX; i++)
			if (!hole_add(scan, reader, reader_word(reader, threads + 8 * (uint64_t)i)))
				return false;
	} else {
		uint64_t thread = static_word(vm, reader, "Threads", "_thread_list");
		for (uint32_t i = 0; thread != 0 && i < THREADS_LIST_MAX; i++) {
			if (!hole_add(scan, reader, thread))
				return false;
			thread = field_word(vm, reader, thread, TYPES("JavaThread"), "_next");
		}
	}
	if (vm->hole_count > 0)
		qsort(vm->holes, vm->hole_count, sizeof *vm->holes, hole_compare);
	return true;
}

// The end of the hole that address is in, or address.
static uint64_t hole_end(const struct hotspot *vm, uint64_t address)
{
	size_t low = 0, high = vm->hole_count;
	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		if (vm->holes[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && vm->holes[low - 1].end > address ? vm->holes[low - 1].end : address;
}

// ---- classes

static uint64_t klass_address(const struct hotspot *vm, uint64_t klass)
{
	return vm->compressed ? vm->klass_base + (klass << vm->klass_shift) : klass;
}

// The name as `jmap -histo` writes it: java.lang.String, [B, [Ljava.lang.Object;, and of hidden
// classes Name/0x..., which are Name+0x... here.
static void name_convert(char *name)
{
	for (char *at = name; *at != '\0'; at++)
		if (*at == '/')
			*at = '.';
		else if (*at == '+' && at[1] == '0' && at[2] == 'x')
			*at = '/';
}

static bool klass_name(
	const struct hotspot *vm, struct reader *reader, uint64_t klass, char *name, size_t size)
{
	const uint64_t symbol = reader_word(reader, klass + vm->name_at);
	const size_t length = symbol == 0 ? 0 : reader_u16(reader, symbol + vm->symbol_length);
	const size_t kept = (size_t)min_u64(length, size - 1);
	if (length == 0 || !reader_get(reader, symbol + vm->symbol_body, name, kept))
		return false;
	name[kept] = '\0';
	for (size_t i = 0; i < kept; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 127)
			return false;
	name_convert(name);
	return true;
}

// Klass::layout_helper: positive is the size of an instance in bytes, negative says of an array its
// header's bytes and the logarithm of its element's.
static bool layout_sane(int32_t layout)
{
	const uint32_t bits = (uint32_t)layout;
	if (layout > 0)
		return (layout & ~7) >= 8 && layout < 1 << 24;
	return layout < 0 && (bits >> 16 & 0xff) >= 8 && (bits >> 16 & 0xff) <= 64 &&
	       (bits & 0xff) <= 3;
}

static void shape_load(struct worker *worker, uint64_t klass, struct shape *ret)
{
	const struct hotspot *vm = worker->scan->state;
	struct reader *reader = &worker->reader;
	const uint64_t address = klass_address(vm, klass);
	char name[CLASS_NAME_MAX];
	*ret = (struct shape){.klass = klass, .type = NO_TYPE};
	ret->layout = (int32_t)reader_u32(reader, address + vm->layout_at);
	if (klass == 0 || address % 8 != 0 || !layout_sane(ret->layout))
		return;
	if (!klass_name(vm, reader, address, name, sizeof name)) {
		// Names of shared classes can be in a part of an archive that the dump left out.
		const uint64_t symbol = reader_word(reader, address + vm->name_at);
		if (symbol == 0 || symbol % 8 != 0 ||
			image_segment_at(worker->scan->image, symbol) == NULL)
			return;
		snprintf(name, sizeof name, "class at 0x%" PRIx64, address);
	}
	ret->mirror = strcmp(name, "java.lang.Class") == 0;
	ret->type = scan_type_add(worker->scan, address, name);
}

static const struct shape *shape_find(struct worker *worker, uint64_t klass)
{
	struct shape *shapes = worker->state;
	struct shape *shape = &shapes[(klass * 0x9e3779b97f4a7c15u >> 40) % SHAPES];
	if (shape->klass != klass)
		shape_load(worker, klass, shape);
	return shape->type == NO_TYPE ? NULL : shape;
}

// ---- the walk

static uint64_t object_klass(struct worker *worker, uint64_t address, uint64_t mark)
{
	const struct hotspot *vm = worker->scan->state;
	if (vm->compact)
		return mark >> vm->klass_shift_mark;
	return vm->compressed ? worker_u32(worker, address + vm->klass_at)
			      : worker_word(worker, address + vm->klass_at);
}

// Bytes of the object at address; 0: there is none.
static uint64_t object_size(struct worker *worker, const struct shape *shape, uint64_t address)
{
	const struct hotspot *vm = worker->scan->state;
	uint64_t size;
	if (shape->mirror && vm->mirror_size != 0)
		size = 8 * (uint64_t)worker_u32(worker, address + vm->mirror_size);
	else if (shape->layout > 0)
		size = (uint64_t)shape->layout & ~UINT64_C(7);
	else {
		const uint32_t bits = (uint32_t)shape->layout;
		const uint64_t length = worker_u32(worker, address + vm->length_at);
		if (length > INT32_MAX)
			return 0;
		size = (bits >> 16 & 0xff) + (length << (bits & 0xff));
	}
	return (size + vm->align - 1) & ~(vm->align - 1);
}

// Where the next object may begin after what is none.
static uint64_t gap_end(struct worker *worker, uint64_t address)
{
	const uint64_t next = address + 8;
	unsigned char byte;
	return image_read(worker->scan->image, next, &byte, 1) == 1
		       ? next
		       : max_u64(next, image_next(worker->scan->image, next));
}

static void hotspot_walk(struct worker *worker, const struct piece *piece)
{
	const struct hotspot *vm = worker->scan->state;
	uint64_t at = piece->start;
	worker->size = 0;
	while (at < piece->end && piece->end - at >= 8) {
		const uint64_t skipped = hole_end(vm, at);
		if (skipped > at) {
			at = skipped;
			continue;
		}
		if (at < worker->start || worker->size < 32 ||
			at - worker->start > worker->size - 32) {
			if (scan_stopped(worker->scan) || !worker_load(worker, at, piece->end))
				return;
		}
		const uint64_t mark = worker_word(worker, at);
		const struct shape *shape =
			mark == 0 ? NULL : shape_find(worker, object_klass(worker, at, mark));
		const uint64_t size = shape == NULL ? 0 : object_size(worker, shape, at);
		if (size == 0 || (piece->kind != PIECE_LARGE && size > piece->end - at)) {
			const uint64_t next = gap_end(worker, at);
			worker->free_bytes += min_u64(next, piece->end) - at;
			at = next;
			continue;
		}
		worker_found(worker, shape->type, at, size);
		if (piece->kind == PIECE_LARGE)
			return;
		at += size;
	}
}

static bool hotspot_worker_begin(struct worker *worker)
{
	worker->state = calloc(SHAPES, sizeof(struct shape));
	if (worker->state != NULL)
		for (size_t i = 0; i < SHAPES; i++)
			((struct shape *)worker->state)[i].type = NO_TYPE;
	return worker->state != NULL;
}

static void hotspot_worker_end(struct worker *worker)
{
	free(worker->state);
}

// ---- which HotSpot

// "java 17" by "17.0.15+6-Debian"; JDK 8 calls itself "25.392-b08".
static char *vm_name(const struct hotspot *vm, struct reader *reader)
{
	char release[64], name[80];
	const uint64_t text = static_word(vm, reader, "Abstract_VM_Version", "_s_vm_release");
	reader_text(reader, text, release, sizeof release);
	const unsigned major = (unsigned)strtoul(release, NULL, 10);
	if (major == 25 && strstr(release, "-b") != NULL && strchr(release, '+') == NULL)
		return strdup("java 8");
	snprintf(name, sizeof name, major > 0 && major < 1000 ? "java %u" : "java", major);
	return strdup(name);
}

static bool layout_find(struct hotspot *vm, struct reader *reader)
{
	const struct vmstructs *structs = &vm->structs;
	vm->compact = flag_value(vm, reader, "UseCompactObjectHeaders", 1, 0) != 0;
	vm->compressed =
		vm->compact || flag_value(vm, reader, "UseCompressedClassPointers", 1, 1) != 0;
	vm->align = flag_value(vm, reader, "ObjectAlignmentInBytes", 4, 8);
	static const struct {
		const char *type, *base, *shift;
	} known[] = {{"CompressedKlassPointers", "_base", "_shift"},
		{"CompressedKlassPointers", "_narrow_klass._base", "_narrow_klass._shift"},
		{"Universe", "_narrow_klass._base", "_narrow_klass._shift"}};
	bool found = !vm->compressed;
	for (size_t i = 0; !found && i < sizeof known / sizeof known[0]; i++) {
		uint64_t base, shift;
		found = vm_static(structs, known[i].type, known[i].base, &base) &&
			vm_static(structs, known[i].type, known[i].shift, &shift);
		if (found) {
			vm->klass_base = reader_word(reader, base);
			vm->klass_shift = reader_u32(reader, shift);
		}
	}
	if (vm->compact && !vm_constant(structs, "markWord::klass_shift", &vm->klass_shift_mark))
		return false;
	vm->mirror_size = static_u32(vm, reader, "java_lang_Class", "_oop_size_offset");
	vm->length_at = vm->compact ? 8 : vm->compressed ? 12 : 16;
	return found && vm->klass_shift < 32 && vm->klass_shift_mark < 64 && vm->align >= 8 &&
	       vm->align <= 256 && (vm->align & (vm->align - 1)) == 0 &&
	       vm_field(structs, "oopDesc",
		       vm->compressed ? "_metadata._compressed_klass" : "_metadata._klass",
		       &vm->klass_at) &&
	       vm_field(structs, "Klass", "_name", &vm->name_at) &&
	       vm_field(structs, "Klass", "_layout_helper", &vm->layout_at) &&
	       vm_field(structs, "Symbol", "_length", &vm->symbol_length) &&
	       (vm_field(structs, "Symbol", "_body[0]", &vm->symbol_body) ||
		       vm_field(structs, "Symbol", "_body", &vm->symbol_body));
}

// What the dump has of the heap beyond what has objects.
static void free_measure(struct runtime_scan *scan)
{
	struct runtime *runtime = scan->runtime;
	const struct image_info *info = image_info(scan->image);
	uint64_t bytes = 0;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		const uint64_t start = max_u64(segment->address, runtime->heap_start);
		const uint64_t end = min_u64(
			add_saturated(segment->address, segment->present), runtime->heap_end);
		bytes = add_saturated(bytes, end > start ? end - start : 0);
	}
	if (bytes > runtime->heap_bytes)
		runtime->free_bytes = bytes - runtime->heap_bytes;
}

static const char *heap_find(struct runtime_scan *scan, struct reader *reader)
{
	struct hotspot *vm = scan->state;
	const uint64_t heap = static_word(vm, reader, "Universe", "_collectedHeap");
	const uint64_t reserved = field_at(vm, heap, TYPES("CollectedHeap"), "_reserved");
	scan->runtime->heap_start = field_word(vm, reader, reserved, TYPES("MemRegion"), "_start");
	const uint64_t words = field_word(vm, reader, reserved, TYPES("MemRegion"), "_word_size");
	scan->runtime->heap_end = scan->runtime->heap_start + 8 * words;
	if (heap == 0)
		return "it has no heap yet";
	if (!layout_find(vm, reader) || !holes_find(scan, reader))
		return "this version is not known yet";
	for (size_t i = 0; i < sizeof collectors / sizeof collectors[0]; i++)
		if (flag_value(vm, reader, collectors[i].flag, 1, 0) != 0) {
			if (!collectors[i].find(scan, reader, heap))
				return "what its garbage collector keeps is not known yet";
			free_measure(scan);
			return NULL;
		}
	return "its garbage collector is not known yet";
}

static void hotspot_free(void *state)
{
	struct hotspot *vm = state;
	if (vm == NULL)
		return;
	vmstructs_deinit(&vm->structs);
	free(vm->holes);
	free(vm);
}

static bool hotspot_find(
	struct runtime_scan *scan, struct reader *reader, const struct module *module)
{
	struct exports exports;
	if (strncmp(module->name, "libjvm.so", 9) != 0)
		return false;
	struct hotspot *vm = calloc(1, sizeof *vm);
	scan->state = vm;
	if (vm == NULL) {
		scan->lost = true;
		return true;
	}
	const char *doubt = NULL;
	if (!exports_init(&exports, reader, module))
		doubt = "its libjvm.so is needed to know them, and is not here";
	else if (!vmstructs_load(&exports, reader, &vm->structs))
		doubt = "this version does not say where they are";
	else
		doubt = heap_find(scan, reader);
	scan->runtime->name = vm_name(vm, reader);
	scan->runtime->own = OWN_MEMORY;
	if (doubt != NULL)
		scan->runtime->doubt = strdup(doubt);
	scan->lost = scan->lost || (doubt != NULL && scan->runtime->doubt == NULL);
	return true;
}

const struct runtime_ops hotspot_ops = {
	.language = "java",
	.find = hotspot_find,
	.free_state = hotspot_free,
	.worker_begin = hotspot_worker_begin,
	.worker_end = hotspot_worker_end,
	.walk = hotspot_walk,
};
