// SPDX-License-Identifier: MIT
//
// What is said, in which format: plain facts and rows, and one writer for each format. Nothing else
// writes to stdout. All texts given to a writer are escaped already (base/escape.h), but for paths
// and what else is marked; each writer escapes what its own format demands.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/escape.h"

enum report_format {
	REPORT_TEXT,
	REPORT_JSON,
	REPORT_CSV,
	REPORT_GDB,
	REPORT_FOLDED,
	REPORT_PPROF,
	REPORT_SPEEDSCOPE,
};

// What was read. Texts may hold any bytes but NUL; NULL: does not apply or is not known.
struct report_input {
	const char *path;
	const char *format;	// "elf-core", "raw", "process"
	const char *packing;	// "zstd"; NULL: not compressed
	unsigned elf_class;	// 32, 64; 0: no ELF file
	const char *byte_order; // of the words: "little", "big"
	const char *machine;	// "x86-64"
	const char *program;	// the executable, or what is known of its name
	const char *command;	// the beginning of the command line, or the program's name
	const char *signal;	// "SIGABRT"
	int64_t pid;		// -1: not known
	int signal_number;	// 0: none or not known
	unsigned threads;
	bool live;  // a process that was not dumped
	bool piped; // from standard input, or a pipe: its path says nothing
	// Of a live process, threads that were stopped to take their registers, and how long one
	// of them at most.
	size_t stopped_threads;
	uint64_t stopped_nanoseconds;
};

struct report_scanned {
	uint64_t segments;
	uint64_t bytes_saved;	  // that the dump is meant to hold
	uint64_t bytes_not_saved; // that were left out when it was written
	uint64_t bytes_missing;	  // of the saved ones, not in the file
	uint64_t words;
	unsigned word_size; // bytes
	bool partial;	    // interrupted
};

// An executable or a library of the process. Texts may hold any bytes but NUL; NULL: not known.
struct report_module {
	const char *path;	   // in the dump
	const char *state;	   // "ok", "stripped", "unverified", "mismatch", "missing"
	const char *file;	   // on this machine: used, or refused if the state is "mismatch"
	const char *build_id;	   // in the dump, hexadecimal
	const char *file_build_id; // of the file, hexadecimal
	uint64_t start, end;	   // addresses
	uint64_t bias;		   // address minus bias is the address in the file
	bool main;		   // the program itself
	bool has_symbols;	   // if it is the main program: its own or a debug file's
	bool doubtful;		   // worth a word even if nobody asks for all
};

// The memory that the dump has, in bytes, by what it was used for.
struct report_memory {
	uint64_t heap, anon, stacks, files;
	bool known;
};

// The other side of a comparison, in the place of the input. NULL: not known.
struct report_old {
	const char *path;
	const char *format; // "elf-core", "json"
	bool lower;	    // it is cut: counts are lower bounds
	const char *doubt;  // files without which its types have no names, ", " between them
};

// Memory that was left out when the dump was written.
struct report_left_out {
	const char *name; // the file that was mapped, any bytes; NULL: no file
	uint64_t bytes;
	uint64_t writable; // of these, that the process could write to
};

// What the rows of a table of lost objects rest on. Counts are of objects, bytes of their chunks.
struct report_leaks {
	uint64_t lost_count, lost_bytes;
	uint64_t direct_count, direct_bytes; // of these, no other lost object points at them
	uint64_t used_count, used_bytes;     // all that was not freed
	uint64_t free_count, free_bytes;     // blocks of the heap
	uint64_t unwalked_bytes;	     // that look like heap, but could not be walked
	uint64_t breaks;		     // places where a heap is damaged
	uint64_t break_address;		     // the first one
	uint64_t arenas_lost;		     // arenas whose heaps were not found
	uint64_t unread_bytes;	 // that could not be read: what they point at may seem to be lost
	const char *allocator;	 // "glibc"; NULL: no heap of one that is known was found
	bool exact;		 // pointers to the inside of objects were left out
	uint64_t foreign_bytes;	 // of anonymous memory that is not the allocator's
	uint64_t mapped_bytes;	 // in use, of blocks that were mapped one by one
	uint64_t left_out_bytes; // that the process could write to, and the dump lacks
	const struct report_left_out *left_outs; // by file; NULL: not known
	size_t left_out_count;
	bool listed;	    // all lost objects follow, each a row
	bool roots_missing; // the dump has not what all is reached from
	// Interrupted before it was known what is lost; or even what is in use and free.
	bool lost_unknown, used_unknown;
};

