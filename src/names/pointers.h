// SPDX-License-Identifier: MIT
//
// Which addresses in programs and libraries somebody can have stored: the beginnings of functions,
// of static objects and of their members. A word that points into the middle of a function is a
// return address on a stack, and anywhere else chance: a small number, or the end of a text, which
// in a program at a fixed, low address look like addresses.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"
#include "image/module.h"
#include "image/places.h"

// Numbers and short texts are below; what lies higher is told from them by its size alone.
#define POINTERS_LOW (UINT64_C(1) << 40)

struct pointers;

// Read what the modules say of their functions: the table in .eh_frame_hdr, and Go's own. *ret is
// the caller's, to be released with pointers_destroy; image and modules must live as long.
bool pointers_create(const struct image *image, const struct modules *modules, struct error *err,
	struct pointers **ret);
void pointers_destroy(struct pointers *pointers);

// Add a symbol of a module, by its index: an address in memory, and its size in bytes; 0: unknown.
// False if there is no memory.
bool pointers_add(
	struct pointers *pointers, uint32_t module, uint64_t address, uint64_t size, bool function);
// Call this when all are added. Of low addresses that lie in the middle of functions those are
// noted that the threads' stacks have behind a call: they are return addresses.
bool pointers_settle(struct pointers *pointers, const struct places *places, struct error *err);

// Whether an address that lies in a module can be stored in an object. True also where nothing is
// known. Thread-safe.
bool pointers_can_be(const struct pointers *pointers, uint64_t address);
// Whether an address is in no memory, but between two modules that are near: a library may have
// been there. Only of high addresses, which are no numbers. Thread-safe.
bool pointers_unloaded(const struct pointers *pointers, uint64_t address);
// Whether it can be stored, or it is a return address that was noted. Thread-safe.
bool pointers_occur(const struct pointers *pointers, uint64_t address);
