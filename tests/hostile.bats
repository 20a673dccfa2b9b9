#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What a hostile or damaged dump must not bring about: endless work, floods of text, more memory than
# was allowed, wrong counts.

load lib/common

setup() {
	core=$BATS_TEST_TMPDIR/core
	good="{ vaddr => 0x1000, words => [(0x600d) x 9] }"
}

# quick ARG...: topleak ends within twenty seconds, whatever its status
quick() {
	run --separate-stderr limited "$TOPLEAK" "$@"
	[ "$status" -le 1 ] || { echo "status $status" && false; }
}

@test "an error message with a long path still says what is wrong" {
	local path=$BATS_TEST_TMPDIR part
	part=$(printf 'd%.0s' {1..200})
	topleak -1 "$path/$part/$part/$part/$part/$part/$part/$part"
	fails "$path" "No such file or directory"
}

@test "no argument at all, not even the program's name" {
	needs perl
	# Linux before 5.18 gives a program no argv[0] then; the loader of later ones does the same.
	run --separate-stderr perl -e 'exec { $ARGV[0] } "" or die' "$TOPLEAK"
	[ "$status" -eq 2 ]
	fails "no file"
}

@test "seventy thousand segments past the end of the address space: one warning" {
	mkcore "$core" "xnum => 1, segments => [$good,
		map { { vaddr => -4096 * \$_, offset => 1 << 40, filesz => 1 << 62 } } 1 .. 70000]"
	quick --no-names "$core"
	equal "$output" "0x000000000000600d : 9"
	[ "${#stderr_lines[@]}" -eq 2 ]
	contains "$stderr" "70000 segments go past the end of the address space"
}

@test "billions of program headers in a hole of the file: an error, at once" {
	mkcore "$core" "xnum => 1, segments => [$good]"
	# sh_info of section header 0, which is at the end
	local size
	size=$(stat -c %s "$core")
	printf '\xff\xff\xff\xff' | dd of="$core" bs=1 seek=$((size - 20)) conv=notrunc status=none
	truncate -s 256G "$core"
	quick "$core"
	fails "program headers"
}

@test "a hundred thousand note segments with the same hundred thousand notes" {
	local note="pack('L3 a8', 5, 0, 99, 'CORE')"
	mkcore "$core" "xnum => 1, segments => [$good, { type => 4, vaddr => 0, bytes => $note x 100000 },
		map { { type => 4, vaddr => 0, offset => 8 << 20, filesz => 2 << 20 } } 1 .. 100000]"
	quick --no-names "$core"
	equal "$output" "0x000000000000600d : 9"
}

@test "more than 2^64 bytes in all: an error, not a count that went round" {
	local huge=$((1 << 62))
	mkcore "$core" "segments => [map { { vaddr => 0, offset => 0, filesz => $huge } } 1 .. 5]"
	truncate -s $huge "$core" 2>/dev/null || skip "no file system for files of 4 EiB here"
	quick --no-names "$core"
	fails "2^64"
}

@test "a file that is cut while it is read: an error, even where a hole was" {
	needs cc
	local faults
	faults=$(fixture faults.so cc -shared -fPIC -D_GNU_SOURCE -o @ "$repo/tests/faults.c" -ldl)
	! sanitized || skip "sanitizers have their own malloc"
	head -c 3M /dev/urandom >"$core"
	truncate -s 1G "$core"
	local n
	for n in 3 5 9; do
		truncate -s 1G "$core"
		run --separate-stderr -1 env LD_PRELOAD="$faults" FAULT=pread:$n:cut FAULT_FILE="$core" \
			"$TOPLEAK" --raw --no-names -j 1 "$core"
		fails "changes while it is read"
	done
}

@test "a core that is cut while it is read: what is gone behind a mapping is an error, and no SIGBUS" {
	needs cc
	! sanitized || skip "sanitizers have their own malloc"
	local faults
	faults=$(fixture faults.so cc -shared -fPIC -D_GNU_SOURCE -o @ "$repo/tests/faults.c" -ldl)
	# So little at once is copied from the mapping.
	mkcore "$core" "segments => [map { { vaddr => \$_ << 16, bytes => 'text' x 4096 } } 1 .. 100]"
	cp "$core" "$core.whole"
	local question
	for question in '' --strings '--find text' '--find 0x7478657474786574 --around'; do
		cp "$core.whole" "$core"
		# shellcheck disable=SC2086 # an argument a word
		run --separate-stderr -1 env LD_PRELOAD="$faults" FAULT=pread:1:cut FAULT_FILE="$core" \
			"$TOPLEAK" --no-names -j 2 $question "$core"
		fails "changes while it is read"
	done
}

@test "a file that is written to while it is read: an answer, but an error" {
	! sanitized || skip "sanitizers have their own malloc"
	needs cc zstd
	local faults
	faults=$(fixture faults.so cc -shared -fPIC -D_GNU_SOURCE -o @ "$repo/tests/faults.c" -ldl)
	head -c 3M /dev/urandom >"$core"
	zstd -q "$core" -o "$core.zst"
	local file arguments
	for file in "$core" "$core.zst"; do
		for arguments in '' --strings '--find 1'; do
			# shellcheck disable=SC2086 # an argument a word
			run --separate-stderr -1 env LD_PRELOAD="$faults" FAULT=pread:4:touch FAULT_FILE="$file" \
				"$TOPLEAK" --raw --no-names $arguments "$file"
			contains "$stderr" "$file: was written to while it was read"
			[ -n "$output" ]
		done
	done
}

@test "as many rows as fit --memory do not make it use more" {
	! sanitized || skip "sanitizers need more"
	local raw=$BATS_TEST_TMPDIR/raw
	perl -e 'for (1 .. 30) { print pack "Q<*", map { int(rand(1 << 30)) * 4096 + 77 } 1 .. 100000 }' >"$raw"
	zstd -q -1 "$raw" -o "$raw.zst"
	local file
	for file in "$raw" "$raw.zst"; do
		run --separate-stderr -0 peak "$TOPLEAK" --raw --no-names -m 16M -n 200000 -j 4 "$file"
		[ "${stderr_lines[-1]}" -lt $((20 * 1024)) ] || { echo "peak: ${stderr_lines[-1]} kB" && false; }
		equal "${#lines[@]}" 200000
		run --separate-stderr -0 peak "$TOPLEAK" --raw --no-names -m 48M -n 1000000 -j 4 "$file"
		[ "${stderr_lines[-1]}" -lt $((52 * 1024)) ] || { echo "peak: ${stderr_lines[-1]} kB" && false; }
	done
}
