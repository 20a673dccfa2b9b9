// SPDX-License-Identifier: MIT
//
// Memory and a question about it, against plain loops: texts, strings, words, fields, the layout.
// A core is made of segments that the input describes, byte for byte or as pieces that repeat.
#include "find/find.h"
#include "base/guard.h"
#include "find/words.h"
#include "fuzz.h"
#include "image/image.h"

#define SEGMENTS_MAX 6
#define SEGMENT_MAX ((size_t)160 << 10)
#define HEADERS 4096
#define TEXT_MAX 24
#define FIELDS 7

enum { QUESTION_TEXT, QUESTION_STRINGS, QUESTION_WORDS, QUESTION_AROUND, QUESTIONS };

// Some memory without a gap.
struct piece {
	uint64_t address;
	const uint8_t *bytes;
	size_t size;
};

struct memory {
	unsigned word_size;
	enum byte_order order;
	uint8_t *file;
	size_t file_size;
	struct piece segments[SEGMENTS_MAX], bytes[SEGMENTS_MAX], words[SEGMENTS_MAX];
	size_t segment_count, byte_count, word_count;
};

// ---- making it

static void put(struct memory *memory, size_t at, uint64_t value, unsigned size)
{
	for (unsigned i = 0; i < size; i++)
		memory->file[at + (memory->order == ORDER_BIG ? size - 1 - i : i)] =
			(uint8_t)(value >> (8 * i));
}

static size_t content_make(uint8_t *bytes, struct input *input)
{
	size_t size = 0;
	for (unsigned pieces = 1 + (unsigned)take(input, 1) % 8; pieces > 0; pieces--) {
		const unsigned how = (unsigned)take(input, 1);
		const struct input unit = take_part(input, how >> 2);
		size_t times = (how & 3) == 0	? 1
			       : (how & 3) == 1 ? (size_t)take(input, 1)
						: (size_t)take(input, 2);
		if ((how & 3) == 3)
			for (; times > 0 && size < SEGMENT_MAX; times--)
				bytes[size++] = 0;
		for (; unit.size > 0 && times > 0 && size + unit.size <= SEGMENT_MAX; times--) {
			memcpy(bytes + size, unit.data, unit.size);
			size += unit.size;
		}
	}
	return size;
}

static void header_make(struct memory *memory)
{
	const bool wide = memory->word_size == 8;
	memcpy(memory->file, "\177ELF", 4);
	memory->file[4] = wide ? 2 : 1;
	memory->file[5] = memory->order == ORDER_BIG ? 2 : 1;
	memory->file[6] = 1;
	put(memory, 16, 4, 2); // ET_CORE
	put(memory, 18, wide ? 62 : 3, 2);
	put(memory, 20, 1, 4);
	put(memory, wide ? 32 : 28, 64, memory->word_size); // e_phoff
	put(memory, wide ? 52 : 40, wide ? 64 : 52, 2);
	put(memory, wide ? 54 : 42, wide ? 56 : 32, 2);
	put(memory, wide ? 56 : 44, memory->segment_count, 2);
}

static void segment_put(struct memory *memory, size_t index, size_t offset)
{
	const struct piece *piece = &memory->segments[index];
	const unsigned word = memory->word_size;
	const bool wide = word == 8;
	const size_t at = 64 + index * (wide ? 56 : 32);
	put(memory, at, 1, 4); // PT_LOAD
	put(memory, at + (wide ? 8 : 4), offset, word);
	put(memory, at + (wide ? 16 : 8), piece->address, word);
	put(memory, at + (wide ? 32 : 16), piece->size, word);
	put(memory, at + (wide ? 40 : 20), piece->size, word);
}

