#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Made-up ELF cores: what counts as memory, whatever shape the file has.

load lib/common

setup() {
	core=$BATS_TEST_TMPDIR/core
}

# counts TABLE [OPTION...]: topleak --no-names prints this table for $core
counts() {
	topleak -0 --no-names "${@:2}" "$core"
	equal "$output" "$1"
}

good='{ vaddr => 0x10000, words => [(0x600d) x 9] }'

# survives WHAT: topleak ends by itself in time with status 0 or 1 and says something, in a few lines
survives() {
	run --separate-stderr limited "$TOPLEAK" --no-names "$core"
	[ "$status" -le 1 ] && [ "${#stderr_lines[@]}" -le 3 ] && [ -n "$output$stderr" ] ||
		{ printf '%s: status %d\n%s\n%s\n' "$1" "$status" "$output" "$stderr" && false; }
}

@test "words are aligned by address, not by file offset" {
	local shift
	for shift in 0 1 3 4 7; do
		mkcore "$core" "align => 8, shift => $shift, segments => [
			{ vaddr => 0x1000, words => [5, 5, 6] },
			{ vaddr => 0x2004, bytes => 'abcd' . pack('Q<*', 5, 7) . 'abc' }]"
		counts "0x0000000000000005 : 3
0x0000000000000006 : 1
0x0000000000000007 : 1"
		[ -z "$stderr" ]
	done
}

@test "a word that two adjacent segments share does not count" {
	mkcore "$core" "segments => [
		{ vaddr => 0x1000, bytes => pack('Q<', 1) . 'abcd' }, { vaddr => 0x100c, bytes => 'efgh' . pack('Q<', 1) }]"
	counts "0x0000000000000001 : 2"
}

@test "32 and 64 bit, little and big endian" {
	local endian
	for endian in little big; do
		mkcore "$core" "class => 64, endian => '$endian', machine => 21,
			segments => [{ vaddr => 0x1000, words => [0x0102030405060708, 9, 9] }]"
		counts "0x0000000000000009 : 2
0x0102030405060708 : 1"
		mkcore "$core" "class => 32, endian => '$endian', machine => 20,
			segments => [{ vaddr => 0x1004, words => [0x01020304, 9, 9] }]"
		counts "0x00000009 : 2
0x01020304 : 1"
	done
}

@test "-w and -e go before what the header says" {
	mkcore "$core" "segments => [{ vaddr => 0x1004, words => [0x0102030405060708, 0x0102030405060708] }]"
	counts "0x0506070801020304 : 1"
	counts "0x01020304 : 2
0x05060708 : 2" -w 4
	counts "0x0403020108070605 : 1" -e big
	counts "0x04030201 : 2
0x08070605 : 2" --word 4 --endian big
}

@test "segments may be unsorted, overlapping, empty, and share bytes of the file" {
	mkcore "$core" "segments => [
		{ vaddr => 0x9000, words => [1, 2] }, { vaddr => 0x1000, words => [1, 3] },
		{ vaddr => 0x1008, words => [3] }, { vaddr => 0x5000, memsz => 4096 }, { vaddr => 0 },
		{ vaddr => 0x7000, offset => 64, filesz => 8, memsz => 8 },
		{ vaddr => 0x8000, offset => 64, filesz => 8, memsz => 8 }]"
	counts "0x0000000000000001 : 2
0x0000000000000003 : 2
0x0000000600000001 : 2
0x0000000000000002 : 1"
}

@test "only PT_LOAD is memory, of any machine and system" {
	mkcore "$core" "machine => 0xbeef, osabi => 255, segments => [{ vaddr => 0x1000, words => [1] },
		{ type => 7, vaddr => 0x2000, words => [2, 2] }, { type => 0x60000000, vaddr => 0, words => [3] }]"
	counts "0x0000000000000001 : 1"
}

@test "what was not saved is not zero" {
	mkcore "$core" "segments => [{ vaddr => 0x1000, words => [1, 1], memsz => 1 << 20 }]"
	counts "0x0000000000000001 : 2"
	topleak -0 -o json "$core"
	is '.scanned | .bytes_not_saved == 1048576 - 16 and .words == 2 and .bytes_missing == 0'
}