// A value that the size fields of malloc's chunks have, flags included, and how many have it.
struct report_malloc_size {
	uint64_t value, count;
};

// Columns that a table of types can have, see table.c.
enum { REPORT_COLUMNS = 14 };

// What the rows of a table of types rest on.
struct report_types {
	uint64_t types;				// rows that there would be without a limit
	uint64_t named_count, named_bytes;	// of those that have names
	uint64_t heap_bytes;			// heap and anonymous memory that the dump has
	uint64_t zeros, texts;			// words that are zero, and that are ASCII text
	const struct report_malloc_size *sizes; // the most frequent first
	size_t size_count;
	uint64_t left_out; // what is rarer may be missing, for lack of memory; 0: nothing is
	bool walked;	   // free chunks of a heap were recognized, objects in them left out
	uint64_t packed;   // the --memory with which a packed dump's blocks would be known; 0: they
			   // are
	bool lists_known;  // and all that are in threads' caches and fastbins
	// The allocator to whose sizes the bytes of arrays are rounded up; NULL: none is known.
	const char *size_classes;
	bool lower;    // the dump is cut: counts are lower bounds
	bool recorded; // the dump has a recording: rows tell what allocated most objects
	// Of the rows that follow: how many, and the longest texts in columns; report_types_fit.
	size_t rows;
	unsigned widths[REPORT_COLUMNS];
	const struct report_old *old;	  // NULL: no comparison
	const struct report_leaks *leaks; // NULL: the rows are of all objects, not of lost ones
};

struct report_account_part {
	const char *name, *text; // for programs, for people
	uint64_t bytes;
	bool touched;
};

// Parts of an account.
enum { REPORT_ACCOUNT_PARTS = 13 };

// Where all bytes of the dump's memory are: the parts add up to them.
struct report_account {
	uint64_t bytes, touched;
	struct report_account_part parts[REPORT_ACCOUNT_PARTS];
	const struct report_left_out *left_outs; // the largest first
	size_t left_out_count;
};

// What rows of call stacks are grouped by.
enum report_by { REPORT_BY_STACK, REPORT_BY_FUNCTION, REPORT_BY_MODULE, REPORT_BY_SIZE };

// What the folded formats count, and text sorts by.
enum report_measure {
	REPORT_LIVE,
	REPORT_LIVE_BLOCKS,
	REPORT_PEAK,
	REPORT_ALLOCATED,
	REPORT_TEMPORARY,
	REPORT_LARGEST,
};

// What was allocated at a stack, a function, ...; bytes are as requested.
struct report_allocated {
	uint64_t live_bytes, live_blocks;
	uint64_t peak_bytes, peak_blocks;
	uint64_t bytes, blocks;
	uint64_t temporary;
	uint64_t largest; // bytes; 0: not known
};

// What the rows of a table of call stacks rest on. Times in nanoseconds since the beginning.
struct report_stacks {
	bool full;	      // every block was recorded; else it is estimates
	uint64_t sample_mean; // bytes between two samples
	uint64_t start;	      // nanoseconds since 1970
	uint64_t duration;
	uint64_t peak_time;
	uint64_t rows; // that there would be without a limit
	struct report_allocated total;
	double error; // of the live bytes: so much more or less in 95 % of runs; bytes
	uint64_t stacks_cut, blocks_lost, bytes_lost; // what the recorder had no room for
	size_t recordings, snapshots;
	bool damaged;
	bool logged;	    // the log of events was read: lifetimes are known
	uint64_t events;    // of it
	uint64_t unmatched; // frees of blocks that it does not have
	bool growth;	    // rows are ranked by growth
	bool at_known;	    // what was in use is that of a moment
	uint64_t at;	    // which one
	enum report_by by;
	enum report_measure measure;
	bool all;		      // every frame is printed
	const struct report_old *old; // NULL: no comparison
	const uint64_t *rates;	      // bytes allocated in parts of the time, as long as rate_time
	size_t rate_count;
	uint64_t rate_time;
};

