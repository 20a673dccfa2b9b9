// SPDX-License-Identifier: MIT
//
// --strings, --find and --type.
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer/answer.h"
#include "find/find.h"
#include "find/pattern.h"
#include "find/words.h"

_Static_assert(TYPE_WORDS_MAX <= WORD_VALUES_MAX, "all can be looked for");

struct answer {
	struct dump *dump;
	struct report *report;
	struct find_options options;
	// What is to be added to addresses: plain bytes are shown by their offset in the file.
	uint64_t base;
	struct dump_head head;
	char next[64];	 // see struct report_head
	unsigned passes; // over all of the memory
};

bool find_asked(const struct options *options)
{
	return options->strings || options->find != NULL || options->type != NULL;
}

static void watch_begin(void *context, uint64_t bytes)
{
	struct answer *answer = context;
	// Not a sample.
	answer->passes += bytes == image_info(answer->dump->image)->bytes_present;
	progress_begin(&answer->dump->progress, bytes);
}

static void watch_add(void *context, uint64_t bytes)
{
	struct answer *answer = context;
	progress_add(&answer->dump->progress, bytes);
}

static struct answer answer_of(
	struct dump *dump, struct report *report, const struct sweep_watch *watch)
{
	const struct options *options = dump->options;
	const struct image_info *info = image_info(dump->image);
	return (struct answer){
		.dump = dump,
		.report = report,
		.options =
			{
				.image = dump->image,
				.top = options->top,
				.min_count = options->min_count,
				.fold = options->ignore_case,
				.templates = !options->exact,
				.memory = options->memory - info->memory,
				.threads = (unsigned)options->threads,
				.stop = dump->stop,
				.once = info->once,
				.watch = watch,
			},
		.base = info->elf_class == 0 || info->raw_elf ? options->offset : 0,
	};
}

// Begin the answer, which is known now.
static bool answer_begin(struct answer *answer, bool partial, struct error *err)
{
	const struct image_info *info = image_info(answer->dump->image);
	const char *mode = answer->dump->options->strings ? "strings" : "find";
	const uint64_t words = info->bytes_present / info->word_size;
	if (!dump_head_init(answer->dump, mode, words, partial, err, &answer->head))
		return false;
	answer->head.head.next = answer->next;
	report_begin(answer->report, &answer->head.head);
	return true;
}

static bool answer_end(struct answer *answer, struct error *err)
{
	report_end(answer->report);
	return dump_flush(answer->dump, answer->report, err);
}

// ---- texts

// What a template of so many marks takes, at most, when it is shown.
#define SHOWN_MAX (TEMPLATE_MAX * sizeof(struct mark_shown))

// Write the template of an entry's text as it is shown, at most SHOWN_MAX bytes; returns its size.
static size_t template_write(
	const struct texts *texts, const struct texts_entry *entry, char ret[static SHOWN_MAX])
{
	const uint8_t *widths = texts->bytes + entry->at;
	const unsigned char *template = widths + entry->widths;
	size_t used = 0, mark = 0;
	for (size_t i = 0; i < entry->template; i++) {
		if (template[i] < MARK_DIGITS || template[i] > MARK_SPACES) {
			ret[used++] = (char)template[i];
			continue;
		}
		const struct mark_shown shown = mark_show(
			template[i], mark < entry -> widths ? widths[mark] : WIDTH_VARIES);
		const size_t size = strlen(shown.text);
		memcpy(ret + used, shown.text, size);
		used += size;
		mark++;
	}
	return used;
}

static void texts_report(const struct answer *answer, const struct texts *texts)
{
	const bool redact = answer->dump->options->redact;
	for (size_t i = 0; i < texts->used; i++) {
		const struct texts_entry *entry = &texts->entries[i];
		char template[SHOWN_MAX];
		struct report_text row = {
			.bytes = redact ? NULL : (const char *)texts_bytes(texts, entry),
			.size = entry->size,
			.length = entry->length,
			.cut_before = entry->cut_before,
			.cut_after = entry->cut_after,
			.count = entry->count,
			.count_max = entry->count,
			.address = entry->address + answer->base,
			.encoding = encoding_name(entry->encoding),
			.total = entry->bytes,
		};
		if (texts->templates) {
			row.template_is_text = entry->template == 0;
			row.template_size = row.template_is_text
						    ? entry->size
						    : template_write(texts, entry, template);
			row.template = row.template_is_text
					       ? (const char *)texts_bytes(texts, entry)
					       : template;
			row.distinct = texts_distinct(texts, entry);
		}
		report_text(answer->report, &row);
	}
}

