#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Inputs that cannot be read, that are no cores, and that are no memory.

load lib/common

setup() {
	file=$BATS_TEST_TMPDIR/file
}

@test "a missing file, a directory, a device, an empty file: status 1, one line" {
	topleak -1 "$file"
	fails "$file: " "No such file or directory"
	topleak -1 "$BATS_TEST_TMPDIR"
	fails "$BATS_TEST_TMPDIR: " "irectory"
	run --separate-stderr -1 limited "$TOPLEAK" /dev/zero
	fails "/dev/zero: "
	run --separate-stderr -1 limited "$TOPLEAK" /dev/null
	fails "/dev/null: "
	: >"$file"
	topleak -1 "$file"
	fails "$file: " "empty"
	topleak -1 --raw "$file"
	fails "$file: " "empty"
}

@test "a FIFO is read like a pipe" {
	mkcore "$file.core" 'segments => [{ vaddr => 0x1000, words => [7, 7, 8] }]'
	mkfifo "$file"
	cat "$file.core" >"$file" 3>&- &
	run --separate-stderr -0 limited "$TOPLEAK" --no-names -n 1 "$file"
	equal "$output" "0x0000000000000007 : 2"
}

@test "a file that may not be read: status 1, one line" {
	needs setpriv
	chmod 711 "$BATS_RUN_TMPDIR" "$BATS_FILE_TMPDIR" "$BATS_TEST_TMPDIR" 2>/dev/null || true
	echo 12345678 >"$file"
	chmod 0 "$file"
	cp "$TOPLEAK" "$BATS_TEST_TMPDIR/topleak"
	run --separate-stderr -1 as_other "$BATS_TEST_TMPDIR/topleak" "$file"
	fails "$file: " "Permission denied"
}

@test "an executable, a library and an object file are no cores: status 1, --raw reads them" {
	needs readelf cc
	local library
	echo 'int main(void) { return 0; }' >"$file.c"
	cc -c -o "$file.o" "$file.c"
	library=$(ldd "$(command -v cc)" | awk '$3 ~ "/libc[.]" { print $3 }')
	for file in "$(command -v cc)" "$library" "$file.o"; do
		topleak -1 "$file"
		fails "$file: " "--raw"
		topleak -0 --raw -n 1 "$file"
		contains "$output" "0x0000000000000000 : "
	done
}

@test "anything else is raw bytes, and stderr says so" {
	perl -e 'print pack("Q<*", 1, 1, 2), "tail"' >"$file"
	topleak -0 --no-names "$file"
	equal "$output" "0x0000000000000001 : 2
0x0000000000000002 : 1"
	equal "${#stderr_lines[@]}" 1
	contains "$stderr" "topleak: $file: "
	contains "$stderr" "raw"
	topleak -0 --no-names -q "$file"
	contains "$stderr" "raw"
	topleak -0 --raw "$file"
	[ -z "$stderr" ]
}

@test "raw bytes: 8 bytes little-endian unless -w and -e say otherwise, from the offset on" {
	printf 'x\1\2\3\4\5\6\7\10\1\2\3\4\5\6\7\10\11\11' >"$file"
	topleak -0 --no-names -r -s 1 "$file"
	equal "$output" "0x0807060504030201 : 2"
	topleak -0 --no-names -r -s 1 -e big "$file"
	equal "$output" "0x0102030405060708 : 2"
	topleak -0 --no-names -r -s 1 -w 4 -l 3 -e big "$file"
	equal "$output" "0x01020304 : 2
0x05060708 : 1"
}

@test "a last, partial word does not count" {
	printf '1234567' >"$file"
	topleak -0 --no-names -r "$file"
	equal "$output" ""
	printf '12345678' >>"$file"
	topleak -0 --no-names -r "$file"
	equal "$output" "0x3137363534333231 : 1"
}

@test "an offset at or beyond the end of the file: no row, one line" {
	printf '12345678' >"$file"
	local offset
	for offset in 8 9 9223372036854775807; do
		run --separate-stderr "$TOPLEAK" --no-names -s "$offset" "$file"
		[ "$status" -le 1 ]
		fails "$file: "
	done
}

@test "a file name that could upset a terminal is escaped" {
	topleak -1 "$BATS_TEST_TMPDIR/"$'a\e[31m\nb'
	fails 'a\e[31m\nb'
}

@test "several files: a heading each, JSON by line, a column in CSV; a bad one does not stop the rest" {
	mkcore "$file.a" 'segments => [{ vaddr => 0x1000, words => [7] }]'
	mkcore "$file.b" 'segments => [{ vaddr => 0x1000, words => [8] }]'
	topleak -0 --no-names "$file.a" "$file.b"
	contains "$output" "$file.a"
	contains "$output" "0x0000000000000008 : 1"
	topleak -0 -o json "$file.a" "$file.b"
	equal "$(jq -r .input.path <<<"$output")" "$file.a
$file.b"
	equal "${#lines[@]}" 2
	topleak -0 -o csv "$file.a" "$file.b"
	equal "${#lines[@]}" 3
	equal "${lines[2]}" "$file.b,0x0000000000000008,1,number,8"
	topleak -1 --no-names "$file.missing" "$file.b"
	contains "$output" "0x0000000000000008 : 1"
}
