#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Live processes: what their core would have.

load lib/common

teardown() {
	[ -z "${pid-}" ] || kill -KILL "$pid" 2>/dev/null || true
	wait 2>/dev/null || true
}

# start NAME ARG...: run fixtures/NAME.c until the test is over, as $pid
start() {
	needs cc
	local ready program=$BATS_TEST_TMPDIR/$1
	cc -O1 -pthread -o "$program" "$repo/fixtures/$1.c"
	mkfifo "$program.out"
	"$program" "${@:2}" >"$program.out" 3>&- &
	pid=$!
	read -r ready <"$program.out"
	[ "$ready" = ready ]
	# The second thread, too, is to stand still.
	[ "$1" != still ] || await stands_still "$pid" 2
	"$TOPLEAK" --pid "$pid" -n 1 >/dev/null 2>"$program.err" || ! grep -q "may not read" "$program.err" || skip "processes may not be read here"
}

# rows TABLE: the words of fixtures/still.c, with their counts
rows() {
	grep -E '^0x([1-9])\1{15} ' <<<"$1" | sort
}

@test "a process that stands still has what its kernel core has, to the word" {
	needs cc
	local table live core
	case $(cat /proc/sys/kernel/core_pattern) in
	core) ;;
	*) skip "the kernel writes no core here" ;;
	esac
	core=$BATS_TEST_TMPDIR/dying
	mkdir "$core"
	cd "$core"
	cc -O1 -pthread -o "$BATS_TEST_TMPDIR/still" "$repo/fixtures/still.c"
	(
		ulimit -c unlimited
		exec "$BATS_TEST_TMPDIR/still" "$BATS_TEST_TMPDIR" >"$BATS_TEST_TMPDIR/out" 3>&-
	) &
	pid=$!
	await grep -qs ready "$BATS_TEST_TMPDIR/out"
	await stands_still "$pid" 2
	topleak -0 --no-names -n 100000 --pid "$pid"
	table=$output
	topleak -0 -o json --pid "$pid"
	live=$output
	kill -ABRT "$pid"
	wait "$pid" || true
	core=$(find . -type f -size +0 | head -1)
	[ -n "$core" ] || skip "the kernel writes no core here"
	topleak -0 --no-names -n 100000 "$core"
	equal "$(rows "$table")" "$(rows "$output")"
	contains "$(rows "$table")" "0x7777777777777777 : 131072"
	# What differs is on the stacks, which the signal moves, and [vvar], of which a core has zeros.
	local zeros core_zeros
	zeros=$(awk '$1 ~ /^0x0+$/ { print $3 }' <<<"$table")
	core_zeros=$(awk '$1 ~ /^0x0+$/ { print $3 }' <<<"$output")
	[ $((core_zeros - zeros)) -ge -600 ] && [ $((core_zeros - zeros)) -le 4000 ] || { echo "zeros: $zeros, in the core $core_zeros" && false; }
	topleak -0 -o json "$core"
	equal "$(jq -c '.input | del(.path, .format, .signal, .signal_number)' <<<"$live")" \
		"$(jq -c '.input | del(.path, .format, .signal, .signal_number)' <<<"$output")"
}

@test "counts and names are those of its gcore core" {
	needs gcore
	start still "$BATS_TEST_TMPDIR"
	topleak -0 -n 40 --pid "$pid"
	local table=$output
	gcore -o "$BATS_TEST_TMPDIR/core" "$pid" >/dev/null 2>&1 || skip "gcore does not work here"
	topleak -0 -n 40 "$BATS_TEST_TMPDIR/core.$pid"
	# gcore leaves out what is unreadable.
	equal "$(rows "$table" | grep -v 0x7777)" "$(rows "$output" | grep -v 0x7777)"
}

@test "looking closer at a process gives what its gcore core gives" {
	needs gcore jq
	start still "$BATS_TEST_TMPDIR"
	gcore -o "$BATS_TEST_TMPDIR/core" "$pid" >/dev/null 2>&1 || skip "gcore does not work here"
	local question live
	while read -r question; do
		# shellcheck disable=SC2086 # options and their arguments
		topleak -0 -ojson -n 3 $question --pid "$pid"
		live=$(jq -c 'del(.input, .scanned, .memory, .modules)' <<<"$output")
		# shellcheck disable=SC2086
		topleak -0 -ojson -n 3 $question "$BATS_TEST_TMPDIR/core.$pid"
		equal "$live" "$(jq -c 'del(.input, .scanned, .memory, .modules)' <<<"$output")"
		[ "$(jq '.found.count // .total // 1' <<<"$live")" -gt 0 ]
	done <<-'END'
		--find 0x1111111111111111
		--find 0x3333333333333333 --member -8,8:uint32
		--find 0x4444444444444444 --around=-1:2
		--find 33333
		--strings --min-length 200
	END
}

