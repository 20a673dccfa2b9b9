#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Memory stays within --memory, and counts stay exact, however many distinct words there are.

load lib/common

# All words are distinct (five million of them) but for a thousand that occur twice.
distinct() {
	fixture distinct.core sh -c 'mkcore "@" "segments => [{ vaddr => 0x1000,
		bytes => pack(q(Q<*), map { \$_ << 12 } 1 .. 5_000_000, map { \$_ * 3000 } 1 .. 1000) }]"'
}

setup_file() {
	distinct >/dev/null
}

# peaks_below LIMIT ARG...: its private memory stays below LIMIT kilobytes
peaks_below() {
	run --separate-stderr -0 peak "$TOPLEAK" "${@:2}"
	[ "${stderr_lines[-1]}" -lt "$1" ] || { echo "peak: ${stderr_lines[-1]} kB" && false; }
}

# The 1500 first rows: the thousand doubles, then the smallest of the rest.
table() {
	perl -e 'my %twice = map { $_ * 3000 => 1 } 1 .. 1000;
		printf "0x%016x : 2\n", $_ * 3000 << 12 for 1 .. 1000;
		printf "0x%016x : 1\n", $_ << 12 for grep { !$twice{$_} } 1 .. 500'
}

@test "-m 16M: five million distinct words in 16 MB and a little for the program, exact" {
	! sanitized || skip "sanitizers need more"
	peaks_below $((20 * 1024)) --no-names -m 16M -j 2 -n 1500 "$(distinct)"
	equal "$output" "$(table)"
}

@test "the default limit holds too" {
	! sanitized || skip "sanitizers need more"
	peaks_below $((132 * 1024)) --no-names -n 1500 "$(distinct)"
	equal "$output" "$(table)"
}

@test "any core in 256 MiB of address space" {
	! sanitized || skip "sanitizers reserve more"
	local core
	core=$(distinct)
	ulimit -v $((256 * 1024))
	topleak -0 --no-names -j 1 -n 1500 "$core"
	equal "$output" "$(table)"
}

@test "out of memory: status 1, one line" {
	! sanitized || skip "sanitizers reserve more"
	local core
	core=$(distinct)
	ulimit -v $((64 * 1024)) # enough for the libraries
	topleak -1 --no-names -j 1 -m 128M -n 1000000 "$core"
	fails "memory"
}

@test "SIGINT and SIGTERM: what was found so far, marked as partial, status 130 and 143" {
	local signal core second
	core=$(distinct)
	for signal in INT TERM; do
		for second in "" "$core"; do
			# shellcheck disable=SC2086 # none or one
			run --separate-stderr interrupt "$signal" \
				"$TOPLEAK" -o json -j 1 -m 16M -n 100000 "$core" $second
			equal "$status" $((128 + $(kill -l "$signal")))
			is '.scanned.partial'
			contains "${stderr_lines[0]}" "interrupted: the counts are only part of the answer"
			equal "${stderr_lines[1]-}" "${second:+topleak: $second: interrupted: not read}"
			equal "${#stderr_lines[@]}" "$((1 + ${#second} / ${#core}))"
		done
	done
}

# interrupt SIGNAL COMMAND...: the signal comes as soon as the command handles it, before it has read much
interrupt() {
	"${@:2}" &
	await catches $! "$1"
	kill -s "$1" $!
	wait $!
}