// Words are whole and aligned in their segment; bytes go on where segments touch.
static void pieces_make(struct memory *memory)
{
	const unsigned word = memory->word_size;
	for (size_t i = 0; i < memory->segment_count; i++) {
		const struct piece *segment = &memory->segments[i];
		struct piece *last = &memory->bytes[memory->byte_count];
		if (segment->size == 0)
			continue;
		if (memory->byte_count > 0 && last[-1].address + last[-1].size == segment->address)
			last[-1].size += segment->size;
		else
			memory->bytes[memory->byte_count++] = *segment;
		const size_t skip = (size_t)(-segment->address % word);
		const size_t size = segment->size < skip ? 0 : (segment->size - skip) / word * word;
		last = &memory->words[memory->word_count];
		if (size == 0)
			continue;
		if (memory->word_count > 0 &&
			last[-1].address + last[-1].size == segment->address + skip)
			last[-1].size += size;
		else
			memory->words[memory->word_count++] = (struct piece){
				segment->address + skip, segment->bytes + skip, size};
	}
}

static void memory_make(struct memory *memory, struct input *input)
{
	uint64_t address = 0x10000;
	memory->segment_count = 1 + take(input, 1) % SEGMENTS_MAX;
	memory->file = calloc(1, HEADERS + memory->segment_count * SEGMENT_MAX);
	CHECK(memory->file != NULL);
	memory->file_size = HEADERS;
	for (size_t i = 0; i < memory->segment_count; i++) {
		struct piece *piece = &memory->segments[i];
		const unsigned gap = (unsigned)take(input, 1);
		address += gap < 128 ? gap % 16 : (uint64_t)(gap - 128) << 12;
		*piece = (struct piece){address, memory->file + memory->file_size, 0};
		piece->size = content_make(memory->file + memory->file_size, input);
		segment_put(memory, i, memory->file_size);
		memory->file_size += piece->size;
		address += piece->size;
	}
	header_make(memory);
	pieces_make(memory);
}

// As a file with holes where there are zeros.
static int memory_write(const struct memory *memory, char path[static 32])
{
	static const uint8_t zeros[4096];
	const int fd = memfd_create("input", MFD_CLOEXEC);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)memory->file_size) == 0);
	for (size_t at = 0; at < memory->file_size; at += sizeof zeros) {
		const size_t left = memory->file_size - at;
		const size_t size = left < sizeof zeros ? left : sizeof zeros;
		if (memcmp(memory->file + at, zeros, size) != 0)
			CHECK(pwrite(fd, memory->file + at, size, (off_t)at) == (ssize_t)size);
	}
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

// ---- texts

static uint8_t folded(uint8_t byte, bool fold)
{
	return fold && byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 32) : byte;
}

static bool same(const uint8_t *a, const uint8_t *b, size_t size, bool fold)
{
	for (size_t i = 0; i < size; i++)
		if (folded(a[i], fold) != folded(b[i], fold))
			return false;
	return true;
}

static const uint8_t *bytes_at(
	const struct piece *pieces, size_t count, uint64_t address, size_t size)
{
	for (size_t i = 0; i < count; i++)
		if (address >= pieces[i].address && address - pieces[i].address < pieces[i].size &&
			size <= pieces[i].size - (address - pieces[i].address))
			return pieces[i].bytes + (address - pieces[i].address);
	return NULL;
}

// Where in memory the text of an entry is: from its address on, or so many bytes before it.
static const uint8_t *text_at(const struct memory *memory, const struct texts *texts,
	const struct texts_entry *entry, size_t before)
{
	for (size_t back = 0; back <= before && back <= entry->size; back++) {
		const uint8_t *there = bytes_at(
			memory->bytes, memory->byte_count, entry->address - back, entry->size);
		if (there != NULL && memcmp(there, texts->bytes + entry->at, entry->size) == 0)
			return there;
	}
	return NULL;
}

