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

@test "other kinds of file are refused, with what to do" {
	local name magic advice
	while IFS='|' read -r name magic advice; do
		printf "$magic%0600d" 0 >"$core.other"
		topleak -1 "$core.other"
		fails "$core.other" "$name" "$advice"
		# Whoever wants its bytes can have them.
		topleak -0 --raw -n 1 "$core.other"
	done <<-'END'
		apport|ProblemType: Crash\nArchitecture: amd64\n|apport-unpack
		compressed kdump|DISKDUMP|crash
		flattened kdump|makedumpfile\0|makedumpfile -R
		LiME|EMiL\1\0\0\0|volatility
		Java heap dump|JAVA PROFILE 1.0.2\0|MAT
		Git LFS|version https://git-lfs.github.com/spec/v1\n|git lfs pull
		HTML|<!DOCTYPE html><html>|fetch the dump again
		HTML|<html>|fetch the dump again
		ESP|\xe9\x06\x02\x20AAAA%016dBBBBBBBB\x32\x54\xcd\xab|espcoredump
		heap snapshot of V8|{"snapshot":{"meta":{"node_fields":|Chrome
	END
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
