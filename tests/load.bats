#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Very many of something: right, and in little memory. bench/load has more, and prints the time.

load lib/common

setup() {
	! sanitized || skip "sanitizers need more"
}

loaded() {
	limited "$repo/bench/load" "$@"
}

@test "70,000 segments" {
	loaded segments
}

@test "5,000 mapped files" {
	loaded mappings
}

@test "10,000 threads" {
	loaded threads
}

@test "symbols with names of 64 KB" {
	loaded names
}
