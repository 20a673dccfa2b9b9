// SPDX-License-Identifier: MIT
//
// How to step out of a function at an instruction, from the call frame information in .eh_frame:
// DWARF 5, section 6.4, and the Linux Standard Base 5.0, section 10.6 (.eh_frame_hdr).
#pragma once

#include "base.h"

enum rule_kind {
	RULE_NONE,    // no information: by the frame pointer, if it looks like one
	RULE_SP,      // the frame's end (CFA) is at the stack pointer + cfa
	RULE_FP,      // ... at the frame pointer + cfa
	RULE_FP_AT,   // ... what is stored at the frame pointer + cfa
	RULE_SIGNAL,  // a signal's frame: the kernel stored the registers
	RULE_OUTMOST, // nobody called it
};

// What RULE_SP and RULE_FP* need. Saved registers: bytes from the CFA.
struct rule {
	uint64_t pc; // 0: free
	int32_t cfa;
	int16_t fp; // where the caller's frame pointer is; 0: still in its register
	int8_t ra;  // the return address, words behind fp or else before the CFA (AArch64)
	uint8_t kind : 7;
	uint8_t chosen : 1; // --all-of has this place
};

#define RULE_FP_IN_PLACE 1	  // fp: at the frame pointer itself
#define RULE_RA_REGISTER INT8_MIN // ra: still in its register

struct unwind_info;

// The rule for the instruction at `at`; pc and chosen are left 0.
struct rule cfi_rule(const struct unwind_info *info, uint64_t at);