// A pipe is read once: what did not fit the table has no row.
static void texts_warn(const struct answer *answer, const struct texts *texts)
{
	if (texts->full)
		diag_warn(answer->dump->diag,
			"%s: can be read only once, and the memory does not hold all its texts: "
			"those that have no row occur %" PRIu64
			" times in all; save the dump to a file, or use a larger --memory",
			image_info(answer->dump->image)->path, texts->rest);
}

static bool texts_answer(
	struct answer *answer, const char *text, struct text_result *result, struct error *err)
{
	const struct report_found found = {
		.text = answer->dump->options->redact ? NULL : text,
		.text_size = text != NULL ? strlen(text) : 0,
		.count = result->count,
	};
	texts_warn(answer, &result->texts);
	if (!answer_begin(answer, result->partial, err))
		return false;
	report_found(answer->report, &found);
	report_list(answer->report, REPORT_TEXTS);
	texts_report(answer, &result->texts);
	return answer_end(answer, err);
}

// Code, and what is mapped from files and cannot be written to: as it is there, it fills no memory.
// *ret is the caller's.
static bool gaps_find(
	const struct dump *dump, struct error *err, struct find_gap **ret, size_t *count)
{
	const struct image_info *info = image_info(dump->image);
	const struct image_process *process = &info->process;
	size_t mapping = 0;
	*count = 0;
	*ret = calloc(info->segment_count + 1, sizeof **ret);
	if (*ret == NULL)
		return error_memory(err);
	if (info->raw_elf || info->format == IMAGE_RAW)
		return true;
	for (size_t i = 0; i < info->segment_count; i++) {
		const struct image_segment *segment = &info->segments[i];
		while (mapping < process->mapping_count &&
			process->mappings[mapping].end <= segment->address)
			mapping++;
		const bool file = mapping < process->mapping_count &&
				  process->mappings[mapping].start <= segment->address;
		const uint64_t end = segment->address + segment->size;
		if ((segment->flags & PF_X) == 0 && (!file || (segment->flags & PF_W) != 0))
			continue;
		// In odd dumps segments overlap.
		if (*count > 0 && (*ret)[*count - 1].end >= segment->address)
			(*ret)[*count - 1].end = max_u64((*ret)[*count - 1].end, end);
		else
			(*ret)[(*count)++] = (struct find_gap){segment->address, end};
	}
	return true;
}

static bool strings_answer(struct answer *answer, struct error *err)
{
	const struct options *options = answer->dump->options;
	struct text_result result;
	struct find_gap *gaps;
	struct find_strings query = {.min_length = options->min_length};
	snprintf(answer->next, sizeof answer->next, "--find TEXT");
	if (!gaps_find(answer->dump, err, &gaps, &query.gap_count))
		return false;
	query.gaps = gaps;
	if (options->all)
		query.gap_count = 0;
	bool ok = find_strings(&query, &answer->options, err, &result);
	free(gaps);
	if (ok) {
		ok = texts_answer(answer, NULL, &result, err);
		text_result_deinit(&result);
	}
	return ok;
}

static bool text_answer(struct answer *answer, const char *text, struct error *err)
{
	struct text_result result;
	if (!find_text(text, strlen(text), &answer->options, err, &result))
		return false;
	const bool ok = texts_answer(answer, text, &result, err);
	text_result_deinit(&result);
	return ok;
}

// ---- words

static int place_compare(const void *left, const void *right)
{
	const struct report_place *a = left, *b = right;
	if (a->count != b->count)
		return a->count > b->count ? -1 : 1;
	return strcmp(a->place, b->place);
}

// Add to the row with this name, or make one. Rows' names are owned.
static bool place_add(struct report_place *rows, size_t *row_count, const char *place,
	uint64_t count, struct error *err)
{
	for (size_t i = 0; i < *row_count; i++)
		if (strcmp(rows[i].place, place) == 0) {
			rows[i].count += count;
			return true;
		}
	const char *copy = strdup(place);
	if (copy == NULL)
		return error_memory(err);
	rows[(*row_count)++] = (struct report_place){copy, count};
	return true;
}

