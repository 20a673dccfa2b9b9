// SPDX-License-Identifier: MIT
#include "sampling.h"

#include <string.h>
#include <unistd.h>

#include "chosen.h"
#include "memory.h"
#include "settings.h"
#include "threads.h"

static uint64_t all_above;
static uint64_t seed;

void sampling_init(const struct settings *settings)
{
	all_above = settings->all_above;
	seed = settings->seed ? settings->seed : header->start_clock ^ (uint64_t)getpid() << 32;
}

uint64_t sampling_seed(void)
{
	return seed;
}

// Natural logarithm, for 0 < x: the library does without libm. x = m * 2^e with m in
// [sqrt(1/2), sqrt(2)), and ln m = 2 atanh((m - 1) / (m + 1)).
static double logarithm(double x)
{
	uint64_t bits;
	memcpy(&bits, &x, sizeof bits);
	int exponent = (int)(bits >> 52) - 1023;
	bits = (bits & 0xfffffffffffffU) | 1023ULL << 52;
	double m;
	memcpy(&m, &bits, sizeof m);
	if (m > 1.4142135623730951) {
		m /= 2;
		exponent++;
	}
	const double t = (m - 1) / (m + 1), square = t * t;
	double sum = 0;
	for (int n = 21; n >= 1; n -= 2)
		sum = sum * square + 1.0 / n;
	return 2 * t * sum + exponent * 0.6931471805599453;
}

// 1 - exp(-x) for x > 0, also where x is tiny.
static double taken(double x)
{
	if (x > 40)
		return 1;
	int halvings = 0;
	while (x > 0.1) {
		x /= 2;
		halvings++;
	}
	double sum = 1; // x (1 - x/2 (1 - x/3 (1 - ...)))
	for (int n = 13; n >= 2; n--)
		sum = 1 - sum * x / n;
	double p = sum * x;
	while (halvings--)
		p = p * (2 - p);
	return p;
}

static uint64_t interval(struct thread *thread)
{
	const double uniform = ((double)(thread_random(thread) >> 11) + 1) * 0x1p-53;
	return (uint64_t)(-(double)LOAD(&header->sample_mean) * logarithm(uniform)) + 1;
}

static void give(uint64_t bytes)
{
	uint64_t shown = all_above && bytes > all_above ? all_above : bytes;
	if (chosen_any) // only the stack can tell
		shown = 0;
	local.left = shown;
	local.rest = bytes - shown;
}

void sampling_begin(struct thread *thread)
{
	give(LOAD(&header->mode) == RECORD_SAMPLE ? interval(thread) : 0);
}

bool sampling_take(struct thread *thread, uint64_t size)
{
	const uint64_t bytes = local.left + local.rest;
	if (size < bytes) {
		give(bytes - size);
		return false;
	}
	give(interval(thread));
	return true;
}

double sampling_weight(uint64_t size)
{
	return 1 / taken((double)(size ? size : 1) / (double)LOAD(&header->sample_mean));
}

bool sampling_is_large(uint64_t size)
{
	return all_above && size >= all_above;
}
