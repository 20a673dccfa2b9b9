// SPDX-License-Identifier: MIT
#include "report/table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/escape.h"
#include "report/terminal.h"

struct number_text {
	char text[32];
};

// "15.8 M"; small numbers as they are.
static struct number_text number_format(uint64_t number)
{
	static const char units[] = "KMGTPE";
	struct number_text ret;
	if (number < 100000) {
		snprintf(ret.text, sizeof ret.text, "%" PRIu64, number);
		return ret;
	}
	double scaled = (double)number / 1000;
	size_t step = 0;
	for (; scaled >= 999.95; step++)
		scaled /= 1000;
	snprintf(ret.text, sizeof ret.text, "%.1f %c", scaled, units[step]);
	return ret;
}

// ---- columns

// In their order.
enum column {
	COLUMN_NUMBER,
	COLUMN_MORE,
	COLUMN_MORE_BYTES,
	COLUMN_COUNT,
	COLUMN_DIRECT,
	COLUMN_SIZE,
	COLUMN_BYTES,
	COLUMN_SHARE,
	COLUMN_TYPE, // this one and those behind it are texts
	COLUMN_MODULE,
	COLUMN_WHERE,
	COLUMN_EXAMPLE,
	COLUMN_ALLOCATED,
	COLUMN_NOTE,
	COLUMN_END,
};
_Static_assert((int)COLUMN_END == (int)REPORT_COLUMNS, "widths of all columns");

static const struct {
	const char *title;
	unsigned width; // in a file at least, so that short tables are alike
} columns[COLUMN_END] = {
	[COLUMN_NUMBER] = {"#", 3},
	[COLUMN_MORE] = {"+COUNT", 10},
	[COLUMN_MORE_BYTES] = {"+BYTES", 12},
	[COLUMN_COUNT] = {"COUNT", 10},
	[COLUMN_DIRECT] = {"DIRECT", 10},
	[COLUMN_SIZE] = {"SIZE", 7},
	[COLUMN_BYTES] = {"BYTES", 11},
	[COLUMN_SHARE] = {"%", 6},
	[COLUMN_TYPE] = {"TYPE", 0},
	[COLUMN_MODULE] = {"MODULE", 0},
	[COLUMN_WHERE] = {"WHERE", 0},
	[COLUMN_EXAMPLE] = {"EXAMPLE", 0},
	[COLUMN_ALLOCATED] = {"ALLOCATED BY", 0},
	[COLUMN_NOTE] = {"", 0},
};

#define BIT(column) (1U << (column))

static unsigned columns_of(const struct report_types *types)
{
	const unsigned all = BIT(COLUMN_NUMBER) | BIT(COLUMN_COUNT) | BIT(COLUMN_BYTES) |
			     BIT(COLUMN_TYPE) | BIT(COLUMN_MODULE);
	if (types->old != NULL)
		return all | BIT(COLUMN_MORE) | BIT(COLUMN_MORE_BYTES) | BIT(COLUMN_WHERE) |
		       BIT(COLUMN_NOTE);
	return all | BIT(COLUMN_SIZE) | BIT(COLUMN_SHARE) | BIT(COLUMN_EXAMPLE) |
	       (types->leaks != NULL ? BIT(COLUMN_DIRECT) : BIT(COLUMN_WHERE));
}

// What a narrow terminal can do without, the least useful first, while the names have less room
// than so many columns.
static const struct sacrifice {
	enum column column;
	unsigned room;
} sacrifices[] = {{COLUMN_WHERE, 40}, {COLUMN_MODULE, 40}, {COLUMN_SHARE, 24}, {COLUMN_SIZE, 24},
	{COLUMN_DIRECT, 24}, {COLUMN_EXAMPLE, 24}, {COLUMN_NUMBER, 24}, {COLUMN_BYTES, 24}},
  sacrifices_diff[] = {{COLUMN_WHERE, 40}, {COLUMN_MODULE, 40}, {COLUMN_BYTES, 24},
	  {COLUMN_COUNT, 24}, {COLUMN_NUMBER, 24}, {COLUMN_NOTE, 24}, {COLUMN_MORE, 24}};

// A column of texts that are not names is no wider on a terminal.
#define TEXT_WIDTH_MAX 24

// In a file a column is as wide as its longest text, unless that would make so many spaces; but
// this wide in any case.
#define SPACES_MAX ((size_t)16 << 20)
#define FILE_WIDTH_MIN 200

struct layout {
	unsigned shown; // BITs
	unsigned widths[COLUMN_END];
};

