#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Compressed cores, archives and other kinds of dumps: never counted as if they were memory.

load lib/common

setup() {
	core=$BATS_TEST_TMPDIR/core
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [1 .. 100] }]'
}

# refused FILE HOW: the message names HOW to unpack and --raw, which does read it
refused() {
	topleak -1 "$1"
	fails "$1: " "$2" "--raw"
	topleak -0 --raw "$1"
	[ "${#lines[@]}" -ge 1 ]
}

@test "compressed cores are read as if they were not" {
	topleak -0 -n 50 "$core"
	local packer expected=$output
	for packer in gzip bzip2 xz lz4 zstd; do
		needs "$packer"
		"$packer" -c "$core" >"$core.packed"
		topleak -0 -n 50 "$core.packed"
		equal "$output" "$expected"
		[ -z "$stderr" ]
	done
}

@test "archives are refused" {
	tar -cf "$core.tar" -C "$BATS_TEST_TMPDIR" core
	refused "$core.tar" "tar"
	needs ar
	ar rc "$core.a" "$core"
	refused "$core.a" "ar "
	printf 'PK\3\4%0100d' 0 >"$core.zip"
	refused "$core.zip" "unzip"
}

@test "minidumps and Mach-O files are refused" {
	printf 'MDMP%0100d' 0 >"$core.dmp"
	refused "$core.dmp" "minidump"
	local magic
	for magic in '\xcf\xfa\xed\xfe' '\xce\xfa\xed\xfe' '\xfe\xed\xfa\xcf' '\xfe\xed\xfa\xce'; do
		printf "$magic%0100d" 0 >"$core.macho"
		refused "$core.macho" "Mach-O"
	done
}