@test "a hole in the file is zeros that are counted, not read" {
	mkcore "$core" "segments => [{ vaddr => 0x1004, bytes => 'abcd', hole => 1 << 38, tail => pack('Q<2', 1, 1) }]"
	run --separate-stderr -0 limited "$TOPLEAK" --no-names "$core"
	equal "$output" "0x0000000000000000 : 34359738368
0x0000000000000001 : 2"
}

@test "cut data: what is there counts, and a warning says what is missing" {
	mkcore "$core" "cut => '-12', segments => [{ vaddr => 0x1000, words => [1, 1, 1] }, { vaddr => 0x2000, words => [2, 3] }]"
	counts "0x0000000000000001 : 3"
	equal "${#stderr_lines[@]}" 1
	contains "$stderr" "topleak: $core: "
	topleak -0 -q -o json "$core"
	is '.scanned.bytes_missing == 12'
	contains "$stderr" "topleak: $core: "
}

@test "a core that is cut at any byte is read without a fault" {
	local size
	mkcore "$core.whole" "pid => 42, command => 'cmd', signal => 6, shift => 4, align => 8, table => 'end',
		segments => [$good, { vaddr => 0x2000, words => [2] }]"
	for ((size = $(stat -c %s "$core.whole") - 1; size > 0; size -= 3)); do
		head -c "$size" "$core.whole" >"$core"
		survives "cut at $size"
		[ -n "$stderr" ]
	done
}

@test "cut inside the ELF header: an error" {
	mkcore "$core" "cut => 40, segments => [$good]"
	topleak -1 "$core"
	fails "$core: "
}

@test "cut inside the program headers: every whole header counts" {
	mkcore "$core" "table => 'end', cut => -57, segments => [$good, { vaddr => 0x1000, words => [1] }, { vaddr => 0x2000, words => [2] }]"
	counts "0x000000000000600d : 9"
	contains "$stderr" "topleak: $core: "
	mkcore "$core" "class => 32, table => 'end', cut => -1, segments => [$good, { vaddr => 0x1000, words => [1] }, { vaddr => 0x2000, words => [2] }]"
	counts "0x0000600d : 9
0x00000001 : 1"
}

@test "cut before the end of the program headers, which come first: no row, a warning, exit 0" {
	mkcore "$core" "cut => 64 + 56 + 20, segments => [$good, $good, $good]"
	counts ""
	contains "$stderr" "topleak: $core: "
}

many='segments => [map { { vaddr => 4096 * $_, words => [$_ % 7 ? 7 : 1 << 20] } } 1 .. 70000]'
many_table="0x0000000000000007 : 60000
0x0000000000100000 : 10000"

@test "more than 65,535 segments" {
	mkcore "$core" "xnum => 1, $many"
	counts "$many_table"
	[ -z "$stderr" ]
	mkcore "$core" "class => 32, endian => 'big', xnum => 1, pid => 1, signal => 6, command => 'x', $many"
	counts "$(sed 's/0x00000000/0x/' <<<"$many_table")"
}

@test "more than 65,535 segments, section header 0 cut off: headers up to the first one's data" {
	# Data that could pass for further program headers, each with a word of the file.
	local segments='segments => [map { { vaddr => 4096 * $_, words => [1, 64, 1 << 16, 0, 8, 8, 1] } } 1 .. 70000]'
	local notes='pid => 1, signal => 6, command => "x"'
	mkcore "$core" "xnum => 1, align => 8, cut => -1, $segments"
	counts "0x0000000000000001 : 140000
0x0000000000000008 : 140000
0x0000000000000000 : 70000
0x0000000000000040 : 70000
0x0000000000010000 : 70000"
	mkcore "$core" "xnum => 1, align => 8, cut => -(64 + 56 * 10000), $notes, $segments"
	counts "0x0000000000000001 : 120000
0x0000000000000008 : 120000
0x0000000000000000 : 60000
0x0000000000000040 : 60000
0x0000000000010000 : 60000"
	contains "$stderr" "topleak: $core: "
}

@test "exactly 65,535 program headers need section header 0, too" {
	mkcore "$core" "xnum => 1, segments => [map { { vaddr => 4096 * \$_, words => [7] } } 1 .. 0xffff]"
	counts "0x0000000000000007 : 65535"
}