// What is in the table is in memory, and in order.
static void texts_check(
	const struct memory *memory, const struct text_result *result, bool fold, size_t before)
{
	const struct texts *texts = &result->texts;
	for (size_t i = 0; i < texts->used; i++) {
		const struct texts_entry *entry = &texts->entries[i];
		CHECK(i == 0 || entry[-1].count >= entry->count);
		if (entry->encoding != ENCODING_BYTES)
			continue; // it is not in memory as it is shown
		const uint8_t *there = text_at(memory, texts, entry, before);
		CHECK(there != NULL);
		for (size_t k = 0; k < i && i < 64; k++)
			CHECK(texts->entries[k].size != entry->size ||
				texts->entries[k].length != entry->length ||
				texts->entries[k].check != entry->check ||
				texts->entries[k].encoding != entry->encoding ||
				texts->entries[k].cut_before != entry->cut_before ||
				texts->entries[k].cut_after != entry->cut_after ||
				!same(there, texts->bytes + texts->entries[k].at, entry->size,
					fold));
	}
}

// How often an ASCII text is there in UTF-16 of one order.
static uint64_t wide_count(
	const struct memory *memory, const char *text, size_t length, bool big, bool fold)
{
	uint64_t count = 0;
	for (size_t i = 0; i < memory->byte_count; i++) {
		const struct piece *piece = &memory->bytes[i];
		for (size_t at = piece->address & 1; at + 2 * length <= piece->size; at += 2) {
			size_t same_ones = 0;
			while (same_ones < length && piece->bytes[at + 2 * same_ones + !big] == 0 &&
				folded(piece->bytes[at + 2 * same_ones + big], fold) ==
					folded((uint8_t)text[same_ones], fold))
				same_ones++;
			count += same_ones == length;
		}
	}
	return count;
}

// By template there are as many.
static void templates_ask(
	const char *text, size_t length, const struct find_options *options, uint64_t count)
{
	struct find_options by_template = *options;
	struct text_result result;
	struct error err = {0};
	by_template.templates = true;
	CHECK(find_text(text, length, &by_template, &err, &result));
	CHECK(result.count == count);
	for (size_t i = 0; i < result.texts.used; i++) {
		const struct texts_entry *entry = &result.texts.entries[i];
		CHECK(texts_distinct(&result.texts, entry) <= entry->count);
		CHECK(entry->bytes >= entry->count * length || entry->encoding == ENCODING_LATIN1);
	}
	text_result_deinit(&result);
}

static void text_ask(
	const struct memory *memory, struct input *input, const struct find_options *options)
{
	char text[TEXT_MAX + 1];
	const struct input part = take_part(input, 1 + take(input, 1) % TEXT_MAX);
	const size_t length = part.size;
	uint64_t count = 0, counted = 0;
	struct text_result result;
	struct error err = {0};
	if (length == 0 || memchr(part.data, '\0', length) != NULL)
		return;
	memcpy(text, part.data, length);
	text[length] = '\0';
	for (size_t i = 0; i < memory->byte_count; i++)
		for (size_t at = 0; at + length <= memory->bytes[i].size; at++)
			count += same(memory->bytes[i].bytes + at, (const uint8_t *)text, length,
				options->fold);
	CHECK(find_text(text, length, options, &err, &result));
	bool ascii = true;
	for (size_t i = 0; i < length; i++)
		ascii &= text[i] >= ' ' && text[i] < 0x7f;
	if (ascii && length > 1)
		count += wide_count(memory, text, length, false, options->fold) +
			 wide_count(memory, text, length, true, options->fold);
	CHECK(ascii ? result.count == count : result.count >= count);
	CHECK(!result.partial);
	count = result.count;
	templates_ask(text, length, options, count);
	texts_check(memory, &result, options->fold, FIND_CONTEXT);
	for (size_t i = 0; i < result.texts.used; i++) {
		CHECK(result.texts.entries[i].size >= length);
		counted += result.texts.entries[i].count;
	}
	CHECK(counted <= count);
	CHECK(counted == count || options->min_count > 1 || result.texts.used == options->top);
	text_result_deinit(&result);
}

struct run {
	const uint8_t *bytes;
	size_t size;
};

