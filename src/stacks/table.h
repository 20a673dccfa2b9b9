// SPDX-License-Identifier: MIT
//
// What recordings know, as a table: a row for each stack, function, module, or size of blocks; of
// one recording or of several, compared with another, or over time.
#pragma once

#include "stacks/frames.h"
#include "stacks/log.h"

enum stack_by { STACK_BY_STACK, STACK_BY_FUNCTION, STACK_BY_MODULE, STACK_BY_SIZE };

enum stack_sort {
	STACK_SORT_LIVE,
	STACK_SORT_BLOCKS,
	STACK_SORT_LARGEST,
	STACK_SORT_NAME,
	STACK_SORT_PEAK,
	STACK_SORT_ALLOCATED,
	STACK_SORT_TEMPORARY,
	STACK_SORT_GROWTH,
};

// How live bytes went over the snapshots.
struct stack_growth {
	double slope;	 // of the line that fits them best, bytes a second
	double monotony; // of all steps, those up minus those down: -1 to 1
	double late;	 // the slope over the later half of the time
	double share;	 // of the slopes of all that grow, 0 to 1
	bool grows;	 // see growth_decide
};

struct stack_row {
	uint64_t key;	    // identity, size, or of the texts
	const char *name;   // function or module; NULL: does not apply
	const char *module; // of the function
	const char *file;   // of the function
	uint64_t size;
	struct stack_values values, old;
	uint64_t inclusive;
	uint64_t mark; // the last stack that counted as inclusive
	struct stack_lives lives;
	struct stack_growth growth;
	double *series; // live bytes at each snapshot; owned; NULL: none
	bool is_new, is_old;
	struct stack_frame *frames; // of a stack; owned
	size_t frame_count;
	uint32_t stack; // in the recording whose frames are not told yet
	bool framed;
};

struct stack_table {
	enum stack_by by;
	struct texts *texts;
	struct stack_row *rows; // owned
	size_t count, capacity;
	uint32_t *index; // rows + 1 by hash; owned
	size_t room;
	uint64_t marks;
	double *times; // of snapshots, seconds; owned
	size_t time_count;
	struct stack_values total, old_total;
};

// texts must live as long. To be released with stack_table_deinit.
void stack_table_init(struct stack_table *table, enum stack_by by, struct texts *texts);
void stack_table_deinit(struct stack_table *table);
// Add what a recording has; old: to the other side of a comparison. log: of it; NULL: none. frames:
// of it; eager: tell frames of all stacks now, since they will be gone. False: no memory.
bool stack_table_add(struct stack_table *table, const struct recording *recording,
	const struct log *log, struct frames *frames, bool old, bool eager);
// Note what was in use at the snapshots of a recording, and at its end; false: no memory.
bool stack_table_add_series(struct stack_table *table, const struct recording *recording);
// Note what is in use in a recording, number index of count, at a time in seconds.
bool stack_table_add_moment(struct stack_table *table, const struct recording *recording,
	size_t index, size_t count, double seconds);
// Find out who grows.
void stack_table_grow(struct stack_table *table);
void stack_table_sort(struct stack_table *table, enum stack_sort sort, bool diff);
// Tell the frames of a row, if they are not told yet.
bool stack_row_frame(
	struct stack_row *row, const struct recording *recording, struct frames *frames);