// How many lie where, the parts of memory with the same name together.
static bool places_report(
	const struct answer *answer, const struct word_result *result, struct error *err)
{
	struct names *names = answer->dump->names;
	const struct span *spans;
	const size_t span_count = names_spans(names, &spans);
	struct report_place *rows = calloc(span_count + 1, sizeof *rows);
	size_t count = 0;
	bool ok = true;
	if (rows == NULL)
		return error_memory(err);
	for (size_t i = 0; ok && i < span_count; i++)
		if (result->span_counts[i] > 0)
			ok = place_add(
				rows, &count, names_span(names, i), result->span_counts[i], err);
	if (ok && result->span_counts[span_count] > 0)
		ok = place_add(rows, &count, "elsewhere", result->span_counts[span_count], err);
	if (ok)
		qsort(rows, count, sizeof *rows, place_compare);
	for (size_t i = 0; ok && i < count; i++)
		report_place(answer->report, &rows[i]);
	for (size_t i = 0; i < count; i++)
		free((char *)rows[i].place);
	free(rows);
	return ok;
}

// Whether places are addresses of which names know what is there; in plain bytes they are offsets.
static bool places_known(const struct dump *dump)
{
	return names_has_addresses(dump->names) && !image_info(dump->image)->raw_elf;
}

// One question about words.
struct question {
	struct word_query query;
	struct members members;
	struct report_member rows[MEMBERS_MAX];
	struct word_span *spans; // owned
	bool told;		 // places are told apart
	int64_t within;		 // where in an object the words are: its fields count from there
};

static void address_report(void *context, uint64_t address)
{
	const struct answer *answer = context;
	struct names *names = answer->dump->names;
	const bool known = answer->head.head.names && places_known(answer->dump);
	const struct report_address row = {
		.address = address + answer->base,
		.place = known ? names_describe_address(names, address).text : "",
	};
	report_address(answer->report, &row);
}

static bool addresses_report(struct answer *answer, const struct question *question,
	const struct word_result *result, struct error *err)
{
	report_list(answer->report, REPORT_ADDRESSES);
	if (answer->dump->options->all)
		return find_each_word(
			&question->query, &answer->options, address_report, answer, err);
	for (size_t i = 0; i < result->address_count; i++)
		address_report(answer, result->addresses[i]);
	return true;
}

// ---- the layout

// "malloc size: 80" for the word before an object, if it is that.
static bool mostly_malloc(
	const struct report_field *row, unsigned word_size, char *ret, size_t size)
{
	const uint64_t chunk = names_malloc_size(row->top.value, word_size);
	if (row->offset != -(int64_t)word_size || chunk == 0 || row->top.redacted)
		return false;
	snprintf(ret, size, "malloc size: %" PRIu64, chunk);
	return true;
}

// "pointer to Order": the class of the object at address, from its vtable pointer.
static bool mostly_object(
	struct names *names, const struct image *image, uint64_t address, char *ret, size_t size)
{
	uint64_t word;
	if (!image_read_word(image, address, &word))
		return false;
	const struct identity identity = names_identify(names, word);
	if (identity.type != IDENTITY_CLASS)
		return false;
	const int written = snprintf(ret, size, "pointer to %s", identity.name);
	if (written < 0 || (size_t)written < size)
		return true;
	// Characters stay whole.
	size_t cut = size - sizeof "...";
	while (cut > 0 && (ret[cut] & 0xc0) == 0x80)
		cut--;
	memcpy(ret + cut, "...", sizeof "...");
	return true;
}

// A floating-point number of a size that people use.
static bool mostly_float(uint64_t value, unsigned word_size)
{
	double number;
	if (word_size == 4) {
		const uint32_t bits = (uint32_t)value;
		float half;
		memcpy(&half, &bits, sizeof half);
		number = (double)half;
	} else {
		memcpy(&number, &value, sizeof number);
	}
	number = number < 0 ? -number : number;
	return number > 1e-9 && number < 1e12;
}