// A call in a stack. Texts are as in struct report_word; "": not known.
struct report_frame {
	const char *function, *file, *module;
	int line;
	bool inlined; // in the next one
	uint64_t address;
	uint64_t inside;		// the address in the module's file
	const struct report_module *of; // NULL: in none
};

// So many lifetimes are at least 2^(i-1), less than 2^i microseconds; the first: less than one.
enum { REPORT_LIFETIMES = 48 };

// A row of a table of call stacks.
struct report_stack {
	const struct report_frame *frames; // the innermost first; of a stack only
	size_t frame_count;
	const char *name;   // of a function or a module; "" otherwise
	const char *module; // of a function
	const char *file;   // of a function
	uint64_t size;	    // of blocks
	uint64_t hash;	    // of a stack: the same in every process that has it
	struct report_allocated allocated;
	uint64_t inclusive;   // live bytes, with what the function calls
	double error;	      // as above
	double share;	      // of the live bytes, 0 to 1
	uint64_t first, last; // allocations, nanoseconds since the beginning
	bool age_known;
	double age, age_most; // of live blocks, seconds: on average, and of the oldest
	// Of a comparison.
	int64_t more_bytes, more_blocks;
	bool only_old, only_new;
	// Growth, see struct stack_growth.
	double slope;	 // bytes a second
	double monotony; // -1 to 1
	double growth_share;
	bool grows;
	// From the log: microseconds.
	const uint64_t *lifetimes; // REPORT_LIFETIMES of them; NULL: not known
	double lifetime, lifetime_median, lifetime_most;
};

// Where names were asked for; NULL, false: not given.
struct report_sources {
	const char *exe, *sysroot, *debug_dir;
	bool debuginfod;
};

// What allocators have, in bytes and blocks.
struct report_heap {
	const char *allocators; // names, ", " between them; "" if none is known
	uint64_t used_count, used_bytes, free_count, free_bytes;
	// Of what is free, blocks that wait in caches of threads or on lists of small ones, as far
	// as these are known.
	uint64_t cached_count, cached_bytes;
	uint64_t end_bytes;	 // free at the ends of heaps
	uint64_t free_pages;	 // bytes of whole pages that are free, and were touched
	uint64_t own_bytes;	 // the allocators' own
	uint64_t unwalked_bytes; // that look like a heap, but could not be walked
	bool unknown;		 // interrupted, or no heap was found: numbers are not known
};

// One answer, before its rows.
struct report_head {
	const char *mode;    // "words", "types", "types-diff", "leaks", "leaks-diff", "strings",
			     // "find", "owners", "path", "heap", "stacks", "stacks-diff"
	const char *version; // of topleak
	bool names;	     // rows have descriptions
	struct report_input input;
	struct report_scanned scanned;
	struct report_memory memory;
	const struct report_module *modules;
	size_t module_count;
	bool verbose;	  // people want to know all
	const char *next; // the options of what to ask next; "": nothing; NULL: the types, or the
			  // strings of plain bytes, after rows of words
	struct report_sources sources;	      // for it
	const struct report_types *types;     // NULL: rows are words
	const struct report_stacks *stacks;   // NULL: rows are others
	const struct report_account *account; // NULL: not known
	const struct report_heap *heap;	      // NULL: not asked for
	const char *closer;		      // a type that is worth a closer look; NULL: none
};

// A row of the most frequent words, or of the values of a field.
struct report_word {
	uint64_t value;
	uint64_t count;
	uint64_t count_max; // it may be as many as these; count, if that is exact
	const char *kind;
	const char *text; // the description; "" if there is none
	unsigned size;	  // bytes of the value; 0: a word
	bool redacted;	  // the value is not to be shown
};

// What was looked for, and how often it is there. For --strings only count is meant.
struct report_found {
	const char *text; // any bytes; NULL: a word, or redacted
	size_t text_size;
	const struct report_word *word; // NULL: a text; its count is not used
	uint64_t count;
	uint64_t lost; // of objects, those that nothing reaches
	bool lost_known;
	bool unknown; // interrupted before the numbers were known
};

