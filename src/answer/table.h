// SPDX-License-Identifier: MIT
//
// What the tables of types and of lost objects share.
#pragma once

#include "answer/answer.h"
#include "types/saved.h"
#include "types/types.h"

// Finds the types of a dump that was opened.
typedef bool table_find(struct dump *dump, struct error *err, struct types_result *ret);

// Load the dump, or the saved result of the mode, that --diff names; nothing if it is not given.
// The caller must release *ret, which is empty before, with saved_deinit.
bool table_load_old(const struct dump *now, const char *mode, table_find *find, struct error *err,
	struct saved *ret);

// Report what grew until the result that is saved at path, of the question that is asked.
bool table_answer_saved(struct dump *dump, const char *path, table_find *find,
	struct report *report, struct error *err);

// Rows of another list, below those of the table.
struct table_more {
	bool (*rows)(void *context, struct report *report, struct error *err);
	void *context;
};

// Report the rows, or what grew since the saved ones. leaks: of lost objects; NULL: of all. more:
// NULL: none; not with what grew.
bool table_report(const struct dump *dump, struct types_result *result,
	const struct report_leaks *leaks, const struct saved *saved, const struct table_more *more,
	struct report_head *head, struct report *report, struct error *err);