// What one value is, in a few words.
static void mostly_value(const struct answer *answer, uint64_t value, char *ret, size_t size)
{
	struct names *names = answer->dump->names;
	const struct image *image = answer->dump->image;
	const enum kind kind = names_describe(names, value).kind;
	switch (kind) {
	case KIND_ZERO:
	case KIND_TEXT:
	case KIND_NUMBER:
		snprintf(ret, size, "%s",
			kind == KIND_NUMBER && value < 65536 ? "small number" : kind_name(kind));
		return;
	case KIND_CODE:
	case KIND_DATA:
	case KIND_STACK:
		snprintf(ret, size, "pointer to %s", kind_name(kind));
		return;
	case KIND_HEAP:
	case KIND_ANON:
		if (!mostly_object(names, image, value, ret, size))
			snprintf(ret, size, "pointer to %s",
				kind == KIND_HEAP ? "heap" : "anonymous memory");
		return;
	case KIND_OTHER:
	case KIND_COUNT:
		break;
	}
	snprintf(ret, size, "%s",
		mostly_float(value, image_info(image)->word_size) ? "float" : "varied");
}

#define MOSTLY_SIZE 1024
// Different labels that are told apart among the values of a sample.
#define MOSTLY_LABELS 16

// What at least three of five values of the sample are.
static void mostly_sample(const struct answer *answer, const struct layout_field *field, char *ret)
{
	char labels[MOSTLY_LABELS][MOSTLY_SIZE];
	size_t counts[MOSTLY_LABELS], label_count = 0;
	snprintf(ret, MOSTLY_SIZE, "varied");
	for (size_t i = 0; i < field->sample_count; i++) {
		char label[MOSTLY_SIZE];
		size_t at = 0;
		mostly_value(answer, field->sample[i], label, sizeof label);
		while (at < label_count && strcmp(labels[at], label) != 0)
			at++;
		if (at == MOSTLY_LABELS)
			continue;
		if (at == label_count) {
			memcpy(labels[at], label, sizeof label);
			counts[label_count++] = 0;
		}
		if (++counts[at] * 5 >= field->sample_count * 3)
			memcpy(ret, labels[at], MOSTLY_SIZE);
	}
}

// *end: offset behind the memory that malloc gave for the object, once that is known.
static void field_report(
	const struct answer *answer, const struct layout_field *field, int64_t offset, int64_t *end)
{
	const unsigned word_size = image_info(answer->dump->image)->word_size;
	struct report_field row = {
		.offset = offset,
		.top = {.value = field->value,
			.count = field->count,
			.count_max = field->count_max},
		.values = field->values,
		.skipped = field->skipped,
		.distinct = field->distinct,
	};
	char mostly[MOSTLY_SIZE] = "";
	if (field->values > 0 && !answer->dump->options->no_names) {
		// Descriptions are lost with the next one.
		mostly_sample(answer, field, mostly);
		dump_describe(answer->dump, &row.top);
		if (mostly_malloc(&row, word_size, mostly, sizeof mostly)) {
			// Most are alike. An object may use a word of the next chunk.
			if (field->count >= field->values - field->values / 10)
				*end = (int64_t)(field->value & ~UINT64_C(7)) - word_size;
		} else if (field->distinct == 1) {
			snprintf(mostly, sizeof mostly, "constant");
		}
	} else {
		row.top.kind = row.top.text = "";
		row.top.redacted = answer->dump->options->redact;
	}
	row.mostly = mostly;
	row.behind = offset >= *end;
	report_field(answer->report, &row);
}

static void layout_report(const struct answer *answer, const struct question *question,
	const struct word_result *result)
{
	const int64_t size = image_info(answer->dump->image)->word_size;
	int64_t end = INT64_MAX;
	report_list(answer->report, REPORT_LAYOUT);
	for (size_t i = 0; i < result->field_count; i++)
		field_report(answer, &result->fields[i],
			(question->query.around_from + (int64_t)i) * size + question->within, &end);
}

// "FROM:TO", in words.
static bool around_parse(const char *text, struct error *err, int64_t *from, int64_t *to)
{
	char *end;
	const long low = strtol(text, &end, 10);
	const bool first = end != text && *end == ':';
	const char *second = first ? end + 1 : text;
	const long high = strtol(second, &end, 10);
	if (!first || end == second || *end != '\0')
		return error_usage(
			err, "--around: '%s' is not FROM:TO, two numbers of words", text);
	if (low > high || low < -4096 || high > 4096 || high - low >= LAYOUT_FIELDS_MAX)
		return error_usage(err,
			"--around: %s is out of range: up to %d words, from -4096 to 4096", text,
			LAYOUT_FIELDS_MAX);
	*from = low;
	*to = high;
	return true;
}

// ---- members