// A heap; or blocks of a size, or up to one.
struct report_heap_row {
	const char *allocator; // of a heap
	const char *kind;      // "main", "arena", "mapped", "slabs"
	uint64_t address;      // of the first block of a heap
	uint64_t least, most;  // sizes of blocks
	uint64_t used_count, used_bytes, free_count, free_bytes;
	uint64_t end_bytes, largest_free, free_pages; // of a heap
};

// One of the largest blocks, and what holds it. Names are as in struct report_owner.
struct report_block {
	uint64_t address, size;
	const char *name, *kind, *module;
	bool lost;
	const char *holder, *holder_kind, *holder_module; // holder NULL: nothing
	bool offset_known;
	uint64_t offset, where;
};

// The rows that may follow, in this order.
enum report_list {
	REPORT_TEXTS,
	REPORT_PLACES,
	REPORT_ADDRESSES,
	REPORT_MEMBERS,
	REPORT_LAYOUT,
	REPORT_OWNERS,
	REPORT_PATH,
	REPORT_LOST,
	REPORT_HEAPS,
	REPORT_HISTOGRAM,
	REPORT_SIZES,
	REPORT_BLOCKS,
};

// A lost object.
struct report_lost {
	uint64_t address, size; // bytes
	bool direct;
	const char *name, *kind, *module; // as struct report_type has them
};

// A row of the most frequent texts, or of templates: then the text is an example.
struct report_text {
	const char *bytes; // any; NULL: redacted
	size_t size;
	uint64_t length; // of the whole text, in bytes; more than size if bytes is its beginning
	bool cut_before, cut_after; // more characters are next to it in memory
	uint64_t count, count_max;  // count_max: more than count if not known exactly
	uint64_t address;	    // of one that is there
	const char *encoding;	    // how it lies in memory, as in JSON
	uint64_t total;		    // bytes of all of them; 0: not known
	const char *template;	    // what they have in common, in UTF-8; NULL: they are the same
	size_t template_size;	    // of template in bytes
	bool template_is_text;	    // there is no mark in it
	uint64_t distinct;	    // of a template, the different texts, about
};

// So many of the occurrences lie there.
struct report_place {
	const char *place;
	uint64_t count;
};

// Where the word occurs; the place says more about the address, "" if there is nothing.
struct report_address {
	uint64_t address;
	const char *place;
	const struct report_member *members; // whose values are of interest there
	size_t member_count;
};

// A field at an offset from the word; report_word or report_text rows of its values follow.
struct report_member {
	int64_t offset;	  // bytes
	const char *type; // "uint32", ...
	unsigned size;	  // bytes; 0: a text
	bool is_signed, is_float;
	uint64_t values;  // that were read
	uint64_t skipped; // that are not in saved memory
};

// A word of the layout of what is around the word.
struct report_field {
	int64_t offset;		  // bytes
	struct report_word top;	  // the most frequent value
	uint64_t values, skipped; // as above
	uint64_t distinct;	  // values; UINT64_MAX: many
	const char *mostly;	  // what they are: "constant", ...
	bool behind;		  // the memory that malloc gave for the object
};

// What points at objects: a type at an offset, or a place; or a step of the way to one, of which
// the first is a place and the last is the object itself.
struct report_owner {
	const char *name, *kind; // as struct report_type has them, or "register", "stack", ...; of
				 // many steps "repeated", "left-out"
	const char *module;	 // "" if there is none
	uint64_t count;		 // pointers; of a way, steps
	bool offset_known;
	uint64_t offset;  // bytes, of the pointer in the object
	uint64_t address; // of an object, or of the pointer in a place; 0: none
	uint64_t size;	  // of the object's chunk, bytes; 0: not of interest
};

// The places that objects are in: heap, other anonymous memory, stacks, data of modules.
enum { REPORT_SITES = 4 };

// A row of a table of types. Texts are as in struct report_word.
struct report_type {
	const char *name, *kind, *module;
	const char *method; // how the size was found; NULL: not at all
	const char *where;  // the place of most objects
	const char *place;  // the stack or module that all are in; NULL: does not apply
	uint64_t count;
	uint64_t size;	  // bytes; 0: not known
	double agreement; // 0 to 1
	uint64_t bytes;
	bool bytes_known;
	double share; // of the heap and anonymous memory, 0 to 1
	uint64_t sites[REPORT_SITES];
	uint64_t secondary, embedded, freed;
	uint64_t direct, direct_bytes; // of lost objects
	const uint64_t *examples;      // addresses
	const char *allocated_by;      // functions, the innermost first; NULL: not known
	unsigned example_count;
	// Of a comparison.
	int64_t more_count, more_bytes;
	bool only_old, only_new;
};

