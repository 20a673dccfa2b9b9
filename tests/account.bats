#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Where all bytes of the memory are: sums against the program headers, parts against a program that
# knows them.

load lib/common

# adds_up CORE: the parts of the account are the sum, and that is what the program headers say
adds_up() {
	topleak -0 -n 1 --types -ojson "$1"
	jq -e --arg bytes "$(memory-sum "$1")" \
		'.account | ([.parts[]] | add) == .bytes and .bytes == ($bytes | tonumber)
			and .touched_bytes == .bytes - .parts.zero_pages - .parts.reserved - .parts.left_out - .parts.missing' \
		<<<"$output" >/dev/null || {
		echo "$1: $(memory-sum "$1"): $(jq -c .account <<<"$output")"
		return 1
	}
}

parts_program() {
	fixture parts "${CC:-cc}" -O1 -o @ "$repo/fixtures/parts.c"
}

# about TRUTH: each part has what the program says, and little more
about() {
	local name bytes
	while read -r name bytes; do
		is ".account.parts.$name - $bytes | . >= 0 and . < 1048576"
	done <"$1"
}

@test "each kind of memory is where the program put it: the kernel's core, whole and packed" {
	local core
	core=$(fixture parts.core "$repo/scripts/dump" -k @ "$(parts_program)" @.truth)
	adds_up "$core"
	about "$core.truth"
	is '.account.left_out | map(select(.path == null))[0] | .bytes == .writable_bytes and .bytes >= 11 * 1048576'
	is '.account.left_out | map(select(.path != null and (.path | test("libc"))))[0] | .writable_bytes == 0 and .bytes > 1000000'
	needs zstd
	zstd -qf "$core" -o "$BATS_TEST_TMPDIR/parts.zst"
	topleak -0 --types -ojson "$BATS_TEST_TMPDIR/parts.zst"
	jq -e --arg bytes "$(memory-sum "$core")" \
		'.account | ([.parts[]] | add) == .bytes and .bytes == ($bytes | tonumber)' <<<"$output"
}

@test "each kind of memory is where the program put it: gcore, which writes what is reserved as zeros" {
	needs gdb
	local core
	core=$(fixture parts.gcore "$repo/scripts/dump" -g @ "$(parts_program)" @.truth)
	adds_up "$core"
	about "$core.truth"
}

@test "a core that is cut anywhere: the sum stays, what is gone is missing" {
	local core size cut=$BATS_TEST_TMPDIR/cut
	core=$(fixture parts.core "$repo/scripts/dump" -k @ "$(parts_program)" @.truth)
	size=$(stat -c %s "$core")
	for part in $((size / 3)) $((size / 2 + 1234)) $((size - 4097)) $((size - 3)); do
		head -c "$part" "$core" >"$cut"
		adds_up "$cut"
		is ".account.parts.missing == $((size - part))"
	done
}

@test "the lines for people: percentages of what was touched, names of what was left out" {
	local core
	core=$(fixture parts.core "$repo/scripts/dump" -k @ "$(parts_program)" @.truth)
	topleak -0 --types "$core"
	contains "$output" "of which were touched"
	contains "$output" "left out when the dump was written: no file 11."
	sed -n '/^memory: /,$ s/.* \([0-9.]*\) %.*/\1/p' <<<"$output" |
		awk '{ sum += $1 } END { exit !(sum > 99.4 && sum < 100.6) }'
}

# guest COMPILER QEMU
guest() {
	needs "$1" "$2"
	local core
	core=$(fixture "parts.$2.core" "$repo/scripts/dump" -k @ "$(command -v "$2")" \
		"$(fixture "parts.$2" "$1" -O1 -static -o @ "$repo/fixtures/parts.c")" @.truth)
	adds_up "$core"
	is '.account.parts.blocks_unnamed >= 3200000 and .account.parts.blocks_free >= 1600000'
}

@test "32 bit: i386" { guest i686-linux-gnu-gcc qemu-i386; }
@test "64 bit, big endian: s390x" { guest s390x-linux-gnu-gcc qemu-s390x; }

@test "memory that is there twice counts once; odd ends, holes, no bytes at all" {
	local core=$BATS_TEST_TMPDIR/core
	mkcore "$core" "segments => [
		{ vaddr => 0x1000, bytes => 'x' x 5000 },
		{ vaddr => 0x1800, bytes => 'y' x 3001, memsz => 9000 },
		{ vaddr => 0x2000, bytes => 'z' x 100 },
		{ vaddr => 0x9003, bytes => 'a' x 77, hole => 100000, tail => 'end' },
		{ vaddr => 0x100000, bytes => '', memsz => 4096 },
		{ vaddr => 0xfffffffffffff000, bytes => 'b' x 4096 }]"
	adds_up "$core"
	mkcore "$core" "class => 32, endian => 'big', machine => 20, segments => [
		{ vaddr => 0x1000, bytes => \"\\0\" x 8192, memsz => 20000 },
		{ vaddr => 0xfffff000, bytes => 'b' x 4096 }]"
	adds_up "$core"
	is '.account.parts.zero_pages + .account.parts.reserved == 8192 and .account.parts.left_out == 11808'
}

@test "real cores of many systems: the sums agree" {
	[ -d "$cores" ] || skip "no $cores"
	needs zstd
	for packed in "$cores"/*.core.zst; do
		zstd -qdf --sparse "$packed" -o "$BATS_TEST_TMPDIR/core"
		adds_up "$BATS_TEST_TMPDIR/core"
	done
}
