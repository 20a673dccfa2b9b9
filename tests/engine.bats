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

@test "many rows of what a process has take few passes" {
	! sanitized || skip "sanitizers take a minute"
	"$engine" passes
}

# A file in which no word but a few repeats.
@test "a sample of the file is looked at first, then all of it once, in order" {
	needs strace
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	local core=$BATS_TEST_TMPDIR/core trace=$BATS_TEST_TMPDIR/trace size=$((64 << 20))
	perl -e 'print pack "Q<*", map { $_ % 4 ? $_ : 7 } 1 .. 8 << 20' >"$core"
	LSAN_OPTIONS=detect_leaks=0 strace -qq -e trace=pread64 -o "$trace" "$TOPLEAK" -r -n 1 -j 1 "$core"
	awk -F '[,)= ]+' -v size=$size '
		/^pread64/ { at = $(NF - 1); got = $NF; if (at < last) from++; last = at; sum[from] += got }
		END { print from, sum[from - 1], sum[from]; exit !(sum[from] == size && sum[from - 1] < size / 3) }' "$trace"
}

@test "a hole of a terabyte takes no more than a look at each end" {
	needs strace
	strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
	local core=$BATS_TEST_TMPDIR/core trace=$BATS_TEST_TMPDIR/trace
	mkcore "$core" "segments => [{ vaddr => 1 << 40, bytes => 'A' x 8, hole => 1 << 40, tail => 'B' x 8 }]" ||
		skip "the file system has no files of a terabyte"
	LSAN_OPTIONS=detect_leaks=0 strace -qq -f -o "$trace" "$TOPLEAK" -n 1 "$core"
	[ "$(wc -l <"$trace")" -lt 1000 ]
}
