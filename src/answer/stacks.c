// SPDX-License-Identifier: MIT
//
// Who allocated it: the call stacks of recordings, from their own files, cores and processes.
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "answer/answer.h"
#include "base/guard.h"
#include "stacks/table.h"

_Static_assert((int)STACK_BY_SIZE == (int)REPORT_BY_SIZE, "the same keys");
_Static_assert((int)STACK_LIVES == (int)REPORT_LIFETIMES, "the same lifetimes");

// ---- one recording

struct opened {
	struct dump dump;
	struct image_memory piece;
	struct recording *recording;
	struct frames *frames;
	struct log *log; // NULL: there is none
};

static void opened_close(struct opened *opened)
{
	log_destroy(opened->log);
	frames_destroy(opened->frames);
	recording_destroy(opened->recording);
	dump_close(&opened->dump);
}

static bool opened_log(struct opened *opened, struct error *err)
{
	const struct options *options = opened->dump.options;
	const struct log_options log_options = {
		.memory = options->memory / 2,
		.at = options->at_given ? options->at * UINT64_C(1000000) : UINT64_MAX,
	};
	uint64_t address, size;
	if (recording_log(opened->recording, &address, &size))
		return log_read(opened->recording, &log_options, err, &opened->log);
	return !options->at_given ||
	       error_usage(err, "--at: %s has no log of events; record it with --log",
		       image_info(opened->dump.image)->path);
}

// Open the recording that the file at path is, or has. *ret, whose dump is set up, is to be closed
// with opened_close, also after a failure.
static bool opened_open(struct opened *ret, const char *path, const char *exe, struct texts *texts,
	struct error *err)
{
	struct dump *dump = &ret->dump;
	uint64_t address;
	if (recording_probe(path, &ret->piece))
		dump->piece = &ret->piece;
	if (!dump_open(dump, path, exe, err))
		return false;
	const struct image_info *info = image_info(dump->image);
	if (info->in_order)
		return error_set(err, "%s: %s; --stacks needs a file that is not: unpack it first",
			info->path, info->once ? "comes through a pipe" : "is compressed");
	if (!recording_find(dump->image, &address))
		return error_set(err,
			"%s: has no recording of call stacks; run the program with topleak-record",
			info->path);
	if (!recording_open(dump->image, address, err, &ret->recording))
		return false;
	// A core may not say what was mapped where.
	if (info->format == IMAGE_MEMORY || info->process.mapping_count == 0) {
		dump->known = ret->recording->modules;
		dump->known_count = ret->recording->module_count;
	}
	if (!dump_names(dump, "--stacks", err) ||
		!recording_load(ret->recording, names_modules(dump->names),
			dump->options->memory / 2, err) ||
		!opened_log(ret, err))
		return false;
	ret->frames = frames_create(dump->names, ret->recording, texts);
	return ret->frames != NULL || error_memory(err);
}

// ---- rows

struct answer {
	const struct options *options;
	struct texts *texts;
	struct stack_table table;
	struct report_stacks head;
	bool old_damaged;
	// Of a single recording, to tell frames of; NULL: they are told.
	struct opened *opened;
	const struct dump_head *modules; // NULL: frames belong to none of them
};

static struct report_allocated allocated_of(const struct stack_values *values)
{
	return (struct report_allocated){
		.live_bytes = values->live_bytes,
		.live_blocks = values->live_blocks,
		.peak_bytes = values->peak_bytes,
		.peak_blocks = values->peak_blocks,
		.bytes = values->bytes,
		.blocks = values->blocks,
		.temporary = values->temporary,
		.largest = values->largest,
	};
}

// 95 % of what is distributed normally lies within so many standard deviations.
#define DEVIATIONS 1.96

static double error_of(const struct stack_values *values)
{
	return DEVIATIONS * sqrt(values->variance);
}