// The runs of one order of UTF-16, of which more than half are not accented.
static size_t wide_runs(const struct piece *piece, enum encoding encoding, size_t least)
{
	size_t count = 0, length = 0, accented = 0;
	for (size_t at = piece->address & 1; at <= piece->size + 1; at += 2) {
		const uint16_t unit =
			at + 2 <= piece->size ? unit_at(piece->bytes, at, encoding) : 0;
		if (unit_is_text(unit)) {
			length++;
			accented += unit_is_accented(unit);
			continue;
		}
		count += length >= least && accented <= length / 2;
		length = accented = 0;
	}
	return count;
}

static bool sort_fold;

static int run_compare(const void *left, const void *right)
{
	const struct run *a = left, *b = right;
	return text_compare(a->bytes, a->size, b->bytes, b->size, sort_fold);
}

static void strings_ask(
	const struct memory *memory, struct input *input, const struct find_options *options)
{
	const size_t least = 1 + take(input, 1) % 12;
	struct run *runs AUTO_FREE = calloc(SEGMENTS_MAX * SEGMENT_MAX / least + 1, sizeof *runs);
	size_t count = 0, different = 0;
	struct text_result result;
	struct error err = {0};
	CHECK(runs != NULL);
	size_t all = 0;
	for (size_t i = 0; i < memory->byte_count; i++) {
		const struct piece *piece = &memory->bytes[i];
		bool ascii = true;
		all += wide_runs(piece, ENCODING_UTF16LE, least) +
		       wide_runs(piece, ENCODING_UTF16BE, least);
		for (size_t at = 0, length = 0, chars = 0; at <= piece->size;) {
			const size_t size =
				at < piece->size ? chars_at(piece->bytes, at, piece->size) : 0;
			if (size > 0) {
				ascii &= piece->bytes[at] < 0x80;
				length += size;
				at += size;
				chars++;
				continue;
			}
			all += chars >= least;
			if (chars >= least && ascii)
				runs[count++] = (struct run){piece->bytes + at - length, length};
			length = chars = 0;
			ascii = true;
			at++;
		}
	}
	sort_fold = options->fold;
	qsort(runs, count, sizeof *runs, run_compare);
	const struct find_strings query = {.min_length = least};
	CHECK(find_strings(&query, options, &err, &result));
	CHECK(result.count == all && !result.partial);
	texts_check(memory, &result, options->fold, 0);
	for (size_t i = 0, same_ones = 1; i < count; i++, same_ones++) {
		if (i + 1 < count && run_compare(&runs[i], &runs[i + 1]) == 0)
			continue;
		different += same_ones >= options->min_count;
		bool found = false;
		for (size_t k = 0; !found && different <= 64 && k < result.texts.used; k++) {
			const struct texts_entry *entry = &result.texts.entries[k];
			found = entry->encoding == ENCODING_BYTES &&
				entry->length == runs[i].size && entry->count == same_ones &&
				same(runs[i].bytes, result.texts.bytes + entry->at, entry->size,
					options->fold);
		}
		CHECK(found || different > 64 || same_ones < options->min_count ||
			result.texts.used == options->top);
		same_ones = 0;
	}
	CHECK(result.texts.used >= (different < options->top ? different : options->top));
	text_result_deinit(&result);
}

// ---- words

static int number_compare(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
	return a < b ? -1 : a > b;
}

// All places of the values; the caller must free them.
static uint64_t *places_find(
	const struct memory *memory, const uint64_t *values, size_t value_count, size_t *ret)
{
	uint64_t *places = calloc(SEGMENTS_MAX * SEGMENT_MAX / 4, sizeof *places);
	CHECK(places != NULL);
	*ret = 0;
	for (size_t i = 0; i < memory->word_count; i++) {
		const struct piece *piece = &memory->words[i];
		for (size_t at = 0; at < piece->size; at += memory->word_size) {
			const uint64_t word =
				word_load(piece->bytes + at, memory->word_size, memory->order);
			bool wanted = false;
			for (size_t k = 0; k < value_count; k++)
				wanted = wanted || values[k] == word;
			if (wanted)
				places[(*ret)++] = piece->address + at;
		}
	}
	return places;
}

