#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Standard input and pipes: read once, counted exactly where possible, else in intervals.

load lib/common

setup() {
	core=$BATS_TEST_TMPDIR/core
}

# topleak with the core through a pipe
piped() {
	cat "$core" | "$TOPLEAK" "$@" -
}

# Longer than the beginning that is kept with -m 16M.
large_core() {
	mkcore "$core" 'align => 8, shift => 4, pid => 42, command => "/srv/app", signal => 6, segments => [
		{ vaddr => 0x10000004, bytes => pack("Q<*", map { $_ * 77_777_777 % 5003 } 1 .. 300_000) . "abc" },
		{ vaddr => 0x8000, words => [(7) x 50_000], memsz => 1 << 20 },
		{ vaddr => 0x20000001, offset => 123457, filesz => 1_500_001, memsz => 1_500_001 },
		map { { vaddr => 0x40000000 + 0x10000 * $_, offset => 1_048_576 + 4 * $_, filesz => 4096 + $_, memsz => 8192 } } 1 .. 300]'
}

# within TABLE EXACT: the rows of TABLE are intervals around the counts in EXACT, all words of which
# are there
within() {
	awk '
		NR == FNR { count[$1] = $3; next }
		{
			split($3, bound, /[.][.]/)
			high = bound[2] == "" ? bound[1] : bound[2]
			if (count[$1] < bound[1] || count[$1] > high) {
				print $0 ": " count[$1] + 0
				wrong = 1
			}
			rows++
		}
		END { exit wrong || !rows }' "$2" "$1"
}

@test "a core through a pipe, and as a file on standard input" {
	large_core
	topleak -0 --no-names -n 50 "$core"
	local table=$output memory
	for memory in 16M 128M; do
		equal "$(piped --no-names -n 50 -m "$memory")" "$table"
		equal "$("$TOPLEAK" --no-names -n 50 -m "$memory" - <"$core")" "$table"
		equal "$("$TOPLEAK" --no-names -n 50 -m "$memory" <(cat "$core"))" "$table"
	done
}

