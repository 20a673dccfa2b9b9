// SPDX-License-Identifier: MIT
#include "answer/find.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "find/find.h"
#include "names/names.h"

struct answer {
	struct image *image;
	const struct options *options;
	struct report_head *head;
	const atomic_int *stop;
	struct diag *diag;
	struct report *report;
	// What is to be added to addresses: plain bytes are shown by their offset in the file.
	uint64_t base;
};

bool find_asked(const struct options *options)
{
	return options->strings || options->find != NULL || options->type != NULL;
}

// ---- texts

static struct find_options text_options_of(const struct answer *answer)
{
	const struct options *options = answer->options;
	return (struct find_options){
		.image = answer->image,
		.top = options->top,
		.min_count = options->min_count,
		.fold = options->ignore_case,
		.memory = options->memory,
		.threads = (unsigned)options->threads,
		.stop = answer->stop,
	};
}

// Begin the answer, whose numbers are known now.
static void answer_begin(const struct answer *answer, bool partial)
{
	answer->head->scanned.partial = partial;
	if (partial)
		diag_warn(answer->diag, "%s: interrupted: this is only part of the answer",
			answer->head->input.path);
	report_begin(answer->report, answer->head);
}

static void texts_report(const struct answer *answer, const struct texts *texts)
{
	for (size_t i = 0; i < texts->used; i++) {
		const struct texts_entry *entry = &texts->entries[i];
		const struct report_text row = {
			.bytes = answer->options->redact ? NULL
							 : (const char *)texts->bytes + entry->at,
			.size = entry->size,
			.length = entry->length,
			.cut_before = entry->cut_before,
			.cut_after = entry->cut_after,
			.count = entry->count,
			.count_max = entry->count,
			.address = entry->address + answer->base,
		};
		report_text(answer->report, &row);
	}
}

static bool strings_answer(const struct answer *answer, struct error *err)
{
	struct find_options options = text_options_of(answer);
	// A table of all strings may be as large as the dump.
	options.large = image_info(answer->image)->bytes_present > options.memory / 2;
	struct text_result result;
	if (!find_strings(answer->options->min_length, &options, err, &result))
		return false;
	answer_begin(answer, result.partial);
	const struct report_found found = {.count = result.count};
	report_found(answer->report, &found);
	report_list(answer->report, REPORT_TEXTS);
	texts_report(answer, &result.texts);
	text_result_deinit(&result);
	return true;
}

static bool text_answer(const struct answer *answer, const char *text, struct error *err)
{
	const struct options *options = answer->options;
	const struct find_options text_options = text_options_of(answer);
	const size_t length = strlen(text);
	if (length == 0 || length > FIND_TEXT_MAX)
		return error_usage(err, "--find: a text has 1 to %zu bytes", FIND_TEXT_MAX);
	errno = 0;
	const uint64_t number = strtoull(text, NULL, 10);
	if (text == options->find && text[strspn(text, "0123456789")] == '\0' && errno == 0)
		diag_warn(answer->diag,
			"--find %s: looked for as a text; as a number it is --find 0x%" PRIx64,
			text, number);
	struct text_result result;
	if (!find_text(text, length, &text_options, err, &result))
		return false;
	answer_begin(answer, result.partial);
	const struct report_found found = {
		.text = options->redact ? NULL : text,
		.text_size = length,
		.count = result.count,
	};
	report_found(answer->report, &found);
	report_list(answer->report, REPORT_TEXTS);
	texts_report(answer, &result.texts);
	text_result_deinit(&result);
	return true;
}

// ---- which question

bool find_answer(struct image *image, const struct options *options, struct report_head *head,
	const atomic_int *stop, struct diag *diag, struct report *report, struct error *err)
{
	const struct answer answer = {
		.image = image,
		.options = options,
		.head = head,
		.stop = stop,
		.diag = diag,
		.report = report,
		.base = image_info(image)->elf_class == 0 || image_info(image)->raw_elf
				? options->offset
				: 0,
	};
	head->mode = options->strings ? "strings" : "find";
	bool ok;
	if (options->strings)
		ok = strings_answer(&answer, err);
	else
		ok = text_answer(&answer, options->find, err);
	if (!ok)
		return false;
	report_end(report);
	return report_flush(report, err);
}