// The numbers at an offset from all places, sorted.
static size_t numbers_find(const struct memory *memory, const uint64_t *places, size_t count,
	int64_t offset, unsigned size, uint64_t *ret)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++) {
		const uint64_t address = places[i] + (uint64_t)offset;
		// The place and the field are in one piece.
		for (size_t k = 0; k < memory->word_count; k++) {
			const struct piece *piece = &memory->words[k];
			if (places[i] - piece->address >= piece->size)
				continue;
			const uint8_t *bytes = bytes_at(piece, 1, address, size);
			if (bytes != NULL)
				ret[found++] = member_load(bytes, size, memory->order);
		}
	}
	qsort(ret, found, sizeof *ret, number_compare);
	return found;
}

static size_t count_of(const uint64_t *numbers, size_t count, uint64_t value)
{
	size_t found = 0;
	for (size_t i = 0; i < count; i++)
		found += numbers[i] == value;
	return found;
}

static void most_find(const uint64_t *numbers, size_t count, size_t *most, size_t *distinct)
{
	*most = *distinct = 0;
	for (size_t i = 0, run = 1; i < count; i++, run++) {
		if (i + 1 < count && numbers[i + 1] == numbers[i])
			continue;
		*most = run > *most ? run : *most;
		++*distinct;
		run = 0;
	}
}

static void members_check(const struct members *members, const struct word_result *result,
	const struct memory *memory, const uint64_t *places, size_t count,
	const struct find_options *options)
{
	uint64_t *numbers AUTO_FREE = calloc(count + 1, sizeof *numbers);
	CHECK(numbers != NULL && result->member_count == members->count);
	for (size_t i = 0; i < members->count; i++) {
		const struct member *member = &members->list[i];
		const struct member_result *field = &result->members[i];
		if (member->form == MEMBER_TEXT)
			continue;
		const size_t found =
			numbers_find(memory, places, count, member->offset, member->size, numbers);
		CHECK(field->values == found && field->skipped == count - found);
		CHECK(field->row_count <= options->top);
		uint64_t last = UINT64_MAX;
		for (size_t k = 0; k < field->row_count; k++) {
			const struct count_row *row = &field->rows[k];
			CHECK(row->count == count_of(numbers, found, row->value));
			CHECK(row->count == row->count_max && row->count <= last);
			CHECK(row->count >= options->min_count);
			last = row->count;
		}
		size_t most, distinct;
		most_find(numbers, found, &most, &distinct);
		CHECK(field->row_count == 0 ? most < options->min_count
					    : field->rows[0].count == most);
		CHECK(options->min_count > 1 || field->row_count == options->top ||
			field->row_count == distinct);
	}
}

static void layout_check(const struct word_query *query, const struct word_result *result,
	const struct memory *memory, const uint64_t *places, size_t count)
{
	uint64_t *numbers AUTO_FREE = calloc(count + 1, sizeof *numbers);
	CHECK(numbers != NULL);
	CHECK(result->field_count == (size_t)(query->around_to - query->around_from + 1));
	for (size_t i = 0; i < result->field_count; i++) {
		const struct layout_field *field = &result->fields[i];
		const int64_t offset = (query->around_from + (int64_t)i) * memory->word_size;
		const size_t found =
			numbers_find(memory, places, count, offset, memory->word_size, numbers);
		size_t most, distinct;
		most_find(numbers, found, &most, &distinct);
		CHECK(field->values == found && field->skipped == count - found);
		CHECK(found == 0 || (field->count_max >= most && field->count <= most));
		CHECK(field->count != field->count_max || found == 0 ||
			field->count == count_of(numbers, found, field->value));
		CHECK(distinct <= LAYOUT_DISTINCT_MAX ? field->distinct == distinct
						      : field->distinct == UINT64_MAX);
		CHECK(field->sample_count <= LAYOUT_SAMPLE && field->sample_count <= found);
		for (size_t k = 0; k < field->sample_count; k++)
			CHECK(count_of(numbers, found, field->sample[k]) > 0);
	}
}

