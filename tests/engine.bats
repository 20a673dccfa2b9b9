#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The counting engine by itself; `make check` builds its test beside topleak.

load lib/common

setup() {
	engine=$(dirname "$TOPLEAK")/test-engine
	[ -x "$engine" ] || skip "no $engine"
}

@test "random streams: counts and intervals agree with sorting" {
	"$engine" 2000
}

@test "more than 2^32 equal words" {
	"$engine" huge
}

@test "more than 2^32 equal words that no sample has seen" {
	! sanitized || skip "sanitizers take a minute"
	"$engine" huge slow
}
