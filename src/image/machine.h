// SPDX-License-Identifier: MIT
//
// Names of numbers.
#pragma once

#include <stdint.h>

// "x86-64" for EM_X86_64; "unknown machine" for what has no name here.
const char *machine_name(uint16_t machine);

// "SIGABRT" for the signals that have the same number on all systems; NULL for others.
const char *signal_name(int number);
