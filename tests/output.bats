#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What is written where: the four formats, stderr, and outputs that cannot be written.

load lib/common

setup() {
	core=$BATS_TEST_TMPDIR/core
}

# A word of every kind, each once less than the one before.
every_kind() {
	mkcore "$core" 'pid => 4711, command => "/srv/app", signal => 6, segments => [{ vaddr => 0x1000, memsz => 8192,
		words => [(0) x 5, (33) x 4, (12345678910) x 3, (unpack "Q<", "HTTP/1.1") x 2, 0x7f1234567890] }]'
}

# of_text BYTES...: a core of words of eight bytes, given as Perl strings
of_text() {
	local IFS=,
	mkcore "$core" "segments => [{ vaddr => 0x1000, bytes => join '', $* }]"
}

@test "text: value, count and what the word is" {
	every_kind
	topleak -0 "$core"
	equal "$output" '0x0000000000000000 : 5  zero
0x0000000000000021 : 4  33, or malloc size 32
0x00000002dfdc1c3e : 3  12345678910
0x312e312f50545448 : 2  "HTTP/1.1"
0x00007f1234567890 : 1'
	local expected=$output
	topleak -0 -o text "$core"
	equal "$output" "$expected"
	topleak -0 --output=human "$core"
	equal "$output" "$expected"
}

@test "text: with --no-names a row ends after the count" {
	every_kind
	topleak -0 --no-names "$core"
	equal "$output" '0x0000000000000000 : 5
0x0000000000000021 : 4
0x00000002dfdc1c3e : 3
0x312e312f50545448 : 2
0x00007f1234567890 : 1'
}

@test "equal counts are in the order of their values, unsigned" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [0xffffffffffffffff, 1 << 63, 0, 5, 0x7fffffffffffffff] }]'
	topleak -0 --no-names "$core"
	equal "$output" '0x0000000000000000 : 1
0x0000000000000005 : 1
0x7fffffffffffffff : 1
0x8000000000000000 : 1
0xffffffffffffffff : 1'
}

@test "text words are shown in memory order" {
	local endian
	for endian in little big; do
		mkcore "$core" "class => 32, endian => '$endian', machine => 8, segments => [{ vaddr => 0x1000, bytes => 'GET ' }]"
		topleak -0 "$core"
		contains "$output" ' : 1  "GET "'
		mkcore "$core" "endian => '$endian', machine => 21, segments => [{ vaddr => 0x1000, bytes => 'HTTP/1.1' }]"
		topleak -0 "$core"
		contains "$output" ' : 1  "HTTP/1.1"'
	done
}

@test "malloc sizes are told for sizes that malloc gives, of either class" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [0x11, 0x20, 0x21, 0x23, 0x25, 0x29, 0x31] }]'
	topleak -0 "$core"
	equal "$output" '0x0000000000000011 : 1  17
0x0000000000000020 : 1  32
0x0000000000000021 : 1  33, or malloc size 32
0x0000000000000023 : 1  35
0x0000000000000025 : 1  37, or malloc size 32
0x0000000000000029 : 1  41
0x0000000000000031 : 1  49, or malloc size 48'
	mkcore "$core" 'class => 32, machine => 3, segments => [{ vaddr => 0x1000, words => [0x11, 0x21] }]'
	topleak -0 "$core"
	equal "$output" '0x00000011 : 1  17, or malloc size 16
0x00000021 : 1  33, or malloc size 32'
}

@test "hostile words are escaped or not shown as text, in every format" {
	of_text '"\e[31mabc"' '"a\"b\\c,de"' '"\xff\xfeabcdef"' '"quit\nabc"' '"=1+1+1+1"' '"\xc2\x9b31mabc"' '"<b>&amp;"'
	local format
	for format in text json csv gdb; do
		topleak -0 -o "$format" "$core"
		[ "$(LC_ALL=C grep -c '[^ -~]' <<<"$output")" -eq 0 ]
		lacks "$output" $'\r'
	done
	topleak -0 "$core"
	contains "$output" ' : 1  "a\"b\\c,de"'
	contains "$output" ' : 1  "=1+1+1+1"'
	topleak -0 -o csv "$core"
	contains "$output" ',1,text,"""a\""b\\c,de"""'
	contains "$output" ',1,text,"""=1+1+1+1"""'
	topleak -0 -o json "$core"
	equal "$(jq -r '.top[] | select(.value == "0x65642c635c622261") .description' <<<"$output")" '"a\"b\\c,de"'
}

@test "JSON: one object with the fields that the man page lists" {
	every_kind
	topleak -0 -o json "$core"
	[ -z "$stderr" ]
	equal "$(jq -s length <<<"$output")" 1
	is '.schema == 1 and .mode == "words"'
	is '.input | .format == "elf-core" and .class == 64 and .byte_order == "little" and .machine == "x86-64"'
	is '.input | .pid == 4711 and .command == "/srv/app" and .signal == "SIGABRT"'
	is ".input.path == \"$core\""
	is '.scanned == { segments: 1, bytes_saved: 120, bytes_not_saved: 8072, bytes_missing: 0, words: 15, word_size: 8, partial: false }'
	is '.top | map(.count) == [5, 4, 3, 2, 1]'
	is '.top | map(.kind) == ["zero", "number", "number", "text", "other"]'
	is '.top[3] == { value: "0x312e312f50545448", count: 2, kind: "text", description: "\"HTTP/1.1\"" }'
	local version
	version=$(jq -r .version <<<"$output")
	topleak -0 --version
	contains "${lines[0]}" "$version"
}

