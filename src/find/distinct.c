// SPDX-License-Identifier: MIT
#include "find/distinct.h"

#include "base/bytes.h"

#define REGISTER_BITS 8

void sketch_add(unsigned char sketch[static SKETCH_SIZE], uint64_t hash)
{
	const size_t at = hash >> (64 - REGISTER_BITS);
	// A bit below them all, so that there is one.
	const uint64_t rest = hash << REGISTER_BITS | (uint64_t)1 << (REGISTER_BITS - 1);
	const unsigned char rank = (unsigned char)(1 + __builtin_clzll(rest));
	if (sketch[at] < rank)
		sketch[at] = rank;
}

void sketch_merge(
	unsigned char sketch[static SKETCH_SIZE], const unsigned char other[static SKETCH_SIZE])
{
	for (size_t i = 0; i < SKETCH_SIZE; i++)
		if (sketch[i] < other[i])
			sketch[i] = other[i];
}

// The natural logarithm of a number from 1 on: by its powers of 2, and the series of the rest.
static double logarithm(double number)
{
	double sum = 0;
	for (; number > 1.5; number /= 2)
		sum += 0.6931471805599453;
	const double x = (number - 1) / (number + 1);
	double power = x;
	for (unsigned i = 1; i < 30; i += 2, power *= x * x)
		sum += 2 * power / i;
	return sum;
}

uint64_t sketch_estimate(const unsigned char sketch[static SKETCH_SIZE])
{
	const double size = (double)SKETCH_SIZE;
	double sum = 0;
	unsigned empty = 0;
	for (size_t i = 0; i < SKETCH_SIZE; i++) {
		sum += 1 / (double)((uint64_t)1 << sketch[i]);
		empty += sketch[i] == 0;
	}
	const double estimate = 0.7213 / (1 + 1.079 / size) * size * size / sum;
	// Of few, those that are still empty tell more.
	if (estimate <= 2.5 * size && empty > 0)
		return (uint64_t)(size * logarithm(size / empty) + 0.5);
	return (uint64_t)(estimate + 0.5);
}
