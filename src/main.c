// SPDX-License-Identifier: MIT
//
// The whole way: options -> image -> count -> names -> report.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/options.h"
#include "count/count.h"
#include "image/binary.h"
#include "image/image.h"
#include "image/machine.h"
#include "names/names.h"
#include "report/report.h"

enum { EXIT_USAGE = 2 };

_Static_assert(IMAGE_CHUNK_SIZE == COUNT_BLOCK_SIZE, "a chunk is a block");

// The signal that asked to stop, or 0. A handler can reach nothing else.
static atomic_int stop_signal;

static void stop_handle(int number)
{
	atomic_store(&stop_signal, number);
}

// SIGINT and SIGTERM end with what was found so far; the second one ends at once. A closed pipe
// ends quietly, even where the parent ignores SIGPIPE.
static void signals_init(void)
{
	struct sigaction action = {.sa_handler = stop_handle, .sa_flags = (int)SA_RESETHAND};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGPIPE, SIG_DFL);
}

// If one of the standard descriptors is closed, a dump that is opened would take its place.
static bool descriptors_init(struct error *err)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		if (fd == 1)
			return error_set(err, "stdout is closed: there is nowhere to print to");
		if (open("/dev/null", O_RDWR) < 0)
			return error_set(err, "/dev/null: %s", strerror(errno));
	}
	return true;
}

// ---- image -> count

struct words {
	const struct image *image;
	struct image_scan *scan;
	const struct kind_filter *filter; // NULL: all words
};

static bool words_start(void *context, unsigned stride, struct error *err)
{
	struct words *words = context;
	image_scan_close(words->scan);
	words->scan = NULL;
	return image_scan_open(words->image, stride, err, &words->scan);
}

static int words_next(void *context, void *buffer, struct count_block *ret, struct error *err)
{
	const struct words *words = context;
	const unsigned size = image_info(words->image)->word_size;
	struct image_chunk chunk;
	const int more = image_scan_next(words->scan, buffer, &chunk, err);
	if (more <= 0)
		return more;
	*ret = (struct count_block){chunk.size / size, chunk.zeros / size};
	if (words->filter != NULL) {
		ret->words = kind_filter_select(words->filter, buffer, ret->words);
		if ((words->filter->wanted >> KIND_ZERO & 1) == 0)
			ret->zeros = 0;
	}
	return more;
}

static bool image_count(const struct image *image, const struct kind_filter *filter,
	const struct options *options, struct error *err, struct count_result *ret)
{
	const struct image_info *info = image_info(image);
	struct words words = {.image = image, .filter = filter};
	const struct count_source source = {
		.context = &words,
		.start = words_start,
		.next = words_next,
		// Of what is unpacked a sample is the beginning, which is kept.
		.access = info->once ? COUNT_ONCE : COUNT_SEEK,
		.words = info->bytes_present / info->word_size,
	};
	const struct count_options count_options = {
		.top = options->top,
		.min_count = options->min_count,
		.word_size = info->word_size,
		.order = info->order,
		.memory = options->memory - info->memory,
		.threads = (unsigned)options->threads,
		.stop = &stop_signal,
	};
	const size_t needed = count_memory_needed(options->top);
	if (needed > COUNT_MEMORY_MIN && needed > count_options.memory)
		return error_usage(err,
			"--top %" PRIu64 ": does not fit --memory, of which reading %s takes a "
			"quarter; use -m %zuM or more",
			options->top, info->path, (needed / 3 * 4 + (1 << 20)) >> 20);
	const bool ok = count_words(&source, &count_options, err, ret);
	image_scan_close(words.scan);
	return ok;
}

// ---- image, count -> report

// NULL for a text that is not known.
static const char *known(const char *text)
{
	return text[0] != '\0' ? text : NULL;
}

static struct report_input input_of(const struct image_info *info)
{
	const struct image_process *process = &info->process;
	const bool elf = info->elf_class != 0;
	const char *arguments = known(process->arguments);
	return (struct report_input){
		.path = info->path,
		.format = info->live		  ? "process"
			  : elf && !info->raw_elf ? "elf-core"
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
	};
}

