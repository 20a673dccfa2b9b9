#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The leak fixture: a million objects of class A, as the kernel, gdb and qemu dump it.

load lib/common

setup_file() {
	# Made once here, or each test would wait for its own.
	leak >/dev/null
	leak_core >/dev/null
}

# count_of VALUE: its count in the output, "" if it has none
count_of() {
	awk -v value="$1" '$1 == value { print $3 }' <<<"$output"
}

# leaked VALUE: there are a million of it, and the few that the stack and registers may hold
leaked() {
	local count
	count=$(count_of "$1")
	[ "${count:-0}" -ge 1000000 ] && [ "$count" -le 1000100 ] ||
		{ printf '%s: %s times\n%s\n' "$1" "$count" "$output" && false; }
}

# Where the core has A's vtable pointers point to, asked from gdb.
vtable_pointer() {
	gdb -nx -batch -ex 'printf "0x%016lx\n", (unsigned long) &_ZTV1A + 16' "$(leak)" "$1" 2>/dev/null | tail -1
}

# The gcore and the kernel's core of one process: PROCESS.gcore and PROCESS.
one_process_twice() {
	needs gdb
	fixture process dump -k @ gdb -nx -batch -ex 'set startup-with-shell off' -ex run \
		-ex "gcore $fixtures/process.gcore" -ex 'signal SIGABRT' "$(leak)" >/dev/null ||
		skip "the kernel writes no core where it can be read"
}

@test "kernel core: value, vtable pointer and malloc size come out a million times" {
	needs gdb
	topleak -0 --no-names "$(leak_core)"
	leaked 0x00000002dfdc1c3e
	leaked "$(vtable_pointer "$(leak_core)")"
	[ "$(count_of 0x0000000000000021)" -ge 1000000 ]
}

@test "gcore: the same rows as from the kernel's core of the same process" {
	one_process_twice
	topleak -0 --no-names --min-count 100001 "$fixtures/process"
	local kernel=$output
	[ "$(wc -l <<<"$kernel")" -ge 4 ]
	topleak -0 --no-names --min-count 100001 "$fixtures/process.gcore"
	leaked "$(vtable_pointer "$fixtures/process.gcore")"
	# Both with their values in order, zero apart: each count within 0.1 %.
	paste <(grep -v '^0x0* ' <<<"$kernel" | sort) <(grep -v '^0x0* ' <<<"$output" | sort) | awk '
		$1 != $4 || $6 > 1.001 * $3 || $6 < 0.999 * $3 { print; wrong++ }
		END { exit wrong > 0 || NR < 3 }'
}

@test "gcore with all data moved to another offset: identical output" {
	needs gdb
	local core moved bytes
	core=$(fixture leak.gcore dump -g @ "$(leak)")
	moved=$BATS_TEST_TMPDIR/moved
	topleak -0 -n 1000 "$core"
	local expected=$output
	for bytes in 4 3; do
		move-core "$bytes" "$core" "$moved"
		topleak -0 -n 1000 "$moved"
		equal "$output" "$expected"
	done
}

# guest COMPILER QEMU WORD_SIZE: the leak fixture for another machine, under qemu-user
guest() {
	local compiler=$1 qemu=$2 digits=$((2 * $3)) program core vtable
	needs "$compiler" "$qemu" nm
	program=$(fixture "leak.$qemu" "$compiler" -static -no-pie -o @ "$repo/fixtures/leak.cpp")
	core=$(fixture "leak.$qemu.core" dump -k @ "$(command -v "$qemu")" "$program")
	vtable=$(nm "$program" | awk '$3 == "_ZTV1A" { print $1 }')
	topleak -0 --no-names "$core"
	leaked "$(printf "0x%016x" 12345678910 | sed "s/^0x.*\(.\{$digits\}\)$/0x\1/")"
	leaked "$(printf '0x%0*x' "$digits" $((0x$vtable + 2 * $3)))"
}

@test "32 bit, little endian: arm" { guest arm-linux-gnueabi-g++ qemu-arm 4; }
@test "32 bit, little endian: i386" { guest i686-linux-gnu-g++ qemu-i386 4; }
@test "32 bit, big endian: powerpc" { guest powerpc-linux-gnu-g++ qemu-ppc 4; }
@test "64 bit, big endian: s390x" { guest s390x-linux-gnu-g++ qemu-s390x 8; }

@test "the gdb script makes gdb say what leaked" {
	needs gdb
	"$TOPLEAK" -ogdb "$(leak_core)" | gdb -nx -q "$(leak)" "$(leak_core)" >"$BATS_TEST_TMPDIR/said" 2>&1
	contains "$(cat "$BATS_TEST_TMPDIR/said")" "vtable for A + 16"
}

@test "make demo's script shows the command and its table" {
	[ "$TOPLEAK" = "$repo/build/topleak" ] || skip "it runs build/topleak"
	run --separate-stderr -0 demo
	contains "$output" '$ build/topleak build/demo/leak.core'
	contains "$output" "  12345678910"
}