static unsigned column_gap(const struct layout *layout, enum column column)
{
	if ((layout->shown & (BIT(column) - 1)) == 0)
		return 0;
	return column < COLUMN_TYPE ? 1 : 2;
}

// The columns of the terminal that are left for the names.
static unsigned layout_room(const struct layout *layout, unsigned width)
{
	unsigned used = 0;
	for (enum column i = 0; i < COLUMN_END; i++)
		if ((layout->shown & BIT(i)) != 0)
			used += column_gap(layout, i) + (i != COLUMN_TYPE ? layout->widths[i] : 0);
	return width > used ? width - used : 0;
}

static struct layout layout_of(const struct report *report)
{
	const struct report_types *types = report->head->types;
	struct layout ret = {.shown = columns_of(types)};
	const size_t most = max_u64(SPACES_MAX / max_u64(types->rows, 1), FILE_WIDTH_MIN);
	for (enum column i = 0; i < COLUMN_END; i++) {
		const unsigned least = (unsigned)strlen(columns[i].title);
		const unsigned width = types->widths[i] > least ? types->widths[i] : least;
		if (report->width == 0)
			ret.widths[i] = (unsigned)max_u64(min_u64(width, most), columns[i].width);
		else
			ret.widths[i] =
				i <= COLUMN_TYPE || width < TEXT_WIDTH_MAX ? width : TEXT_WIDTH_MAX;
	}
	if (types->recorded)
		ret.shown |= BIT(COLUMN_ALLOCATED);
	if (ret.widths[COLUMN_NOTE] == 0)
		ret.shown &= ~BIT(COLUMN_NOTE);
	if (report->width == 0)
		return ret;
	const bool diff = types->old != NULL;
	const struct sacrifice *list = diff ? sacrifices_diff : sacrifices;
	const size_t count = diff ? sizeof sacrifices_diff / sizeof *sacrifices_diff
				  : sizeof sacrifices / sizeof *sacrifices;
	const unsigned name = ret.widths[COLUMN_TYPE], wanted = ret.shown;
	size_t i = 0;
	for (; i < count; i++)
		if (layout_room(&ret, report->width) < min_u64(name, list[i].room))
			ret.shown &= ~BIT(list[i].column);
	// Where a wide one had to go, there may be room for a narrow one.
	while (i-- > 0) {
		struct layout more = ret;
		more.shown |= BIT(list[i].column) & wanted;
		if (layout_room(&more, report->width) >= min_u64(name, list[i].room))
			ret = more;
	}
	const unsigned room = layout_room(&ret, report->width);
	ret.widths[COLUMN_TYPE] = (unsigned)max_u64(min_u64(name, room), 1);
	return ret;
}

// kind: of the type, which has its colour; "": none.
static void table_line(
	struct report *report, const char *const cells[static COLUMN_END], const char *kind)
{
	const struct layout layout = layout_of(report);
	FILE *stream = report->stream;
	unsigned spaces = 0;
	for (enum column i = 0; i < COLUMN_END; i++) {
		if ((layout.shown & BIT(i)) == 0)
			continue;
		const unsigned width = layout.widths[i];
		const unsigned used = (unsigned)min_u64(terminal_columns(cells[i]), width);
		spaces += column_gap(&layout, i) + (i < COLUMN_TYPE ? width - used : 0);
		// No line ends with spaces.
		if (used > 0) {
			const char *color =
				report->color && i == COLUMN_TYPE ? terminal_color(kind) : "";
			fprintf(stream, "%*s%s", (int)spaces, "", color);
			terminal_write_cut(stream, cells[i], report->width > 0 ? width : 0);
			fputs(color[0] != '\0' ? TERMINAL_PLAIN : "", stream);
			spaces = 0;
		}
		spaces += i < COLUMN_TYPE ? 0 : width - used;
	}
	putc('\n', stream);
}

void table_begin(struct report *report)
{
	const char *cells[COLUMN_END];
	if (report->head->types == NULL)
		return;
	for (enum column i = 0; i < COLUMN_END; i++)
		cells[i] = columns[i].title;
	table_line(report, cells, "");
}

// ---- rows

// A number with its sign.
static struct number_text signed_size(int64_t bytes)
{
	struct number_text ret;
	const uint64_t size = bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes;
	snprintf(ret.text, sizeof ret.text, "%c%s", bytes < 0 ? '-' : '+', size_format(size).text);
	return ret;
}

