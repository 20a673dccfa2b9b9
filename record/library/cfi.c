// SPDX-License-Identifier: MIT
#include "cfi.h"

#include <string.h>

#include "modules.h"

// DWARF's numbers of registers: System V ABI for x86-64, figure 3.36; DWARF for the Arm 64-bit
// Architecture, section 4.1.
#ifdef __aarch64__
enum { REGISTER_FP = 29, REGISTER_RA = 30, REGISTER_SP = 31, OP_BREG_FP = 0x70 + REGISTER_FP };
#else
enum { REGISTER_FP = 6, REGISTER_RA = 16, REGISTER_SP = 7, OP_BREG_FP = 0x70 + REGISTER_FP };
#endif

#define REMEMBERED 16

struct reader {
	const uint8_t *at, *end;
};

enum saved { IN_REGISTER, AT_OFFSET, AT_FRAME_POINTER, UNDEFINED };

struct state {
	uint64_t cfa_register;
	int64_t cfa_offset;
	bool cfa_is_loaded; // stored at frame pointer + cfa_offset
	bool unknown;	    // an expression that is not understood
	struct place {
		enum saved saved;
		int64_t offset;
	} fp, ra;
};

static uint64_t fixed(struct reader *in, size_t size)
{
	uint64_t value = 0;
	if ((size_t)(in->end - in->at) < size) {
		in->at = in->end;
		return 0;
	}
	memcpy(&value, in->at, size);
	in->at += size;
	return value;
}

static uint64_t uleb(struct reader *in)
{
	uint64_t value = 0;
	for (unsigned shift = 0; in->at < in->end; shift += 7) {
		const uint8_t byte = *in->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 127) << shift;
		if (!(byte & 128))
			break;
	}
	return value;
}

static int64_t sleb(struct reader *in)
{
	uint64_t value = 0;
	for (unsigned shift = 0; in->at < in->end;) {
		const uint8_t byte = *in->at++;
		if (shift < 64)
			value |= (uint64_t)(byte & 127) << shift;
		shift += 7;
		if (byte & 128)
			continue;
		if (shift < 64 && byte & 64)
			value |= ~0ULL << shift;
		break;
	}
	return (int64_t)value;
}

// A pointer in one of the encodings of the LSB, section 10.5.1.
static uint64_t encoded(struct reader *in, uint8_t encoding)
{
	const uint64_t at = (uintptr_t)in->at;
	uint64_t value;
	switch (encoding & 15) {
	case 0x1:
		value = uleb(in);
		break;
	case 0x2:
		value = fixed(in, 2);
		break;
	case 0x3:
		value = fixed(in, 4);
		break;
	case 0x9:
		value = (uint64_t)sleb(in);
		break;
	case 0xa:
		value = (uint64_t)(int16_t)fixed(in, 2);
		break;
	case 0xb:
		value = (uint64_t)(int32_t)fixed(in, 4);
		break;
	default:
		value = fixed(in, 8);
	}
	return (encoding & 0x70) == 0x10 ? value + at : value;
}

static void register_set(struct state *state, uint64_t number, struct place place)
{
	if (number == REGISTER_FP)
		state->fp = place;
	if (number == REGISTER_RA)
		state->ra = place;
}

static void register_restore(struct state *state, uint64_t number, const struct state *initial)
{
	register_set(state, number, number == REGISTER_FP ? initial->fp : initial->ra);
}

static struct reader block(struct reader *in)
{
	uint64_t size = uleb(in);
	if (size > (uint64_t)(in->end - in->at))
		size = (uint64_t)(in->end - in->at);
	const struct reader inner = {in->at, in->at + size};
	in->at += size;
	return inner;
}

// CFA = what is stored at the frame pointer + n: gcc's functions that align their stack.
static void cfa_expression(struct state *state, struct reader in)
{
	state->unknown = true;
	if (fixed(&in, 1) != OP_BREG_FP)
		return;
	state->cfa_offset = sleb(&in);
	state->cfa_is_loaded = fixed(&in, 1) == 0x06; // DW_OP_deref
	state->unknown = !state->cfa_is_loaded;
}

static void register_expression(
	struct state *state, uint64_t number, struct reader in, bool is_value)
{
	if (number != REGISTER_FP && number != REGISTER_RA)
		return;
	if (!is_value && number == REGISTER_FP && fixed(&in, 1) == OP_BREG_FP && sleb(&in) == 0) {
		state->fp = (struct place){AT_FRAME_POINTER, 0};
		return;
	}
	state->unknown = true;
}

