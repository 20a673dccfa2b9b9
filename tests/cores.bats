#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Real cores of many systems against the answers of an independent counter.

load lib/common

setup() {
	[ -d "$cores" ] || skip "no $cores"
	needs zstd xz
}

@test "every real core gives the expected table" {
	local packed name wrong=() core=$BATS_TEST_TMPDIR/core
	for packed in "$cores"/*.core.zst; do
		name=$(basename "$packed" .core.zst)
		zstd -qdf --sparse "$packed" -o "$core"
		"$TOPLEAK" --no-names -n 50 "$core" 2>/dev/null | diff "$cores/expected/$name.top50" - ||
			wrong+=("$name")
	done
	equal "${wrong[*]}" ""
}

@test "a core that is cut says so, and how much is missing" {
	zstd -qd "$cores/gcore-x86_64-truncated.core.zst" -o "$BATS_TEST_TMPDIR/core"
	topleak -0 -n 1 "$BATS_TEST_TMPDIR/core"
	contains "$stderr" "truncated"
	topleak -0 -o json "$BATS_TEST_TMPDIR/core"
	is '.scanned.bytes_missing == 1006756'
}

@test "damaged headers are told in one line, without a crash" {
	xz -dc "$cores/corrupt-headers.core.xz" >"$BATS_TEST_TMPDIR/core"
	run --separate-stderr "$TOPLEAK" "$BATS_TEST_TMPDIR/core"
	[ "$status" -le 1 ]
	[ "${#stderr_lines[@]}" -ge 1 ]
	contains "$stderr" "topleak: $BATS_TEST_TMPDIR/core: "
}
