// SPDX-License-Identifier: MIT
//
// Every writer, with texts of any bytes; what they write is read back.
#include <jansson.h>

#include "base/escape.h"
#include "fuzz.h"
#include "report/report.h"

#define ROWS_MAX 32

// A text of the input, as it is, with a NUL.
static char *take_bytes(struct input *input)
{
	size_t length = (size_t)take(input, 1);
	if (length > input->size)
		length = input->size;
	char *text = calloc(length + 1, 1);
	CHECK(text != NULL);
	memcpy(text, input->data, length);
	input->data += length;
	input->size -= length;
	return text;
}

// The same, escaped as descriptions are.
static char *take_text(struct input *input)
{
	char *bytes = take_bytes(input);
	const size_t length = strlen(bytes);
	char *text = malloc(4 * length + 1);
	CHECK(text != NULL);
	escape(text, 4 * length + 1, bytes, length, ESCAPE_TERMINAL);
	free(bytes);
	return text;
}

struct answer {
	struct report_head head;
	struct report_module module;
	struct report_word rows[ROWS_MAX];
	size_t row_count;
	char *texts[8 + ROWS_MAX];
	size_t text_count;
};

static char *keep(struct answer *answer, char *text)
{
	return answer->texts[answer->text_count++] = text;
}

static void answer_make(struct answer *answer, struct input *input)
{
	const unsigned flags = (unsigned)take(input, 1);
	answer->module = (struct report_module){
		.path = keep(answer, take_bytes(input)),
		.state = (flags & 1) != 0 ? "ok" : "mismatch",
		.file = (flags & 2) != 0 ? keep(answer, take_bytes(input)) : NULL,
		.main = (flags & 4) != 0,
		.doubtful = (flags & 1) == 0,
		.start = take(input, 8),
	};
	answer->head = (struct report_head){
		.mode = "words",
		.version = "1",
		.names = (flags & 8) != 0,
		.verbose = (flags & 16) != 0,
		.modules = &answer->module,
		.module_count = 1,
		.input =
			{
				.path = keep(answer, take_bytes(input)),
				.format = "elf-core",
				.byte_order = "little",
				.program = keep(answer, take_bytes(input)),
				.command = keep(answer, take_bytes(input)),
				.pid = (int64_t)take(input, 4) - 1,
				.threads = (unsigned)take(input, 4),
				.signal_number = (int)take(input, 1),
			},
		.scanned = {.word_size = (flags & 32) != 0 ? 4 : 8, .words = take(input, 8)},
		.memory = {.known = (flags & 64) != 0, .heap = take(input, 8)},
	};
	while (input->size > 0 && answer->row_count < ROWS_MAX) {
		struct report_word *row = &answer->rows[answer->row_count++];
		row->value = take(input, answer->head.scanned.word_size);
		row->count = row->count_max = take(input, 8);
		if (take(input, 1) % 4 == 0 && row->count < UINT64_MAX)
			row->count_max++;
		row->kind = answer->head.names ? "text" : "";
		row->text = answer->head.names ? keep(answer, take_text(input)) : "";
	}
}

static char *answer_write(
	const struct answer *answer, enum report_format format, bool many, bool color, size_t *size)
{
	char *text = NULL;
	FILE *stream = open_memstream(&text, size);
	struct report report;
	struct error err;
	CHECK(stream != NULL && report_init(&report, stream, format, many, color, &err));
	for (int i = 0; i <= many; i++) {
		report_begin(&report, &answer->head);
		for (size_t row = 0; row < answer->row_count; row++)
			report_word(&report, &answer->rows[row]);
		report_end(&report);
		CHECK(report_flush(&report, &err));
	}
	CHECK(fclose(stream) == 0 && text != NULL);
	return text;
}

static void json_check(const struct answer *answer, const char *text, size_t size)
{
	json_error_t error;
	CHECK(memchr(text, '\n', size) == text + size - 1);
	json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
	CHECK(object != NULL);
	const json_t *top = json_object_get(object, "top");
	CHECK(json_array_size(top) == answer->row_count);
	for (size_t i = 0; i < answer->row_count; i++) {
		const json_t *row = json_array_get(top, i);
		const char *value = json_string_value(json_object_get(row, "value"));
		CHECK(value != NULL && strtoull(value, NULL, 16) == answer->rows[i].value);
		const uint64_t count = (uint64_t)json_integer_value(json_object_get(row, "count"));
		CHECK(count == answer->rows[i].count || answer->rows[i].count > INT64_MAX);
		const char *name = json_string_value(json_object_get(row, "description"));
		CHECK(!answer->head.names || strcmp(name, answer->rows[i].text) == 0);
	}
	json_decref(object);
}

// Step over one field of RFC 4180; what is behind it is ',' or '\n'.
static const char *csv_field(const char *at)
{
	if (*at != '"') {
		at += strcspn(at, ",\n\"\r");
	} else {
		for (at++; at[0] != '"' || at[1] == '"'; at++) {
			CHECK(*at != '\0');
			at += *at == '"';
		}
		at++;
	}
	CHECK(*at == ',' || *at == '\n');
	return at;
}

static void csv_check(const struct answer *answer, const char *text, size_t size, bool many)
{
	CHECK(strlen(text) == size);
	size_t lines = 0;
	for (const char *at = text; *at != '\0'; at++, lines++)
		for (int field = 0; *(at = csv_field(at)) == ','; field++, at++)
			CHECK(field < 3 + many);
	CHECK(lines == 1 + answer->row_count * (1 + many));
}

static void gdb_check(const char *text)
{
	static const char *const commands[] = {"set pagination off", "p 0123456789",
		"x 0x0123456789abcdef", "info symbol 0x0123456789abcdef"};
	static const size_t fixed[] = {18, 2, 4, 14};
	for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
		bool known = false;
		for (size_t i = 0; i < 4; i++)
			known = known ||
				(strncmp(line, commands[i], fixed[i]) == 0 &&
					line[fixed[i] + strspn(line + fixed[i],
								commands[i] + fixed[i])] == '\n');
		CHECK(known);
	}
}

// No control characters but line ends, and no byte that is not part of UTF-8.
static void text_check(const char *text, size_t size)
{
	for (size_t i = 0; i < size;) {
		const size_t length = escape_printable((const unsigned char *)text + i, size - i);
		CHECK(length > 0 || text[i] == '\n');
		i += length > 0 ? length : 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};
	struct answer answer = {0};
	size_t length;
	answer_make(&answer, &input);
	char *text = answer_write(&answer, REPORT_JSON, false, false, &length);
	json_check(&answer, text, length);
	free(text);
	for (int many = 0; many < 2; many++) {
		text = answer_write(&answer, REPORT_CSV, many, false, &length);
		csv_check(&answer, text, length, many);
		free(text);
		text = answer_write(&answer, REPORT_TEXT, many, false, &length);
		text_check(text, length);
		free(text);
	}
	text = answer_write(&answer, REPORT_GDB, false, false, &length);
	gdb_check(text);
	free(text);
	FILE *stream = open_memstream(&text, &length);
	CHECK(stream != NULL);
	summary_write(stream, &answer.head);
	CHECK(fclose(stream) == 0);
	text_check(text, length);
	free(text);
	for (size_t i = 0; i < answer.text_count; i++)
		free(answer.texts[i]);
	return 0;
}
