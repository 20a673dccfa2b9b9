#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The command line: what is accepted, what is refused, and with which exit status.

load lib/common

setup() {
	core=$BATS_TEST_TMPDIR/core
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [(7) x 3, (8) x 2, 9] }]'
}

@test "unknown options and no file: status 2, one line" {
	topleak -2
	fails "no file"
	topleak -2 --no-such-option "$core"
	fails "--no-such-option"
	topleak -2 -Z "$core"
	fails "Z"
	topleak -2 --top
	fails "--top"
}

@test "values out of range or with trailing junk: status 2, one line that names option and value" {
	local name option value
	while read -r name option value; do
		topleak -2 "$option" "$value" "$core"
		fails "--$name: " "$value"
	done <<-EOF
		top -n 0
		top -n x
		top -n -1
		top -n 1000001
		top -n 10x
		top -n 0x
		top -n 18446744073709551617
		top --top 0
		top --size 0
		word -w 3
		word -w 16
		word -w 8x
		endian -e middle
		output -o xml
		offset -s -1
		offset -s 1y
		offset -s 18446744073709551616
		limit -l z
		threads -j 0
		threads -j x
		memory -m 15M
		memory -m 16Q
		memory -m 16MM
		memory -m 99999999999999T
		min-count --min-count x
		min-count --min-count -1
	EOF
	topleak -2 -n "" "$core"
	fails "--top: "
}

@test "numbers are decimal or hex, sizes take K, M, G and T" {
	topleak -0 --no-names -n 0x2 "$core"
	equal "${#lines[@]}" 2
	topleak -0 --no-names -n 1000000 "$core"
	equal "${#lines[@]}" 3
	head -c 3000 /dev/zero >"$core"
	topleak -0 --no-names -s 1K "$core"
	equal "$output" "0x0000000000000000 : 247"
	topleak -0 --no-names -s 0x400 "$core"
	equal "$output" "0x0000000000000000 : 247"
	local size
	for size in 16M 16384K 0x1000000 1G 1T; do
		topleak -0 --no-names -m "$size" "$core"
	done
}

@test "-n, --top, --min-count cut the table" {
	topleak -0 --no-names --top 1 "$core"
	equal "$output" "0x0000000000000007 : 3"
	topleak -0 --no-names --min-count 2 "$core"
	equal "$output" "0x0000000000000007 : 3
0x0000000000000008 : 2"
	topleak -0 --no-names --min-count 4 "$core"
	equal "$output" ""
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [1 .. 20] }]'
	topleak -0 --no-names "$core"
	equal "${#lines[@]}" 10
}

@test "an old command line of topleaked works" {
	perl -e 'print "skip", pack "Q<*", 7, 7, 8, 8, 8, 9' >"$core"
	topleak -0 --no-names --size 1 --offset 4 --limit 4 --output human "$core"
	equal "$output" "0x0000000000000007 : 2"
	topleak -0 --size=2 --offset=4 --limit=5 --output=gdb "$core"
	equal "$(grep '^x ' <<<"$output" | xargs)" "x 0x0000000000000008 x 0x0000000000000007"
	topleak -0 -n1 -s4 -l5 -ohuman --time "$core"
	contains "$output" "0x0000000000000008 : 3"
}

@test "-s and -l read the core as plain bytes, and a note says that it need not be" {
	topleak -0 --no-names -s 64 -l 1 "$core"
	equal "$output" "0x0000000600000001 : 1"
	equal "${#stderr_lines[@]}" 1
	contains "$stderr" "topleak: $core: "
	contains "$stderr" "align"
	topleak -0 -q -r "$core"
	contains "$stderr" "align"
}

@test "options may follow the file, and -- ends them" {
	topleak -0 "$core" --no-names -n 1
	equal "$output" "0x0000000000000007 : 3"
	cd "$BATS_TEST_TMPDIR"
	mv core ./-n
	topleak -0 --no-names -n 1 -- -n
	equal "$output" "0x0000000000000007 : 3"
}

@test "-h and -V print to stdout and need no file" {
	topleak -0 --help
	contains "$output" "Usage: topleak"
	[ -z "$stderr" ]
	local help=$output
	topleak -0 -h
	equal "$output" "$help"
	topleak -0 --version
	[[ $output =~ ^topleak\ [0-9]+\.[0-9]+ ]]
	[ -z "$stderr" ]
	local version=$output
	topleak -0 -V
	equal "$output" "$version"
}

@test "more rows than the memory holds: status 2, and -m as the message says does" {
	topleak -2 -n 1000000 -m 16M "$core"
	fails "--top 1000000" "--memory"
	[[ $stderr =~ -m\ ([0-9]+M) ]]
	topleak -0 -n 1000000 -m "${BASH_REMATCH[1]}" "$core"
}

@test "-ogdb takes one file" {
	topleak -2 -ogdb "$core" "$core"
	fails "gdb"
}

@test "any number of threads and any memory limit: the same output" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [map { ($_ * 2654435761) % 50021 } 1 .. 200_000] }]'
	topleak -0 --no-names -n 5000 "$core"
	local expected=$output
	equal "${#lines[@]}" 5000
	local how
	for how in "-j 1" "-j 2" "-j 7" "-m 16M" "-m 1G -j 3"; do
		# shellcheck disable=SC2086
		topleak -0 --no-names -n 5000 $how "$core"
		[ "$output" = "$expected" ]
	done
}

@test "a slip in an option's name, or a file that was taken for an argument: what was meant" {
	topleak -2 --typs "$core"
	fails "--typs: no such option" "--types, --type;"
	topleak -2 --mem=1 "$core"
	fails "--mem=1: more than one" "--member, " "--memory"
	topleak -2 --xyz "$core"
	fails "--xyz: no such option; see topleak --help"
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [7] }]'
	topleak -2 --type "$core"
	fails "no file" "'$core'" "--types?"
	topleak -2 --find "$core"
	fails "no file" "'$core'" "--find"
	topleak -2 ""
	fails "empty"
	topleak -2 -m 1K "$core"
	fails "from 16M to 64T"
}

@test "programs and folders for names that are not there" {
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [7] }]'
	local option
	for option in --sysroot --debug-dir --exe; do
		topleak -1 "$option" "$BATS_TEST_TMPDIR/none" "$core"
		fails "$option: $BATS_TEST_TMPDIR/none: No such file or directory"
	done
	topleak -1 --sysroot "$core" "$core"
	fails "$core: is not a directory"
	topleak -1 --exe "$BATS_TEST_TMPDIR" "$core"
	fails "is a directory" "the program that dumped core"
	topleak -0 "$TOPLEAK" "$TOPLEAK" "$core"
	contains "$stderr" "$TOPLEAK: a program that no dump follows"
}

@test "--help has the options in groups, in lines of 80 columns" {
	topleak -0 --help
	equal "$(grep -E '^[A-Z][A-Za-z ]+:$' <<<"$output" | tr '\n' ' ')" \
		"Objects by type: Rows: A closer look: Output: Input: Names: The run: "
	[ -z "$(awk 'length > 79' <<<"$output")" ]
}