// Below this agreement a size is marked.
#define AGREEMENT_MIN 0.9

struct row {
	const char *cells[COLUMN_END];
	struct number_text numbers[COLUMN_END]; // of some cells
};

// The texts of all columns.
static void row_init(const struct report_type *type, size_t number, struct row *ret)
{
	for (enum column i = 0; i < COLUMN_END; i++)
		ret->cells[i] = strcpy(ret->numbers[i].text, "-");
	struct number_text *numbers = ret->numbers;
	const size_t size = sizeof numbers->text;
	snprintf(numbers[COLUMN_NUMBER].text, size, "%zu", number);
	snprintf(numbers[COLUMN_MORE].text, size, "%+" PRId64, type->more_count);
	numbers[COLUMN_MORE_BYTES] = signed_size(type->more_bytes);
	snprintf(numbers[COLUMN_COUNT].text, size, "%" PRIu64, type->count);
	snprintf(numbers[COLUMN_DIRECT].text, size, "%" PRIu64, type->direct);
	if (type->size > 0)
		snprintf(numbers[COLUMN_SIZE].text, size, "%s%" PRIu64,
			type->agreement < AGREEMENT_MIN ? "~" : "", type->size);
	if (type->bytes_known) {
		snprintf(numbers[COLUMN_BYTES].text, size, "%s", size_format(type->bytes).text);
		snprintf(numbers[COLUMN_SHARE].text, size, "%.1f", 100 * type->share);
	}
	if (type->example_count > 0)
		snprintf(numbers[COLUMN_EXAMPLE].text, size, "0x%" PRIx64, type->examples[0]);
	ret->cells[COLUMN_TYPE] = type->name;
	ret->cells[COLUMN_MODULE] = type->module;
	ret->cells[COLUMN_WHERE] = type->place != NULL ? type->place : type->where;
	if (type->allocated_by != NULL)
		ret->cells[COLUMN_ALLOCATED] = type->allocated_by;
	ret->cells[COLUMN_NOTE] = type->only_old ? "(gone)" : type->only_new ? "(new)" : "";
}

void report_types_fit(struct report_types *types, const struct report_type *type)
{
	struct row row;
	row_init(type, ++types->rows, &row);
	for (enum column i = 0; i < COLUMN_END; i++)
		types->widths[i] = (unsigned)max_u64(
			types->widths[i], min_u64(terminal_columns(row.cells[i]), INT_MAX / 2));
}

void table_type(struct report *report, const struct report_type *type)
{
	struct row row;
	row_init(type, report->rows + 1, &row);
	table_line(report, row.cells, type->kind);
}

// ---- below the rows

static void table_text(FILE *stream, const char *text)
{
	char escaped[4 * 4096];
	escape(escaped, sizeof escaped, text, strlen(text), ESCAPE_TERMINAL);
	fputs(escaped, stream);
}

// The files without which there are no names.
static void table_missing(const struct report *report, FILE *stream)
{
	const struct report_head *head = report->head;
	const char *before = "note: files are missing, their types may have no names: ";
	for (size_t i = 0; i < head->module_count; i++) {
		const struct report_module *module = &head->modules[i];
		if (module->path[0] == '\0' || (strcmp(module->state, "missing") != 0 &&
						       strcmp(module->state, "mismatch") != 0))
			continue;
		fputs(before, stream);
		table_text(stream, module->path);
		before = ", ";
	}
	if (before[0] == ',')
		putc('\n', stream);
}

static void table_doubt(const struct report_types *types, FILE *stream)
{
	if (types->old == NULL || types->old->doubt == NULL)
		return;
	fputs("note: on the old side files are missing, their types may have no names: ", stream);
	table_text(stream, types->old->doubt);
	putc('\n', stream);
}

// The last component of a path, in a column of a terminal.
static void table_path(const struct report *report, FILE *stream, const char *path)
{
	char escaped[4 * 256];
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL && slash[1] != '\0' ? slash + 1 : path;
	escape(escaped, sizeof escaped, name, strlen(name), ESCAPE_TERMINAL);
	terminal_write_cut(stream, escaped, report->width > 0 ? TEXT_WIDTH_MAX : 0);
}

// So many files that were left out are named.
#define LEFT_OUT_NAMES 3

