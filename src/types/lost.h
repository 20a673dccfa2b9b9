// SPDX-License-Identifier: MIT
//
// The types of the objects that nothing reaches any more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "graph/reach.h"
#include "image/image.h"
#include "names/names.h"
#include "types/types.h"

struct lost_options {
	unsigned threads; // as for reach
	bool redact;	  // texts are not to be shown
};

// A lost object. Texts are as in struct type.
struct lost_object {
	uint64_t address, size; // bytes that it costs
	bool direct;		// no other lost object points at it
	const char *name, *module;
	enum type_kind kind;
};

typedef void lost_tell(void *context, const struct lost_object *object);

// Tell of all lost objects, by address, once lost_find has been called.
bool lost_list(const struct image *image, struct names *names, struct reach *reach, bool redact,
	lost_tell *tell, void *context, struct error *err);

// Group the lost objects by type; those without a type by their size and most telling word. Fills
// the list of *ret, and named_count and named_bytes with the numbers of all lost objects. On
// success *ret is the caller's, to be released with types_result_deinit.
bool lost_find(const struct image *image, struct names *names, struct reach *reach,
	const struct lost_options *options, struct error *err, struct types_result *ret);
