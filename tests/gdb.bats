#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Real programs: what gdb names, topleak names alike. lib/gdb-names lists what may differ, and why.

load lib/common

setup() {
	needs gdb readelf
	perl -MJSON::PP -e 1 || skip "no JSON::PP"
	cd "$BATS_TEST_TMPDIR"
	export TOPLEAK
}

# compared PROGRAM ARG...: runs the program until it aborts, or for a second
compared() {
	local program
	needs "$1"
	program=$(realpath "$(command -v "$1")")
	dump -k core timeout -s ABRT "${seconds:-2}" "$program" "${@:2}" ||
		skip "the kernel writes no core where it can be read"
	gdb-names "$program" core 300
}

@test "bash" {
	compared bash -c 'for i in {1..2000}; do list[i]=$i; done; kill -ABRT $$'
}
@test "perl" {
	compared perl -e 'my @list = map { { $_ => [$_] } } 1 .. 10000; kill ABRT => $$'
}
@test "gdb" { seconds=4 compared gdb -nx -q -ex 'file gdb' -ex 'python import os; os.abort()'; }
@test "node" { compared node -e 'list = []; for (let i = 0; i < 1e5; i++) list.push({i}); process.abort()'; }
@test "cmake: C++ with many libraries" { compared cmake -E sleep 9; }

@test "python3" {
	needs python3
	# What is in the path can be a script that starts it.
	compared "$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" -c \
		'import json, os, re, sqlite3, ssl; list = [{i: str(i)} for i in range(10000)]; os.abort()'
}

@test "the static leak fixture" {
	"${CXX:-c++}" -static -o leak "$repo/fixtures/leak.cpp"
	compared ./leak
}