struct report {
	FILE *stream;
	const struct report_writer *writer;
	bool many;	// more than one file is read
	bool color;	// of text
	unsigned width; // of the terminal that text goes to, in columns; 0: none
	// Of the present answer.
	const struct report_head *head;
	size_t answers, rows;		    // rows of the list that is open
	bool list;			    // a list is open
	enum report_list open;		    // which one
	const struct report_member *member; // that is open in it, NULL: none
	struct report_line *lines; // rows of text that wait for the end of their list; owned
	size_t line_count;
	void *context; // of the writer, from begin to end
	bool lost;     // out of memory inside a writer
	int failure;   // errno of the first write that failed; 0: none
};

// Writers of one format; they need not look for errors of the stream.
struct report_writer {
	void (*begin)(struct report *report);
	void (*word)(struct report *report, const struct report_word *row);
	void (*type)(struct report *report, const struct report_type *row);
	void (*found)(struct report *report, const struct report_found *found);
	void (*list)(struct report *report, enum report_list list);
	void (*text)(struct report *report, const struct report_text *row);
	void (*place)(struct report *report, const struct report_place *row);
	void (*address)(struct report *report, const struct report_address *row);
	void (*member)(struct report *report, const struct report_member *member);
	void (*field)(struct report *report, const struct report_field *row);
	void (*owner)(struct report *report, const struct report_owner *row);
	void (*lost)(struct report *report, const struct report_lost *row);
	void (*stack)(struct report *report, const struct report_stack *row);
	void (*heap)(struct report *report, const struct report_heap_row *row);
	void (*block)(struct report *report, const struct report_block *row);
	void (*end)(struct report *report);
};

// Before report_begin, for each row in its order: a table has to know how wide its columns are.
void report_types_fit(struct report_types *types, const struct report_type *row);

// For writers: write any bytes, of any number, escaped.
void report_escaped(struct report *report, const char *bytes, size_t size, enum escape_style style);

// The value of a row that the folded formats count.
uint64_t report_measure_of(const struct report_stacks *stacks, const struct report_stack *row);

extern const struct report_writer writer_text, writer_csv, writer_gdb;
// Of call stacks only.
extern const struct report_writer writer_folded, writer_pprof, writer_speedscope;
#if HAVE_JANSSON
extern const struct report_writer writer_json;
#endif

// Begin to write to stream. Fails if this build lacks the format.
bool report_init(struct report *report, FILE *stream, enum report_format format, bool many,
	bool color, struct error *err);
// One answer: begin, rows, end. head must live until the end. Words are rows of their own; all else
// follows one report_found, each kind in its list.
void report_begin(struct report *report, const struct report_head *head);
void report_word(struct report *report, const struct report_word *row);
void report_type(struct report *report, const struct report_type *row);
void report_found(struct report *report, const struct report_found *found);
void report_list(struct report *report, enum report_list list);
void report_text(struct report *report, const struct report_text *row);
void report_place(struct report *report, const struct report_place *row);
void report_address(struct report *report, const struct report_address *row);
// member must live until the next one, the next list, or the end.
void report_member(struct report *report, const struct report_member *member);
void report_field(struct report *report, const struct report_field *row);
void report_owner(struct report *report, const struct report_owner *row);
void report_lost(struct report *report, const struct report_lost *row);
void report_stack(struct report *report, const struct report_stack *row);
void report_heap(struct report *report, const struct report_heap_row *row);
void report_block(struct report *report, const struct report_block *row);
void report_end(struct report *report);
// Write out what is buffered. An error if anything could not be written.
bool report_flush(struct report *report, struct error *err);

// The lines for people on what the numbers rest on, above the rows; stream is stderr.
void summary_write(FILE *stream, const struct report_head *head);
// The line below the rows: what to do next.
void summary_next(FILE *stream, const struct report_head *head);
// And, for -v, the memory that it took: what --memory limits, and what comes on top; in bytes.
void summary_used(FILE *stream, uint64_t limit, uint64_t symbols, uint64_t unpacking);
