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

@test "what was noted while the heap was walked, or is read anew: the same, and without AVX2" {
	local core expected
	for core in "$(lost_core plain 0)" "$(lost_core threads 5)"; do
		expected=$(found "$core")
		[ -n "$expected" ]
		equal "$(found "$core" -r)" "$expected"
		equal "$(TOPLEAK_SIMD=portable found "$core")" "$expected"
		equal "$(TOPLEAK_SIMD=portable found "$core" -r -j 1)" "$expected"
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

@test "--diff: the new side is a saved result, too: the same as from the dump" {
	needs jq
	local core other side expected saved=$BATS_TEST_TMPDIR/new.json
	core=$(lost_core plain 0)
	other=$(lost_core threads 5)
	"$TOPLEAK" --leaks -n 1000000 -ojson "$core" >"$saved.old"
	"$TOPLEAK" --leaks -n 1000000 -ojson "$other" >"$saved"
	for side in "$core" "$saved.old"; do
		topleak -0 --leaks --diff "$side" -n 1000 -ojson "$other"
		expected=$(jq -c 'del(.input.path, .input.format)' <<<"$output")
		topleak -0 --leaks --diff "$side" -n 1000 -ojson "$saved"
		equal "$(jq -c 'del(.input.path, .input.format)' <<<"$output")" "$expected"
		is '.input.format == "json" and .totals.direct_count > 0 and ([.types[].direct_count] | add) > 0'
		! python3 -c 'import jsonschema' 2>/dev/null ||
			validate "$repo/share/topleak.schema.json" <<<"$output"
		topleak -0 --leaks --diff "$side" "$other"
		expected=$output
		topleak -0 --leaks --diff "$side" "$saved"
		equal "$output" "$expected"
	done
	# Of another question.
	topleak -1 --types --diff "$core" "$saved"
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

@test "a core without stacks: most seems to be lost, and that is said first" {
	needs jq
	local core cut=$BATS_TEST_TMPDIR/cut
	core=$(lost_core plain 0)
	topleak -0 --leaks -ojson "$core"
	is '.totals.roots_missing | not'
	lacks "$stderr" "want of them"
	head -c -200000 "$core" >"$cut"
	topleak -0 --leaks -ojson "$cut"
	is '.totals.roots_missing'
	contains "$stderr" "$cut: the program's data, or all stacks, are not in the dump"
}

@test "memory that is not malloc's is not looked at, which is said if it is much" {
	needs jq
	local program core
	program=$(fixture repeats "${CC:-cc}" -O1 -fno-pie -no-pie -Wl,-z,max-page-size=4096 \
		-Wl,-Ttext-segment=0x558000 -o @ "$repo/fixtures/repeats.c")
	core=$(fixture repeats.more.core dump -k @ "$program" 30)
	topleak -0 --leaks "$core"
	contains "$output" "note: 31.0 MiB of anonymous memory are not malloc's"
	topleak -0 --leaks -ojson "$core"
	is '.totals.foreign_bytes | . >= 31 * 1048576 and . < 32 * 1048576'
	# Neither what malloc maps nor what it reserves is meant, nor stacks.
	topleak -0 --leaks "$(lost_core threads 5)"
	lacks "$output" "anonymous memory"
	if command -v gdb >/dev/null; then
		# gdb writes all of it; the program has mapped 3 MiB, most of which it does not use.
		topleak -0 --leaks -ojson "$(fixture lost.threads.gcore dump -g @ "$(lost_program)" @.truth 5)"
		is '.totals.foreign_bytes < 4 * 1048576'
	fi
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

@test "no heap of an allocator that is known: that is said, and what works; nothing is 0 that is not known" {
	local core=$BATS_TEST_TMPDIR/core
	mkcore "$core" 'segments => [{ vaddr => 0x10000000, words => [(7) x 512], flags => 6 }]'
	topleak -0 --leaks "$core"
	equal "${lines[-1]}" "lost: not known: no heap of an allocator whose objects are known was found"
	contains "$stderr" "none of the allocators whose blocks are known"
	contains "$stderr" --types
	topleak -0 --leaks -ojson "$core"
	is '.totals | .allocator == "unknown" and .lost_count == null and .used_count == null and .free_count == null'
	validate "$repo/share/topleak.schema.json" <<<"$output"
	topleak -0 --path 0x10000000 "$core"
	contains "$stderr" "--path: $core: none of the allocators"
	lacks "$stderr" "is lost"
	# Plain bytes have no objects, whichever question was asked.
	echo 0123456789abcdef >"$core"
	topleak -2 --path 0x10000000 "$core"
	contains "$stderr" "--path: $core: is read as plain bytes"
	lacks "$stderr" --leaks
}

@test "a packed dump: the memory that is needed is said, and is enough" {
	needs gzip
	local memory core=$BATS_TEST_TMPDIR/core.gz
	gzip -1 <"$(lost_core threads 5)" >"$core"
	topleak -2 --leaks -m 16M "$core"
	fails --leaks packed "unpack it to a file"
	memory=$(sed 's/.* use -m \([0-9]*M\),.*/\1/' <<<"$stderr")
	topleak -0 --leaks -m "$memory" "$core"
	# Of what was unpacked it is not known what no process ever touched.
	equal "$(grep -v '^note: ' <<<"$output")" "$("$TOPLEAK" --leaks "$(lost_core threads 5)" | grep -v '^note: ')"
}

# dies c|c++ SOURCE ARG...: the core of a small program goes to $core
dies() {
	core=$BATS_TEST_TMPDIR/core
	"${CXX:-c++}" -O1 -fno-builtin -U_FORTIFY_SOURCE -x "$1" -o "$BATS_TEST_TMPDIR/program" "${@:3}" - <<<"$2"
	dump -k "$core" "$BATS_TEST_TMPDIR/program" || skip "the kernel writes no core where it can be read"
}

@test "a heap that is damaged behind a few objects is not walked, instead of empty" {
	needs jq
	dies c '#include <stdlib.h>
		#include <string.h>
		int main(void)
		{
			char *volatile last = 0;
			for (int i = 0; i < 4; i++)
				last = malloc(100);
			memset(last, 0, 200);
			abort();
		}'
	topleak -0 --leaks -ojson "$core"
	is '.totals | .breaks == 1 and .used_count == 5 and .unwalked_bytes > 130000 and .unwalked_bytes < 135168'
	topleak -0 --leaks "$core"
	contains "$output" "note: the heap is damaged in 1 place"
}

@test "an arena whose heap was left out of the dump: that is said" {
	needs jq
	dies c '#include <stdlib.h>
		#include <sys/mman.h>
		#include <unistd.h>
		int main(void)
		{
			char *first = malloc(100);
			char *page = (char *)((unsigned long)first & -4096ul);
			madvise(page, (unsigned long)((char *)sbrk(0) - page), MADV_DONTDUMP);
			abort();
		}'
	topleak -0 --leaks -ojson "$core"
	is '.totals | .arenas_lost == 1 and .used_count == 0 and .unwalked_bytes >= 131072'
	topleak -0 --leaks "$core"
	contains "$output" "note: 1 arena of malloc without its heap, which is not in the dump"
}

@test "blocks that malloc mapped, and nothing else" {
	needs jq
	dies c '#include <stdlib.h>
		#include <string.h>
		int main(void)
		{
			for (int i = 0; i < 60; i++)
				memset(aligned_alloc(2 << 20, 2 << 20), i + 1, 2 << 20);
			volatile char stack[65536];
			memset((char *)stack, 0, sizeof stack);
			abort();
		}'
	topleak -0 --leaks -ojson "$core"
	# Where the last ones were can be left in a register or below.
	is '.totals | .allocator == "glibc" and .used_count >= 60 and .lost_count >= 57'
}

@test "a static program that is position independent: its heap is far from it" {
	needs jq
	local path=$BATS_TEST_TMPDIR
	dies c++ '#include <cstdlib>
		#include <cstring>
		struct Leak { virtual ~Leak() {} char bytes[48]; };
		void *volatile last;
		int main()
		{
			for (int i = 0; i < 5000; i++) {
				Leak *leak = new Leak;
				memset(leak->bytes, 1, sizeof leak->bytes);
				last = leak;
			}
			abort();
		}' -static-pie
	# What comes before the first object is as long as the path.
	for _ in 1 2 3 4 5 6 7 8; do
		topleak -0 --leaks -ojson "$core"
		is '[.types[] | select(.name == "Leak") | .count][0] >= 4998'
		is '.memory.heap > 300000'
		path+=/123
		mkdir -p "$path"
		cp "$BATS_TEST_TMPDIR/program" "$path/"
		dump -k "$core" "$path/program"
	done
	if command -v gdb >/dev/null; then
		dump -g "$core" "$path/program"
		topleak -0 --leaks -ojson "$core"
		is '[.types[] | select(.name == "Leak") | .count][0] >= 4998'
	fi
}

header_core() {
	fixture header.core "$repo/scripts/dump" -k @ \
		"$(fixture header "${CC:-cc}" -O1 -o @ "$repo/fixtures/header.c")"
}

@test "a block that malloc is about to hand out is not lost: a register has its header" {
	[ "$(uname -m)" = x86_64 ] || skip "not x86-64"
	topleak -0 --leaks -ojson "$(header_core)"
	is '[.types[].size] | contains([7008]) and (contains([5008]) | not)'
}

@test "memory that was left out when the dump was written is named: what only it points at seems lost" {
	local core name
	core=$(header_core)
	topleak -0 --leaks "$core"
	contains "$output" "note: 1.0 MiB that the program could write to were left out when the dump was written: no file 1.0 MiB;"
	topleak -0 --leaks -ojson "$core"
	# One may be in a register, or where a function has left it.
	is '.types[] | select(.size == 320) | .count >= 98'
	is '.totals.left_out_bytes == 1048576 and .left_out == [{"path": null, "bytes": 1048576, "writable_bytes": 1048576}]'
	for name in plain threads; do
		topleak -0 --leaks "$(lost_core $name $([ $name = plain ] && echo 0 || echo 5))"
		lacks "$output" "left out"
	done
}

@test "--leaks --all: every lost object, by address, in every format" {
	local core
	core=$(lost_core threads 5)
	topleak -0 --leaks --all -ojson -n 3 "$core"
	is '.types | length == 3'
	is '(.objects | length) == .totals.lost_count and ([.objects[].size] | add) == .totals.lost_bytes'
	is '([.objects[] | select(.direct)] | length) == .totals.direct_count'
	is '[.objects[].address] | . == sort_by(length, .) and . == unique_by(.)'
	if python3 -c 'import jsonschema' 2>/dev/null; then
		validate "$repo/share/topleak.schema.json" <<<"$output"
	fi
	jq -r '.objects[] | "\(.address[2:]) \(.size) \(if .direct then "direct" else "indirect" end)"' <<<"$output" |
		sort >"$BATS_TEST_TMPDIR/listed"
	found "$core" | diff - "$BATS_TEST_TMPDIR/listed"
	topleak -0 --leaks --all -ocsv "$core"
	equal "${lines[0]}" "address,size,direct,type,kind,module"
	equal "$(($(wc -l <<<"$output") - 1))" "$(wc -l <"$BATS_TEST_TMPDIR/listed")"
	topleak -0 --leaks --all -n 1 "$core"
	equal "$(grep -c ^0x <<<"$output")" "$(wc -l <"$BATS_TEST_TMPDIR/listed")"
	contains "$output" "23 types, 1 shown"
	topleak -2 --leaks --all --diff "$core" "$core"
	fails --all --diff
}

@test "--redact shows no text of the memory" {
	topleak -0 --leaks --redact -n 1000 "$(lost_core plain 0)"
	lacks "$output" '"'
}

# held NAME TRUTH: the addresses of objects of this name that are kept
held() {
	perl -ne '($name, $state, $hidden) = split; printf "0x%x\n", ~hex $hidden if $name eq "'"$1"'" && $state eq "kept"' "$2" 2>/dev/null
}

@test "--path: from data, the thread, a register, a stack; the shortest way" {
	local core address
	core=$(lost_core threads 5)
	address=$(held in-mapped "$core.truth")
	topleak -0 --path "$address" "$core"
	[[ ${lines[1]} =~ "roots+"[0-9]+" (lost)"$ ]]
	[[ ${lines[2]} =~ ^0x[0-9a-f]+" "+"+2097152  (no type), " ]]
	[[ ${lines[3]} =~ ^0x0*${address#0x}" "+"-  (no type), " ]]
	equal "${#lines[@]}" 4
	topleak -0 --path "$(held register "$core.truth")" "$core"
	contains "${lines[1]}" "a register of thread"
	topleak -0 --path "$(held thread-local "$core.truth")" "$core"
	contains "${lines[1]}" "other memory"
	# The last node of a list of a thousand, which begins with the last one made.
	address=$(held list "$core.truth" | head -n 1)
	topleak -0 --path "$address" "$core"
	equal "${#lines[@]}" 5
	contains "${lines[3]}" "... 998 more: "
	topleak -0 --path "$address" --all "$core"
	equal "${#lines[@]}" 1002
	# A leaf of a tree of seven levels.
	topleak -0 --path "$(held tree "$core.truth" | head -n 1)" "$core"
	equal "${#lines[@]}" 9
	topleak -0 --path "$(held "from-a-thread's-stack" "$core.truth" | head -n 1)" "$core"
	contains "${lines[1]}" "thread"
}

# way NAME [OPTION]...: the way to the last object of a chain of fixtures/ways.c
way() {
	local core
	core=$(fixture ways.core "$repo/scripts/dump" -k @ \
		"$(fixture ways "${CC:-cc}" -O1 -o @ "$repo/fixtures/ways.c")" @.truth)
	topleak -0 --path "$(awk '$1 == "'"$1"'" { print $3 }' "$core.truth")" "${@:2}" "$core"
}

@test "--path: what repeats is one row; of many rows the first and the last remain" {
	way pairs
	equal "${#lines[@]}" 6
	contains "${lines[1]}" pairs
	[[ ${lines[2]} == *"+24  (no type), 112 bytes" ]]
	[[ ${lines[3]} == *"+16  (no type), 48 bytes" ]]
	[[ ${lines[4]} == *"... 49998 more: (no type) +24, (no type) +16" ]]
	[[ ${lines[5]} == *"-  (no type), 112 bytes" ]]
	way pairs -ojson
	is '[.path[].count] == [1, 1, 1, 49998, 1] and .path[3].kind == "repeated"'
	# Six steps are as short as they are.
	way short
	equal "${#lines[@]}" 8
	# Sixty of different sizes; the first row is the variable.
	way rising
	equal "${#lines[@]}" 12
	[[ ${lines[6]} == *"... 51 more" ]]
	[[ ${lines[11]} == *", 1920 bytes" ]]
	way rising -n 5 -ojson
	is '[.path[].count] == [1, 1, 1, 56, 1, 1] and .path[3].kind == "left-out"'
	way rising -n 1
	equal "${#lines[@]}" 3
	[[ ${lines[2]} == *"... 60 more" ]]
	way rising -n 61 -ojson
	is '.path | length == 61 and ([.[].count] | unique == [1])'
	way rising -ocsv --all
	equal "${#lines[@]}" 62
}

@test "--path: any address in the object; what is lost, what is none" {
	local core address
	core=$(lost_core plain 0)
	address=$(held grown "$core.truth")
	topleak -0 --path "$((address + 5000))" "$core"
	contains "${lines[2]}" "${address#0x}"
	address=$(perl -ne '($name, $state, $hidden) = split; printf "0x%x\n", ~hex $hidden if $state eq "direct"' "$core.truth" 2>/dev/null | head -n 1)
	topleak -0 --path "$address" "$core"
	equal "${#lines[@]}" 1
	contains "$stderr" "is lost"
	topleak -1 --path 0x1234 "$core"
	fails "$core" 0x1234
	topleak -2 --path 0x1234 --leaks "$core"
	fails --path --leaks
	topleak -2 --path 0x1234 --raw "$core"
	fails --path --raw
}

@test "--owners: what points at the objects of a class" {
	local core
	core=$(lost_core plain 0)
	topleak -0 --type "(anonymous namespace)::Both" --owners "$core"
	contains "$output" "2 objects in use, 1 lost"
	equal "$(sed 1,3d <<<"$output" | tr -s ' ' | cut -d ' ' -f 2,4-)" "1 +240 (anonymous namespace)::roots (lost)"
	topleak -2 --owners "$core"
	fails --owners --type
	topleak -2 --owners --find 0x1234 "$core"
	fails --owners --type
	topleak -2 --owners --type Both --around "$core"
	fails --owners --around
}

@test "--owners and --path: JSON as the schema says, csv with as many fields in each row" {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	local core name
	core=$(lost_core threads 5)
	topleak -0 -ojson --owners --type "(anonymous namespace)::Both" "$core"
	validate "$repo/share/topleak.schema.json" <<<"$output"
	is '.mode == "owners" and .found.count == 2 and .found.lost == 1 and .owners[0].kind == "data"'
	for name in tree register thread-local; do
		topleak -0 -ojson --path "$(held "$name" "$core.truth" | head -n 1)" "$core"
		validate "$repo/share/topleak.schema.json" <<<"$output"
		is '.mode == "path" and .found.count == 1 and (.path[-1].offset == null)'
	done
	topleak -0 -ocsv --path "$(held tree "$core.truth" | head -n 1)" "$core"
	[[ ${lines[0]} == address,offset,name,kind,module,size,count ]]
	sed 's/"[^"]*"/x/g' <<<"$output" | awk -F, 'NF != 7 { print; exit 1 }'
}

@test "more lost texts than can be told apart: sizes stay, and so do the frequent ones" {
	local core expected threads
	core=$(fixture texts.core "$repo/scripts/dump" -k @ \
		"$(fixture texts "${CC:-cc}" -O1 -o @ "$repo/fixtures/texts.c")")
	topleak -0 --leaks -n 100000 -j 1 "$core"
	expected=$output
	contains "$output" '"frequent" @+0'
	for threads in 2 5; do
		topleak -0 --leaks -n 100000 -j "$threads" "$core"
		equal "$output" "$expected"
	done
	contains "$output" "lost: 300.0 K objects"
}

@test "damage at random: no crash, no endless loop; breaks are reported" {
	local core bad=$BATS_TEST_TMPDIR/bad seed round
	core=$(lost_core plain 0)
	seed=${SEED:-$RANDOM}
	echo "# SEED=$seed" >&3
	for ((round = 0; round < 15; round++)); do
		# shellcheck disable=SC2016 # perl's
		perl -e 'srand(shift); local $/; $_ = <STDIN>;
			for (1 .. 1 + rand 300) { substr($_, rand(length), 1) = chr rand 256 } print' \
			$((seed + round)) <"$core" >"$bad"
		run --separate-stderr limited "$TOPLEAK" --leaks "$bad"
		[ "$status" -le 2 ] || { echo "SEED=$((seed + round)): status $status" && false; }
		run --separate-stderr limited "$TOPLEAK" --path "$(held tree "$core.truth" | head -n 1)" "$bad"
		[ "$status" -le 2 ] || { echo "SEED=$((seed + round)): status $status" && false; }
	done
	# The size of the chunk behind the first ones.
	# shellcheck disable=SC2016
	perl -e 'local $/; $_ = <STDIN>; my $at = index($_, pack("Q", 24017)); substr($_, $at, 8) = pack("Q", 99991); print' \
		<"$core" >"$bad"
	topleak -0 --leaks "$bad"
	contains "$output" "note: the heap is damaged in"
	topleak -0 --leaks -ojson "$bad"
	is '.totals.breaks > 0 and (.totals.break_address | startswith("0x"))'
}

# What other tools say of the same program when it ends well. They differ from the truth, and from
# topleak, in this:
# - The object whose only pointer is in a register when the program dies is lost when it ends.
# - valgrind calls objects "possibly lost" at which only their inside is pointed at, and what hangs
#   from them: middle, last word, odd address, mapped, in mapped. Here they are kept.
# - Of each ring valgrind calls one object lost directly. Here all are lost indirectly: a lost object
#   points at each.
# - LeakSanitizer does not look into what a program maps by itself: the object that only such a page
#   points at is lost.
truth_count() {
	awk -v state="$1" '$2 == state' "$2" | wc -l
}

@test "valgrind agrees" {
	needs valgrind
	local truth=$BATS_TEST_TMPDIR/truth direct indirect definite indirectly possibly rings=2
	run env EXIT=1 valgrind --leak-check=full --show-leak-kinds=none "$(lost_program)" "$truth" 0
	direct=$(truth_count direct "$truth")
	indirect=$(truth_count indirect "$truth")
	output=$(tr -d , <<<"$output")
	# Where an inside is pointed at by chance, one object or two may be in the other class.
	read -r definite indirectly possibly < <(sed -nE 's/.* (definitely|indirectly|possibly) lost: .* in ([0-9]+) blocks/\2/p' \
		<<<"$output" | xargs)
	equal $((definite + indirectly + possibly)) $((direct + indirect + 1 + 5))
	[ "$definite" -ge $((direct + rings)) ] && [ "$definite" -le $((direct + rings + 1)) ]
	[ "$possibly" -ge 5 ] && [ "$possibly" -le 7 ]
}

@test "LeakSanitizer agrees" {
	local truth=$BATS_TEST_TMPDIR/truth program=$BATS_TEST_TMPDIR/lost
	"${CXX:-c++}" -O1 -g -fsanitize=address -pthread -o "$program" "$repo/fixtures/lost.cpp" ||
		skip "no AddressSanitizer"
	run env EXIT=1 "$program" "$truth" 0
	[[ $output != *"LeakSanitizer has encountered a fatal error"* ]] || skip "it may not trace"
	contains "$output" "leaked in $(($(truth_count direct "$truth") + $(truth_count indirect "$truth") + 2)) allocation(s)"
	equal "$(sed -n 's/^Indirect leak.* in \([0-9]*\) object.*/\1/p' <<<"$output" | awk '{ sum += $1 } END { print sum }')" \
		"$(truth_count indirect "$truth")"
}
