#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The JSON output, against the schema that is installed with the program.

load lib/common

setup() {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	core=$BATS_TEST_TMPDIR/core
	mkcore "$core" 'pid => 1, command => "x", signal => 11, segments => [{ vaddr => 0, words => [0, 1, 2] }]'
}

# validates ARGUMENT...: what topleak prints with these is as the schema says
validates() {
	topleak -0 -q -n 100 -o json "$@"
	run validate "$repo/share/topleak.schema.json" <<<"$output"
	[ "$status" -eq 0 ] || { printf 'topleak %s\n%s\n' "$*" "$output" && false; }
}

# invalid FILTER TEXT: the output after jq's FILTER is not, and the message has TEXT
invalid() {
	run -1 validate "$repo/share/topleak.schema.json" < <("$TOPLEAK" -o json "$core" | jq -c "$1")
	contains "$output" "$2"
}

@test "cores and plain bytes, with and without names" {
	local how
	for how in "" "--no-names" "-w 4" "-r" "--kind number"; do
		# shellcheck disable=SC2086
		validates $how "$core"
	done
	validates "$core" "$core"
	validates "$(leak_core)"
	head -c 1000 "$core" >"$BATS_TEST_TMPDIR/cut"
	validates "$BATS_TEST_TMPDIR/cut"
	mkcore "$core" 'class => 32, endian => "big", command => "\xff\"\n", segments => [{ vaddr => 0x1000, words => [7, 7] }]'
	validates "$core"
}

@test "compressed cores, and a live process" {
	gzip -k "$core"
	validates "$core.gz"
	validates --pid $$
}

@test "looking closer" {
	local how
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [0x4711, 2, 0x74786574, 0x4711, 5] }]'
	for how in --strings "--strings --min-length 2" "--find tex" "--find 0x4711" "--find 0x4711 --all" \
		"--find 0x4711 --member 8,8:uint8,8:text,16:double" "--find 0x4711 --around" "--find 0x99 --around"; do
		# shellcheck disable=SC2086
		validates $how "$core"
		# shellcheck disable=SC2086
		validates $how --redact "$core"
		# shellcheck disable=SC2086
		validates $how --no-names -r "$core"
	done
}

@test "the table of types, and what grew" {
	validates --types "$(leak_core)"
	validates --types --diff "$(leak_core)" "$(leak_core)"
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [7, 7] }]'
	validates --types "$core"
	validates --types --diff "$core" "$(leak_core)"
}

@test "counts that are not exact" {
	local random=$BATS_TEST_TMPDIR/random
	perl -e 'srand 4711; print pack "Q<*", map { int rand(2 ** 50) } 1 .. 1000 for 1 .. 3000' >"$random"
	validates -r -m 16M - < <(cat "$random")
	is '.top[0].count_max' || skip "they were exact"
}

@test "real cores" {
	[ -d "$cores" ] || skip "no $cores"
	local file
	for file in "$cores"/*.core.*; do
		"$TOPLEAK" -q -n 100 -o json "$file" 2>/dev/null || true
	done >"$BATS_TEST_TMPDIR/lines"
	validate "$repo/share/topleak.schema.json" <"$BATS_TEST_TMPDIR/lines"
}

@test "what the schema does not know is found out" {
	invalid '.top[0].color = 1' "'color' was unexpected"
	invalid '.top[0].value = 7'  "is not of type 'string', 'null'"
	invalid 'del(.scanned.words)' "'words' is a required property"
	invalid '.modules[0].state = "odd"' "is a required property"
	invalid '.input.format = "odd"' "'odd' is not one of"
	invalid '.mode = "odd"' "is not valid under any of the given schemas"
}
