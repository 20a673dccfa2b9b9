// SPDX-License-Identifier: MIT
//
// Chooses words by their kinds while they are counted, at about the speed of memory: without a
// branch for each word where its kind can be told by arithmetic and by tables.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/error.h"
#include "names/kinds.h"

struct kind_filter;

// A filter that keeps words of the wanted kinds. The spans of kinds must live as long. The caller
// must release *ret with kind_filter_destroy.
bool kind_filter_create(const struct kinds *kinds, kind_set wanted, enum cpu_level level,
	struct error *err, struct kind_filter **ret);
void kind_filter_destroy(struct kind_filter *filter);

// Keep the wanted ones of count words, as they lie in memory, at the beginning of words. Returns
// how many. Exactly those stay whose kinds_of is wanted. Thread-safe.
size_t kind_filter_select(const struct kind_filter *filter, void *words, size_t count);
// Whether that takes less time than to count the words.
bool kind_filter_fast(const struct kind_filter *filter);
