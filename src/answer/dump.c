// SPDX-License-Identifier: MIT
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "answer/answer.h"
#include "base/bytes.h"
#include "image/machine.h"

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// For what must be read in order there is a quarter of --memory, or so many if all of it fits
// these.
#define WHOLE_SHARE 3

uint64_t dump_memory_needed(const struct dump *dump)
{
	return image_memory_needed(dump->image) / WHOLE_SHARE * 4;
}

static bool dump_open_image(struct dump *dump, const char *path, struct error *err)
{
	const struct options *options = dump->options;
	const bool objects = options->types || options->leaks || options->heap || options->owners ||
			     options->path_given;
	struct image_options image_options = {
		.piece = dump->piece,
		.word_size = (unsigned)options->word_size,
		.order_given = options->order_given,
		.order = (enum byte_order)options->order,
		.raw = options->raw,
		.offset = options->offset,
		.limit = options->limit,
		.memory = objects ? options->memory / 4 * WHOLE_SHARE : options->memory / 4,
		.whole = objects,
		.keep = !options->no_names || options->kinds != 0,
		.pid = (int64_t)options->pid,
		.registers = objects && !options->types,
		.stop = dump->stop,
	};
	if (!image_open(path, &image_options, dump->diag, err, &dump->image))
		return false;
	const struct image_info *info = image_info(dump->image);
	if (!objects || !info->in_order || info->once)
		return true;
	// It does not fit: the memory is of more use to the question.
	image_close(dump->image);
	image_options.memory = options->memory / 4;
	image_options.whole = false;
	return image_open(path, &image_options, dump->diag, err, &dump->image);
}

static bool dump_open_names(struct dump *dump, struct error *err)
{
	const struct options *options = dump->options;
	const struct names_options names_options = {
		.exe = dump->exe != NULL ? dump->exe : options->exe,
		.sysroot = options->sysroot,
		.debug_dir = options->debug_dir,
		.debuginfod = options->debuginfod,
		.mangled = options->no_demangle,
		.kinds_only = options->no_names,
		.known = dump->known,
		.known_count = dump->known_count,
	};
	const struct image_info *info = image_info(dump->image);
	if (!names_create(dump->image, &names_options, dump->diag, err, &dump->names))
		return false;
	const kind_set addresses = (kind_set)options->kinds & KINDS_ADDRESS;
	if (addresses == 0 || names_has_addresses(dump->names))
		return true;
	return error_usage(err, "--kind %s: nothing is known of the addresses in %s, %s",
		kind_name((enum kind)__builtin_ctz(addresses)), info->path,
		info->overridden ? "whose word size or byte order is not that given"
				 : "which is read as plain bytes");
}

bool dump_open(struct dump *dump, const char *path, const char *exe, struct error *err)
{
	dump->begin = seconds_now();
	dump->exe = exe;
	if (!dump_open_image(dump, path, err))
		return false;
	return dump->options->kinds == 0 || dump_names(dump, "--kind", err);
}

bool dump_names(struct dump *dump, const char *option, struct error *err)
{
	// What an address points to comes after the words that hold it.
	if (image_info(dump->image)->once)
		return error_usage(err, "%s: %s comes through a pipe; save it to a file first",
			option, image_info(dump->image)->path);
	return dump->names != NULL || dump_open_names(dump, err);
}

// Whether a value may be shown although nothing of the memory's contents may: a symbol or a small
// number. Four characters of a text can look like an address.
static bool value_is_harmless(const struct dump *dump, enum kind kind, uint64_t value)
{
	const unsigned size = image_info(dump->image)->word_size;
	unsigned char bytes[8];
	word_store(bytes, value, size, ORDER_NATIVE);
	bool text = true;
	for (unsigned i = 0; i < size; i++)
		text = text && bytes[i] >= 0x20 && bytes[i] < 0x7f;
	return kind == KIND_ZERO || (kind == KIND_NUMBER && value <= 65535) ||
	       ((kind == KIND_CODE || kind == KIND_DATA) && !text);
}

void dump_describe(struct dump *dump, struct report_word *row)
{
	const struct name name = names_describe(dump->names, row->value);
	const bool redact = dump->options->redact;
	row->redacted = redact && !value_is_harmless(dump, name.kind, row->value);
	row->kind = dump->options->no_names ? "" : kind_name(name.kind);
	row->text = dump->options->no_names ? "" : row->redacted ? row->kind : name.text;
}

void dump_close(struct dump *dump)
{
	names_destroy(dump->names);
	image_close(dump->image);
	dump->names = NULL;
	dump->image = NULL;
}

bool dump_wants_summary(const struct dump *dump)
{
	return !dump->options->quiet && (dump->options->verbose || isatty(STDERR_FILENO));
}

// NULL for a text that is not known.
static const char *known(const char *text)
{
	return text[0] != '\0' ? text : NULL;
}

static struct report_input input_of(const struct image_info *info, bool redact)
{
	const struct image_process *process = &info->process;
	const bool elf = info->elf_class != 0;
	// Arguments may hold passwords.
	const char *arguments = redact ? NULL : known(process->arguments);
	return (struct report_input){
		.path = info->path,
		.format = info->format == IMAGE_MEMORY ? "recording"
			  : info->live		       ? "process"
			  : elf && !info->raw_elf      ? "elf-core"
						       : "raw",
		.packing = info->packing,
		.elf_class = info->elf_class,
		.byte_order = info->order == ORDER_BIG ? "big" : "little",
		.machine = elf ? machine_name(info->machine) : NULL,
		.program = known(process->program),
		.command = arguments != NULL ? arguments : known(process->command),
		.signal = signal_name(process->signal),
		.signal_number = process->signal,
		.pid = process->pid,
		.live = info->live,
		.piped = info->piped,
		.threads = (unsigned)process->thread_count,
		.stopped_threads = info->stopped_threads,
		.stopped_nanoseconds = info->stopped_longest,
	};
}