static struct report_member member_row(
	const struct member *member, const struct member_result *result)
{
	return (struct report_member){
		.offset = member->offset,
		.type = member->type,
		.size = member->size,
		.is_signed = member->form == MEMBER_SIGNED,
		.is_float = member->form == MEMBER_FLOAT,
		.values = result->values,
		.skipped = result->skipped,
	};
}

static void value_report(
	const struct answer *answer, const struct member *member, const struct count_row *value)
{
	const struct options *options = answer->dump->options;
	struct report_word row = {
		.value = value->value,
		.count = value->count,
		.count_max = value->count_max,
		.size = member->size,
	};
	dump_describe(answer->dump, &row);
	const struct member_text text = member_describe(member, value->value);
	if (member->form == MEMBER_SIGNED || member->form == MEMBER_FLOAT) {
		row.redacted = options->redact &&
			       value->value > (member->form == MEMBER_FLOAT ? 0 : 65535);
		row.kind = options->no_names ? "" : "number";
		row.text = options->no_names || row.redacted ? row.kind : text.text;
	}
	report_word(answer->report, &row);
}

static void members_report(
	struct answer *answer, struct question *question, const struct word_result *result)
{
	report_list(answer->report, REPORT_MEMBERS);
	for (size_t i = 0; i < result->member_count; i++) {
		const struct member *member = &question->members.list[i];
		const struct member_result *values = &result->members[i];
		question->rows[i] = member_row(member, values);
		question->rows[i].offset += question->within;
		report_member(answer->report, &question->rows[i]);
		texts_warn(answer, &values->texts);
		texts_report(answer, &values->texts);
		for (size_t j = 0; j < values->row_count; j++)
			value_report(answer, member, &values->rows[j]);
	}
}

// ---- words

// What a script for gdb is to look at: the fields at the first addresses.
static void gdb_report(
	struct answer *answer, const struct question *question, const struct word_result *result)
{
	report_list(answer->report, REPORT_ADDRESSES);
	for (size_t i = 0; i < result->address_count; i++) {
		const struct report_address row = {
			.address = result->addresses[i] + answer->base - (uint64_t)question->within,
			.place = "",
			.members = question->rows,
			.member_count = question->members.count,
		};
		report_address(answer->report, &row);
	}
}

static bool words_report(struct answer *answer, struct question *question,
	const struct word_result *result, struct error *err)
{
	const struct options *options = answer->dump->options;
	struct report_word word = {.value = question->query.values[0]};
	if (!question->query.around && !options->redact)
		snprintf(answer->next, sizeof answer->next, "--find 0x%" PRIx64 " --around",
			word.value);
	if (!answer_begin(answer, result->partial, err))
		return false;
	dump_describe(answer->dump, &word);
	const struct report_found found = {.word = &word, .count = result->count};
	report_found(answer->report, &found);
	if (question->query.around)
		layout_report(answer, question, result);
	else if (question->members.count > 0)
		members_report(answer, question, result);
	if (question->members.count > 0 && options->output == OUTPUT_GDB)
		gdb_report(answer, question, result);
	if (question->query.around || question->members.count > 0)
		return answer_end(answer, err);
	if (question->told) {
		report_list(answer->report, REPORT_PLACES);
		if (!places_report(answer, result, err))
			return false;
	}
	return addresses_report(answer, question, result, err) && answer_end(answer, err);
}

// The parts of memory to be told apart, if they are known before it is read.
static bool question_spans(struct answer *answer, struct question *question, struct error *err)
{
	struct dump *dump = answer->dump;
	const struct span *spans;
	if (image_info(dump->image)->once)
		return true;
	if (!dump_names(dump, "--find", err))
		return false;
	const size_t count = names_spans(dump->names, &spans);
	question->told = places_known(dump);
	question->spans = calloc(count + 1, sizeof *question->spans);
	if (question->spans == NULL)
		return error_memory(err);
	for (size_t i = 0; i < count; i++)
		question->spans[i] = (struct word_span){spans[i].start, spans[i].end};
	question->query.spans = question->spans;
	question->query.span_count = count;
	return true;
}

static bool question_members(struct answer *answer, struct question *question, struct error *err)
{
	const struct options *options = answer->dump->options;
	if (options->member != NULL) {
		if (!members_parse(options->member, "--member", err, &question->members))
			return false;
	} else if (options->member_offset != NULL || options->member_type != NULL) {
		if (!members_set(
			    options->member_offset, options->member_type, err, &question->members))
			return false;
	}
	for (size_t i = 0; i < question->members.count; i++)
		question->members.list[i].offset -= question->within;
	members_fit(&question->members, image_info(answer->dump->image)->word_size);
	question->query.members = &question->members;
	return true;
}

