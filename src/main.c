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

#include "answer/find.h"
#include "cli/options.h"
#include "count/count.h"
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
	if (more > 0)
		*ret = (struct count_block){chunk.size / size, chunk.zeros / size};
	return more;
}

static bool image_count(const struct image *image, const struct options *options, struct error *err,
	struct count_result *ret)
{
	const struct image_info *info = image_info(image);
	struct words words = {.image = image};
	const struct count_source source = {
		.context = &words,
		.start = words_start,
		.next = words_next,
		.words = info->bytes_present / info->word_size,
	};
	const struct count_options count_options = {
		.top = options->top,
		.min_count = options->min_count,
		.word_size = info->word_size,
		.order = info->order,
		.memory = options->memory,
		.threads = (unsigned)options->threads,
		.stop = &stop_signal,
	};
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
		.format = elf && !info->raw_elf ? "elf-core" : "raw",
		.elf_class = info->elf_class,
		.byte_order = info->order == ORDER_BIG ? "big" : "little",
		.machine = elf ? machine_name(info->machine) : NULL,
		.program = known(process->program),
		.command = arguments != NULL ? arguments : known(process->command),
		.signal = signal_name(process->signal),
		.signal_number = process->signal,
		.pid = process->pid,
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

static bool rows_report(const struct image *image, const struct count_result *result,
	const struct report_head *head, struct diag *diag, struct report *report, struct error *err)
{
	struct names *names = NULL;
	const struct names_options names_options = {0};
	if (head->names && !names_create(image, &names_options, diag, err, &names))
		return false;
	report_begin(report, head);
	for (size_t i = 0; i < result->row_count; i++) {
		struct report_word row = {
			.value = result->rows[i].value,
			.count = result->rows[i].count,
			.kind = "",
			.text = "",
		};
		if (names != NULL) {
			const struct name name = names_describe(names, row.value);
			row.kind = kind_name(name.kind);
			row.text = name.text;
		}
		report_word(report, &row);
	}
	report_end(report);
	names_destroy(names);
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

// Answer for one dump.
static bool dump_report(const char *path, const struct options *options, struct diag *diag,
	struct report *report, struct error *err)
{
	const double begin = seconds_now();
	const bool people = (isatty(2) && !options->quiet) || options->verbose;
	const struct image_options image_options = {
		.word_size = (unsigned)options->word_size,
		.order_given = options->order_given,
		.order = (enum byte_order)options->order,
		.raw = options->raw,
		.offset = options->offset,
		.limit = options->limit,
	};
	struct image *image = NULL;
	struct count_result result = {0};
	bool ok = image_open(path, &image_options, diag, err, &image);
	if (!ok)
		return false;
	const bool find = find_asked(options);
	if (!find && !(ok = image_count(image, options, err, &result)))
		goto out;
	struct report_head head = {
		.mode = "words",
		.version = TOPLEAK_VERSION,
		.names = !options->no_names,
		.input = input_of(image_info(image)),
		.scanned = scanned_of(image_info(image), &result),
	};
	if (options->redact)
		head.input.command = known(image_info(image)->process.command);
	if (find)
		head.scanned.words = image_info(image)->bytes_present / head.scanned.word_size;
	if (result.partial)
		diag_warn(diag, "%s: interrupted: the counts are only part of the answer", path);
	if (people)
		summary_write(stderr, &head);
	ok = find ? find_answer(image, options, &head, &stop_signal, diag, report, err)
		  : rows_report(image, &result, &head, diag, report, err);
	if (ok && people && !find)
		summary_next(stderr, &head);
	if (ok && options->time)
		time_print(image_info(image), &result, seconds_now() - begin);
out:
	count_result_deinit(&result);
	image_close(image);
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
	int status = EXIT_SUCCESS;
	const size_t needed = count_memory_needed(options->top);
	if (options->memory < needed)
		error_usage(&err, "--top %" PRIu64 ": does not fit --memory; use -m %zuM or more",
			options->top, (needed + (1 << 20) - 1) >> 20);
	else if (report_init(
			 &report, stdout, formats[options->output], options->file_count > 1, &err))
		for (size_t i = 0; i < options->file_count && atomic_load(&stop_signal) == 0; i++) {
			if (dump_report(options->files[i], options, diag, &report, &err))
				continue;
			diag_error(diag, &err);
			err.text[0] = '\0';
			status = err.usage ? EXIT_USAGE : EXIT_FAILURE;
			// Without a place to print to the other files are of no use.
			if (ferror(stdout))
				break;
		}
	if (err.text[0] != '\0') {
		diag_error(diag, &err);
		status = err.usage ? EXIT_USAGE : EXIT_FAILURE;
	}
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