// ": pool 64.0 MiB, no file 1.0 MiB, and 5 more"
static void table_left_outs(
	const struct report *report, const struct report_left_out *list, size_t count, FILE *stream)
{
	for (size_t i = 0; i < count && i < LEFT_OUT_NAMES; i++) {
		fputs(i == 0 ? ": " : ", ", stream);
		if (list[i].name == NULL)
			fputs("no file", stream);
		else
			table_path(report, stream, list[i].name);
		fprintf(stream, " %s", size_format(list[i].bytes).text);
	}
	if (count > LEFT_OUT_NAMES)
		fprintf(stream, ", and %zu more", count - LEFT_OUT_NAMES);
}

// Other memory than malloc's is worth a note if it is more than this, and a tenth of all.
#define FOREIGN_MIN ((uint64_t)1 << 20)

// Less may be memory that was never written to: the kernel has nothing to dump of that.
#define LEFT_OUT_MIN ((uint64_t)64 << 10)

// What roots can be in, and was left out when the dump was written.
static void table_left_out_roots(
	const struct report *report, const struct report_leaks *leaks, FILE *stream)
{
	if (leaks->left_out_bytes < LEFT_OUT_MIN)
		return;
	fprintf(stream,
		"note: %s that the program could write to were left out when the dump was written",
		size_format(leaks->left_out_bytes).text);
	table_left_outs(report, leaks->left_outs, leaks->left_out_count, stream);
	fputs("; objects that only they point at seem to be lost (see coredump_filter and "
	      "MADV_DONTDUMP)\n",
		stream);
}

// Pools of the program's own: an allocator sees one block.
static void table_pools(const struct report_leaks *leaks, FILE *stream)
{
	if (leaks->mapped_bytes > FOREIGN_MIN && leaks->mapped_bytes > leaks->used_bytes / 4)
		fprintf(stream,
			"note: %s of what is in use are large blocks: if the program has pools of "
			"its own there, the objects in them are not told apart\n",
			size_format(leaks->mapped_bytes).text);
}

// What was lost, of how much.
static void table_leaks(const struct report *report, const struct report_types *types, FILE *stream)
{
	const struct report_leaks *leaks = types->leaks;
	const uint64_t indirect = leaks->lost_count - leaks->direct_count;
	if (leaks->allocator == NULL) {
		fputs("lost: not known: no heap of an allocator whose objects are known was "
		      "found\n",
			stream);
		table_left_out_roots(report, leaks, stream);
		return;
	}
	if (leaks->lost_unknown) {
		fputs("lost: not known: interrupted before it was found out", stream);
		if (!leaks->used_unknown)
			fprintf(stream, "      in use: %s objects, %s",
				number_format(leaks->used_count).text,
				size_format(leaks->used_bytes).text);
		putc('\n', stream);
		return;
	}
	fprintf(stream, "lost: %s object%s, %s", number_format(leaks->lost_count).text,
		leaks->lost_count == 1 ? "" : "s", size_format(leaks->lost_bytes).text);
	if (leaks->lost_count > 0)
		fprintf(stream, " (directly %s, %s; indirectly %s, %s)",
			number_format(leaks->direct_count).text,
			size_format(leaks->direct_bytes).text, number_format(indirect).text,
			size_format(leaks->lost_bytes - leaks->direct_bytes).text);
	fprintf(stream, "      %" PRIu64 " type%s, %zu shown\n", types->types,
		types->types == 1 ? "" : "s", types->rows);
	fprintf(stream, "in use: %s objects, %s; free: %s; not walked: %s\n",
		number_format(leaks->used_count).text, size_format(leaks->used_bytes).text,
		size_format(leaks->free_bytes).text, size_format(leaks->unwalked_bytes).text);
	if (leaks->breaks > 0)
		fprintf(stream,
			"note: the heap is damaged in %" PRIu64 " place%s, the first at 0x%" PRIx64
			": what was overwritten may hold pointers, and what is not walked is "
			"missing here\n",
			leaks->breaks, leaks->breaks == 1 ? "" : "s", leaks->break_address);
	if (leaks->arenas_lost > 0)
		fprintf(stream,
			"note: %" PRIu64
			" arena%s of malloc without %s, which %s not in the dump or "
			"not recognized: what is in there counts neither as in use nor as lost\n",
			leaks->arenas_lost, leaks->arenas_lost == 1 ? "" : "s",
			leaks->arenas_lost == 1 ? "its heap" : "their heaps",
			leaks->arenas_lost == 1 ? "is" : "are");
	const uint64_t malloced = leaks->used_bytes + leaks->free_bytes + leaks->unwalked_bytes;
	if (leaks->foreign_bytes > FOREIGN_MIN && leaks->foreign_bytes > malloced / 9)
		fprintf(stream,
			"note: %s of anonymous memory are not malloc's: what is lost there is not "
			"found, and objects in pools of the program's own are not told apart\n",
			size_format(leaks->foreign_bytes).text);
	if (types->old == NULL)
		table_pools(leaks, stream);
	table_left_out_roots(report, leaks, stream);
	if (types->lower || leaks->roots_missing || leaks->unread_bytes > 0)
		fputs("note: memory is missing: objects that only it points at seem to be lost\n",
			stream);
	if (report->head->input.live)
		fprintf(stream,
			"note: the process went on meanwhile%s: what is lost now and is still lost "
			"later is a leak\n",
			report->head->input.stopped_threads > 0
				? ""
				: ", and its registers are not known");
	if (types->old != NULL && types->old->lower)
		fputs("note: the old dump is cut: growth may be more or less\n", stream);
	table_missing(report, stream);
	table_doubt(types, stream);
}