struct entry {
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding;
	bool is_signal;
	bool has_augmentation;
	struct reader code;
};

// One of the instructions whose number is in the lower six bits. False: unknown, stop.
static bool instruction(struct reader *in, uint8_t op, const struct entry *cie, struct state *state,
	const struct state *initial)
{
	uint64_t number;
	switch (op) {
	case 0x00: // nop
	case 0x2d: // AARCH64_negate_ra_state; GNU_window_save elsewhere
		return true;
	case 0x05: // offset_extended
		number = uleb(in);
		register_set(state, number,
			(struct place){AT_OFFSET, (int64_t)uleb(in) * cie->data_align});
		return true;
	case 0x06: // restore_extended
		register_restore(state, uleb(in), initial);
		return true;
	case 0x07: // undefined
		register_set(state, uleb(in), (struct place){UNDEFINED, 0});
		return true;
	case 0x08: // same_value
		register_set(state, uleb(in), (struct place){IN_REGISTER, 0});
		return true;
	case 0x09: // register
	case 0x14: // val_offset
	case 0x15: // val_offset_sf
		uleb(in);
		uleb(in);
		return true;
	case 0x0c: // def_cfa
		state->cfa_register = uleb(in);
		state->cfa_offset = (int64_t)uleb(in);
		state->cfa_is_loaded = false;
		return true;
	case 0x0d: // def_cfa_register
		state->cfa_register = uleb(in);
		return true;
	case 0x0e: // def_cfa_offset
		state->cfa_offset = (int64_t)uleb(in);
		return true;
	case 0x0f: // def_cfa_expression
		cfa_expression(state, block(in));
		return true;
	case 0x10: // expression
	case 0x16: // val_expression
		number = uleb(in);
		register_expression(state, number, block(in), op == 0x16);
		return true;
	case 0x11: // offset_extended_sf
		number = uleb(in);
		register_set(state, number, (struct place){AT_OFFSET, sleb(in) * cie->data_align});
		return true;
	case 0x12: // def_cfa_sf
		state->cfa_register = uleb(in);
		state->cfa_offset = sleb(in) * cie->data_align;
		state->cfa_is_loaded = false;
		return true;
	case 0x13: // def_cfa_offset_sf
		state->cfa_offset = sleb(in) * cie->data_align;
		return true;
	case 0x2e: // GNU_args_size
		uleb(in);
		return true;
	default:
		return false;
	}
}

// How far an instruction moves on; UINT64_MAX: it is none that does.
static uint64_t advance(struct reader *in, uint8_t op, const struct entry *cie)
{
	if (op >> 6 == 1)
		return (op & 63) * cie->code_align;
	if (op >= 0x02 && op <= 0x04)
		return fixed(in, (size_t)1 << (op - 2)) * cie->code_align;
	return UINT64_MAX;
}

// Runs instructions up to the place `at` of a function that begins at `start`.
static void run(struct reader in, const struct entry *cie, uint64_t start, uint64_t at,
	struct state *state, const struct state *initial)
{
	struct state stack[REMEMBERED];
	unsigned depth = 0;
	uint64_t place = start;
	while (in.at < in.end) {
		const uint8_t op = (uint8_t)fixed(&in, 1), low = op & 63;
		const uint64_t step = advance(&in, op, cie);
		if (step != UINT64_MAX) {
			if (step > at - place)
				return;
			place += step;
		} else if (op >> 6 == 2) {
			register_set(state, low,
				(struct place){AT_OFFSET, (int64_t)uleb(&in) * cie->data_align});
		} else if (op >> 6 == 3) {
			register_restore(state, low, initial);
		} else if (op == 0x01) { // set_loc
			place = encoded(&in, cie->encoding);
			if (place > at)
				return;
		} else if (op == 0x0a) { // remember_state
			if (depth == REMEMBERED)
				return;
			stack[depth++] = *state;
		} else if (op == 0x0b) { // restore_state
			if (depth)
				*state = stack[--depth];
		} else if (!instruction(&in, op, cie, state, initial)) {
			state->unknown = true;
			return;
		}
	}
}