static const struct report_module *module_of_frame(
	const struct answer *answer, const struct stack_frame *frame)
{
	const struct dump_head *head = answer->modules;
	for (size_t i = 0; head != NULL && frame->of != NULL && i < head->head.module_count; i++)
		if (strcmp(head->modules[i].path, frame->of->path) == 0 &&
			head->modules[i].start == frame->of->start)
			return &head->modules[i];
	return NULL;
}

// The middle one of the lifetimes, about: the middle of its power of two. Microseconds.
static double lives_median(const struct stack_lives *lives)
{
	uint64_t seen = 0;
	for (unsigned i = 0; lives->list != NULL && i < STACK_LIVES; i++) {
		seen += lives->list[i];
		if (2 * seen >= lives->count)
			return i == 0 ? 0.5 : 1.5 * (double)((uint64_t)1 << (i - 1));
	}
	return 0;
}

static struct report_stack row_of(const struct answer *answer, const struct stack_row *row)
{
	const struct stack_values *values = &row->values;
	const uint64_t live = answer->table.total.live_bytes;
	return (struct report_stack){
		.name = row->name != NULL ? row->name : "",
		.module = row->module != NULL ? row->module : "",
		.file = row->file != NULL ? row->file : "",
		.size = row->size,
		.hash = row->key,
		.allocated = allocated_of(values),
		.inclusive = row->inclusive,
		.error = error_of(values),
		.share = live > 0 ? (double)values->live_bytes / (double)live : 0,
		.first = values->first,
		.last = values->last,
		.age_known = values->aged > 0,
		.age = values->aged > 0 ? (double)values->age_sum / (double)values->aged * 1e-3 : 0,
		.age_most = (double)values->age_most * 1e-3,
		.more_bytes = (int64_t)(values->live_bytes - row->old.live_bytes),
		.more_blocks = (int64_t)(values->live_blocks - row->old.live_blocks),
		.only_old = !row->is_new,
		.only_new = !row->is_old,
		.slope = row->growth.slope,
		.monotony = row->growth.monotony,
		.growth_share = row->growth.share,
		.grows = row->growth.grows,
		.lifetimes = row->lives.list,
		.lifetime = row->lives.count > 0 ? (double)row->lives.sum / (double)row->lives.count
						 : 0,
		.lifetime_median = lives_median(&row->lives),
		.lifetime_most = (double)row->lives.most,
	};
}

// Report a row with its frames; false: no memory.
static bool row_report(const struct answer *answer, struct stack_row *from, struct report *report)
{
	struct report_stack row = row_of(answer, from);
	if (answer->opened != NULL && from->name == NULL &&
		!stack_row_frame(from, answer->opened->recording, answer->opened->frames))
		return false;
	struct report_frame *frames AUTO_FREE = calloc(from->frame_count + 1, sizeof *frames);
	if (frames == NULL)
		return false;
	for (size_t i = 0; i < from->frame_count; i++) {
		const struct stack_frame *frame = &from->frames[i];
		frames[i] = (struct report_frame){
			.function = frame->function,
			.file = frame->file,
			.module = frame->module,
			.line = frame->line,
			.inlined = frame->inlined,
			.address = frame->address,
			.inside = frame->inside,
			.of = module_of_frame(answer, frame),
		};
	}
	row.frames = frames;
	row.frame_count = from->frame_count;
	report_stack(report, &row);
	return true;
}

// Whether there is anything to say of a row; a comparison leaves out what stayed the same.
static bool row_counts(const struct answer *answer, const struct stack_row *row)
{
	const struct stack_values *values = &row->values;
	const uint64_t blocks = max_u64(values->blocks, values->live_blocks);
	if (answer->options->diff != NULL)
		return values->live_bytes != row->old.live_bytes ||
		       values->live_blocks != row->old.live_blocks;
	return blocks >= answer->options->min_count &&
	       (values->live_blocks > 0 || values->blocks > 0 || values->peak_blocks > 0);
}

static bool is_profile(const struct options *options)
{
	return options->output == OUTPUT_FOLDED || options->output == OUTPUT_PPROF ||
	       options->output == OUTPUT_SPEEDSCOPE;
}

