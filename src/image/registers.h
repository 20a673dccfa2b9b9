// SPDX-License-Identifier: MIT
//
// Registers of threads: what is where among them, and those of a live process.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

// The stack pointer among a thread's general registers, as NT_PRSTATUS (pr_reg) and ptrace(2) have
// them; 0 if their layout is not known.
uint64_t registers_stack_pointer(
	const struct image_info *info, const unsigned char *registers, size_t size);

// Take the registers of all threads of a live process, and their stack pointers from these. For
// that each thread is stopped, one after the other, for some microseconds; one that was stopped
// before stays so. What may not be taken, or not in time, is left as it was, with a warning.
bool registers_take(struct image *image, struct diag *diag, struct error *err);
