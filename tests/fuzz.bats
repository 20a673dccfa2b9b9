#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The fuzzing targets on their first inputs, and on every input that once failed, without a fuzzing
# engine. `make fuzz` looks for new ones.

load lib/common

# Beside topleak, from the same build.
replay() {
	local target
	target=$(dirname "$TOPLEAK")/fuzz-$1
	[ -x "$target" ] || skip "make check builds it: $target"
	"$repo/tests/fuzz/seed" "$BATS_TEST_TMPDIR"
	limited "$target" "$BATS_TEST_TMPDIR/$1"/* $(find "$repo/tests/fuzz/failed/$1" -type f 2>/dev/null)
}

@test "dumps and programs" {
	replay core
}

@test "command lines" {
	replay options
}

@test "the engine against a plain counter" {
	replay engine
}

@test "what the writers write, read back" {
	replay report
}

@test "whole questions: command lines, dumps, programs, what they are compared with" {
	replay answer
}

@test "dumps that come in order: the words of the plain file" {
	replay packed
}

@test "texts, words, fields and layouts against plain loops" {
	replay find
}

@test "saved results" {
	replay saved
}

@test "heaps of managed languages" {
	replay runtime
}

@test "recordings of call stacks" {
	replay stacks
}

@test "every target is replayed, and every input that failed has one" {
	local path
	for path in "$repo"/tests/fuzz/*.c "$repo"/tests/fuzz/failed/*; do
		[[ $path == */fuzz/replay.c ]] || grep -q "^	replay $(basename "$path" .c)$" "$repo/tests/fuzz.bats" || { echo "$path" && false; }
	done
}

@test "dumps that are cut at every byte, and dumps with a bit flipped" {
	local target seed=${SEED:-$RANDOM}
	echo "SEED=$seed"
	target=$(dirname "$TOPLEAK")/fuzz-core
	[ -x "$target" ] || skip "make check builds it: $target"
	"$repo/tests/fuzz/seed" "$BATS_TEST_TMPDIR"
	cd "$BATS_TEST_TMPDIR/core"
	perl -e 'srand $ARGV[0]; local $/; my $n = 0;
		for my $name (glob "*") {
			open my $in, "<:raw", $name or die;
			my $bytes = <$in>;
			my @all = map { substr $bytes, 0, $_ } grep { $name =~ /^(linux|cut)/ } 4 .. length($bytes) - 1;
			push @all, map { my $flipped = $bytes; vec($flipped, 32 + int rand(8 * length($bytes) - 32), 1) ^= 1; $flipped } 1 .. 150;
			for (@all) { open my $out, ">:raw", "../x" . $n++ or die; print $out $_ }
		}' "$seed"
	cd ..
	find . -maxdepth 1 -name 'x*' -print0 | sort -z | limited xargs -0 "$target"
}
