// SPDX-License-Identifier: MIT
//
// What was live at several times: snapshots and their points, as they are in files.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format.h"

struct series {
	struct record_snapshot *snapshots;
	size_t count;
	struct record_point *points;
	size_t point_count;
	uint64_t interval; // milliseconds; doubled when there are very many
	uint64_t next;	   // when the next one is due, milliseconds
};

// Adds what the recording, in memory of `size` bytes, has live now.
void series_add(struct series *series, const struct record_header *header, uint64_t size,
	uint64_t resident);
void series_deinit(struct series *series);