@test "cut inside the program headers, more than 65,535 of them" {
	mkcore "$core" "xnum => 1, table => 'end', cut => -(64 + 56 * 60000 + 8), $many"
	topleak -0 --no-names "$core"
	equal "$(awk '{ sum += $3 } END { print sum }' <<<"$output")" 9999
}

@test "a core without program headers or without a saved word: no row, a warning, exit 0" {
	local segments
	for segments in "" "{ vaddr => 0x1000, memsz => 4096 }" "{ vaddr => 0x1001, bytes => 'x' x 14 }"; do
		mkcore "$core" "segments => [$segments]"
		counts ""
		equal "${#stderr_lines[@]}" 1
		contains "$stderr" "topleak: $core: "
	done
	topleak -0 -o json "$core"
	is '.top == [] and .scanned.words == 0'
}

@test "process id, command and signal come from the notes" {
	local machine
	for machine in "class => 64, machine => 62" "class => 32, machine => 3"; do
		mkcore "$core" "$machine, pid => 4711, command => '/srv/app --serve', signal => 6, segments => [$good]"
		topleak -0 -o json "$core"
		is '.input | .pid == 4711 and .command == "/srv/app --serve"'
		is '.input | .signal == "SIGABRT" and .signal_number == 6'
		topleak -0 -v "$core"
		contains "$stderr" "core of /srv/app (pid 4711, SIGABRT)"
	done
}

@test "without notes there is no process" {
	mkcore "$core" "segments => [$good]"
	topleak -0 -o json "$core"
	is '.input | .pid == null and .command == null and .signal == null'
}

@test "hostile segments" {
	local max=0xffffffffffffffff segment
	for segment in \
		"offset => $max, filesz => 4096" "offset => $max - 7, filesz => 8" "offset => 64, filesz => $max" \
		"offset => $max, filesz => $max, memsz => $max" "offset => 1 << 63, filesz => 1 << 63" \
		"offset => 64, filesz => 64, memsz => 8" "offset => 64, filesz => 64, memsz => $max" \
		"offset => 64, filesz => 64, vaddr => $max - 8" "offset => 64, filesz => 64, vaddr => $max" \
		"offset => 0, filesz => 0, vaddr => $max, memsz => $max" "offset => 3, filesz => 1 << 40"; do
		mkcore "$core" "segments => [{ vaddr => 0x2000, memsz => 64, $segment }, $good]"
		survives "$segment"
		contains "$output" "600d : "
		mkcore "$core" "class => 32, machine => 3, segments => [{ vaddr => 0x2000, memsz => 64, ${segment//$max/0xffffffff} }, $good]"
		survives "32 bit: $segment"
		contains "$output" "600d : "
	done
}

@test "hostile ELF headers" {
	local field
	for field in "phentsize => 0" "phentsize => 1" "phentsize => 55" "phentsize => 57" "phentsize => 65535" \
		"phoff => 0" "phoff => 1" "phoff => 1 << 40" "phoff => 0xffffffffffffffff" "phoff => 0xffffffffffffffc8" \
		"phnum => 0" "phnum => 65534" "phnum => 65535" "machine => 0, osabi => 255" "xnum => 1, phnum => 1" \
		"xnum => 1, cut => 64" "xnum => 1, cut => 65" "xnum => 1, cut => 119"; do
		mkcore "$core" "$field, segments => [$good, $good]"
		survives "$field"
	done
}

@test "hostile notes" {
	local notes
	for notes in \
		"{ type => 4, vaddr => 0, bytes => pack('L3', 0xffffffff, 8, 1) . 'x' x 20 }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3', 5, 0xffffffff, 1) . 'CORE' }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3', 0xfffffffd, 0xfffffffd, 3) . 'x' x 20 }" \
		"{ type => 4, vaddr => 0, bytes => 'x' }" \
		"{ type => 4, vaddr => 0, offset => 0xffffffffffffffff, filesz => 64 }" \
		"{ type => 4, vaddr => 0, offset => 64, filesz => 0xffffffffffffffff }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3 a8 a*', 5, 136, 3, 'CORE', 'A' x 136) }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3 a8 a*', 5, 3, 1, 'CORE', 'AAA') }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3 a8 Q*', 5, 24, 0x46494c45, 'CORE', 1 << 60, 1, 0) }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3 a8 Q* a4', 5, 44, 0x46494c45, 'CORE', 1, 1, 0x2000, 0x1000, 1 << 63, '/etc') }" \
		"{ type => 4, vaddr => 0, bytes => pack('L3 a8 Q*', 5, 16, 6, 'CORE', 3, 0xffffffffffffffff) }"; do
		mkcore "$core" "segments => [$notes, $good]"
		survives "$notes"
		contains "$output" "600d : 9"
	done
}