@test "the coredump_filter is kept to" {
	start still "$BATS_TEST_TMPDIR"
	local filter word expected
	while read -r filter expected; do
		echo "$filter" >"/proc/$pid/coredump_filter"
		topleak -0 --no-names -n 100000 -p "$pid"
		# Once or twice they may be in the program itself.
		equal "$(rows "$output" | awk '$3 > 9 { print substr($1, 3, 1) }' | tr -d '\n')" "$expected"
	done <<-'END'
		0x33 12347
		0x01 1347
		0x02 2
		0x04 4
		0x08 8
		0x3f 123478
	END
}

@test "what it is, is told" {
	start still "$BATS_TEST_TMPDIR"
	topleak -0 -o json -n 3 --pid "$pid"
	is ".input | .format == \"process\" and .pid == $pid and .threads == 2 and .signal == null"
	is '.input.command | startswith("'"$BATS_TEST_TMPDIR"'/still ")'
	topleak -0 -v -n 3 --pid "$pid"
	contains "$stderr" "process $pid: "
	contains "$stderr" "next: $TOPLEAK --types --pid $pid"
}

@test "untouched memory is zeros, and stays untouched" {
	start still "$BATS_TEST_TMPDIR"
	local before after
	before=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status")
	topleak -0 --no-names -n 1 --pid "$pid"
	after=$(awk '/^RssAnon/ { print $2 }' "/proc/$pid/status")
	[ "$after" -le $((before + 64)) ] || { echo "from $before to $after kB" && false; }
}

@test "a process that maps and unmaps all the time never fails" {
	start restless
	local i
	for i in {1..8}; do
		run --separate-stderr -0 limited "$TOPLEAK" --no-names -n 100 -j 4 --pid "$pid"
		[ "${#lines[@]}" -ge 10 ]
		[ "${#stderr_lines[@]}" -le 1 ]
		[ -z "$stderr" ] || contains "$stderr" "skipped"
	done
}

@test "a process that ends while it is read, or that there is not: one line" {
	start restless
	local i
	for i in {1..5}; do
		"$TOPLEAK" --no-names --pid "$pid" >"$BATS_TEST_TMPDIR/table" 2>"$BATS_TEST_TMPDIR/stderr" &
		sleep 0.0$i
		[ "$i" -lt 5 ] || kill -KILL "$pid"
		wait $! || [ $? -eq 1 ]
		[ "$(wc -l <"$BATS_TEST_TMPDIR/stderr")" -le 2 ]
	done
	wait "$pid" || true
	topleak -1 --pid "$pid"
	fails "process $pid: there is no such process"
}

@test "kernel threads have no memory" {
	local thread
	thread=$(awk '$2 == "(kthreadd)" { print $1 }' /proc/2/stat 2>/dev/null) || true
	[ -n "$thread" ] && [ "$(id -u)" -eq 0 ] || skip "no kernel thread to be seen"
	topleak -1 --pid "$thread"
	fails "process $thread: has no memory"
}

# state PID: as in /proc/PID/status, of all its threads
state() {
	sed -n 's/^State:.\(.\).*/\1/p' "/proc/$1"/task/*/status | sort | tr -d '\n'
}

state_is() {
	[ "$(state "$1")" = "$2" ]
}

# on_its_own: $pid is traced by nobody, and not stopped
on_its_own() {
	[[ $(state "$pid") != *[tTZ]* ]] && [ -z "$(grep -h '^TracerPid:' "/proc/$pid"/task/*/status | grep -vw 0)" ]
}

# lost_sizes: those that fixtures/registers.c uses
lost_sizes() {
	jq -r '.types[].size' <<<"$output" | grep -x '[579]008' | sort | tr '\n' ' '
}