static bool rows_report(
	struct answer *answer, struct report_head *head, struct report *report, struct error *err)
{
	const struct options *options = answer->options;
	static const enum report_measure measures[] = {
		[STACK_SORT_LIVE] = REPORT_LIVE,
		[STACK_SORT_BLOCKS] = REPORT_LIVE_BLOCKS,
		[STACK_SORT_LARGEST] = REPORT_LARGEST,
		[STACK_SORT_NAME] = REPORT_LIVE,
		[STACK_SORT_PEAK] = REPORT_PEAK,
		[STACK_SORT_ALLOCATED] = REPORT_ALLOCATED,
		[STACK_SORT_TEMPORARY] = REPORT_TEMPORARY,
		[STACK_SORT_GROWTH] = REPORT_LIVE,
	};
	struct stack_table *table = &answer->table;
	const struct report_old old = {
		.path = options->diff, .format = "recording", .lower = answer->old_damaged};
	struct report_stacks *stacks = &answer->head;
	stacks->by = (enum report_by)options->by;
	stacks->measure = measures[options->sort];
	stacks->all = options->all;
	stacks->total = allocated_of(&table->total);
	stacks->error = error_of(&table->total);
	stacks->old = options->diff != NULL ? &old : NULL;
	stacks->growth = options->sort == STACK_SORT_GROWTH;
	stacks->rows = 0;
	stack_table_sort(table, (enum stack_sort)options->sort, options->diff != NULL);
	for (size_t i = 0; i < table->count; i++)
		stacks->rows += row_counts(answer, &table->rows[i]);
	head->stacks = stacks;
	report_begin(report, head);
	// A profile has all: what it is opened with has limits of its own.
	uint64_t left = is_profile(options) && !options->top_given ? UINT64_MAX : options->top;
	bool done = true;
	for (size_t i = 0; i < table->count && left > 0 && done; i++)
		if (row_counts(answer, &table->rows[i])) {
			done = row_report(answer, &table->rows[i], report);
			left--;
		}
	report_end(report);
	head->stacks = NULL;
	return (done || error_memory(err)) && report_flush(report, err);
}

// ---- the whole

static void head_add(struct report_stacks *head, const struct opened *opened)
{
	const struct recording *recording = opened->recording;
	const struct log *log = opened->log;
	head->full = (head->full || head->recordings == 0) && recording->full;
	head->sample_mean = max_u64(head->sample_mean, recording->sample_mean);
	head->start =
		head->recordings == 0 ? recording->start : min_u64(head->start, recording->start);
	head->duration = max_u64(head->duration, recording->duration);
	head->peak_time = recording->peak_time;
	head->stacks_cut += recording->stacks_cut;
	head->blocks_lost += recording->blocks_lost;
	head->bytes_lost += recording->bytes_lost;
	head->damaged = head->damaged || recording->damaged;
	head->recordings++;
	if (log == NULL)
		return;
	head->logged = true;
	head->events += log->events;
	head->unmatched += log->unmatched;
	head->damaged = head->damaged || log->damaged;
	head->rates = log->rates;
	head->rate_count = log->rate_count;
	head->rate_time = log->rate_time;
	head->at_known = opened->dump.options->at_given;
	head->at = opened->dump.options->at * UINT64_C(1000000);
}

static struct opened opened_like(const struct dump *dump)
{
	struct opened ret = {.dump = *dump};
	ret.dump.image = NULL;
	ret.dump.names = NULL;
	return ret;
}

static bool add_old(struct answer *answer, const struct dump *dump, struct error *err)
{
	struct opened old = opened_like(dump);
	if (answer->options->diff == NULL)
		return true;
	bool ok = opened_open(&old, answer->options->diff, dump->exe, answer->texts, err);
	if (ok) {
		answer->old_damaged = old.recording->damaged;
		ok = stack_table_add(&answer->table, old.recording, NULL, old.frames, true, true) ||
		     error_memory(err);
	}
	opened_close(&old);
	return ok;
}