@test "every real core through a pipe" {
	[ -d "$cores" ] || skip "no $cores"
	needs zstd
	local each name wrong=()
	for each in "$cores"/*.core.zst; do
		name=$(basename "$each" .core.zst)
		zstd -dc "$each" | "$TOPLEAK" --no-names -n 50 - 2>/dev/null | diff "$cores/expected/$name.top50" - || wrong+=("$name")
		zstd -dc "$each" | "$TOPLEAK" --no-names -n 50 -m 16M - >"$core.table" 2>/dev/null || wrong+=("$name 16M")
		[ ! -s "$core.table" ] || within "$core.table" <(zstd -dc "$each" >"$core" && "$TOPLEAK" --no-names -n 100000 "$core" 2>/dev/null) || wrong+=("$name: intervals")
	done
	equal "${wrong[*]}" ""
}

@test "a compressed stream through a pipe" {
	"$TOPLEAK" - </dev/null 2>/dev/null || true
	local packer
	needs gzip bzip2 xz lz4 zstd
	large_core
	topleak -0 --no-names -n 50 "$core"
	local table=$output
	for packer in gzip bzip2 xz lz4 zstd; do
		$packer -c <"$core" | "$TOPLEAK" --no-names -n 1 - >/dev/null 2>&1 || skip "built without libarchive"
		equal "$($packer -c <"$core" | "$TOPLEAK" --no-names -n 50 -m 16M -)" "$table"
		equal "$($packer -c <"$core" | "$TOPLEAK" --no-names -n 50 -)" "$table"
	done
	run --separate-stderr -0 bash -c 'zstd -qc "$1" | head -c -9 | "$2" -n 1 -' _ "$core" "$TOPLEAK"
	contains "$stderr" "standard input: its zstd data are damaged or cut"
}

@test "raw bytes through a pipe, with -s and -l" {
	perl -e 'print "x", pack("Q<*", map { $_ % 999 } 1 .. 500_000)' >"$core"
	local options
	for options in "-r" "-s 1" "-s 3000001 -l 1000 -w 4 -e big" "-s 1 -l 5"; do
		# shellcheck disable=SC2086
		topleak -0 --no-names -n 50 $options "$core"
		# shellcheck disable=SC2086
		equal "$(piped --no-names -n 50 -m 16M $options)" "$output"
	done
	topleak -0 -q -o json "$core"
	local plain=$output
	run --separate-stderr -0 bash -c 'cat "$1" | "$2" -q -o json -m 16M -' _ "$core" "$TOPLEAK"
	equal "$(jq -c .scanned <<<"$output")" "$(jq -c .scanned <<<"$plain")"
}

@test "the leak's top 50 are exact with the default memory" {
	core=$(leak_core)
	topleak -0 --no-names -n 50 "$core"
	local table=$output
	run --separate-stderr -0 piped --no-names -n 50
	equal "$output" "$table"
	[ -z "$stderr" ]
	topleak -0 -n 20 "$core"
	table=$output
	contains "$table" "vtable for A+16"
	run --separate-stderr -0 piped -n 20
	equal "$output" "$table"
}

@test "what cannot be certain is an interval that holds the count, and a warning says why" {
	perl -Minteger -e 'print pack("q<*", map { $_ * -7046029254386353131 } map { ($_, $_ * 7919 % 100003) } 1 .. 1_500_000)' >"$core"
	"$TOPLEAK" --no-names -r -n 1000000 -m 256M --min-count 2 "$core" >"$core.exact"
	run --separate-stderr -0 piped --no-names -r -m 16M -n 5000
	contains "$output" ".."
	contains "$stderr" "can be read only once"
	within <(echo "$output") "$core.exact"
	run --separate-stderr -0 piped --no-names -r -m 16M -n 5000 -o json
	is '[.top[] | select(.count_max)] | length > 0 and all(.count_max > .count)'
	run --separate-stderr -0 piped --no-names -r -m 16M -n 5000 -o csv
	contains "$output" ".."
}

@test "rows that are missing because nothing could be certain of their words are said to be" {
	perl -e 'print pack("q<*", 1 .. 2_500_000)' >"$core"
	run --separate-stderr -0 piped --no-names -r -m 16M -n 10
	[ "${#lines[@]}" -lt 10 ]
	contains "$stderr" "rows are missing, of words that may occur up to"
	# What --min-count leaves out is not missing, nor what was not asked for.
	run --separate-stderr -0 piped --no-names -r -m 16M --min-count 1000
	[ -z "$output$stderr" ]
	run --separate-stderr -0 piped --no-names -r -m 256M -n 10
	[ "${#lines[@]}" -eq 10 ]
	[ -z "$stderr" ]
}

@test "an empty pipe, a closed input, a terminal, a directory: status 1, one line" {
	run --separate-stderr -1 bash -c ': | "$1" -' _ "$TOPLEAK"
	fails "standard input: " "empty"
	run --separate-stderr -1 bash -c '"$1" - <&-' _ "$TOPLEAK"
	fails "standard input: "
	run --separate-stderr -1 bash -c '"$1" - </' _ "$TOPLEAK"
	fails "standard input: " "directory"
	needs script
	run -0 script -qec "'$TOPLEAK' - </dev/tty; test \$? -eq 1" /dev/null
	contains "$output" "standard input: is a terminal"
}

@test "standard input is read from where it stands" {
	mkcore "$core.only" 'segments => [{ vaddr => 0x1000, words => [7, 7] }]'
	{ echo "a line before it" && cat "$core.only"; } >"$core"
	run --separate-stderr -0 bash -c '{ head -c 17 >/dev/null && "$1" --no-names -; } <"$2"' _ "$TOPLEAK" "$core"
	equal "$output" "0x0000000000000007 : 2"
}

@test "a cut pipe: what came counts, and a warning says what is missing" {
	large_core
	run --separate-stderr -0 bash -c 'head -c 2500000 "$1" | "$2" --no-names -m 16M -o json -' _ "$core" "$TOPLEAK"
	is '.scanned.bytes_missing > 100000'
	contains "$stderr" "truncated: "
}

@test "where a pipe would have to go back it says what to do" {
	mkcore "$core" 'table => "end", segments => [{ vaddr => 0x1000, words => [map { $_ % 1000 } 1 .. 400_000] }]'
	# Near enough: what came before is kept.
	equal "$(piped --no-names -n 1 -m 16M)" "0x0000000000000000 : 400"
	mkcore "$core" 'table => "end", segments => [{ vaddr => 0x1000, words => [5], hole => 70 << 20 }]'
	run --separate-stderr -1 piped --no-names -m 16M
	fails "standard input: " "save the dump to a file"
	topleak -0 --no-names -n 1 "$core"
}

@test "more than 65,535 segments: section header 0 is far behind" {
	mkcore "$core" 'xnum => 1, pid => 1, signal => 6, command => "x",
		segments => [map { { vaddr => 4096 * $_, words => [$_ % 7 ? 7 : 1 << 20] } } 1 .. 70000]'
	equal "$(piped --no-names -m 16M)" "0x0000000000000007 : 60000
0x0000000000100000 : 10000"
}

@test "an interrupt ends the wait for a pipe that stands still" {
	large_core
	local status=0 pid
	mkfifo "$core.fifo"
	# Open for writing, too, so that it never ends.
	"$TOPLEAK" --no-names -m 16M - <>"$core.fifo" >"$core.table" 2>"$core.stderr" 3>&- &
	pid=$!
	cat "$core" >"$core.fifo"
	await has_read "$pid" "$(stat -c %s "$core")"
	kill -INT "$pid"
	wait "$pid" || status=$?
	equal "$status" 130
	contains "$(cat "$core.stderr")" "interrupted"
	[ -s "$core.table" ]
	status=0
	"$TOPLEAK" - <>"$core.fifo" 3>&- &
	pid=$!
	await catches "$pid" TERM
	kill -TERM "$pid"
	wait "$pid" || status=$?
	equal "$status" 143
}

@test "the writer of a pipe is not cut short" {
	large_core
	head -c 3000000 /dev/zero >>"$core"
	run --separate-stderr -0 bash -c 'set -o pipefail; cat "$1" | "$2" --no-names -m 16M -' _ "$core" "$TOPLEAK"
}

@test "the same dump twice: standard input is empty the second time" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [7, 7] }]'
	run --separate-stderr -1 piped --no-names -
	contains "$output" "standard input:
0x0000000000000007 : 2"
	contains "$stderr" "standard input: is empty"
}
