#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Compressed dumps: the same table as for the plain file, whatever they are packed with, and what is
# left of damaged ones.

load lib/common

packers="gzip bzip2 xz lz4 zstd"

setup() {
	"$TOPLEAK" --version >/dev/null
	core=$BATS_TEST_TMPDIR/core
	packed=$BATS_TEST_TMPDIR/packed
	unpacks || skip "built without libarchive"
}

# Whether this build can unpack anything.
unpacks() {
	printf '12345678' | gzip >"$packed"
	"$TOPLEAK" -r "$packed" >/dev/null 2>&1
}

# With -m 16M the beginning that is kept is 1 MiB: this core is longer, and read in order. Segments
# overlap, are unsorted and at odd offsets; some share their bytes.
large_core() {
	mkcore "$core" 'align => 8, shift => 4, pid => 42, command => "/srv/app", signal => 6, segments => [
		{ vaddr => 0x70000000, bytes => do { use integer; pack("q<*", map { $_ * -7046029254386353131 } 1 .. 200_000) } },
		{ vaddr => 0x10000004, bytes => pack("Q<*", map { $_ * 77_777_777 % 5003 } 1 .. 300_000) . "abc" },
		{ vaddr => 0x8000, words => [(7) x 50_000], memsz => 1 << 20 },
		{ vaddr => 0x20000001, offset => 123457, filesz => 1_500_001, memsz => 1_500_001 },
		map { { vaddr => 0x40000000 + 0x10000 * $_, offset => 1_048_576 + 4 * $_, filesz => 4096 + $_, memsz => 8192 } } 1 .. 300]'
}

# same FILE [OPTION...]: the table of FILE is that of $core
same() {
	topleak -0 --no-names -n 50 "${@:2}" "$core"
	local table=$output
	run --separate-stderr -0 limited "$TOPLEAK" --no-names -n 50 "${@:2}" "$1"
	equal "$output" "$table"
}

# bytes NUMBER OFFSET FILE: overwrite that many bytes with 0xa5
spoil() {
	perl -e 'open my $f, "+<", $ARGV[2] or die; seek $f, $ARGV[1], 0; print $f "\xa5" x $ARGV[0]' "$@"
}

@test "every format gives the table of the plain file, read at once or in order" {
	local packer memory
	needs $packers
	large_core
	for packer in $packers "lz4 -l" lzip; do
		command -v ${packer%% *} >/dev/null || continue
		$packer -c <"$core" >"$packed"
		for memory in 16M 128M; do
			same "$packed" -m "$memory"
			[ -z "$stderr" ] || { echo "$packer: $stderr" && false; }
			same "$packed" -m "$memory" -w 4 -e big -j 4
		done
	done
}

# compressed: up to 255 bytes of standard input as compress(1) could write them, each as a code of 9 bits
compressed() {
	perl -e 'local $/; binmode STDIN;
		print "\x1f\x9d\x90", pack "b*", join "", map { unpack "b9", pack "S<", $_ } unpack "C*", <STDIN>'
}

@test "compress: the table of the plain file; cut, damaged, or packed twice: what is left, or a message" {
	local size
	perl -e 'print pack "Q<*", map { $_ % 7 } 1 .. 26' >"$core"
	compressed <"$core" >"$packed"
	same "$packed" -r
	for size in 2 3 4 100; do
		head -c "$size" "$packed" >"$packed.cut"
		run --separate-stderr "$TOPLEAK" -r --no-names "$packed.cut"
		[ "$status" -eq $((size < 100)) ]
	done
	printf '\x1f\x9d\xff\1\2\3' >"$packed.odd"
	topleak -1 "$packed.odd"
	fails "its compress data are damaged or cut"
	compressed <"$packed" >"$packed.twice"
	topleak -1 -r "$packed.twice"
	fails "its compress data are damaged or cut"
}