static bool answer_init(struct answer *answer, const struct options *options, struct error *err)
{
	*answer = (struct answer){.options = options, .texts = texts_create()};
	stack_table_init(&answer->table, (enum stack_by)options->by, answer->texts);
	return answer->texts != NULL || error_memory(err);
}

static void answer_deinit(struct answer *answer)
{
	stack_table_deinit(&answer->table);
	texts_destroy(answer->texts);
}

static bool grow(struct answer *answer, const char *path, struct error *err)
{
	if (answer->options->sort != STACK_SORT_GROWTH)
		return true;
	answer->head.snapshots = answer->table.time_count;
	stack_table_grow(&answer->table);
	return answer->table.time_count >= 3 ||
	       error_usage(err,
		       "--sort growth: %s has %zu snapshots, three are the least; record with "
		       "--snapshot, or give several recordings",
		       path, answer->table.time_count);
}

bool answer_stacks(struct dump *dump, const char *path, const char *exe, struct report *report,
	struct error *err)
{
	const struct options *options = dump->options;
	struct answer answer;
	struct opened opened = opened_like(dump);
	struct dump_head head = {0};
	const char *mode = options->diff != NULL ? "stacks-diff" : "stacks";
	opened.dump.exe = exe;
	bool ok = answer_init(&answer, options, err) && add_old(&answer, &opened.dump, err) &&
		  opened_open(&opened, path, exe, answer.texts, err);
	if (ok) {
		answer.opened = &opened;
		head_add(&answer.head, &opened);
		ok = stack_table_add(&answer.table, opened.recording, opened.log, opened.frames,
			     false, false) &&
		     (options->sort != STACK_SORT_GROWTH ||
			     stack_table_add_series(&answer.table, opened.recording));
		ok = ok || error_memory(err);
	}
	ok = ok && grow(&answer, image_info(opened.dump.image)->path, err) &&
	     dump_head_init(&opened.dump, mode, 0, false, err, &head);
	if (ok) {
		answer.modules = &head;
		head.head.next = "";
		ok = rows_report(&answer, &head.head, report, err) &&
		     image_unchanged(opened.dump.image, err);
	}
	if (ok) {
		dump_finish(&opened.dump, &head);
		dump_time(&opened.dump, 1, 1);
	}
	dump_head_deinit(&head);
	opened_close(&opened);
	answer_deinit(&answer);
	return ok;
}

// ---- several as one

struct paths {
	char **list; // owned
	size_t count;
};

static void paths_deinit(struct paths *paths)
{
	for (size_t i = 0; i < paths->count; i++)
		free(paths->list[i]);
	free(paths->list);
}

static bool paths_add(struct paths *paths, char *path)
{
	char **grown =
		path != NULL ? reallocarray(paths->list, paths->count + 1, sizeof *grown) : NULL;
	if (grown == NULL) {
		free(path);
		return false;
	}
	paths->list = grown;
	grown[paths->count++] = path;
	return true;
}

static int path_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

// The recordings and cores in a folder; other files in it are none of ours.
static bool paths_add_folder(struct paths *paths, const char *folder, struct error *err)
{
	DIR *stream = opendir(folder);
	if (stream == NULL)
		return error_set(err, "%s: %s", folder, strerror(errno));
	bool ok = true;
	for (struct dirent *entry; ok && (entry = readdir(stream)) != NULL;) {
		char *path = NULL;
		struct image_memory piece;
		if (entry->d_name[0] == '.')
			continue;
		if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0)
			ok = error_memory(err);
		else if (!recording_probe(path, &piece))
			free(path);
		else
			ok = paths_add(paths, path) || error_memory(err);
	}
	closedir(stream);
	if (ok && paths->count == 0)
		ok = error_set(err, "%s: has no recording of topleak-record in it", folder);
	if (paths->count > 1)
		qsort(paths->list, paths->count, sizeof *paths->list, path_compare);
	return ok;
}