@test "JSON: the input of a big-endian 32-bit core and of raw bytes" {
	mkcore "$core" 'class => 32, endian => "big", machine => 20, segments => [{ vaddr => 0x1000, words => [7] }]'
	topleak -0 -o json "$core"
	is '.input | .class == 32 and .byte_order == "big"'
	is '.scanned.word_size == 4 and .top[0].value == "0x00000007"'
	printf 12345678 >"$core"
	topleak -0 -o json --raw "$core"
	is '.input.format == "raw" and .input.class == null and .scanned.words == 1'
}

@test "CSV: a header and rows, quoted as in RFC 4180" {
	every_kind
	topleak -0 -o csv "$core"
	equal "$output" 'value,count,kind,description
0x0000000000000000,5,zero,zero
0x0000000000000021,4,number,"33, or malloc size 32"
0x00000002dfdc1c3e,3,number,12345678910
0x312e312f50545448,2,text,"""HTTP/1.1"""
0x00007f1234567890,1,other,'
}

@test "gdb: pagination off, then three commands a row" {
	every_kind
	topleak -0 -o gdb -n 2 "$core"
	equal "$output" 'set pagination off
p 5
x 0x0000000000000000
info symbol 0x0000000000000000
p 4
x 0x0000000000000021
info symbol 0x0000000000000021'
}

@test "stderr is empty where there is nothing to warn about" {
	every_kind
	local options
	for options in "-n 5" "-o json" "-o csv" "-o gdb" --no-names -q "-j 2"; do
		# shellcheck disable=SC2086
		topleak -0 $options "$core"
		equal "$stderr" ""
	done
}

@test "-v shows on stderr what the numbers rest on, -t tells the time" {
	every_kind
	topleak -0 -n 1 "$core"
	local table=$output
	topleak -0 -n 1 -v "$core"
	equal "$output" "$table"
	contains "${stderr_lines[0]}" "core: x86-64 core of /srv/app (pid 4711, SIGABRT)"
	contains "$stderr" "not saved"
	contains "$stderr" "next: $TOPLEAK --types $core"
	topleak -0 -n 1 -t "$core"
	equal "$output" "$table"
	[[ $stderr =~ [0-9]\ ?m?s ]]
}

@test "what to ask next: the program and the places for names are given again, what was asked is not" {
	local next
	next() {
		topleak -0 -v "$@"
		next=$(sed -n 's/^next: //p' <<<"$stderr")
	}
	cp "$(leak)" "$BATS_TEST_TMPDIR/it's leak"
	next --types -x "$BATS_TEST_TMPDIR/it's leak" --sysroot "$BATS_TEST_TMPDIR" --debug-dir / "$(leak_core)"
	equal "$next" "$TOPLEAK --exe '$BATS_TEST_TMPDIR/it'\\''s leak' --sysroot $BATS_TEST_TMPDIR --debug-dir / --type A --around $(leak_core)"
	# It can be typed as it is.
	run -0 --separate-stderr bash -c "$next"
	contains "$output" "vtable for A+16"
	next "$(leak)" "$(leak_core)"
	equal "$next" "$TOPLEAK --exe $(leak) --types $(leak_core)"
	ln -s "$TOPLEAK" "$BATS_TEST_TMPDIR/topleak"
	run -0 --separate-stderr env PATH="$BATS_TEST_TMPDIR:$PATH" topleak -v --no-names "$(leak_core)"
	contains "$stderr" "next: topleak --types $(leak_core)"
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [7, 7] }]'
	next --types "$core"
	equal "$next" ""
}

@test "on a terminal stderr shows the same header unless -q, and stdout the same rows" {
	needs script
	every_kind
	script -qec "'$TOPLEAK' -n 1 '$core' >'$core.out'" /dev/null </dev/null >"$core.terminal"
	contains "$(cat "$core.terminal")" "x86-64 core of /srv/app"
	equal "$(cat "$core.out")" "0x0000000000000000 : 5  zero"
	script -qec "'$TOPLEAK' -q -n 1 '$core' >'$core.out'" /dev/null </dev/null >"$core.terminal"
	equal "$(cat "$core.terminal")" ""
}

@test "a full disk and a closed stdout are errors, of every format" {
	every_kind
	writes_json || skip "built without jansson"
	local arguments
	for arguments in "-o text" "-o json" "-o csv" "-o gdb" --help --version; do
		run --separate-stderr -1 sh -c '"$0" "$@" >/dev/full' "$TOPLEAK" $arguments "$core"
		fails "No space left on device"
		run --separate-stderr -1 sh -c '"$0" "$@" >&-' "$TOPLEAK" $arguments "$core"
		fails "stdout is closed"
	done
}

@test "a full disk is noticed, however much is written" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [1 .. 100_000] }]'
	run --separate-stderr -1 sh -c '"$0" -n 100000 "$1" >/dev/full' "$TOPLEAK" "$core"
	fails "No space left on device"
}

@test "a closed pipe ends it quietly" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [1 .. 100_000] }]'
	writes_json || skip "built without jansson"
	local format first
	for format in text json csv gdb; do
		first=$({ "$TOPLEAK" -o "$format" -n 100000 "$core" 2>"$core.stderr" || echo $? >"$core.status"; } | head -c 1)
		[ -n "$first" ]
		equal "$(cat "$core.stderr")" ""
		# It may die of SIGPIPE, as other tools do, or see EPIPE and end.
		[ ! -e "$core.status" ] || equal "$(cat "$core.status")" 141
	done
}