static struct report_scanned scanned_of(
	const struct image_info *info, const struct count_result *result)
{
	return (struct report_scanned){
		.segments = info->segment_count,
		.bytes_saved = info->bytes_saved,
		.bytes_not_saved = info->bytes_not_saved,
		.bytes_missing = info->bytes_saved - info->bytes_present,
		.words = result->words,
		.word_size = info->word_size,
		.partial = result->partial,
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

// The modules, and the texts they need.
struct module_list {
	struct report_module *modules; // owned
	struct build_id_text *ids;     // owned: two for each
	size_t count;
};

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
static bool modules_list(struct names *names, struct error *err, struct module_list *ret)
{
	const struct modules *modules = names_modules(names);
	*ret = (struct module_list){
		.modules = calloc(modules->count + 1, sizeof *ret->modules),
		.ids = calloc(2 * modules->count + 1, sizeof *ret->ids),
	};
	if (ret->modules == NULL || ret->ids == NULL)
		return error_memory(err);
	for (size_t i = 0; i < modules->count; i++)
		if (modules->list[i].state != MODULE_DATA) {
			ret->modules[ret->count] =
				module_of(&modules->list[i], &ret->ids[2 * ret->count]);
			ret->modules[ret->count].has_symbols =
				modules->list[i].is_main && names_has_symbols(names);
			ret->count++;
		}
	return true;
}

static void module_list_deinit(struct module_list *list)
{
	free(list->modules);
	free(list->ids);
}

static bool rows_report(struct names *names, const struct count_result *result,
	const struct report_head *head, struct report *report, struct error *err)
{
	report_begin(report, head);
	for (size_t i = 0; i < result->row_count; i++) {
		struct report_word row = {
			.value = result->rows[i].value,
			.count = result->rows[i].count,
			.count_max = result->rows[i].count_max,
			.kind = "",
			.text = "",
		};
		if (head->names) {
			const struct name name = names_describe(names, row.value);
			row.kind = kind_name(name.kind);
			row.text = name.text;
		}
		report_word(report, &row);
	}
	report_end(report);
	return report_flush(report, err);
}

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void time_print(
	const struct image_info *info, const struct count_result *result, double seconds)
{
	fprintf(stderr, "time: %.2f s, %.2f GB/s, %u passes, %u thread%s\n", seconds,
		seconds > 0 ? (double)info->bytes_present * 1e-9 / seconds : 0, result->passes,
		result->threads, result->threads == 1 ? "" : "s");
}

// A pipe is read once; what that leaves open.
static void inexact_warn(
	const struct image_info *info, const struct count_result *result, struct diag *diag)
{
	bool exact = true;
	for (size_t i = 0; i < result->row_count; i++)
		exact = exact && result->rows[i].count == result->rows[i].count_max;
	const uint64_t last = result->row_count > 0 ? result->rows[result->row_count - 1].count : 0;
	if (!exact)
		diag_warn(diag,
			"%s: can be read only once: counts are intervals where they are not "
			"certain; for exact ones save the dump to a file, or use a larger --memory",
			info->path);
	if (!exact && result->rest_max > last)
		diag_warn(diag,
			"%s: words that have no row may occur up to %" PRIu64
			" times, more often than those of the last rows",
			info->path, result->rest_max);
}

static bool dump_open(const char *path, const struct options *options, struct diag *diag,
	struct error *err, struct image **ret)
{
	const struct image_options image_options = {
		.word_size = (unsigned)options->word_size,
		.order_given = options->order_given,
		.order = (enum byte_order)options->order,
		.raw = options->raw,
		.offset = options->offset,
		.limit = options->limit,
		.memory = options->memory / 4,
		.keep = !options->no_names || options->kinds != 0,
		.pid = (int64_t)options->pid,
		.stop = &stop_signal,
	};
	return image_open(path, &image_options, diag, err, ret);
}

static bool dump_names(struct image *image, const char *exe, const struct options *options,
	struct diag *diag, struct error *err, struct names **ret)
{
	const struct names_options names_options = {
		.exe = exe != NULL ? exe : options->exe,
		.sysroot = options->sysroot,
		.debug_dir = options->debug_dir,
		.debuginfod = options->debuginfod,
		.mangled = options->no_demangle,
		.kinds_only = options->no_names,
	};
	if (!names_create(image, &names_options, diag, err, ret))
		return false;
	const kind_set addresses = (kind_set)options->kinds & KINDS_ADDRESS;
	if (addresses == 0 || names_has_addresses(*ret))
		return true;
	const enum kind kind = (enum kind)__builtin_ctz(addresses);
	return error_usage(err, "--kind %s: nothing is known of the addresses in %s, %s",
		kind_name(kind), image_info(image)->path,
		image_info(image)->overridden ? "whose word size or byte order is not that given"
					      : "which is read as plain bytes");
}

// Answer for one dump of the program exe; NULL: not given.
static bool dump_report(const char *path, const char *exe, const struct options *options,
	struct diag *diag, struct report *report, struct error *err)
{
	const double begin = seconds_now();
	const bool people = (isatty(2) && !options->quiet) || options->verbose;
	struct image *image = NULL;
	struct names *names = NULL;
	struct kind_filter filter;
	struct count_result result = {0};
	struct module_list modules = {0};
	bool ok = dump_open(path, options, diag, err, &image);
	if (!ok)
		goto out;
	// What names need of a dump that is read in order comes by while it is counted.
	const bool filtered = options->kinds != 0, in_order = image_info(image)->in_order;
	if (filtered || !in_order)
		ok = dump_names(image, exe, options, diag, err, &names);
	if (ok && filtered)
		names_filter(names, (kind_set)options->kinds, &filter);
	ok = ok && image_count(image, filtered ? &filter : NULL, options, err, &result);
	if (!ok)
		goto out;
	image_finish(image, diag);
	if (in_order && (!filtered || image_info(image)->once)) {
		names_destroy(names);
		names = NULL;
		ok = dump_names(image, exe, options, diag, err, &names);
	}
	if (!ok || !(ok = modules_list(names, err, &modules)))
		goto out;
	const struct report_head head = {
		.mode = "words",
		.version = TOPLEAK_VERSION,
		.names = !options->no_names,
		.input = input_of(image_info(image)),
		.scanned = scanned_of(image_info(image), &result),
		.memory = memory_of(names),
		.modules = modules.modules,
		.module_count = modules.count,
		.verbose = options->verbose,
	};
	if (result.partial)
		diag_warn(diag, "%s: interrupted: the counts are only part of the answer",
			image_info(image)->path);
	inexact_warn(image_info(image), &result, diag);
	if (people)
		summary_write(stderr, &head);
	ok = rows_report(names, &result, &head, report, err);
	if (ok && people)
		summary_next(stderr, &head);
	if (ok && options->time)
		time_print(image_info(image), &result, seconds_now() - begin);
out:
	module_list_deinit(&modules);
	count_result_deinit(&result);
	names_destroy(names);
	image_close(image);
	return ok;
}

// A program before a core is its --exe.
static bool is_exe(const struct options *options, size_t index)
{
	return !options->raw && index + 1 < options->file_count &&
	       binary_is_program(options->files[index]);
}

static bool dumps_report(
	const struct options *options, struct diag *diag, struct report *report, struct error *err)
{
	const char *exe = NULL;
	bool ok = true;
	for (size_t i = 0; i < options->file_count && atomic_load(&stop_signal) == 0; i++) {
		if (is_exe(options, i)) {
			exe = options->files[i];
			continue;
		}
		if (dump_report(options->files[i], exe, options, diag, report, err))
			continue;
		ok = atomic_load(&stop_signal) != 0 && !ferror(stdout);
		if (ok) {
			err->text[0] = '\0';
			break;
		}
		// Without a place to print to the other files are of no use; a wrong wish stays
		// one.
		if (ferror(stdout) || err->usage)
			break;
		if (i + 1 < options->file_count) {
			diag_error(diag, err);
			err->text[0] = '\0';
		}
	}
	return ok;
}

static unsigned processors(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static int run(const struct options *options, struct diag *diag)
{
	static const enum report_format formats[] = {
		[OUTPUT_TEXT] = REPORT_TEXT,
		[OUTPUT_JSON] = REPORT_JSON,
		[OUTPUT_CSV] = REPORT_CSV,
		[OUTPUT_GDB] = REPORT_GDB,
	};
	struct error err = {0};
	struct report report;
	size_t dumps = 0;
	for (size_t i = 0; i < options->file_count; i++)
		dumps += !is_exe(options, i);
	const size_t needed = count_memory_needed(options->top);
	bool ok = false;
	if (options->memory < needed)
		error_usage(&err, "--top %" PRIu64 ": does not fit --memory; use -m %zuM or more",
			options->top, (needed + (1 << 20) - 1) >> 20);
	else if (options->output == OUTPUT_GDB && dumps > 1)
		error_usage(
			&err, "--output gdb: takes one file, not %zu; gdb reads one core", dumps);
	else
		ok = report_init(&report, stdout, formats[options->output], dumps > 1, &err) &&
		     dumps_report(options, diag, &report, &err);
	int status = ok ? EXIT_SUCCESS : err.usage ? EXIT_USAGE : EXIT_FAILURE;
	if (err.text[0] != '\0')
		diag_error(diag, &err);
	const int number = atomic_load(&stop_signal);
	return number != 0 && status == EXIT_SUCCESS ? 128 + number : status;
}

static int information(const struct options *options, struct diag *diag)
{
	struct error err;
	if (options->help)
		options_help(stdout);
	else
		printf("topleak %s\n", TOPLEAK_VERSION);
	if (fflush(stdout) == 0 && !ferror(stdout))
		return EXIT_SUCCESS;
	error_set(&err, "cannot write the output: %s", strerror(errno));
	diag_error(diag, &err);
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	struct diag diag;
	struct error err = {0};
	struct options options = {0};
	int status;
	signals_init();
	diag_init(&diag, stderr);
	if (descriptors_init(&err) && options_parse(argc, argv, &err, &options)) {
		if (options.threads == 0)
			options.threads = processors();
		status = options.help || options.version ? information(&options, &diag)
							 : run(&options, &diag);
	} else {
		diag_error(&diag, &err);
		status = err.usage ? EXIT_USAGE : EXIT_FAILURE;
	}
	options_deinit(&options);
	diag_deinit(&diag);
	return status;
}