// Where all bytes are.
static void table_account(
	const struct report *report, const struct report_account *account, FILE *stream)
{
	fprintf(stream, "memory: %s, of which were touched %s:\n", size_format(account->bytes).text,
		size_format(account->touched).text);
	for (size_t i = 0; i < REPORT_ACCOUNT_PARTS; i++) {
		const struct report_account_part *part = &account->parts[i];
		if (part->bytes == 0)
			continue;
		fprintf(stream, "%11s ", size_format(part->bytes).text);
		if (part->touched)
			fprintf(stream, "%5.1f %%",
				100 * (double)part->bytes / (double)account->touched);
		else
			fputs("      -", stream);
		fprintf(stream, "  %s", part->text);
		if (strcmp(part->name, "left_out") == 0)
			table_left_outs(
				report, account->left_outs, account->left_out_count, stream);
		putc('\n', stream);
	}
}

static void table_totals(
	const struct report *report, const struct report_types *types, FILE *stream)
{
	fprintf(stream, "named: %s objects, %s", number_format(types->named_count).text,
		size_format(types->named_bytes).text);
	if (types->heap_bytes > 0)
		fprintf(stream, " (%.0f %% of heap-like memory)",
			100 * (double)types->named_bytes / (double)types->heap_bytes);
	fprintf(stream, "      %" PRIu64 " type%s, %zu shown      not objects: 0 x %s",
		types->types, types->types == 1 ? "" : "s", report->rows,
		number_format(types->zeros).text);
	if (types->size_count > 0)
		fprintf(stream, ", 0x%" PRIx64 " x %s", types->sizes[0].value,
			number_format(types->sizes[0].count).text);
	fprintf(stream, ", text %s words\n", number_format(types->texts).text);
	if (types->lower)
		fputs("note: the dump is cut: counts and bytes are lower bounds\n", stream);
	if (types->old != NULL && types->old->lower)
		fputs("note: the old dump is cut: its counts are lower bounds, growth may be "
		      "less\n",
			stream);
	table_missing(report, stream);
	table_doubt(types, stream);
	if (types->packed > 0)
		fprintf(stream,
			"note: the blocks of a packed dump are known only if it fits --memory: "
			"sizes are estimated, and deleted objects count; use -m %" PRIu64
			"M, or unpack it\n",
			(types->packed >> 20) + 1);
	else if (!types->walked && types->types > 0)
		fputs("note: the allocator is not glibc's: deleted objects that it left as they "
		      "were count too\n",
			stream);
	if (types->walked && !types->lists_known)
		fputs("note: what is left of deleted objects in small chunks that malloc keeps for "
		      "reuse counts too\n",
			stream);
	if (types->left_out > 0)
		fprintf(stream,
			"note: types of less than %" PRIu64
			" objects may be missing: they do not fit --memory\n",
			types->left_out);
}

void table_end(struct report *report)
{
	const struct report_types *types = report->head->types;
	char *lines = NULL;
	size_t size;
	if (types == NULL)
		return;
	FILE *stream = report->width > 0 ? open_memstream(&lines, &size) : report->stream;
	if (stream == NULL) {
		report->lost = true;
		return;
	}
	if (types->leaks != NULL)
		table_leaks(report, types, stream);
	else
		table_totals(report, types, stream);
	if (report->head->account != NULL)
		table_account(report, report->head->account, stream);
	if (stream == report->stream)
		return;
	if (fclose(stream) == 0)
		terminal_write_lines(report->stream, lines, report->width);
	else
		report->lost = true;
	free(lines);
}
