// SPDX-License-Identifier: MIT
//
// One object a line for each answer. Rows are made and written one by one.
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "report/report.h"

// Any bytes; NULL is null. What is no UTF-8 or a control character is escaped, since JSON could not
// carry it.
static json_t *json_text(const char *bytes, size_t size)
{
	if (bytes == NULL)
		return json_null();
	char *escaped = malloc(4 * size + 1);
	if (escaped == NULL)
		return NULL;
	escape(escaped, 4 * size + 1, bytes, size, ESCAPE_TERMINAL);
	json_t *string = json_string(escaped);
	free(escaped);
	return string;
}

static json_t *json_bytes(const char *text)
{
	return json_text(text, text != NULL ? strlen(text) : 0);
}

static json_t *json_number(uint64_t number)
{
	// jansson's integers are signed; a count beyond 2^63 bytes exists in damaged headers only.
	return json_integer(number <= INT64_MAX ? (json_int_t)number : INT64_MAX);
}

// Write an object and forget it. NULL, which is what jansson returns when out of memory, is noted.
static void json_write(struct report *report, json_t *object)
{
	if (object == NULL ||
		json_dumpf(object, report->stream, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
		report->lost = report->lost || object == NULL || !ferror(report->stream);
	json_decref(object);
}

static json_t *json_input(const struct report_input *input)
{
	return json_pack("{so so so so so so so so so so si}",				       //
		"path", json_bytes(input->path),					       //
		"format", json_bytes(input->format),					       //
		"compression", json_bytes(input->packing),				       //
		"class", input->elf_class != 0 ? json_integer(input->elf_class) : json_null(), //
		"byte_order", json_bytes(input->byte_order),				       //
		"machine", json_bytes(input->machine),					       //
		"pid", input->pid < 0 ? json_null() : json_integer(input->pid),		       //
		"command", json_bytes(input->command),					       //

		"signal", json_bytes(input->signal), //
		"signal_number",
		input->signal_number == 0 ? json_null() : json_integer(input->signal_number),
		"threads", (int)input->threads);
}

static json_t *json_scanned(const struct report_scanned *scanned)
{
	return json_pack("{so so so so so si sb}",			  //
		"segments", json_number(scanned->segments),		  //
		"bytes_saved", json_number(scanned->bytes_saved),	  //
		"bytes_not_saved", json_number(scanned->bytes_not_saved), //
		"bytes_missing", json_number(scanned->bytes_missing),	  //
		"words", json_number(scanned->words),			  //
		"word_size", (int)scanned->word_size,			  //
		"partial", scanned->partial);
}

static json_t *json_memory(const struct report_memory *memory)
{
	if (!memory->known)
		return json_null();
	return json_pack("{so so so so}",	       //
		"heap", json_number(memory->heap),     //
		"anon", json_number(memory->anon),     //
		"stacks", json_number(memory->stacks), //
		"files", json_number(memory->files));
}

static json_t *json_address(uint64_t address)
{
	char text[24];
	snprintf(text, sizeof text, "0x%" PRIx64, address);
	return json_string(text);
}

static json_t *json_module(const struct report_module *module)
{
	return json_pack("{so so so so so so so so sb}",	    //
		"path", json_bytes(module->path),		    //
		"state", json_bytes(module->state),		    //
		"file", json_bytes(module->file),		    //
		"build_id", json_bytes(module->build_id),	    //
		"file_build_id", json_bytes(module->file_build_id), //
		"start", json_address(module->start),		    //
		"end", json_address(module->end),		    //
		"bias", json_address(module->bias),		    //
		"main", module->main);
}

static void json_member(struct report *report, const char *name, json_t *value)
{
	fprintf(report->stream, ",\"%s\":", name);
	json_write(report, value);
}

static json_t *json_hex(uint64_t value, unsigned size)
{
	char text[24];
	snprintf(text, sizeof text, "0x%0*" PRIx64, 2 * (int)size, value);
	return json_string(text);
}

static json_t *json_word_hex(const struct report *report, uint64_t address)
{
	return json_hex(address, report->head->scanned.word_size);
}

// A number, or null where it is not known.
static json_t *json_or_null(bool known, uint64_t number)
{
	return known ? json_number(number) : json_null();
}

static json_t *json_leaks(const struct report_types *types)
{
	const struct report_leaks *leaks = types->leaks;
	const bool lost = !leaks->lost_unknown, used = !leaks->used_unknown;
	return json_pack("{so so so so so so so so so so so so so so so so so so so sb sb sb}", //
		"types", json_number(types->types),						//
		"allocator",
		json_bytes(leaks->allocator != NULL ? leaks->allocator : "unknown"),	       //
		"lost_count", json_or_null(lost, leaks->lost_count),			       //
		"lost_bytes", json_or_null(lost, leaks->lost_bytes),			       //
		"direct_count", json_or_null(lost, leaks->direct_count),		       //
		"direct_bytes", json_or_null(lost, leaks->direct_bytes),		       //
		"indirect_count", json_or_null(lost, leaks->lost_count - leaks->direct_count), //
		"indirect_bytes", json_or_null(lost, leaks->lost_bytes - leaks->direct_bytes), //
		"used_count", json_or_null(used, leaks->used_count),			       //
		"used_bytes", json_or_null(used, leaks->used_bytes),			       //
		"free_count", json_or_null(used, leaks->free_count),			       //
		"free_bytes", json_or_null(used, leaks->free_bytes),			       //
		"unwalked_bytes", json_or_null(used, leaks->unwalked_bytes),		       //
		"breaks", json_or_null(used, leaks->breaks),				       //
		"break_address",
		used && leaks->breaks > 0 ? json_address(leaks->break_address) : json_null(), //
		"arenas_lost", json_or_null(used, leaks->arenas_lost),			      //
		"unread_bytes", json_or_null(lost, leaks->unread_bytes),		      //
		"foreign_bytes", json_or_null(used, leaks->foreign_bytes),		      //
		"left_out_bytes", json_number(leaks->left_out_bytes),			      //
		"exact_pointers", leaks->exact, "roots_missing", leaks->roots_missing,
		"lower_bounds", types->lower);
}

static json_t *json_malloc_sizes(const struct report *report, const struct report_types *types)
{
	json_t *list = json_array();
	for (size_t i = 0; list != NULL && i < types->size_count; i++)
		if (json_array_append_new(
			    list, json_pack("{so so}", "value",
					  json_word_hex(report, types->sizes[i].value), "count",
					  json_number(types->sizes[i].count))) != 0) {
			json_decref(list);
			list = NULL;
		}
	return list;
}

static void json_types(struct report *report, const struct report_types *types)
{
	if (types->leaks != NULL)
		json_member(report, "totals", json_leaks(types));
	else
		json_member(report, "totals",
			json_pack("{so so so so so so so so sb sb so sb}",	  //
				"types", json_number(types->types),		  //
				"named_count", json_number(types->named_count),	  //
				"named_bytes", json_number(types->named_bytes),	  //
				"heap_bytes", json_number(types->heap_bytes),	  //
				"zeros", json_number(types->zeros),		  //
				"texts", json_number(types->texts),		  //
				"malloc_sizes", json_malloc_sizes(report, types), //
				"left_out", json_number(types->left_out),	  //
				"free_known", types->walked, "lists_known",
				types->walked && types->lists_known, "size_classes",
				json_bytes(types->size_classes), "lower_bounds", types->lower));
	const struct report_old *old = types->old;
	if (old != NULL)
		json_member(report, "old",
			json_pack("{so so sb so}", "path", json_bytes(old->path), "format",
				json_bytes(old->format), "lower_bounds", old->lower, "missing",
				json_bytes(old->doubt)));
}

// Add a member; false when out of memory, object is gone then.
static bool json_add(json_t **object, const char *name, json_t *value)
{
	if (*object != NULL && json_object_set_new(*object, name, value) == 0)
		return true;
	json_decref(*object);
	*object = NULL;
	return false;
}

static json_t *json_left_outs(const struct report_left_out *list, size_t count)
{
	json_t *array = json_array();
	for (size_t i = 0; array != NULL && i < count; i++)
		if (json_array_append_new(
			    array, json_pack("{so so so}", "path", json_bytes(list[i].name),
					   "bytes", json_number(list[i].bytes), "writable_bytes",
					   json_number(list[i].writable))) != 0) {
			json_decref(array);
			array = NULL;
		}
	return array;
}

static json_t *json_account(const struct report_account *account)
{
	json_t *object = json_object(), *parts = json_object();
	for (size_t i = 0; i < REPORT_ACCOUNT_PARTS; i++)
		json_add(&parts, account->parts[i].name, json_number(account->parts[i].bytes));
	json_add(&object, "bytes", json_number(account->bytes));
	json_add(&object, "touched_bytes", json_number(account->touched));
	json_add(&object, "parts", parts);
	json_add(&object, "left_out", json_left_outs(account->left_outs, account->left_out_count));
	return object;
}

static json_t *json_real_or_null(bool known, double number)
{
	return known ? json_real(number) : json_null();
}

static json_t *json_numbers(const uint64_t *list, size_t count)
{
	json_t *array = list != NULL ? json_array() : json_null();
	for (size_t i = 0; list != NULL && i < count; i++)
		if (json_array_append_new(array, json_number(list[i])) != 0) {
			json_decref(array);
			return NULL;
		}
	return array;
}

static json_t *json_allocated(const struct report_allocated *values)
{
	return json_pack("{so so so so so so so so}",		 //
		"live_bytes", json_number(values->live_bytes),	 //
		"live_blocks", json_number(values->live_blocks), //
		"peak_bytes", json_number(values->peak_bytes),	 //
		"peak_blocks", json_number(values->peak_blocks), //
		"bytes", json_number(values->bytes),		 //
		"blocks", json_number(values->blocks),		 //
		"temporary", json_number(values->temporary),	 //
		"largest", json_or_null(values->largest > 0, values->largest));
}

static void json_stacks(struct report *report, const struct report_stacks *stacks)
{
	static const char *const by[] = {
		[REPORT_BY_STACK] = "stack",
		[REPORT_BY_FUNCTION] = "function",
		[REPORT_BY_MODULE] = "module",
		[REPORT_BY_SIZE] = "size",
	};
	json_t *totals = json_allocated(&stacks->total);
	json_t *more = json_pack("{ss ss so so so so so so so sb sb so so so so so so so}", //
		"recorded", stacks->full ? "all" : "samples", "by", by[stacks->by],	    //
		"sample_mean", json_or_null(!stacks->full, stacks->sample_mean),	    //
		"live_error", json_real_or_null(!stacks->full, stacks->error),		    //
		"start", json_real((double)stacks->start * 1e-9),			    //
		"duration", json_real((double)stacks->duration * 1e-9),			    //
		"peak_time", json_real((double)stacks->peak_time * 1e-9),		    //
		"at", json_real_or_null(stacks->at_known, (double)stacks->at * 1e-9),	    //
		"rows", json_number(stacks->rows),					    //
		"damaged", stacks->damaged, "growth", stacks->growth,			    //
		"recordings", json_number(stacks->recordings),				    //
		"snapshots", json_number(stacks->snapshots),				    //
		"stacks_cut", json_number(stacks->stacks_cut),				    //
		"blocks_lost", json_number(stacks->blocks_lost),			    //
		"bytes_lost", json_number(stacks->bytes_lost),				    //
		"events", json_or_null(stacks->logged, stacks->events),			    //
		"unmatched", json_or_null(stacks->logged, stacks->unmatched));
	if (totals == NULL || more == NULL || json_object_update(totals, more) != 0) {
		json_decref(totals);
		totals = NULL;
	}
	json_decref(more);
	json_add(&totals, "rate_time",
		json_real_or_null(stacks->rates != NULL, (double)stacks->rate_time * 1e-9));
	json_add(&totals, "rates", json_numbers(stacks->rates, stacks->rate_count));
	json_member(report, "totals", totals);
	const struct report_old *old = stacks->old;
	if (old != NULL)
		json_member(report, "old",
			json_pack("{so so sb so}", "path", json_bytes(old->path), "format",
				json_bytes(old->format), "lower_bounds", old->lower, "missing",
				json_bytes(old->doubt)));
	fputs(",\"stacks\":[", report->stream);
}

static json_t *json_heap(const struct report_heap *heap)
{
	const bool known = !heap->unknown;
	return json_pack("{so so so so so so so so so so so}", "allocators",
		heap->allocators[0] != '\0' ? json_bytes(heap->allocators) : json_null(),
		"used_count", json_or_null(known, heap->used_count), "used_bytes",
		json_or_null(known, heap->used_bytes), "free_count",
		json_or_null(known, heap->free_count), "free_bytes",
		json_or_null(known, heap->free_bytes), "cached_count",
		json_or_null(known, heap->cached_count), "cached_bytes",
		json_or_null(known, heap->cached_bytes), "end_bytes",
		json_or_null(known, heap->end_bytes), "free_pages",
		json_or_null(known, heap->free_pages), "own_bytes",
		json_or_null(known, heap->own_bytes), "unwalked_bytes",
		json_or_null(known, heap->unwalked_bytes));
}

static void json_begin(struct report *report)
{
	const struct report_head *head = report->head;
	fprintf(report->stream, "{\"schema\":1,\"mode\":\"%s\",\"version\":\"%s\"", head->mode,
		head->version);
	json_member(report, "input", json_input(&head->input));
	json_member(report, "scanned", json_scanned(&head->scanned));
	if (head->names) {
		json_member(report, "memory", json_memory(&head->memory));
		fputs(",\"modules\":[", report->stream);
		for (size_t i = 0; i < head->module_count; i++) {
			fputs(i > 0 ? "," : "", report->stream);
			json_write(report, json_module(&head->modules[i]));
		}
		putc(']', report->stream);
	}
	if (head->account != NULL)
		json_member(report, "account", json_account(head->account));
	if (head->heap != NULL)
		json_member(report, "totals", json_heap(head->heap));
	if (head->types != NULL && head->types->leaks != NULL &&
		head->types->leaks->left_outs != NULL && head->types->old == NULL)
		json_member(report, "left_out",
			json_left_outs(
				head->types->leaks->left_outs, head->types->leaks->left_out_count));
	if (head->types != NULL) {
		json_types(report, head->types);
		fputs(",\"types\":[", report->stream);
	}
	if (head->stacks != NULL)
		json_stacks(report, head->stacks);
	if (strcmp(head->mode, "words") == 0)
		fputs(",\"top\":[", report->stream);
}

// A comma between the rows of a list.
static void json_next(struct report *report)
{
	if (report->rows > 0)
		putc(',', report->stream);
}

static json_t *json_value(const struct report *report, const struct report_word *row)
{
	const unsigned size = row->size != 0 ? row->size : report->head->scanned.word_size;
	return row->redacted ? json_null() : json_hex(row->value, size);
}

// A word that is empty if there is nothing to say: null then.
static json_t *json_known(const char *word)
{
	return word[0] != '\0' ? json_bytes(word) : json_null();
}

static json_t *json_row(const struct report *report, const struct report_word *row)
{
	json_t *object = json_pack(
		"{so so}", "value", json_value(report, row), "count", json_number(row->count));
	if (row->count_max > row->count)
		json_add(&object, "count_max", json_number(row->count_max));
	if (report->head->names && json_add(&object, "kind", json_known(row->kind)))
		json_add(&object, "description", json_bytes(row->text));
	return object;
}

static void json_word(struct report *report, const struct report_word *row)
{
	json_next(report);
	json_write(report, json_row(report, row));
}

static void json_found(struct report *report, const struct report_found *found)
{
	if (found->word != NULL) {
		struct report_word word = *found->word;
		word.count = word.count_max = found->count;
		json_t *object = json_row(report, &word);
		if (found->unknown)
			json_add(&object, "count", json_null());
		if (found->lost_known)
			json_add(&object, "lost", json_or_null(!found->unknown, found->lost));
		json_member(report, "found", object);
		return;
	}
	json_t *object = json_pack("{so}", "count", json_number(found->count));
	if (strcmp(report->head->mode, "strings") != 0)
		json_add(&object, "text", json_text(found->text, found->text_size));
	json_member(report, "found", object);
}

// Close what is open: a member with its rows, and the list.
static void json_close(struct report *report)
{
	if (report->member != NULL)
		fputs("]}", report->stream);
	if (report->list)
		putc(']', report->stream);
}

static void json_list(struct report *report, enum report_list list)
{
	static const char *const names[] = {
		[REPORT_TEXTS] = "texts",
		[REPORT_PLACES] = "places",
		[REPORT_ADDRESSES] = "addresses",
		[REPORT_MEMBERS] = "members",
		[REPORT_LAYOUT] = "layout",
		[REPORT_OWNERS] = "owners",
		[REPORT_PATH] = "path",
		[REPORT_LOST] = "objects",
		[REPORT_HEAPS] = "heaps",
		[REPORT_HISTOGRAM] = "histogram",
		[REPORT_SIZES] = "sizes",
		[REPORT_BLOCKS] = "blocks",
	};
	json_close(report);
	if (!report->list && report->head->types != NULL)
		putc(']', report->stream);
	fprintf(report->stream, ",\"%s\":[", names[list]);
}

static void json_text_row(struct report *report, const struct report_text *row)
{
	json_t *object = json_pack("{so sb sb so so so}", //
		"text", json_text(row->bytes, row->size), //
		"cut_before", row->cut_before,		  //
		"cut_after", row->cut_after,		  //
		"length", json_number(row->length),	  //
		"count", json_number(row->count),	  //
		"address", json_word_hex(report, row->address));
	json_add(&object, "encoding", json_string(row->encoding));
	json_add(&object, "bytes", json_number(row->total));
	if (row->template != NULL) {
		json_add(&object, "distinct", json_number(row->distinct));
		json_add(&object, "template",
			json_text(row->bytes != NULL ? row->template : NULL, row->template_size));
	}
	if (row->count_max > row->count)
		json_add(&object, "count_max", json_number(row->count_max));
	json_next(report);
	json_write(report, object);
}

static void json_place(struct report *report, const struct report_place *row)
{
	json_next(report);
	json_write(report, json_pack("{so so}", "place", json_bytes(row->place), "count",
				   json_number(row->count)));
}

static void json_address_row(struct report *report, const struct report_address *row)
{
	json_next(report);
	json_write(report, json_pack("{so so}", "address", json_word_hex(report, row->address),
				   "place", json_bytes(row->place)));
}

static void json_member_head(struct report *report, const struct report_member *member)
{
	if (report->member != NULL)
		fputs("]},", report->stream);
	fprintf(report->stream,
		"{\"offset\":%" PRId64 ",\"type\":\"%s\",\"values\":%" PRIu64
		",\"skipped\":%" PRIu64 ",\"top\":[",
		member->offset, member->type, member->values, member->skipped);
}

static void json_field(struct report *report, const struct report_field *row)
{
	struct report_word top = row->top;
	// Nothing is there that could be frequent.
	top.redacted = top.redacted || row->values == 0;
	json_t *object = json_row(report, &top);
	json_add(&object, "offset", json_integer(row->offset));
	json_add(&object, "values", json_number(row->values));
	json_add(&object, "skipped", json_number(row->skipped));
	json_add(&object, "distinct",
		row->distinct == UINT64_MAX ? json_null() : json_number(row->distinct));
	json_add(&object, "mostly", json_known(row->mostly));
	json_next(report);
	json_write(report, object);
}

static json_t *json_examples(const struct report_type *row)
{
	json_t *array = json_array();
	for (unsigned i = 0; i < row->example_count; i++)
		if (json_array_append_new(array, json_address(row->examples[i])) != 0) {
			json_decref(array);
			return NULL;
		}
	return array;
}

static json_t *json_sites(const struct report_type *row)
{
	return json_pack("{so so so so}",	     //
		"heap", json_number(row->sites[0]),  //
		"anon", json_number(row->sites[1]),  //
		"stack", json_number(row->sites[2]), //
		"data", json_number(row->sites[3]));
}

static json_t *json_lost(const struct report_type *row)
{
	return json_pack("{so ss so so so so so so so so so so so}",			  //
		"name", json_bytes(row->name), "kind", row->kind,			  //
		"module", row->module[0] != '\0' ? json_bytes(row->module) : json_null(), //
		"count", json_number(row->count),					  //
		"size", row->size > 0 ? json_number(row->size) : json_null(),		  //
		"size_agreement", json_real(row->agreement),				  //
		"bytes", json_number(row->bytes),					  //
		"share", json_real(row->share),						  //
		"direct_count", json_number(row->direct),				  //
		"direct_bytes", json_number(row->direct_bytes),				  //
		"indirect_count", json_number(row->count - row->direct),		  //
		"indirect_bytes", json_number(row->bytes - row->direct_bytes),		  //
		"examples", json_examples(row));
}

static json_t *json_any_type(const struct report_type *row)
{
	return json_pack("{so ss so so so so so so so ss so so so so so so}", //
		"name", json_bytes(row->name), "kind", row->kind,	      //
		"module", json_bytes(row->module),			      //
		"count", json_number(row->count),			      //
		"size", row->size > 0 ? json_number(row->size) : json_null(), //
		"size_method", json_bytes(row->method),			      //
		"size_agreement", row->method != NULL ? json_real(row->agreement) : json_null(),
		"bytes", row->bytes_known ? json_number(row->bytes) : json_null(), //
		"share", json_real(row->share), "where", row->where,		   //
		"place", json_bytes(row->place),				   //
		"sites", json_sites(row),					   //
		"secondary", json_number(row->secondary),			   //
		"embedded", json_number(row->embedded),				   //
		"freed", json_number(row->freed),				   //
		"examples", json_examples(row));
}

static void json_type_row(struct report *report, const struct report_type *row)
{
	if (report->rows > 0)
		putc(',', report->stream);
	json_t *object = report->head->types->leaks != NULL ? json_lost(row) : json_any_type(row);
	if (report->head->types->recorded)
		json_add(&object, "allocated_by", json_bytes(row->allocated_by));
	if (object != NULL && report->head->types->old != NULL &&
		(json_object_set_new(object, "more_count", json_integer(row->more_count)) != 0 ||
			json_object_set_new(object, "more_bytes", json_integer(row->more_bytes)) !=
				0)) {
		json_decref(object);
		object = NULL;
	}
	json_write(report, object);
}

static void json_owner(struct report *report, const struct report_owner *row)
{
	json_t *object = json_pack("{so ss so so so so}", "name", json_known(row->name),  //
		"kind", row->kind, "count", json_number(row->count),			  //
		"module", row->module[0] != '\0' ? json_bytes(row->module) : json_null(), //
		"offset", row->offset_known ? json_number(row->offset) : json_null(),	  //
		"address", row->address != 0 ? json_address(row->address) : json_null());
	if (report->open == REPORT_PATH)
		json_add(&object, "size", row->size > 0 ? json_number(row->size) : json_null());
	json_next(report);
	json_write(report, object);
}

static void json_lost_object(struct report *report, const struct report_lost *row)
{
	json_next(report);
	json_write(report, json_pack("{so so sb so ss so}", "address", json_address(row->address),
				   "size", json_number(row->size), "direct", row->direct, "name",
				   json_bytes(row->name), "kind", row->kind, "module",
				   row->module[0] != '\0' ? json_bytes(row->module) : json_null()));
}

static json_t *json_frames(const struct report_stack *row)
{
	json_t *array = json_array();
	for (size_t i = 0; i < row->frame_count; i++) {
		const struct report_frame *frame = &row->frames[i];
		if (json_array_append_new(array,
			    json_pack("{so so so so sb so}", "function",
				    json_bytes(frame->function), "file", json_known(frame->file),
				    "line", json_or_null(frame->line > 0, (uint64_t)frame->line),
				    "module", json_known(frame->module), "inlined", frame->inlined,
				    "address", json_address(frame->address))) != 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

// What is known of some rows only.
static void json_stack_more(
	const struct report_stacks *stacks, const struct report_stack *row, json_t **object)
{
	const bool lived = row->lifetimes != NULL;
	if (stacks->old != NULL) {
		json_add(object, "more_bytes", json_integer(row->more_bytes));
		json_add(object, "more_blocks", json_integer(row->more_blocks));
	}
	if (stacks->growth) {
		json_add(object, "slope", json_real(row->slope));
		json_add(object, "monotony", json_real(row->monotony));
		json_add(object, "growth_share", json_real(row->growth_share));
		json_add(object, "grows", json_boolean(row->grows));
	}
	if (!stacks->logged)
		return;
	json_add(object, "lifetime", json_real_or_null(lived, row->lifetime * 1e-6));
	json_add(object, "lifetime_median", json_real_or_null(lived, row->lifetime_median * 1e-6));
	json_add(object, "lifetime_most", json_real_or_null(lived, row->lifetime_most * 1e-6));
	json_add(object, "lifetimes", json_numbers(row->lifetimes, REPORT_LIFETIMES));
}

static void json_stack(struct report *report, const struct report_stack *row)
{
	const struct report_stacks *stacks = report->head->stacks;
	json_t *object = json_allocated(&row->allocated);
	json_add(&object, "live_error", json_real_or_null(!stacks->full, row->error));
	json_add(&object, "share", json_real(row->share));
	json_add(&object, "first", json_real_or_null(row->first > 0, (double)row->first * 1e-9));
	json_add(&object, "last", json_real_or_null(row->last > 0, (double)row->last * 1e-9));
	json_add(&object, "age", json_real_or_null(row->age_known, row->age));
	json_add(&object, "age_most", json_real_or_null(row->age_known, row->age_most));
	json_stack_more(stacks, row, &object);
	switch (stacks->by) {
	case REPORT_BY_STACK:
		json_add(&object, "hash", json_hex(row->hash, 8));
		json_add(&object, "frames", json_frames(row));
		break;
	case REPORT_BY_FUNCTION:
		json_add(&object, "function", json_known(row->name));
		json_add(&object, "module", json_known(row->module));
		json_add(&object, "file", json_known(row->file));
		json_add(&object, "inclusive_bytes", json_number(row->inclusive));
		break;
	case REPORT_BY_MODULE:
		json_add(&object, "module", json_known(row->name));
		break;
	case REPORT_BY_SIZE:
		json_add(&object, "size", json_number(row->size));
		break;
	}
	json_next(report);
	json_write(report, object);
}

static void json_heap_row(struct report *report, const struct report_heap_row *row)
{
	json_t *object = json_object();
	if (report->open == REPORT_HEAPS) {
		json_add(&object, "allocator", json_bytes(row->allocator));
		json_add(&object, "kind", json_bytes(row->kind));
		json_add(&object, "address", json_address(row->address));
		json_add(&object, "end_bytes", json_number(row->end_bytes));
		json_add(&object, "largest_free", json_number(row->largest_free));
		json_add(&object, "free_pages", json_number(row->free_pages));
	} else {
		json_add(&object, "least", json_number(row->least));
		json_add(&object, "most", json_number(row->most));
	}
	json_add(&object, "used_count", json_number(row->used_count));
	json_add(&object, "used_bytes", json_number(row->used_bytes));
	json_add(&object, "free_count", json_number(row->free_count));
	json_add(&object, "free_bytes", json_number(row->free_bytes));
	json_next(report);
	json_write(report, object);
}

static json_t *json_module_name(const char *name)
{
	return name[0] != '\0' ? json_bytes(name) : json_null();
}

static json_t *json_holder(const struct report_block *row)
{
	if (row->holder == NULL)
		return json_null();
	return json_pack("{so ss so so so}", "name", json_bytes(row->holder), "kind",
		row->holder_kind, "module", json_module_name(row->holder_module), "offset",
		json_or_null(row->offset_known, row->offset), "address",
		row->where != 0 ? json_address(row->where) : json_null());
}

static void json_block(struct report *report, const struct report_block *row)
{
	json_next(report);
	json_write(
		report, json_pack("{so so so ss so sb so}", "address", json_address(row->address),
				"size", json_number(row->size), "name", json_bytes(row->name),
				"kind", row->kind, "module", json_module_name(row->module), "lost",
				row->lost, "holder", json_holder(row)));
}

static void json_end(struct report *report)
{
	json_close(report);
	if ((report->head->types != NULL && !report->list) || report->head->stacks != NULL ||
		strcmp(report->head->mode, "words") == 0)
		putc(']', report->stream);
	fputs("}\n", report->stream);
}

const struct report_writer writer_json = {
	.begin = json_begin,
	.word = json_word,
	.type = json_type_row,
	.found = json_found,
	.list = json_list,
	.text = json_text_row,
	.place = json_place,
	.address = json_address_row,
	.member = json_member_head,
	.field = json_field,
	.owner = json_owner,
	.lost = json_lost_object,
	.stack = json_stack,
	.heap = json_heap_row,
	.block = json_block,
	.end = json_end,
};
