#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What nothing reaches any more, against programs that know it: fixtures/lost.cpp.

load lib/common

setup_file() {
	lost_program >/dev/null
	lost_core plain 0 >/dev/null
}

lost_program() {
	fixture lost "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/lost.cpp"
}

# lost_core NAME THREADS [VARIABLE=VALUE]...: a core; its truth is CORE.truth
lost_core() {
	fixture "lost.$1.core" env "${@:3}" "$repo/scripts/dump" -k @ "$(lost_program)" @.truth "$2"
}

# found CORE [OPTION]...: the lost objects, each with its address
found() {
	local tool=${TOPLEAK%/*}/test-lost
	[ -x "$tool" ] || skip "no test-lost: make check"
	"$tool" "${@:2}" "$1" | sort
}

# exact CORE [-w BITS] [-l]: all that is lost is found, nothing else, and rightly called
exact() {
	found "$1" >"$BATS_TEST_TMPDIR/found"
	compare-lost "${@:2}" "$1.truth" "$BATS_TEST_TMPDIR/found"
}

@test "one thread: every lost object, and no other" { exact "$(lost_core plain 0)"; }
@test "five threads and arenas: the same" { exact "$(lost_core threads 5)"; }
@test "threads that share one arena: the same" {
	exact "$(lost_core arena 5 MALLOC_ARENA_MAX=1)"
}
@test "without caches of threads: the same" {
	exact "$(lost_core uncached 3 GLIBC_TUNABLES=glibc.malloc.tcache_count=0)"
}
@test "much is mapped: the same" {
	exact "$(lost_core mapped 2 GLIBC_TUNABLES=glibc.malloc.mmap_threshold=4096)"
}

@test "gcore: the same" {
	needs gdb
	exact "$(fixture lost.gcore "$repo/scripts/dump" -g @ "$(lost_program)" @.truth 3)"
}

@test "optimized, and stripped: the same" {
	local program
	program=$(fixture lost.o2 "${CXX:-c++}" -O2 -s -pthread -o @ "$repo/fixtures/lost.cpp")
	exact "$(fixture lost.o2.core "$repo/scripts/dump" -k @ "$program" @.truth 2)"
}

# guest COMPILER QEMU BITS THREADS
guest() {
	local program
	needs "$1" "$2"
	program=$(fixture "lost.$2" "$1" -O1 -static -pthread -o @ "$repo/fixtures/lost.cpp")
	exact "$(fixture "lost.$2.core" "$repo/scripts/dump" -k @ "$(command -v "$2")" "$program" @.truth "$4")" -w "$3"
}

@test "32 bit: i386" { guest i686-linux-gnu-g++ qemu-i386 32 0; }
@test "64 bit, big endian: s390x" { guest s390x-linux-gnu-g++ qemu-s390x 64 0; }
@test "arm64" { guest aarch64-linux-gnu-g++ qemu-aarch64 64 0; }

@test "the number of threads does not change what is found" {
	local core expected threads
	core=$(lost_core threads 5)
	expected=$(found "$core" -j 1)
	for threads in 2 3 16; do
		equal "$(found "$core" -j "$threads")" "$expected"
	done
}

@test "--exact-pointers: an object that only its inside is pointed at is lost, a base is not" {
	local core
	core=$(lost_core plain 0)
	found "$core" -x >"$BATS_TEST_TMPDIR/found"
	run -1 compare-lost "$core.truth" "$BATS_TEST_TMPDIR/found"
	equal "$(sed -n 's/ at .* is \(.*\), not \(.*\)/ \1 \2/p' <<<"$output" | sort)" "in-mapped kept indirect
last-word kept direct
mapped kept direct
middle kept direct
odd-address kept direct"
	[[ ${lines[-1]} == *" 5 wrong" ]]
}

# totals CORE: the sums of the truth agree with those of --leaks
@test "the table: what was lost, of what type, and how much of what is in use" {
	local core direct indirect
	core=$(lost_core plain 0)
	topleak -0 --leaks -n 1000 "$core"
	[[ ${lines[0]} =~ ^" "+"#"" "+COUNT" "+DIRECT" "+SIZE" "+BYTES" "+%" "+TYPE" "+MODULE" "+EXAMPLE$ ]]
	contains "$output" "(anonymous namespace)::Both"
	contains "$output" "lost: 4293 objects"
	contains "$output" "not walked: 0 bytes"
	direct=$(grep -c ' direct ' "$core.truth")
	indirect=$(grep -c ' indirect ' "$core.truth")
	contains "$output" "(directly $direct, "
	contains "$output" "indirectly $indirect, "
	equal "$(awk '$1 ~ /^[0-9]+$/ { n += $2; d += $3 } END { print n, d }' <<<"$output")" \
		"$((direct + indirect)) $direct"
}

@test "JSON as the schema says, with sums that agree" {
	needs jq
	local core
	core=$(lost_core plain 0)
	topleak -0 --leaks -n 1000 -ojson "$core"
	is '.mode == "leaks" and .totals.allocator == "glibc"'
	is '([.types[].count] | add) == .totals.lost_count and ([.types[].bytes] | add) == .totals.lost_bytes'
	is '([.types[].direct_bytes] | add) == .totals.direct_bytes'
	is '[.types[] | .count == .direct_count + .indirect_count] | all'
	is '.totals.lost_bytes < .totals.used_bytes and .totals.unwalked_bytes == 0 and .totals.breaks == 0'
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	validate "$repo/share/topleak.schema.json" <<<"$output"
}

@test "csv has a header and as many fields in each row" {
	topleak -0 --leaks -ocsv -n 1000 "$(lost_core plain 0)"
	[[ ${lines[0]} == type,kind,module,count,size,size_agreement,bytes,share,direct_count,* ]]
	sed 's/"[^"]*"/x/g' <<<"$output" | awk -F, 'NR == 1 { n = NF } NF != n { print; exit 1 }'
}

@test "--diff: the same dump has lost no more; another has, from a dump and from JSON" {
	needs jq
	local core other saved=$BATS_TEST_TMPDIR/saved.json
	core=$(lost_core plain 0)
	other=$(lost_core threads 5)
	topleak -0 --leaks --diff "$core" "$core"
	equal "$(awk '$1 ~ /^[0-9]+$/' <<<"$output")" ""
	topleak -0 --leaks --diff "$core" -n 1000 -ojson "$other"
	is '.mode == "leaks-diff" and .old.format == "elf-core"'
	is '([.types[].more_count] | add) == .totals.lost_count - 4293'
	local rows
	rows=$(jq -c '.types[] | del(.examples)' <<<"$output")
	"$TOPLEAK" --leaks -n 1000000 -ojson "$core" >"$saved"
	topleak -0 --leaks --diff "$saved" -n 1000 -ojson "$other"
	equal "$(jq -c '.types[] | del(.examples)' <<<"$output")" "$rows"
	python3 -c 'import jsonschema' 2>/dev/null && validate "$repo/share/topleak.schema.json" <<<"$output"
	topleak -1 --types --diff "$saved" "$core"
	fails "$saved" "--types -ojson"
}

@test "a core that is cut: what is there, with the caveat" {
	local core cut=$BATS_TEST_TMPDIR/cut part
	core=$(lost_core plain 0)
	for part in 3 5 7 9; do
		head -c $(($(stat -c %s "$core") * part / 10)) "$core" >"$cut"
		run --separate-stderr "$TOPLEAK" --leaks "$cut"
		[ "$status" -eq 0 ] || [ "$status" -eq 2 ]
		[ "$status" -ne 0 ] || contains "$output" "memory is missing"
	done
}

@test "a live process" {
	local pid
	"$(lost_program)" /dev/null 2 wait &
	pid=$!
	sleep 0.5
	topleak -0 --leaks -n 100 --pid "$pid"
	kill "$pid"
	wait "$pid" || true
	contains "$output" "(anonymous namespace)::Both"
	contains "$output" "the process went on meanwhile"
}

@test "what does not go with --leaks is a usage error that names both" {
	local option core
	core=$(lost_core plain 0)
	for option in "--kind data" "-s 8" "-l 8" --raw --no-names "-w 8" "-e little" "-ogdb"; do
		# shellcheck disable=SC2086 # an option and its argument
		topleak -2 --leaks $option "$core"
		fails "--leaks" "$(sed 's/^-s.*/--offset/; s/^-l.*/--limit/; s/^-w.*/--word/; s/^-e .*/--endian/; s/^-ogdb/--output gdb/; s/ data//' <<<"$option")"
	done
	topleak -2 --leaks --types "$core"
	fails --leaks --types
	topleak -2 --exact-pointers "$core"
	fails --exact-pointers --leaks
	topleak -2 --leaks -m 16M - < <(cat "$(lost_core threads 5)")
	fails --leaks pipe
}

@test "another allocator: that is said, and what works" {
	local path
	path=$(ldconfig -p | awk 'index($1, "libjemalloc.so.2") == 1 { print $NF; exit }')
	[ -n "$path" ] || skip "no jemalloc"
	topleak -2 --leaks "$(fixture types.jemalloc.core "$repo/scripts/dump" -k @ env LD_PRELOAD="$path" \
		"$(fixture types "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/types.cpp")" @.json)"
	fails --leaks malloc --types
}

@test "--redact shows no text of the memory" {
	topleak -0 --leaks --redact -n 1000 "$(lost_core plain 0)"
	lacks "$output" '"'
}