static bool path_is_folder(const char *path)
{
	struct stat status;
	return path != NULL && stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool stacks_together(const struct options *options)
{
	if (!options->stacks)
		return false;
	return (options->sort == STACK_SORT_GROWTH && options->file_count > 1) ||
	       (options->file_count == 1 && path_is_folder(options->files[0]));
}

// Recordings in the order of time, for growth.
struct moment {
	const char *path;
	uint64_t time; // nanoseconds since 1970
};

static int moment_compare(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;
	return (x->time > y->time) - (x->time < y->time);
}

// Add one of several; the first look only tells its time.
static bool add_one(struct answer *answer, const struct dump *dump, struct moment *moment,
	size_t index, size_t count, uint64_t start, struct error *err)
{
	struct opened opened = opened_like(dump);
	bool ok = opened_open(&opened, moment->path, dump->exe, answer->texts, err);
	const struct recording *recording = opened.recording;
	if (ok && index == SIZE_MAX) {
		moment->time = recording->start + recording->duration;
	} else if (ok) {
		const bool growth = answer->options->sort == STACK_SORT_GROWTH;
		head_add(&answer->head, &opened);
		// Over time, what is in use is that of the last one.
		ok = growth && index + 1 < count ? true
						 : stack_table_add(&answer->table, recording,
							   opened.log, opened.frames, false, true);
		ok = ok && (!growth || stack_table_add_moment(&answer->table, recording, index,
					       count, (double)(moment->time - start) * 1e-9));
		ok = ok || error_memory(err);
		answer->head.rates = NULL;
	}
	opened_close(&opened);
	return ok;
}

static bool add_all(struct answer *answer, const struct dump *dump, const struct paths *paths,
	struct error *err)
{
	const bool growth = answer->options->sort == STACK_SORT_GROWTH;
	struct moment *moments AUTO_FREE = calloc(paths->count + 1, sizeof *moments);
	bool ok = moments != NULL || error_memory(err);
	for (size_t i = 0; ok && i < paths->count; i++) {
		moments[i].path = paths->list[i];
		ok = !growth || add_one(answer, dump, &moments[i], SIZE_MAX, 0, 0, err);
	}
	if (ok && growth)
		qsort(moments, paths->count, sizeof *moments, moment_compare);
	size_t added = 0;
	for (size_t i = 0; ok && i < paths->count; i++) {
		const bool one =
			add_one(answer, dump, &moments[i], i, paths->count, moments[0].time, err);
		added += one;
		// One that cannot be read does not spoil a table of many, but one over time.
		ok = one || (!growth && !err->usage);
		if (ok && !one)
			diag_warn(dump->diag, "%s", err->text);
	}
	if (ok && added > 0)
		err->text[0] = '\0';
	return ok && added > 0;
}

bool answer_stacks_together(
	struct dump *dump, const char *exe, struct report *report, struct error *err)
{
	const struct options *options = dump->options;
	struct paths paths = {0};
	struct answer answer;
	bool ok = answer_init(&answer, options, err);
	dump->exe = exe;
	if (ok && path_is_folder(options->files[0]))
		ok = paths_add_folder(&paths, options->files[0], err);
	else
		for (size_t i = 0; ok && i < options->file_count; i++)
			ok = paths_add(&paths, strdup(options->files[i])) || error_memory(err);
	ok = ok && add_old(&answer, dump, err) && add_all(&answer, dump, &paths, err) &&
	     grow(&answer, options->files[0], err);
	if (ok) {
		struct report_head head = {
			.mode = options->diff != NULL ? "stacks-diff" : "stacks",
			.version = TOPLEAK_VERSION,
			.names = true,
			.input = {.path = options->files[0],
				.format = "recordings",
				.byte_order = "little",
				.pid = -1},
			.scanned = {.word_size = 8},
			.verbose = options->verbose,
			.next = "",
		};
		ok = rows_report(&answer, &head, report, err);
	}
	paths_deinit(&paths);
	answer_deinit(&answer);
	return ok;
}