@test "a hostile command in the notes is escaped wherever it is shown" {
	mkcore "$core" 'pid => 1, signal => 6, command => qq(a"b\\\\\e[31m\n\xff), segments => ['"$good"']'
	topleak -0 -v "$core"
	lacks "$stderr" $'\e'
	topleak -0 -o json "$core"
	is '.input.command | startswith("a\"b\\")'
	lacks "$output" $'\e'
}

@test "threads of NetBSD and OpenBSD: their ids, and the stacks that they use" {
	local process stack='{ vaddr => 0x7f0000, flags => 6, words => [(0x7f0010) x 8] }'
	# regs TYPE OWNER INDEX BIAS: the note of a thread whose stack pointer is so many words behind the beginning
	regs() {
		echo "{ name => '$2', type => $1, desc => pack('Q${order}*', (0) x $3, 0x7f0020 - $4, (1) x 10) }"
	}
	process="pack('L>*', 1, 160, 6, (0) x 17, 4711) . ('x' x 40) . pack('a32', 'daemon')"
	order='>'
	mkcore "$core" "machine => 43, endian => 'big', notes => [{ name => 'NetBSD-CORE', type => 1, desc => $process }, $(regs 32 'NetBSD-CORE@7' 18 2047)], segments => [$stack]"
	topleak -0 -v -n 1 "$core"
	contains "$stderr" "(pid 4711, SIGABRT)"
	contains "$stderr" "(1 thread)"
	contains "$output" "  stack of thread 7+0x10"
	mkcore "$core" "machine => 43, endian => 'big', notes => [$(regs 20 'OpenBSD@229157' 18 2047)], segments => [$stack]"
	topleak -0 -n 1 "$core"
	contains "$output" "  stack of thread 229157+0x10"
	order='<'
	mkcore "$core" "machine => 183, notes => [$(regs 32 'NetBSD-CORE@2' 31 0)], segments => [$stack]"
	topleak -0 -n 1 "$core"
	contains "$output" "  stack of thread 2+0x10"
	mkcore "$core" "machine => 183, notes => [$(regs 20 'OpenBSD@3' 31 0), $(regs 20 'OpenBSD@4' 31 0)], segments => [$stack]"
	topleak -0 -ojson "$core"
	is '.input.threads == 2'
}

@test "ESP: the addresses of tasks are no process ids" {
	mkcore "$core" "class => 32, machine => 94, pid => 1073413024, signal => 6, command => 'a', notes => [], segments => [
		{ type => 4, bytes => pack('L<3 a20 a8', 19, 8, 0x204a, 'ESP_CORE_DUMP_INFO', 'x') }, { vaddr => 0x3ffb0000, words => [1 .. 4] }]"
	topleak -0 -ojson "$core"
	is '.input.pid == null'
}

@test "a copy that broke off is empty at its end, and that is said" {
	mkcore "$core" 'segments => [{ vaddr => 0x10000, words => [(7) x 131072] }, { vaddr => 0x800000, words => [(5) x 131072] }]'
	topleak -0 -n 2 "$core"
	[ -z "$stderr" ]
	local size
	size=$(stat -c %s "$core")
	cp "$core" "$core.hole"
	truncate -s $((size / 2)) "$core.hole"
	truncate -s "$size" "$core.hole"
	topleak -0 -n 2 "$core.hole"
	contains "$stderr" "are empty, nothing but zeros"
	head -c $((size / 2)) "$core" >"$core.zeros"
	head -c $((size - size / 2)) /dev/zero >>"$core.zeros"
	topleak -0 -n 2 "$core.zeros"
	contains "$stderr" "the last 992.1 KiB of its 2.0 MiB are empty"
}
