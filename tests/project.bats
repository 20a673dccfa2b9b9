#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The project itself: build, installation, layers, documentation.

load lib/common

setup() {
	[ "$TOPLEAK" = "$repo/build/topleak" ] || skip "the same for every build"
	cd "$repo"
	# The make that runs the tests must not hand its options and jobs on to those below.
	unset MAKEFLAGS MFLAGS
}

# build COMPILER: builds without a warning, apart from the build that is tested
build_with() {
	needs "$1"
	run -0 make BUILD="$BATS_TEST_TMPDIR/build" CC="$1" CFLAGS="-O2 -Werror"
	lacks "$output" "warning:"
	"$BATS_TEST_TMPDIR/build/topleak" --version
}

@test "gcc builds without a warning" { build_with gcc; }
@test "clang builds without a warning" { build_with clang; }

@test "without jansson there is no JSON, and a message says so" {
	run -0 make BUILD="$BATS_TEST_TMPDIR/build" HAVE_JANSSON=0 CFLAGS=-Werror
	TOPLEAK=$BATS_TEST_TMPDIR/build/topleak
	run -2 --separate-stderr "$TOPLEAK" -o json /dev/null
	fails "json" "jansson"
	topleak -0 --version
	contains "$output" "Built without jansson (JSON)."
	TOPLEAK=$repo/build/topleak topleak -0 --version
	[[ $output != *without\ jansson* ]]
	mkcore "$BATS_TEST_TMPDIR/core" 'segments => [{ vaddr => 0, words => [7] }]'
	topleak -0 --no-names "$BATS_TEST_TMPDIR/core"
	equal "$output" "0x0000000000000007 : 1"
}

@test "without a compiler or libelf the build says what to do" {
	run -2 --separate-stderr make CC=no-such-compiler BUILD="$BATS_TEST_TMPDIR/build"
	contains "$stderr" "no-such-compiler cannot build with libelf; scripts/setup installs what is missing"
}

@test "builds in two folders are identical" {
	local folder
	for folder in one "two/longer"; do
		mkdir -p "$BATS_TEST_TMPDIR/$folder"
		cp -r Makefile src record "$BATS_TEST_TMPDIR/$folder"
		make -s -C "$BATS_TEST_TMPDIR/$folder" build/topleak CFLAGS=-g
	done
	cmp "$BATS_TEST_TMPDIR/one/build/topleak" "$BATS_TEST_TMPDIR/two/longer/build/topleak"
}

@test "make install and uninstall leave nothing behind" {
	local root="$BATS_TEST_TMPDIR/a root"
	make -s install DESTDIR="$root" PREFIX=/opt/tools
	[ -z "$(find "$root" ! -type d ! -path "$root/opt/tools/*")" ]
	"$root/opt/tools/bin/topleak" --version
	[ -f "$root/opt/tools/share/man/man1/topleak.1" ]
	make uninstall DESTDIR="$root" PREFIX=/opt/tools
	equal "$(find "$root" ! -type d -o -name '*topleak*')" ""
}

@test "includes go down the table of layers only" {
	includes src
}

@test "the check of includes finds what is not allowed" {
	cp -r src "$BATS_TEST_TMPDIR/src"
	echo '#include "report/report.h"' >>"$BATS_TEST_TMPDIR/src/base/error.h"
	run -1 includes "$BATS_TEST_TMPDIR/src"
	contains "$output" 'base may not include "report/report.h"'
}

@test "only main knows stdout" {
	run grep -rnE '\b(v?printf|puts|putchar)\(|\bstdout\b' src --include='*.c'
	equal "$(grep -v '^src/main.c:' <<<"$output")" ""
}

# The options, long and short, in what is read: one a line, sorted.
options() {
	grep -oE -- '--?[a-zA-Z][a-zA-Z-]*' | sort -u
}

# The options of --help: its first column.
help_options() {
	"$TOPLEAK" --help | sed -n 's/^ \+\(-.*\)   *.*/\1/p' | options
}

@test "every option in --help is an option" {
	local option unknown
	topleak -2 --no-such-option
	unknown=$stderr
	for option in $(help_options); do
		run --separate-stderr "$TOPLEAK" "$option"
		[ "$stderr" != "${unknown//--no-such-option/$option}" ] || { echo "$option" && false; }
		lacks "$stderr" "no such option"
	done
}

@test "--help and man page know the same options" {
	equal "$(sed -n '/^\.It Fl /s/Fl /-/gp' man/topleak.1 | options)" "$(help_options)"
}

@test "the man page has every JSON field" {
	local core=$BATS_TEST_TMPDIR/core field
	mkcore "$core" 'pid => 1, command => "x", signal => 11, segments => [{ vaddr => 0, words => [0, 1, 2] }]'
	for field in $("$TOPLEAK" -o json "$core" | jq -r '[paths | .[] | strings] | unique[]'); do
		grep -qw -- "$field" man/topleak.1 || { echo "$field" && false; }
	done
}

@test "the man page has no fault that mandoc knows" {
	needs mandoc
	run -0 mandoc -Tlint -Wwarning man/topleak.1
	# It takes quotes for ended where the line ends.
	mandoc -T ascii man/topleak.1 | sed 's/.\x08//g' >"$BATS_TEST_TMPDIR/page"
	grep -q EXAMPLES "$BATS_TEST_TMPDIR/page"
	run -1 grep '""' "$BATS_TEST_TMPDIR/page"
	equal "$output" ""
}

@test "the sources are formatted" {
	needs clang-format
	find src -name '*.[ch]' -exec clang-format --dry-run -Werror {} +
}

@test "setup uses no network where nothing is missing" {
	needs strace
	[ -z "$(scripts/setup -n)" ] || skip "something is missing"
	run -0 strace -f -qq -o "$BATS_TEST_TMPDIR/calls" -e trace=connect,execve scripts/setup
	equal "$output" ""
	contains "$(cat "$BATS_TEST_TMPDIR/calls")" execve
	run -1 grep -E 'AF_INET|apt-get|sudo' "$BATS_TEST_TMPDIR/calls"
}

@test "dump and setup refuse what they do not know" {
	run -2 scripts/dump -x
	run -2 scripts/dump only-one-argument
	run -2 scripts/setup nonsense
}

@test "dump sets the coredump_filter" {
	cd "$BATS_TEST_TMPDIR"
	dump -k -f 0x33 default.core "$(leak)" || skip "the kernel writes no core where it can be read"
	dump -k -f 0x37 more.core "$(leak)"
	[ "$(stat -c %s more.core)" -gt "$(stat -c %s default.core)" ]
}