static bool question_around(struct answer *answer, struct question *question, struct error *err)
{
	const struct options *options = answer->dump->options;
	const int64_t within = question->within / image_info(answer->dump->image)->word_size;
	struct word_query *query = &question->query;
	if (!options->around)
		return true;
	if (options->output == OUTPUT_GDB)
		return error_usage(err, "--around with --output gdb: gdb shows one object at a "
					"time; use --find or --type alone");
	query->around = true;
	query->around_from = -2;
	query->around_to = 16;
	if (options->around_range != NULL &&
		!around_parse(options->around_range, err, &query->around_from, &query->around_to))
		return false;
	query->around_from -= within;
	query->around_to -= within;
	return true;
}

static bool words_answer(struct answer *answer, const struct type_words *words, struct error *err)
{
	const struct options *options = answer->dump->options;
	const bool gdb = options->output == OUTPUT_GDB;
	struct question question = {.query = {.values = words->values, .value_count = words->count},
		.within = (int64_t)words->within};
	struct word_result result;
	if (options->all && image_info(answer->dump->image)->once)
		return error_usage(err, "--all: %s comes through a pipe; save it to a file first",
			image_info(answer->dump->image)->path);
	if (options->min_count != 1 && options->member == NULL && options->member_offset == NULL &&
		options->member_type == NULL)
		return error_usage(err, "--min-count with --find 0x... or --type: needs --member");
	bool ok = question_members(answer, &question, err) &&
		  question_around(answer, &question, err) && question_spans(answer, &question, err);
	if (!options->all && !options->around && (question.members.count == 0 || gdb))
		question.query.first = options->top;
	ok = ok && find_words(&question.query, &answer->options, err, &result);
	if (ok) {
		ok = words_report(answer, &question, &result, err);
		word_result_deinit(&result);
	}
	free(question.spans);
	return ok;
}

// ---- which question

static bool pattern_answer(struct answer *answer, struct error *err)
{
	const struct options *options = answer->dump->options;
	const struct image_info *info = image_info(answer->dump->image);
	const bool members = options->member != NULL || options->member_offset != NULL ||
			     options->member_type != NULL;
	struct pattern pattern;
	uint64_t number;
	if (!pattern_parse(options->find, members || options->around, err, &pattern))
		return false;
	if (pattern.text != NULL) {
		if (members || options->around || options->all)
			return error_usage(err, "%s with --find TEXT: needs --find 0x... or --type",
				members		  ? "--member"
				: options->around ? "--around"
						  : "--all");
		if (pattern_may_be_number(&pattern, &number) && pattern.text == options->find)
			diag_warn(answer->dump->diag,
				"--find %s: looked for as a text; for the number use --find "
				"0x%" PRIx64,
				options->find, number);
		return text_answer(answer, pattern.text, err);
	}
	if (options->ignore_case)
		return error_usage(err, "--ignore-case with --find 0x...: a word has no case");
	if (info->word_size == 4 && pattern.word > UINT32_MAX)
		return error_usage(err,
			"--find 0x%" PRIx64 ": wider than the words of %s, which have 4 bytes",
			pattern.word, info->path);
	const struct type_words words = {.values = {pattern.word}, .count = 1};
	return words_answer(answer, &words, err);
}

static bool type_answer(struct answer *answer, struct error *err)
{
	struct type_words words;
	return type_find(answer->dump, answer->dump->options->type, err, &words) &&
	       words_answer(answer, &words, err);
}

bool answer_find(struct dump *dump, struct report *report, struct error *err)
{
	struct answer answer;
	const struct sweep_watch watch = {watch_begin, watch_add, &answer};
	bool ok;
	answer = answer_of(dump, report, &watch);
	if (dump->options->strings)
		ok = strings_answer(&answer, err);
	else if (dump->options->find != NULL)
		ok = pattern_answer(&answer, err);
	else
		ok = type_answer(&answer, err);
	if (ok) {
		dump_finish(dump, &answer.head);
		dump_time(dump, answer.passes, answer.options.threads);
	}
	dump_head_deinit(&answer.head);
	return ok;
}
