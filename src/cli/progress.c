// SPDX-License-Identifier: MIT
#include "cli/progress.h"

#include <time.h>

#include "base/bytes.h"

// Work that is done before is not worth a line.
#define PATIENCE 1.0
// Often enough to look alive.
#define INTERVAL 0.1
// Such a part of the whole must be done before it says anything of the speed, and so long it must
// take before it says how long the rest will.
#define MEASURE_PART 0.01
#define MEASURE_SECONDS 0.5

static double seconds_now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void progress_init(struct progress *progress, FILE *stream)
{
	*progress = (struct progress){.stream = stream, .busy = ATOMIC_FLAG_INIT};
	progress->begin = seconds_now();
}

void progress_begin(struct progress *progress, uint64_t total)
{
	if (progress->stream == NULL)
		return;
	progress->total = total;
	progress->pass++;
	atomic_store(&progress->done, 0);
	progress->pass_begin = seconds_now();
}

static void progress_show(struct progress *progress, uint64_t done, double now)
{
	const double seconds = now - progress->pass_begin;
	const double part = progress->total > 0 ? (double)min_u64(done, progress->total) /
							  (double)progress->total
						: 1;
	const double rate = seconds > 0 ? (double)done / seconds : 0;
	fprintf(progress->stream, "\r\033[K");
	if (progress->pass > 1)
		fprintf(progress->stream, "pass %u: ", progress->pass);
	// Rounded down: there is more to do.
	if (progress->total > 0)
		fprintf(progress->stream, "%u %%", (unsigned)(100 * part));
	else
		fprintf(progress->stream, "%s", size_format(done).text);
	if (part >= MEASURE_PART)
		fprintf(progress->stream, ", %.2f GB/s", rate * 1e-9);
	if (part >= MEASURE_PART && part < 1 && seconds >= MEASURE_SECONDS)
		fprintf(progress->stream, ", %.0f s left", (double)(progress->total - done) / rate);
	fflush(progress->stream);
	progress->shown = now;
}

void progress_add(struct progress *progress, uint64_t bytes)
{
	if (progress->stream == NULL)
		return;
	const uint64_t done = atomic_fetch_add(&progress->done, bytes) + bytes;
	const double now = seconds_now();
	if (now - progress->begin < PATIENCE || atomic_flag_test_and_set(&progress->busy))
		return;
	if (now - progress->shown >= INTERVAL)
		progress_show(progress, done, now);
	atomic_flag_clear(&progress->busy);
}

void progress_clear(struct progress *progress)
{
	if (progress->stream == NULL || progress->shown <= 0)
		return;
	fputs("\r\033[K", progress->stream);
	fflush(progress->stream);
	progress->shown = 0;
}
