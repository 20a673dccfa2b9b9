#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What sanitizers do not see: words of memory that nobody has set, in the program as it is delivered.

load lib/common

setup() {
	needs valgrind
	! sanitized || skip "sanitizers have their own malloc"
	valgrind -q --error-exitcode=99 /bin/true || skip "valgrind does not work here"
	cd "$BATS_TEST_TMPDIR" || return
	mkcore core 'pid => 4711, command => "/srv/app --serve", signal => 6, segments => [
		{ vaddr => 0x1000, words => [map { $_ % 7 } 1 .. 70], memsz => 1 << 20 },
		{ vaddr => 0x30004, bytes => "GET /index.html HTTP/1.1\0\0" x 900 . "x" },
		{ vaddr => 0x10000000, bytes => pack("Q<*", map { ($_ * 2654435761) % 4294967291 } 1 .. 90000) }]'
}

# sound ARG...: no error, no leak, and the output is the same as without valgrind; standard input is core
sound() {
	local expected
	expected=$(cat core | "$TOPLEAK" "$@" 2>/dev/null)
	run --separate-stderr -0 valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
		"$TOPLEAK" "$@" < <(cat core)
	equal "$output" "$expected"
	lacks "$stderr" "=="
}

@test "words: text, JSON, CSV, a script for gdb" {
	sound -v -m 16M -j 2 core
	sound -m 16M -k text,heap,anon -o json core
	sound -n 1000 --min-count 2 -o csv core
	sound -o gdb core
	sound -w 4 -e big -s 3 -l 1000 core
}

@test "looking closer: texts, strings, words, fields, the layout" {
	sound -m 16M --find index core
	sound --strings --ignore-case -o json core
	sound --find 0x5 --member 8:uint32,-4:int16,16:text core
	sound --find 0x5 --around -o csv core
}

@test "a program with symbols: names, the table of types" {
	local core
	core=$(leak_core)
	sound -n 20 "$core"
	sound --types "$core"
	sound --type A --around "$core"
}

@test "compressed, through a pipe, cut, and what is no core" {
	local packer
	for packer in gzip zstd; do
		command -v "$packer" >/dev/null || continue
		"$packer" -c core >packed
		sound --no-names -m 16M packed
		head -c -9 packed >cut
		sound --no-names -m 16M cut
	done
	sound --no-names -m 16M -
	head -c 3000 core >cut
	sound cut
}