@test "--leaks: what only a register holds is not lost, whether its thread waits or runs" {
	needs jq
	[ "$(uname -m)" = x86_64 ] || skip "the program is for x86-64"
	start registers hold
	await state_is "$pid" RS
	topleak -0 --leaks -n 1000 -ojson --pid "$pid"
	equal "$(lost_sizes)" "7008 "
	topleak -0 --leaks -v --pid "$pid"
	[[ $stderr == *"registers: of 2 threads, each stopped for at most "*" ms"* ]]
	lacks "$output" "registers are not known"
	on_its_own
	topleak -0 --path "$("$TOPLEAK" -q --leaks -ojson --pid "$pid" | jq -r '.types[] | select(.size == 7008).examples[0]')" --pid "$pid"
	contains "$stderr" "is lost"
	topleak -0 --types -v --pid "$pid"
	lacks "$stderr" "each stopped"
}

@test "--leaks: a stopped process stays stopped, and goes on when it is told to" {
	needs jq
	[ "$(uname -m)" = x86_64 ] || skip "the program is for x86-64"
	start registers hold
	await state_is "$pid" RS
	kill -STOP "$pid"
	await state_is "$pid" TT
	local i
	for i in 1 2 3; do
		topleak -0 --leaks -n 1000 -ojson --pid "$pid"
		equal "$(lost_sizes)" "7008 "
		await state_is "$pid" TT
	done
	kill -CONT "$pid"
	await state_is "$pid" RS
	on_its_own
}

@test "--leaks: threads that come and go" {
	start registers threads
	local i
	for i in {1..15}; do
		run --separate-stderr -0 limited "$TOPLEAK" --leaks --pid "$pid"
		[ -z "$stderr" ] || contains "$stderr" "skipped"
	done
	await on_its_own
}

@test "--leaks: a list whose head changes meanwhile is not lost" {
	needs jq
	local speed i
	for speed in slow slow fast fast fast; do
		start pushing "$speed"
		for i in 1 2 3; do
			topleak -0 --leaks -ojson --pid "$pid"
			is '.totals.used_count >= 100000 and .totals.lost_count <= 20'
		done
		kill -KILL "$pid"
		wait "$pid" || true
		pid=
		rm "$BATS_TEST_TMPDIR/pushing.out"
	done
}

@test "--leaks: no signal gets lost" {
	start registers signals
	local rounds=0
	while kill -0 "$pid" 2>/dev/null && [[ $(state "$pid") != Z ]]; do
		"$TOPLEAK" --leaks --pid "$pid" >/dev/null 2>&1 || true
		rounds=$((rounds + 1))
	done
	[ "$rounds" -gt 1 ]
	wait "$pid"
	pid=
}

@test "--leaks: a thread that nothing interrupts is left alone, with a warning" {
	start registers vfork
	await state_is "$pid" D
	topleak -0 --leaks --pid "$pid"
	contains "$stderr" "the registers of 1 of 1 threads could not be read: they did not stop in time"
	contains "$output" "its registers are not known"
	kill "$(cat "/proc/$pid/task/$pid/children")"
	await state_is "$pid" S
	on_its_own
}

@test "--leaks: where the registers may not be read it goes on without, with a warning" {
	needs strace jq
	[ "$(uname -m)" = x86_64 ] || skip "the program is for x86-64"
	start registers hold
	await state_is "$pid" RS
	strace -f -o /dev/null -p "$pid" 3>&- 2>"$BATS_TEST_TMPDIR/strace" &
	local tracer=$!
	await grep -qs attached "$BATS_TEST_TMPDIR/strace" || skip "strace may not trace here"
	topleak -0 --leaks -n 1000 -ojson --pid "$pid"
	contains "$stderr" "process $pid: the registers of 2 of 2 threads may not be read: " "debugger"
	equal "$(lost_sizes)" "5008 7008 9008 "
	kill "$tracer"
	wait "$tracer" || true
}

@test "missing permission: the message names ptrace_scope and CAP_SYS_PTRACE" {
	needs setpriv
	chmod 711 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" 2>/dev/null || true
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	start still "$BATS_TEST_TMPDIR"
	cp "$TOPLEAK" "$BATS_TEST_TMPDIR/topleak"
	run --separate-stderr -1 as_other "$BATS_TEST_TMPDIR/topleak" --pid "$pid"
	fails "process $pid: " "Permission denied" "ptrace_scope" "CAP_SYS_PTRACE"
}

@test "--pid and what it does not go with: wrong usage" {
	topleak -2 --pid 0
	fails "--pid"
	topleak -2 --pid -1
	fails "--pid"
	topleak -2 --pid x
	fails "--pid"
	topleak -2 --pid 1 file
	fails "--pid" "file"
	topleak -2 --pid 1 --raw
	fails "--pid" "--raw"
	topleak -2 --pid 1 -s 8
	fails "--pid" "--offset"
}
