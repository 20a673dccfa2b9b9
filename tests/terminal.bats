#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What differs on a terminal: colours, the width of lines, progress.

load lib/common

setup() {
	needs script
	core=$BATS_TEST_TMPDIR/core
	mkcore "$core" 'segments => [{ vaddr => 0x7f1000, words => [0x7f1010, 0x7f1010, 0, 0x6c6c6c6c6c6c6c6c] }]'
}

# terminal COMMAND: what a terminal of 40 columns gets
terminal() {
	TERM=xterm script -qec "stty cols 40; $1" /dev/null </dev/null | tr -d '\r'
}

@test "descriptions are cut in the middle to the width of a terminal, and whole elsewhere" {
	local whole="0x00000000007f1010 : 2  anonymous memory at 0x7f1000+0x10"
	topleak -0 "$core"
	contains "$output" "$whole"
	local cut
	cut=$(terminal "'$TOPLEAK' -q --color=never '$core'" | head -n 1)
	equal "${#cut}" 40
	contains "$cut" "..."
	equal "${cut%%...*}" "${whole:0:$((${#cut} - 3 - 6))}"
	equal "${cut##*...}" "${whole: -6}"
}

@test "colours: on a terminal only, unless NO_COLOR or --color says otherwise" {
	local escape=$'\e['
	contains "$(terminal "'$TOPLEAK' -q '$core'")" "$escape"
	local command
	for command in "NO_COLOR=1 '$TOPLEAK' -q '$core'" "TERM=dumb '$TOPLEAK' -q '$core'" \
		"'$TOPLEAK' -q --color=never '$core'" "'$TOPLEAK' -q '$core' | cat"; do
		[[ $(terminal "$command") != *"$escape"* ]]
	done
	topleak -0 "$core"
	[[ $output != *"$escape"* ]]
	topleak -0 --color always "$core"
	contains "$output" "${escape}33m\"llllllll\"${escape}0m"
	NO_COLOR=1 topleak -0 --color always -o csv "$core"
	[[ $output != *"$escape"* ]]
}

@test "progress: for long work only, erased at the end, never in a pipe" {
	# Where the machine stands still, even this is long.
	local tries
	for tries in 1 2 3 4 5; do
		topleak -0 --progress always "$core"
		[ -n "$stderr" ] || break
	done
	equal "$stderr" ""
	# Two seconds of input through a pipe.
	slow() {
		for _ in 1 2 3 4; do
			head -c 3000000 /dev/zero
			sleep 0.5
		done
	}
	slow | "$TOPLEAK" -r --progress always - >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	contains "$(<"$BATS_TEST_TMPDIR/err")" "GB/s"
	# Nothing is left on the line.
	equal "$(tail -c 4 "$BATS_TEST_TMPDIR/err")" $'\r\e[K'
	slow | "$TOPLEAK" -r - >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	equal "$(<"$BATS_TEST_TMPDIR/err")" ""
	slow | "$TOPLEAK" -r --progress never - >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err"
	equal "$(<"$BATS_TEST_TMPDIR/err")" ""
}
