// SPDX-License-Identifier: MIT
//
// The library's end of the link to the launcher (../launch.h).
#pragma once

// Hands the launcher the memory, and closes the file. Without a launcher it only closes it.
void link_send(int file);