static struct report_scanned scanned_of(const struct image_info *info, uint64_t words, bool partial)
{
	return (struct report_scanned){
		.segments = info->segment_count,
		.bytes_saved = info->bytes_saved,
		.bytes_not_saved = info->bytes_not_saved,
		.bytes_missing = info->bytes_saved - info->bytes_present,
		.words = words,
		.word_size = info->word_size,
		.partial = partial,
	};
}

static struct report_memory memory_of(const struct names *names)
{
	uint64_t bytes[KIND_COUNT];
	names_measure(names, bytes);
	return (struct report_memory){
		.heap = bytes[KIND_HEAP],
		.anon = bytes[KIND_ANON],
		.stacks = bytes[KIND_STACK],
		.files = bytes[KIND_CODE] + bytes[KIND_DATA],
		.known = names_has_addresses(names),
	};
}

static struct report_module module_of(const struct module *module, struct build_id_text ids[2])
{
	ids[0] = build_id_format(&module->build_id);
	ids[1] = build_id_format(&module->file_build_id);
	return (struct report_module){
		.path = module->path,
		.state = module_state_name(module),
		.file = module->file != NULL ? module->file->path : module->refused,
		.build_id = known(ids[0].text),
		.file_build_id = known(ids[1].text),
		.start = module->start,
		.end = module->end,
		.bias = module->bias,
		.main = module->is_main,
		.doubtful = module->state == MODULE_UNVERIFIED ||
			    module->state == MODULE_MISMATCH || module->state == MODULE_MISSING,
	};
}

// Files that are no programs are left out: there can be thousands.
static bool head_add_modules(struct dump_head *head, struct names *names, struct error *err)
{
	const struct modules *modules = names_modules(names);
	head->modules = calloc(modules->count + 1, sizeof *head->modules);
	head->ids = calloc(2 * modules->count + 1, sizeof *head->ids);
	if (head->modules == NULL || head->ids == NULL)
		return error_memory(err);
	size_t count = 0;
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->list[i];
		if (module->state == MODULE_DATA)
			continue;
		head->modules[count] = module_of(module, &head->ids[2 * count]);
		head->modules[count].has_symbols = module->is_main && names_has_symbols(names);
		count++;
	}
	head->head.modules = head->modules;
	head->head.module_count = count;
	return true;
}

bool dump_settle(struct dump *dump, struct error *err)
{
	progress_clear(&dump->progress);
	image_finish(dump->image, dump->diag);
	// Memory that is read in order can be read at an address only now.
	if (image_info(dump->image)->in_order) {
		names_destroy(dump->names);
		dump->names = NULL;
	}
	return dump->names != NULL || dump_open_names(dump, err);
}

static struct report_sources sources_of(const struct dump *dump)
{
	const struct options *options = dump->options;
	return (struct report_sources){
		.exe = dump->exe != NULL ? dump->exe : options->exe,
		.sysroot = options->sysroot,
		.debug_dir = options->debug_dir,
		.debuginfod = options->debuginfod,
	};
}

bool dump_head_init(struct dump *dump, const char *mode, uint64_t words, bool partial,
	struct error *err, struct dump_head *ret)
{
	const struct image_info *info = image_info(dump->image);
	*ret = (struct dump_head){0};
	if (!dump_settle(dump, err))
		return false;
	ret->head = (struct report_head){
		.mode = mode,
		.version = TOPLEAK_VERSION,
		.names = !dump->options->no_names,
		.input = input_of(info, dump->options->redact),
		.scanned = scanned_of(info, words, partial),
		.memory = memory_of(dump->names),
		.verbose = dump->options->verbose,
		.sources = sources_of(dump),
	};
	if (!head_add_modules(ret, dump->names, err))
		return false;
	const struct module *program = names_modules(dump->names)->main;
	if (info->format == IMAGE_MEMORY && program != NULL)
		ret->head.input.program = program->path;
	if (partial)
		diag_warn(dump->diag, "%s: interrupted: the counts are only part of the answer",
			info->path);
	if (dump_wants_summary(dump))
		summary_write(stderr, &ret->head);
	return true;
}

void dump_head_deinit(struct dump_head *head)
{
	free(head->modules);
	free(head->ids);
}

void dump_finish(const struct dump *dump, const struct dump_head *head)
{
	if (dump->options->verbose && !dump->options->quiet)
		summary_used(stderr, dump->options->memory, names_symbols_memory(dump->names),
			image_info(dump->image)->unpack_memory);
	if (dump_wants_summary(dump))
		summary_next(stderr, &head->head);
}

void dump_time(const struct dump *dump, unsigned passes, unsigned threads)
{
	if (!dump->options->time)
		return;
	const double seconds = seconds_now() - dump->begin;
	const double bytes = (double)image_info(dump->image)->bytes_present;
	fprintf(stderr, "time: %.2f s, %.2f GB/s, %u pass%s, %u thread%s\n", seconds,
		seconds > 0 ? bytes * 1e-9 / seconds : 0, passes, passes == 1 ? "" : "es", threads,
		threads == 1 ? "" : "s");
}

bool dump_flush(const struct dump *dump, struct report *report, struct error *err)
{
	report->lost = report->lost || names_lost(dump->names);
	return report_flush(report, err);
}
