// SPDX-License-Identifier: MIT
//
// What --find is given: a word or a text.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct pattern {
	const char *text; // NULL: a word
	uint64_t word;
};

// 0x and hexadecimal digits are a word; bare_hex: without 0x, too. "text:" in front makes anything
// a text, all else is one. False for a usage error.
bool pattern_parse(const char *argument, bool bare_hex, struct error *err, struct pattern *ret);
// Whether it is a text that may have been meant as a number: decimal digits only, or as many
// hexadecimal ones as an address has; *ret becomes that.
bool pattern_may_be_number(const struct pattern *pattern, uint64_t *ret);