struct each {
	const uint64_t *places;
	size_t count, at;
};

static void each_check(void *context, uint64_t address)
{
	struct each *each = context;
	CHECK(each->at < each->count && each->places[each->at] == address);
	each->at++;
}

static void words_ask(const struct memory *memory, struct input *input,
	const struct find_options *options, bool around)
{
	uint64_t values[4];
	const size_t value_count = 1 + take(input, 1) % 4;
	struct members members = {0};
	struct word_query query = {.values = values, .value_count = value_count};
	struct word_result result;
	struct error err = {0};
	for (size_t i = 0; i < value_count; i++)
		values[i] = take(input, memory->word_size);
	if (around) {
		query.around = true;
		query.around_from = (int8_t)take(input, 1);
		query.around_to = query.around_from + (int64_t)(take(input, 1) % FIELDS);
	} else {
		const struct input line = take_part(input, take(input, 1) % 40);
		char text[41] = "";
		memcpy(text, line.data, line.size);
		if (text[0] != '\0' && !members_parse(text, "--member", &err, &members))
			return;
		members_fit(&members, memory->word_size);
		query.members = members.count > 0 ? &members : NULL;
		query.first = members.count > 0 ? 0 : options->top;
	}
	size_t count;
	uint64_t *places AUTO_FREE = places_find(memory, values, value_count, &count);
	CHECK(find_words(&query, options, &err, &result));
	CHECK(result.count == count && !result.partial && result.span_counts[0] == count);
	if (around)
		layout_check(&query, &result, memory, places, count);
	else if (members.count > 0)
		members_check(&members, &result, memory, places, count, options);
	else
		CHECK(result.address_count == (count < options->top ? count : options->top) &&
			memcmp(result.addresses, places, result.address_count * sizeof *places) ==
				0);
	struct each each = {places, count, 0};
	CHECK(find_each_word(&query, options, each_check, &each, &err) && each.at == count);
	word_result_deinit(&result);
}

// ---- the whole

static void ask(const struct memory *memory, struct input *input, const struct image *image)
{
	static const atomic_int stop;
	const unsigned flags = (unsigned)take(input, 1);
	const struct find_options options = {
		.image = image,
		.top = 1 + take(input, 1),
		.min_count = 1 + take(input, 1) % 3,
		.fold = (flags & 4) != 0,
		.memory = (size_t)16 << 20,
		.threads = 1 + ((flags >> 3) & 1),
		.stop = &stop,
	};
	switch (flags % QUESTIONS) {
	case QUESTION_TEXT:
		text_ask(memory, input, &options);
		return;
	case QUESTION_STRINGS:
		strings_ask(memory, input, &options);
		return;
	default:
		words_ask(memory, input, &options, flags % QUESTIONS == QUESTION_AROUND);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	const unsigned flags = (unsigned)take(&input, 1);
	const unsigned ahead = (unsigned)take(&input, 1);
	struct memory memory = {
		.word_size = (flags & 1) != 0 ? 4 : 8,
		.order = (flags & 2) != 0 ? ORDER_BIG : ORDER_LITTLE,
	};
	// The question comes first, so that what describes the memory may end anywhere.
	struct input question = take_part(&input, ahead);
	memory_make(&memory, &input);
	char path[32];
	int fd AUTO_CLOSE = memory_write(&memory, path);
	const struct image_options options = {.limit = UINT64_MAX, .memory = (size_t)1 << 20};
	struct image *image;
	struct error err = {0};
	struct diag diag;
	CHECK(fd >= 0);
	diag_init(&diag, stderr);
	CHECK(image_open(path, &options, &diag, &err, &image));
	ask(&memory, &question, image);
	image_close(image);
	diag_deinit(&diag);
	free(memory.file);
	return 0;
}