@test "every real core, in every format" {
	[ -d "$cores" ] || skip "no $cores"
	local each name packer wrong=()
	needs $packers
	for each in "$cores"/*.core.zst; do
		name=$(basename "$each" .core.zst)
		zstd -qdf --sparse "$each" -o "$core"
		for packer in "gzip -1" bzip2 "xz -0" lz4 zstd; do
			# A hundred megabytes of zeros take bzip2 long, and show nothing more.
			[ "$(stat -c %s "$core")" -lt 10000000 ] || [ "$packer" = zstd ] || continue
			$packer -c <"$core" >"$packed"
			for memory in 16M 128M; do
				"$TOPLEAK" --no-names -n 50 -m $memory "$packed" 2>/dev/null |
					diff "$cores/expected/$name.top50" - || wrong+=("$name $packer $memory")
			done
		done
	done
	equal "${wrong[*]}" ""
}

@test "what it is packed with is told" {
	needs zstd
	large_core
	zstd -qf "$core" -o "$packed"
	topleak -0 -o json -n 1 "$packed"
	is '.input | .format == "elf-core" and .compression == "zstd" and .pid == 42'
	topleak -0 -v -n 1 "$packed"
	contains "$stderr" "zstd"
	topleak -0 -o json -n 1 "$core"
	is '.input.compression == null'
}

@test "program headers at the end, and section header 0 beyond what is kept" {
	needs zstd
	mkcore "$core" 'table => "end", segments => [{ vaddr => 0x1000, words => [map { $_ % 1000 } 1 .. 400_000] }]'
	zstd -qf "$core" -o "$packed"
	same "$packed" -m 16M
	mkcore "$core" 'xnum => 1, pid => 1, signal => 6, command => "x",
		segments => [map { { vaddr => 4096 * $_, words => [$_ % 7 ? 7 : 1 << 20] } } 1 .. 70000]'
	zstd -qf "$core" -o "$packed"
	same "$packed" -m 16M
	[ -z "$stderr" ]
	# Without notes the first header does not tell where the headers end.
	mkcore "$core" 'xnum => 1, table => "end",
		segments => [map { { vaddr => 4096 * $_, words => [$_ % 7 ? 7 : 1 << 20] } } 1 .. 70000]'
	zstd -qf "$core" -o "$packed"
	same "$packed" -m 16M
}

@test "headers that point to and fro end in time" {
	needs zstd
	mkcore "$core" 'segments => [{ vaddr => 0x1000, bytes => "x" x 3_000_000 },
		map { { type => 4, vaddr => 0, offset => 2_000_000 - 1000 * $_, filesz => 64 } } 1 .. 1500]'
	zstd -qf "$core" -o "$packed"
	run --separate-stderr -0 limited "$TOPLEAK" --no-names -m 16M "$packed"
	contains "$output" "0x7878787878787878 : 375000"
}

@test "decompression comes before -r, -s, -l, -w and -e" {
	needs $packers
	perl -e 'print "x", pack("Q<*", map { $_ % 999 } 1 .. 500_000)' >"$core"
	local packer
	for packer in $packers; do
		$packer -c <"$core" >"$packed"
		same "$packed" -m 16M -r
		same "$packed" -m 16M -s 1
		same "$packed" -m 16M -s 3000001 -l 1000 -w 4 -e big
		same "$packed" -s 1 -l 5
	done
	topleak -0 --no-names -s 4000001 "$packed"
	equal "$output" ""
	contains "$stderr" "no whole word"
}

@test "a name that says something else does not matter" {
	needs xz
	large_core
	xz -0 -c "$core" >"$core.zst"
	same "$core.zst"
}

@test "an empty stream is an empty input" {
	local packer
	needs $packers
	for packer in $packers; do
		$packer -c </dev/null >"$packed"
		topleak -1 "$packed"
		fails "$packed: " "empty"
	done
}

@test "several streams in a row are one" {
	local packer part memory
	needs $packers
	large_core
	for packer in $packers; do
		: >"$packed"
		for part in 1 2 3; do
			split -n "$part/3" "$core" | $packer -c >>"$packed"
		done
		for memory in 16M 128M; do
			same "$packed" -m "$memory"
			[ -z "$stderr" ] || { echo "$packer: $stderr" && false; }
		done
	done
}

@test "what follows the stream is left out, and a warning says so" {
	local packer memory
	needs $packers
	large_core
	for packer in $packers; do
		{ $packer -c <"$core" && echo "something else"; } >"$packed"
		for memory in 16M 128M; do
			if [ "$packer" = xz ]; then
				# The last block before it may be lost.
				topleak -0 --no-names -m "$memory" "$packed"
			else
				same "$packed" -m "$memory"
			fi
			contains "$stderr" "topleak: $packed: its $packer data "
			contains "$stderr" "offset"
		done
	done
}

@test "a cut stream gives what could be read, and a warning with the position" {
	local packer memory size
	needs $packers
	large_core
	for packer in $packers; do
		$packer -c <"$core" >"$packed.whole"
		# Small blocks: a whole one may be lost.
		[ "$packer" != lz4 ] || lz4 -qf -B4 "$core" "$packed.whole"
		[ "$packer" != bzip2 ] || bzip2 -1 -c <"$core" >"$packed.whole"
		size=$(stat -c %s "$packed.whole")
		head -c $((size / 2)) "$packed.whole" >"$packed"
		for memory in 16M 128M; do
			topleak -0 --no-names -m "$memory" "$packed"
			[ "${#lines[@]}" -eq 10 ]
			contains "$stderr" "topleak: $packed: its $packer data are damaged or cut at or behind offset "
			contains "$stderr" "truncated: "
			topleak -0 -o json -m "$memory" "$packed"
			is '.scanned | .bytes_missing > 100000 and .bytes_missing < .bytes_saved'
		done
	done
}

@test "a damaged stream gives what could be read, and a warning; again and again" {
	local packer memory
	needs $packers
	large_core
	for packer in $packers; do
		$packer -c <"$core" >"$packed"
		[ "$packer" != lz4 ] || lz4 -qf -B4 -BX "$core" "$packed"
		[ "$packer" != bzip2 ] || bzip2 -1 -c <"$core" >"$packed"
		spoil 40 $(($(stat -c %s "$packed") * 3 / 5)) "$packed"
		for memory in 16M 128M; do
			# Many rows need more than one pass: all see the same.
			topleak -0 --no-names -n 3000 -m "$memory" "$packed"
			[ "${#lines[@]}" -ge 10 ]
			contains "$stderr" "topleak: $packed: its $packer data are damaged"
		done
	done
}

@test "damaged anywhere: no crash, no hang, no silence" {
	local packer size at
	needs $packers
	mkcore "$core" 'pid => 1, signal => 6, command => "x", segments => [{ vaddr => 0x1000, words => [map { $_ * 77 % 1009 } 1 .. 2000] }]'
	for packer in $packers; do
		$packer -c <"$core" >"$packed.whole"
		size=$(stat -c %s "$packed.whole")
		for ((at = 0; at < size; at += at < 32 ? 5 : size / 11)); do
			cp "$packed.whole" "$packed"
			spoil 2 "$at" "$packed"
			run --separate-stderr limited "$TOPLEAK" --no-names "$packed"
			[ "$status" -le 1 ] && [ -n "$output$stderr" ] || { echo "$packer spoilt at $at: $status" && false; }
			head -c "$at" "$packed.whole" >"$packed"
			run --separate-stderr limited "$TOPLEAK" --no-names "$packed"
			[ "$status" -le 1 ] && [ -n "$stderr" ] || { echo "$packer cut at $at: $status" && false; }
		done
	done
}

@test "nothing can be unpacked: status 1, one line" {
	needs zstd
	large_core
	zstd -qc "$core" | head -c 9 >"$packed"
	topleak -1 "$packed"
	fails "$packed: cannot be unpacked: " "zstd"
}

@test "compressed inside compressed: one level, and a word about it" {
	local inner
	needs $packers
	large_core
	for inner in $packers; do
		$inner -c <"$core" | zstd -qc >"$packed"
		topleak -1 "$packed"
		fails "$packed: is packed twice" "$inner" "zstd -dc FILE | topleak -"
		topleak -1 --raw "$packed"
		fails "packed twice"
		zstd -dc "$packed" >"$packed.inner"
		same "$packed.inner"
	done
	tar -cf - -C "$BATS_TEST_TMPDIR" core | zstd -qc >"$packed"
	topleak -1 "$packed"
	fails "$packed: is a tar archive"
}

@test "a bomb is read through in little memory" {
	needs zstd gzip
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [5, 5], hole => 1 << 29 }]'
	zstd -qf "$core" -o "$packed"
	[ "$(stat -c %s "$packed")" -lt 150000 ]
	run --separate-stderr -0 peak "$TOPLEAK" --no-names -m 16M "$packed"
	equal "$output" "0x0000000000000000 : 67108864
0x0000000000000005 : 2"
	sanitized || [ "${stderr_lines[-1]}" -lt 30000 ] || { echo "peak: ${stderr_lines[-1]} kB" && false; }
	# What no header speaks of is not unpacked to its end: here 64 GiB.
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [5, 5] }]'
	{
		zstd -qc "$core"
		head -c 1073741824 /dev/zero | zstd -qc >"$packed.zeros"
		for _ in {1..64}; do cat "$packed.zeros"; done
	} >"$packed"
	run --separate-stderr -0 limited "$TOPLEAK" --no-names "$packed"
	equal "$output" "0x0000000000000005 : 2"
}

@test "a dictionary or a window that is too large is told" {
	needs zstd
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [5, 5] }]'
	zstd -q --ultra --long=31 --no-check -c <"$core" >"$packed"
	run --separate-stderr limited "$TOPLEAK" --no-names "$packed"
	[ "$status" -le 1 ] && [ -n "$output$stderr" ]
}

@test "memory stays within --memory" {
	! sanitized || skip "sanitizers need more"
	needs zstd
	perl -Minteger -e 'print pack("q<*", map { $_ * -7046029254386353131 } 1 .. 3_000_000)' >"$core"
	zstd -qf "$core" -o "$packed"
	run --separate-stderr -0 peak "$TOPLEAK" --no-names -r -m 16M -j 2 -n 1500 "$packed"
	[ "${stderr_lines[-1]}" -lt $((20 * 1024)) ] || { echo "peak: ${stderr_lines[-1]} kB" && false; }
	local table=$output
	topleak -0 --no-names -r -n 1500 "$core"
	equal "$output" "$table"
}

@test "-v shows what unpacking and symbols take beside --memory" {
	! sanitized || skip "sanitizers have their own malloc"
	needs zstd
	local window
	head -c 40000000 /dev/zero >"$core"
	for window in 23 25; do
		zstd -q --long=$window -f -o "$packed" <"$core"
		topleak -0 -v -r --no-names "$packed"
		[[ $stderr =~ "used: at most 128.0 MiB (--memory), unpacking "([0-9]+)\.[0-9]" MiB" ]]
		((BASH_REMATCH[1] >= (1 << window >> 20) && BASH_REMATCH[1] <= (1 << window >> 20) + 4))
	done
	topleak -0 -v -n 30 "$(leak_core)"
	[[ $stderr =~ symbols\ [0-9.]+\ [KM]iB ]]
	lacks "$stderr" "unpacking"
}

@test "names are those of the plain core" {
	needs zstd
	local memory plain
	plain=$(leak_core)
	zstd -qf "$plain" -o "$packed"
	topleak -0 -n 20 "$plain"
	local table=$output
	contains "$table" "vtable for A+16"
	for memory in 16M 128M; do
		topleak -0 -n 20 -m "$memory" "$packed"
		equal "$output" "$table"
		topleak -0 -n 5 --kind data "$plain"
		local data=$output
		topleak -0 -n 5 --kind data -m "$memory" "$packed"
		equal "$output" "$data"
	done
}

@test "a window that is too large for libarchive: the message says what to do" {
	needs zstd
	head -c 300000 /dev/urandom | zstd -q --long=31 >"$packed"
	topleak -1 --raw "$packed"
	fails "$packed" "a window of more than 128 MiB" "zstd -dc --long=31 FILE | topleak -"
	zstd -dc --long=31 "$packed" | "$TOPLEAK" --raw -n 1 -
	head -c 300000 /dev/urandom | gzip | head -c 5 >"$packed"
	topleak -1 --raw "$packed"
	[[ $stderr != *window* ]]
}

@test "built without libarchive: the message names the format and the command" {
	[ "$TOPLEAK" = "$repo/build/topleak" ] || skip "the same for every build"
	needs $packers
	make -C "$repo" -s BUILD="$BATS_TEST_TMPDIR/build" CFLAGS=-O0 HAVE_LIBARCHIVE=0
	mkcore "$core" 'segments => [{ vaddr => 0x1000, words => [5, 5] }]'
	local packer
	for packer in $packers; do
		$packer -c <"$core" >"$packed"
		TOPLEAK=$BATS_TEST_TMPDIR/build/topleak
		topleak -1 "$packed"
		fails "$packed: " "packed with $packer" "$packer -dc FILE | topleak -"
		topleak -1 --raw "$packed"
		fails "packed with $packer"
		$packer -dc <"$packed" | "$TOPLEAK" --no-names - | grep -q ": 2"
	done
}
