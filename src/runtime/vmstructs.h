// SPDX-License-Identifier: MIT
//
// What HotSpot says of its own structs: tables of fields, static variables, types and constants
// that libjvm exports for debuggers (src/hotspot/share/runtime/vmStructs.{hpp,cpp}; the same since
// JDK 6).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/exports.h"

struct vmstructs {
	struct vmstruct *list; // sorted by hash; owned
	size_t count, capacity;
};

// Read the tables of libjvm. False if they are not there or make no sense, or there is no memory;
// the caller must release *ret with vmstructs_deinit in any case.
bool vmstructs_load(const struct exports *exports, struct reader *reader, struct vmstructs *ret);
void vmstructs_deinit(struct vmstructs *structs);

// The offset of a field, the address of a static variable, the size of a type, the value of a
// constant; false if this version does not say.
bool vm_field(const struct vmstructs *structs, const char *type, const char *field, uint64_t *ret);
bool vm_static(const struct vmstructs *structs, const char *type, const char *field, uint64_t *ret);
bool vm_size(const struct vmstructs *structs, const char *type, uint64_t *ret);
bool vm_constant(const struct vmstructs *structs, const char *name, uint64_t *ret);