static bool cie_read(struct reader in, struct entry *ret)
{
	const uint64_t size = fixed(&in, 4);
	if (size > (uint64_t)(in.end - in.at))
		return false;
	in.end = in.at + size;
	fixed(&in, 5); // id, version
	const char *augmentation = (const char *)in.at;
	const size_t length = strnlen(augmentation, (size_t)(in.end - in.at));
	in.at += length + ((size_t)(in.end - in.at) > length);
	*ret = (struct entry){.code_align = uleb(&in)};
	ret->data_align = sleb(&in);
	uleb(&in); // register of the return address
	if (augmentation[0] == 'z') {
		ret->has_augmentation = true;
		struct reader data = block(&in);
		for (size_t i = 1; i < length; i++) {
			if (augmentation[i] == 'R')
				ret->encoding = (uint8_t)fixed(&data, 1);
			else if (augmentation[i] == 'L')
				fixed(&data, 1);
			else if (augmentation[i] == 'P')
				encoded(&data, (uint8_t)fixed(&data, 1));
			else if (augmentation[i] == 'S')
				ret->is_signal = true;
		}
	}
	ret->code = in;
	return true;
}

// The entry of the function at `at`, found in the sorted table of .eh_frame_hdr. NULL if there is
// none.
static const uint8_t *fde_find(const struct unwind_info *info, uint64_t at)
{
	const uint8_t *start = info->eh_frame_hdr;
	struct reader in = {start, info->end};
	if (fixed(&in, 1) != 1)
		return NULL;
	const uint8_t frame_encoding = (uint8_t)fixed(&in, 1),
		      count_encoding = (uint8_t)fixed(&in, 1);
	if (fixed(&in, 1) != 0x3b) // pairs of 32-bit numbers, relative to the table
		return NULL;
	encoded(&in, frame_encoding);
	const uint64_t count = encoded(&in, count_encoding);
	if (!count || count > (uint64_t)(in.end - in.at) / 8)
		return NULL;
	const int32_t(*pairs)[2] = (const int32_t(*)[2])in.at;
	const int64_t wanted = (int64_t)(at - (uintptr_t)start);
	if (pairs[0][0] > wanted)
		return NULL;
	uint64_t low = 0, high = count;
	while (high - low > 1) {
		const uint64_t middle = low + (high - low) / 2;
		if (pairs[middle][0] <= wanted)
			low = middle;
		else
			high = middle;
	}
	return start + pairs[low][1];
}

static bool fits(int64_t value, int64_t least, int64_t most)
{
	return value >= least && value <= most;
}

static struct rule rule_make(const struct state *state)
{
	const struct rule none = {.kind = RULE_NONE};
	struct rule rule = {.kind = RULE_SP, .cfa = (int32_t)state->cfa_offset};
	if (state->ra.saved == UNDEFINED)
		return (struct rule){.kind = RULE_OUTMOST};
	if (state->unknown || !fits(state->cfa_offset, INT32_MIN, INT32_MAX))
		return none;
	if (state->cfa_is_loaded)
		rule.kind = RULE_FP_AT;
	else if (state->cfa_register == REGISTER_FP)
		rule.kind = RULE_FP;
	else if (state->cfa_register != REGISTER_SP)
		return none;
	if (state->fp.saved == AT_FRAME_POINTER)
		rule.fp = RULE_FP_IN_PLACE;
	else if (state->fp.saved == AT_OFFSET && fits(state->fp.offset, INT16_MIN, -2))
		rule.fp = (int16_t)state->fp.offset;
#ifdef __aarch64__
	const int64_t words = (state->ra.offset - rule.fp) / 8;
	if (state->ra.saved != AT_OFFSET)
		rule.ra = RULE_RA_REGISTER;
	else if (fits(words, INT8_MIN + 1, INT8_MAX))
		rule.ra = (int8_t)words;
	else
		return none;
#endif
	return rule;
}

struct rule cfi_rule(const struct unwind_info *info, uint64_t at)
{
	const struct rule none = {.kind = RULE_NONE};
	const uint8_t *fde = info->eh_frame_hdr ? fde_find(info, at) : NULL;
	if (!fde)
		return none;
	struct reader in = {fde, info->end};
	const uint64_t size = fixed(&in, 4);
	if (size > (uint64_t)(in.end - in.at))
		return none;
	in.end = in.at + size;
	const uint8_t *base = in.at;
	struct entry cie;
	if (!cie_read((struct reader){base - (uint32_t)fixed(&in, 4), info->end}, &cie))
		return none;
	const uint64_t start = encoded(&in, cie.encoding), bytes = encoded(&in, cie.encoding & 15);
	if (at < start || at - start >= bytes)
		return none;
	if (cie.is_signal)
		return (struct rule){.kind = RULE_SIGNAL};
	if (cie.has_augmentation)
		block(&in);
	struct state initial = {.cfa_register = REGISTER_SP}, nothing = initial;
	run(cie.code, &cie, 0, UINT64_MAX, &initial, &nothing);
	struct state state = initial;
	run(in, &cie, start, at, &state, &initial);
	return rule_make(&state);
}
