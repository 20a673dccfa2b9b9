#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The table of types, against programs that know what objects they have.

load lib/common

setup_file() {
	types_program >/dev/null
	types_core glibc >/dev/null
}

types_program() {
	fixture types "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/types.cpp"
}

# library NAME: the path of a shared library that the dynamic linker knows
library() {
	ldconfig -p | awk -v name="$1" 'index($1, name) == 1 { print $NF; exit }'
}

# types_core NAME [LIBRARY]: the core of the fixture with this allocator; its truth is CORE.json
types_core() {
	fixture "types.$1.core" dump -k @ env LD_PRELOAD="${2-}" "$(types_program)" @.json
}

# right CORE ARG...: compare-types likes what is said of a core with the truth beside it
right() {
	topleak -0 --types -n 100000 -ojson "$1"
	compare-types "${@:2}" <(echo "$output") "$1.json"
}

# rows: the columns COUNT, SIZE and TYPE of the table in output
rows() {
	awk '$1 ~ /^[0-9]+$/ { print $2, $3, $7, $8, $9 }' <<<"$output"
}

@test "glibc: counts, sizes and bytes of every class" {
	right "$(types_core glibc)"
}

# with_allocator NAME LIBRARY
with_allocator() {
	local path
	path=$(library "$2")
	[ -n "$path" ] || skip "no $2"
	right "$(types_core "$1" "$path")" -a "${@:3}"
	topleak -0 --types "$(types_core "$1" "$path")"
	lacks "$output" "deleted objects"
}

@test "jemalloc: the same" { with_allocator jemalloc libjemalloc.so.2 -f; }
@test "tcmalloc: the same" { with_allocator tcmalloc libtcmalloc_minimal.so.4; }
@test "mimalloc: the same" {
	local path
	path=$(library libmimalloc.so)
	# mimalloc 3 does not align blocks to what their size divides by.
	[[ $(realpath -- "$path") == *.so.3* ]] && set -- -b
	with_allocator mimalloc libmimalloc.so "$@"
}

@test "a stripped program: the same" {
	needs strip
	local program
	program=$(fixture types.stripped strip -s -o @ "$(types_program)")
	right "$(fixture types.stripped.core dump -k @ "$program" @.json)"
}

@test "gcore: the same" {
	needs gdb
	right "$(fixture types.gcore dump -g @ "$(types_program)" @.json)"
}

@test "without run time type information: symbols name the classes, without them they have addresses" {
	needs jq strip
	local program core
	program=$(fixture types.plain "${CXX:-c++}" -O1 -fno-rtti -pthread -o @ "$repo/fixtures/types.cpp")
	right "$(fixture types.plain.core dump -k @ "$program" @.json)"
	core=$(fixture types.bare.core dump -k @ "$(fixture types.bare strip -s -o @ "$program")" @.json)
	topleak -0 --types -n 100000 -ojson "$core"
	# Each class that has chunks of its own is a row, with the same count and size; but of a list's
	# nodes the first and the last one point to the program, too.
	jq -e --slurpfile truth "$core.json" '[.types[] | select(.kind == "unnamed" and .module == "types.bare")] as $rows |
		[$truth[0].types[] | select(.chunks > 64 and .size == 0 and .name != "Threaded")] | length >= 15 and
		all(. as $type | $rows | any(.size == $type.each + 8 and .sites.heap <= $type.count and
			.sites.heap >= $type.count - 2))' <<<"$output" >/dev/null || {
		jq -c '.types[] | select(.kind == "unnamed") | [.name, .count, .size]' <<<"$output" && false
	}
}

# freed_right CORE: what is in use, and no more
freed_right() {
	topleak -0 --types -n 1000 -ojson "$1"
	equal "$(jq -r '.types[] | select(.name == ("First", "Second", "Both", "Member", "Holder")) |
		"\(.name) \(.sites.heap) \(.secondary)"' <<<"$output" | sort)" "Both 1200 1200
Member 1200 0"
}

@test "freed objects in threads' caches and fastbins do not count, with what is left of them" {
	needs jq
	local program
	program=$(fixture freed "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/freed.cpp")
	freed_right "$(fixture freed.core dump -k @ "$program")"
	freed_right "$(fixture freed.shared.core dump -k @ env MALLOC_ARENA_MAX=1 "$program")"
	freed_right "$(fixture freed.cached.core dump -k @ env GLIBC_TUNABLES=glibc.malloc.tcache_count=2000 "$program")"
	freed_right "$(fixture freed.fast.core dump -k @ env GLIBC_TUNABLES=glibc.malloc.tcache_count=0 "$program")"
	freed_right "$(fixture freed.stripped.core dump -k @ "$(fixture freed.stripped strip -s -o @ "$program")")"
	freed_right "$(fixture freed.static.core dump -k @ \
		"$(fixture freed.static "${CXX:-c++}" -static -O1 -pthread -o @ "$repo/fixtures/freed.cpp")")"
	is '.totals.lists_known'
}

@test "freed chunks are told however many there are; of a packed dump that does not fit, that they are not is said" {
	needs jq zstd
	local program core
	program=$(fixture freed "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/freed.cpp")
	core=$(fixture freed.many.core dump -k @ "$program" 60000)
	topleak -0 --types -n 1000 -ojson "$core"
	is '(.types[] | select(.name == "Member") | .count == 72000) and .totals.lists_known'
	topleak -0 --types -m 16M -n 1000 -ojson "$core"
	is '(.types[] | select(.name == "Member") | .count == 72000) and .totals.lists_known'
	# What does not fit can be read in order only.
	zstd -qf -o "$BATS_TEST_TMPDIR/core.zst" "$core"
	topleak -0 --types -m 16M -n 1000 -ojson "$BATS_TEST_TMPDIR/core.zst"
	is '(.types[] | select(.name == "Member") | .count > 72000) and (.totals.free_known | not)'
	topleak -0 --types -m 16M "$BATS_TEST_TMPDIR/core.zst"
	[[ $output =~ the\ blocks\ of\ a\ packed\ dump\ .*\ use\ -m\ ([0-9]+M) ]]
	topleak -0 --types -m "${BASH_REMATCH[1]}" -n 1000 -ojson "$BATS_TEST_TMPDIR/core.zst"
	is '(.types[] | select(.name == "Member") | .count == 72000) and .totals.lists_known'
}

@test "what is left of objects that failed while they were made counts for none of their bases" {
	needs jq strip
	local program core
	program=$(fixture making "${CXX:-c++}" -O1 -o @ "$repo/fixtures/making.cpp")
	for core in "$(fixture making.core dump -k @ "$program")" \
		"$(fixture making.stripped.core dump -k @ "$(fixture making.stripped strip -s -o @ "$program")")"; do
		topleak -0 --types -n 1000 -ojson "$core"
		equal "$(jq -r '.types[] | select(.name == ("Globe", "North", "South")) |
			"\(.name) \(.sites.heap) \(.size) \(.bytes)"' <<<"$output" | sort)" \
			"Globe 3000 64 192000
North 2000 48 96000
South 2000 48 96000"
	done
	# They are there.
	topleak -0 -n 100 "$(fixture making.core)"
	[[ $output =~ " : "200[0-9]"  construction vtable for North-in-Globe+24 (making)" ]]
}

@test "a core that is cut: lower bounds, and that is said" {
	local core cut=$BATS_TEST_TMPDIR/cut
	core=$(types_core glibc)
	head -c $(($(stat -c %s "$core") * 6 / 10)) "$core" >"$cut"
	cp "$core.json" "$cut.json"
	right "$cut" -l
	topleak -0 --types "$cut"
	contains "$output" "lower bounds"
}

@test "without the program: the same from the core alone, if it has the constants" {
	local core program=$BATS_TEST_TMPDIR/gone
	cp "$(types_program)" "$program"
	core=$BATS_TEST_TMPDIR/gone.core
	dump -k -f 0x37 "$core" "$program" "$core.json" || skip "the kernel writes no core where it can be read"
	rm "$program"
	right "$core"
}

@test "without the program and the constants: rows without names, and what is missing" {
	local core program=$BATS_TEST_TMPDIR/gone
	cp "$(types_program)" "$program"
	core=$BATS_TEST_TMPDIR/gone.core
	dump -k "$core" "$program" "$core.json" || skip "the kernel writes no core where it can be read"
	rm "$program"
	topleak -0 --types "$core"
	contains "$output" " gone+0x"
	contains "$output" "note: files are missing, their types may have no names: $program"
	lacks "$output" "Plain"
}

# guest COMPILER QEMU
guest() {
	local program
	needs "$1" "$2"
	program=$(fixture "types.$2" "$1" -O1 -static -pthread -o @ "$repo/fixtures/types.cpp")
	right "$(fixture "types.$2.core" dump -k @ "$(command -v "$2")" "$program" @.json 20000 0)"
}

# As most programs are, with libraries: the kernel runs it itself.
@test "32 bit: i386, dynamically linked" {
	local program
	needs i686-linux-gnu-g++
	program=$(fixture types.i386 i686-linux-gnu-g++ -O1 -pthread -o @ "$repo/fixtures/types.cpp" \
		-Wl,--dynamic-linker=/usr/i686-linux-gnu/lib/ld-linux.so.2 -Wl,-rpath,/usr/i686-linux-gnu/lib)
	"$program" 2>/dev/null || [ $? -eq 2 ] || skip "this kernel runs no programs for i386"
	right "$(fixture types.i386.core dump -k @ "$program" @.json 20000)"
}

@test "32 bit: i386" { guest i686-linux-gnu-g++ qemu-i386; }
@test "64 bit, big endian: s390x" { guest s390x-linux-gnu-g++ qemu-s390x; }

@test "threads and instruction sets do not change the result" {
	local core expected
	core=$(types_core glibc)
	topleak -0 --types -n 100000 -ojson -j 1 "$core"
	expected=$output
	local threads
	for threads in 2 3 16; do
		topleak -0 --types -n 100000 -ojson -j "$threads" "$core"
		equal "$output" "$expected"
	done
	export TOPLEAK_SIMD=portable
	topleak -0 --types -n 100000 -ojson "$core"
	equal "$output" "$expected"
}

@test "where chunks and segments begin does not change the result" {
	needs jq
	local core expected seed split=$BATS_TEST_TMPDIR/split
	seed=${SEED:-$RANDOM}
	echo "# SEED=$seed" >&3
	# Many objects and arrays lie across borders; those of some classes are larger than a piece.
	# What is called a stack depends on where segments begin.
	for core in "$(types_core glibc)" "$fixtures"/types.{jemalloc,tcmalloc,mimalloc}.core; do
		[ -e "$core" ] || continue
		expected=$("$TOPLEAK" --types -n 100000 -ojson "$core" | jq -c '.types[], .totals | del(.share, .heap_bytes)' | sort)
		for ((i = 0; i < 4; i++)); do
			split-core $((seed + i)) "$core" "$split"
			equal "$("$TOPLEAK" --types -j $((1 + (seed + i) % 5)) -n 100000 -ojson "$split" |
				jq -c '.types[], .totals | del(.share, .heap_bytes)' | sort)" "$expected"
		done
	done
}

@test "little memory: the frequent types are the same, and what is left out is said" {
	topleak -0 --types -n 20 "$(types_core glibc)"
	local expected=$output
	topleak -0 --types -n 20 -m 16M "$(types_core glibc)"
	equal "$output" "$expected"
}

@test "a compressed core: the same" {
	needs zstd
	local core
	for core in "$(types_core glibc)" "$fixtures"/types.jemalloc.core; do
		[ -e "$core" ] || continue
		topleak -0 --types -n 100000 -ocsv "$core"
		local expected=$output
		zstd -qf -o "$BATS_TEST_TMPDIR/core.zst" "$core"
		topleak -0 --types -n 100000 -ocsv "$BATS_TEST_TMPDIR/core.zst"
		equal "$output" "$expected"
	done
}

@test "a pipe is a usage error" {
	topleak -2 --types -m 16M - < <(cat "$(types_core glibc)")
	fails --types pipe
}

@test "a live process" {
	local pid
	"$(types_program)" /dev/null 2000 1 &
	pid=$!
	sleep 0.5
	topleak -0 --types --pid "$pid"
	wait "$pid" || true
	contains "$output" "Element"
}

@test "more candidates than fit: the frequent types are right, and what is left out is said" {
	local core expected
	core=$(fixture structs.many.core dump -k @ \
		"$(fixture structs "${CC:-cc}" -O1 -o @ "$repo/fixtures/structs.c")" many)
	topleak -0 --types -n 3 "$core"
	lacks "$output" "may be missing"
	expected=$(rows)
	topleak -0 --types -n 3 -m 16M "$core"
	equal "$(rows)" "$expected"
	contains "$output" "objects may be missing"
	if ! sanitized; then
		run --separate-stderr -0 peak "$TOPLEAK" --types -m 16M "$core"
		[ "${stderr_lines[-1]}" -lt $((20 * 1024)) ]
	fi
}

@test "C structs: a method table at +0 and at +8, two callbacks" {
	topleak -0 --types "$(fixture structs.core dump -k @ \
		"$(fixture structs "${CC:-cc}" -O1 -o @ "$repo/fixtures/structs.c")")"
	equal "$(rows | head -3)" "2000 144 -> session_methods @+8
3000 64 -> stream_methods @+0
1000 80 -> timer_fire @+24"
}

# asked TYPE COUNT: --type finds what a row says, in so many objects
asked() {
	topleak -0 --type "$1" --owners -ojson "$core"
	is ".found.count == $2"
	topleak -0 --type "$1" -ojson "$core"
	is ".found.count >= $2"
}

@test "--type takes what the table calls a struct, with and without its name" {
	needs jq strip
	local program core type count
	program=$(fixture structs "${CC:-cc}" -O1 -o @ "$repo/fixtures/structs.c")
	core=$(fixture structs.core dump -k @ "$program")
	asked "-> session_methods @+8" 2000
	asked "-> session_methods" 2000
	asked "session_methods @+8" 2000
	asked "-> session_methods @+16" 0
	asked "-> timer_fire @+24" 1000
	topleak -0 --type "-> timer_fire @+24" --member 24:ptr,0:uint8 "$core"
	contains "$output" "timer_fire"
	contains "$output" "0x05 : 1000"
	topleak -0 --type "-> timer_fire @+24" --around=-1:4 -ojson "$core"
	is '[.layout[].offset] == [-8, 0, 8, 16, 24, 32] and (.layout[0].mostly == "malloc size: 80")'
	topleak -2 --type "-> session_methods+4 @+8" "$core"
	fails "session_methods+4"
	topleak -2 --type "-> session_methods @+9" "$core"
	fails "@+9" "multiple of 8"

	core=$(fixture structs.stripped.core dump -k @ "$(fixture structs.stripped strip -s -o @ "$program")")
	topleak -0 --types -n 3 -ojson "$core"
	jq -r '.types[] | "\(.count) \(.name)"' <<<"$output" >"$BATS_TEST_TMPDIR/rows"
	equal "$(wc -l <"$BATS_TEST_TMPDIR/rows")" 3
	while read -r count type; do
		[[ $type == *structs.stripped+0x* ]]
		asked "$type" "$count"
		asked "${type#-> }" "$count"
	done <"$BATS_TEST_TMPDIR/rows"
	topleak -2 --type "structs.stripped+0xffffffff" "$core"
	fails "structs.stripped+0xffffffff"
}

@test "C structs with musl" {
	needs musl-gcc
	topleak -0 --types "$(fixture structs.musl.core dump -k @ \
		"$(fixture structs.musl musl-gcc -O1 -o @ "$repo/fixtures/structs.c")")"
	# musl gives away what is left of the last page of the program's own data, and that is no heap.
	rows | grep -e '->' | awk 'NR == 1 { ok += $1 >= 2000 - 4096 / 144 && $1 <= 2000 && $2 == 144 && $4 == "session_methods" }
		NR == 2 { ok += $1 >= 3000 - 4096 / 64 && $1 <= 3000 && $2 == 64 && $4 == "stream_methods" }
		NR == 3 { ok += $1 >= 1000 - 4096 / 80 && $1 <= 1000 && $2 == 80 && $4 == "timer_fire" }
		END { exit ok != 3 }' || { echo "$output" && false; }
}

@test "arrays of one pointer: what comes before each is no size field of malloc" {
	needs jq
	topleak -0 --types -n 1000 -ojson "$(fixture repeats.core dump -k @ "$(fixture repeats "${CC:-cc}" -O1 \
		-fno-pie -no-pie -Wl,-z,max-page-size=4096 -Wl,-Ttext-segment=0x558000 -o @ "$repo/fixtures/repeats.c")")"
	is '[.types[] | select(.name | contains("_empty"))] | length == 2 and all(.count > 5000 and .size == 8)'
	is '.totals.heap_bytes as $all | all(.types[]; .bytes <= $all and .share <= 1)'
}

@test "the size classes of allocators, against what these say of themselves" {
	local tool=${TOPLEAK%/*}/test-sizes name path any=
	[ -x "$tool" ] || skip "no test-sizes: make check"
	for name in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so; do
		path=$(library "$name")
		[ -n "$path" ] || continue
		path=$(realpath -- "$path") any=1
		LD_PRELOAD=$path "$(fixture sizes "${CC:-cc}" -O1 -o @ "$repo/fixtures/sizes.c")" |
			env -u LD_PRELOAD "$tool" "${path##*/}"
	done
	if command -v musl-gcc >/dev/null; then
		any=1
		"$(fixture sizes.musl musl-gcc -O1 -o @ "$repo/fixtures/sizes.c")" | "$tool" libc.so
	fi
	[ -n "$any" ] || skip "no allocator but glibc's"
}

# arrays_right CORE [SHARE]: the arrays take what they do, within 1 %, or this share
arrays_right() {
	local count bytes
	read -r count bytes <"$1.json"
	topleak -0 --types -n 1000 -ojson "$1"
	is '.types[] | select(.name == "-> cell_methods" or .name == "-> cell_methods @+0") |
		.size == 40 and .size_method == "element" and ((.count - '"$count"') | fabs) <= 40 and
		((.bytes / '"$bytes"' - 1) | fabs) <= '"${2-0.01}"
}

@test "arrays of C structs: their bytes are those of their blocks" {
	local name path program
	program=$(fixture arrays "${CC:-cc}" -O1 -o @ "$repo/fixtures/arrays.c")
	for name in jemalloc:libjemalloc.so.2 tcmalloc:libtcmalloc_minimal.so.4 mimalloc:libmimalloc.so; do
		path=$(library "${name#*:}")
		[ -z "$path" ] || arrays_right "$(fixture "arrays.${name%:*}.core" dump -k @ env LD_PRELOAD="$path" "$program" @.json)"
	done
}

@test "arrays of C structs with musl: the same" {
	needs musl-gcc
	# musl lets a block begin later in its place than it could: what is before it is free.
	arrays_right "$(fixture arrays.musl.core dump -k @ \
		"$(fixture arrays.musl musl-gcc -O1 -o @ "$repo/fixtures/arrays.c")" @.json)" 0.03
	is '.totals.size_classes == "musl"'
}

@test "a library that keeps more around objects has no sizes that are known" {
	local path
	path=$(library libtcmalloc_minimal_debug.so.4)
	[ -n "$path" ] || skip "no libtcmalloc_minimal_debug"
	topleak -0 --types -n 1 -ojson "$(fixture arrays.debug.core dump -k @ env LD_PRELOAD="$path" \
		"$(fixture arrays "${CC:-cc}" -O1 -o @ "$repo/fixtures/arrays.c")" @.json)"
	is '.totals.size_classes == null'
}

@test "an allocator that the program was linked with is known, with symbols and without" {
	needs musl-gcc jq
	local program core bytes
	program=$(fixture arrays.static musl-gcc -static -O1 -o @ "$repo/fixtures/arrays.c")
	core=$(fixture arrays.static.core dump -k @ "$program" @.json)
	arrays_right "$core" 0.03
	bytes=$(jq '.types[0].bytes' <<<"$output")
	strip -s -o "$BATS_TEST_TMPDIR/stripped" "$program"
	topleak -0 --types -ojson --exe "$BATS_TEST_TMPDIR/stripped" "$core"
	is ".types[0].bytes == $bytes and .types[0].bytes > 40 * .types[0].count"
}

@test "OpenSSL: SSL objects and BIOs" {
	echo '#include <openssl/ssl.h>' | "${CC:-cc}" -E -o /dev/null -x c - 2>/dev/null || skip "no OpenSSL"
	topleak -0 --types "$(fixture openssl.core dump -k @ \
		"$(fixture openssl "${CC:-cc}" -O1 -o @ "$repo/fixtures/openssl.c" -lssl -lcrypto)")"
	# Where the methods are, and how many BIOs an SSL object has, depends on the version (3.0, 3.5).
	rows | awk '$1 >= 700 && $1 <= 702 && $4 ~ /libssl/ && $5 ~ /^@\+(8|16)$/ { ssl++ }
		($1 >= 1400 && $1 <= 1402 || $1 >= 2100 && $1 <= 2102) && $4 ~ /libcrypto/ && $5 == "@+8" { bio++ }
		END { exit !(ssl && bio) }' || { echo "$output" && false; }
}

@test "--diff: what grew, by exactly how much, from a dump and from a saved result" {
	needs jq
	local old new saved=$BATS_TEST_TMPDIR/old.json
	old=$(fixture types.small.core dump -k @ "$(types_program)" @.json 20000)
	new=$(types_core glibc)
	topleak -0 --types --diff "$old" -n 100000 -ojson "$new"
	is '.mode == "types-diff" and .old.format == "elf-core"'
	local expected rows
	# Threads are interrupted anywhere: an object more may be on the stack of each.
	expected=$(jq -n --slurpfile new "$new.json" --slurpfile old "$old.json" -r '
		def bytes: .usable + .headers;
		$new[0].types[] | . as $type | ($old[0].types[] | select(.name == $type.name)) as $was |
		select($type.where == "heap" and .name != "Threaded") |
		"\(.name) \($type.count - $was.count) \(if .embedded then 0 else ($type | bytes) - ($was | bytes) end)"' | sort)
	[ "$(wc -l <<<"$expected")" -gt 20 ]
	equal "$(jq -r '.types[] | select(.kind == "class" and .module == "types" and .name != "Threaded" and
		(.name | startswith("std::") | not)) | "\(.name) \(.more_count) \(.more_bytes)"' <<<"$output" | sort)" "$expected"
	is '.types[] | select(.name == "Threaded") | .more_count >= 4998 and .more_count <= 5002'
	# The growth was made of these, so the most of it comes first.
	is '[.types[].more_bytes] == ([.types[].more_bytes] | sort | reverse)'
	rows=$(jq -c '.types[] | del(.examples)' <<<"$output")
	"$TOPLEAK" --types -n 1000000 -ojson "$old" >"$saved"
	topleak -0 --types --diff "$saved" -n 100000 -ojson "$new"
	is '.old.format == "json"'
	equal "$(jq -c '.types[] | del(.examples)' <<<"$output")" "$rows"
}

@test "--diff: the new side is a saved result, too: the same as from the dump" {
	needs jq
	local old new side expected saved=$BATS_TEST_TMPDIR/new.json
	old=$(fixture types.small.core dump -k @ "$(types_program)" @.json 20000)
	new=$(types_core glibc)
	"$TOPLEAK" --types -n 1000000 -ojson "$old" >"$saved.old"
	"$TOPLEAK" --types -n 1000000 -ojson "$new" >"$saved"
	for side in "$old" "$saved.old"; do
		topleak -0 --types --diff "$side" -n 1000 -ojson "$new"
		expected=$(jq -c 'del(.input.path, .input.format)' <<<"$output")
		topleak -0 --types --diff "$side" -n 1000 -ojson "$saved"
		equal "$(jq -c 'del(.input.path, .input.format)' <<<"$output")" "$expected"
		is '.input.format == "json"'
		! python3 -c 'import jsonschema' 2>/dev/null ||
			validate "$repo/share/topleak.schema.json" <<<"$output"
		topleak -0 --types --diff "$side" "$new"
		expected=$output
		topleak -0 --types --diff "$side" "$saved"
		equal "$output" "$expected"
	done
	# The allocator is kept, too.
	sed 's/"size_classes":null/"size_classes":"jemalloc"/' <"$saved" >"$saved.jemalloc"
	topleak -0 --types --diff "$old" -ojson "$saved.jemalloc"
	is '.totals.size_classes == "jemalloc"'
	"$TOPLEAK" --types -n 3 -ojson "$new" >"$saved"
	topleak -0 --types --diff "$old" "$saved"
	contains "$stderr" "$saved: has only 3 of"
	contains "$stderr" "seem to be gone"
	# Alone it is no dump.
	topleak -2 --types "$saved"
}

@test "--diff: the new side is cut: growth is less, and that is said" {
	needs jq
	local old new cut=$BATS_TEST_TMPDIR/cut growth
	old=$(fixture types.small.core dump -k @ "$(types_program)" @.json 20000)
	new=$(types_core glibc)
	growth=$("$TOPLEAK" --types --diff "$old" -n 100000 -ojson "$new" | jq -c '[.types[] | {key: .name, value: .more_count}] | from_entries')
	head -c $(($(stat -c %s "$new") * 6 / 10)) "$new" >"$cut"
	topleak -0 --types --diff "$old" -n 100000 -ojson "$cut"
	contains "$stderr" "$cut"
	is '.totals.lower_bounds and (.old.lower_bounds | not)'
	# What is in the part that is there has grown as much, nothing by more.
	jq -e --argjson whole "$growth" '[.types[] | select(.kind == "class")] | all(.more_count <= ($whole[.name] // 0)) and
		([.[] | select(.more_count > 1000 and .more_count == $whole[.name])] | length > 0)' <<<"$output" >/dev/null || {
		jq -c '.types[] | [.name, .more_count]' <<<"$output" && false
	}
	topleak -0 --types --diff "$old" "$cut"
	contains "$output" "the dump is cut: counts and bytes are lower bounds"
	lacks "$output" "the old dump is cut"
}

@test "--diff: the same dump has not grown" {
	topleak -0 --types --diff "$(types_core glibc)" "$(types_core glibc)"
	equal "$(rows)" ""
}

@test "--diff says that the old side is cut, has few rows, or is something else" {
	local core cut=$BATS_TEST_TMPDIR/cut
	core=$(types_core glibc)
	head -c $(($(stat -c %s "$core") * 6 / 10)) "$core" >"$cut"
	topleak -0 --types --diff "$cut" "$core"
	contains "$output" "the old dump is cut"
	"$TOPLEAK" --types -n 3 -ojson "$core" >"$cut"
	topleak -0 --types --diff "$cut" "$core"
	contains "$stderr" "has only 3 of"
	echo '{"mode": "words"}' >"$cut"
	topleak -1 --types --diff "$cut" "$core"
	fails "$cut" "--types -ojson"
	"$TOPLEAK" --types -n 3 -ojson "$core" | sed 's/"name":"/&\\u001b[2J/' >"$cut"
	topleak -1 --types --diff "$cut" "$core"
	fails "$cut" "--types -ojson"
	echo '{"mode": ' >"$cut"
	topleak -1 --types --diff "$cut" "$core"
	fails "$cut" "JSON"
}

@test "--diff: a damaged saved result is refused, on either side, not taken for growth" {
	needs jq
	local core saved=$BATS_TEST_TMPDIR/saved.json damaged=$BATS_TEST_TMPDIR/damaged.json damage
	core=$(fixture small.core dump @ "$(fixture small "${CXX:-c++}" -s -o @ "$repo/fixtures/small.cpp")")
	"$TOPLEAK" --types -n 1000 -ojson "$core" >"$saved"
	topleak -0 --types --diff "$saved" "$saved"
	for damage in '.types[0].count = "7"' '.types[0].count = 7.5' '.types[0].count = -7' '.types[0].bytes = "7"' \
		'del(.types[0].count)' 'del(.types[0].name)' '.types[0].kind = "kind"' '.types[0] = null' \
		'.types[0].module = 7' '.totals.named_count = -7' 'del(.totals)' '.modules[0] = 7'; do
		jq -c "$damage" "$saved" >"$damaged"
		topleak -1 --types --diff "$damaged" "$saved"
		fails "$damaged" "--types -ojson"
		topleak -1 --types --diff "$saved" "$damaged"
		fails "$damaged" "--types -ojson"
	done
}

@test "--diff: very many missing files take no time that grows with their square" {
	needs jq
	local core=$BATS_TEST_TMPDIR/core saved=$BATS_TEST_TMPDIR/saved.json many=$BATS_TEST_TMPDIR/many.json
	mkcore "$core" 'my $n = 60_000; (segments => [{ vaddr => 0x100000000, words => [1], memsz => $n * 8192, flags => 5 }],
		notes => [{ name => "CORE", type => 0x46494c45, desc => pack("Q<2", $n, 4096) .
			pack("Q<*", map { 0x100000000 + $_ * 8192, 0x100001000 + $_ * 8192, 1 } 0 .. $n - 1) .
			join("", map { "/lib/with/a/long/path/of/its/own/to/make/the/list/long/$_\0" } 1 .. $n) }])'
	run -0 limited "$TOPLEAK" --types -n 10 -ojson "$core"
	echo "$output" >"$saved"
	run -0 limited "$TOPLEAK" --types -q --diff "$core" "$saved"
	jq -c '.modules = [range(200000) | {path: "/lib/with/a/long/path/of/its/own/to/make/the/list/long/\(.)", state: "missing"}]' \
		"$saved" >"$many"
	run -0 limited "$TOPLEAK" --types -q --diff "$many" "$saved"
}

@test "--sort and --min-count" {
	local core
	core=$(types_core glibc)
	topleak -0 --types -ojson --sort count "$core"
	is '[.types[].count] == ([.types[].count] | sort | reverse)'
	topleak -0 --types -ojson --sort size "$core"
	is '[.types[].size] == ([.types[].size] | sort | reverse)'
	topleak -0 --types -ojson --sort name "$core"
	is '[.types[].name] == ([.types[].name] | sort)'
	topleak -0 --types -ojson -n 1000 --min-count 2400 "$core"
	is '[.types[].count >= 2400] | all'
}

@test "JSON as the schema says" {
	python3 -c 'import jsonschema' 2>/dev/null || skip "no python3-jsonschema"
	local core
	core=$(types_core glibc)
	topleak -0 --types -n 1000 -ojson "$core"
	validate "$repo/share/topleak.schema.json" <<<"$output"
	topleak -0 --types -n 1000 -ojson --diff "$(fixture types.small.core dump -k @ "$(types_program)" @.json 20000)" "$core"
	validate "$repo/share/topleak.schema.json" <<<"$output"
}

@test "what is no object is counted: zeros, malloc's sizes, and text" {
	needs jq
	local core totals
	core=$(types_core glibc)
	topleak -0 --types -n 1 -ojson "$core"
	totals=$(jq -c .totals <<<"$output")
	# The same as the words are told: those that are not ASCII are few.
	topleak -0 -n 1000000 -ojson "$core"
	equal "$(jq .zeros <<<"$totals")" "$(jq '.top[0].count' <<<"$output")"
	[ "$(jq .texts <<<"$totals")" -gt 1000 ]
	equal "$(jq .texts <<<"$totals")" "$(jq '[.top[] | select(.kind == "text" and (.description | test("^\"[ -~]*\"$"))) | .count] | add' <<<"$output")"
	# A size field is such a word, a word of its value need be none.
	jq -e --argjson totals "$totals" '([.top[:1000][] | {(.value): .count}] | add) as $words |
		$totals.malloc_sizes | length == 8 and ([.[].count] | . == (sort | reverse)) and
		all(.[]; .count <= $words[.value]) and
		# Some of the numbers are used for other things, too.
		([.[] | select(.count > 0.9 * $words[.value])] | length > 4)' \
		<<<"$output" >/dev/null || { echo "$totals" && false; }
	topleak -0 --types "$core"
	[[ $output =~ "not objects: 0 x "[0-9]+\.[0-9]" M, 0x"[0-9a-f]*" x "[0-9]*", text "[0-9]*" words" ]]
}

@test "where: the thread and the module, if all objects are in one" {
	topleak -0 --types -n 1000 "$(types_core glibc)"
	[[ $output =~ OnStack\ +types\ +stack\ of\ thread\ [0-9]+\ +0x ]]
	[[ $output =~ Static\ +types\ +data\ of\ types\ +0x ]]
	topleak -0 --types -n 1000 -ojson "$(types_core glibc)"
	is '[.types[] | select(.name == "Static" or .name == "Plain") | .place] | sort == [null, "data of types"]'
}

@test "where and examples are those of a row, not of its symbol" {
	needs jq
	cat >"$BATS_TEST_TMPDIR/main.c" <<-'END'
		#include <stdlib.h>
		#include <sys/mman.h>
		struct methods { int flags[8]; };
		static struct methods methods = {{1}};
		struct object { long number; struct methods *methods; long more[3]; };
		static struct object *volatile kept;
		int main(void)
		{
			struct object *area = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			for (int i = 0; i < 4000; i++)
				area[i].methods = &methods;
			for (int i = 0; i < 1000; i++) {
				kept = calloc(1, sizeof *kept);
				kept->methods = &methods;
			}
			abort();
		}
	END
	"${CC:-cc}" -O1 -o "$BATS_TEST_TMPDIR/main" "$BATS_TEST_TMPDIR/main.c"
	"$repo/scripts/dump" -k "$BATS_TEST_TMPDIR/core" "$BATS_TEST_TMPDIR/main" || skip "the kernel writes no core where it can be read"
	topleak -0 --types -ojson "$BATS_TEST_TMPDIR/core"
	is '.types | map({ (.name): . }) | add | .["-> methods"].where == "anon" and .["-> methods"].sites == { heap: 0, anon: 4000, stack: 0, data: 0 }
		and .["-> methods @+8"].where == "heap" and .["-> methods @+8"].sites == { heap: 1000, anon: 0, stack: 0, data: 0 }'
	is '.types | map({ (.name): .examples[0] }) | add | .["-> methods"] > "0x7" and .["-> methods @+8"] < "0x7"'
}

@test "csv has a header and as many fields in each row" {
	topleak -0 --types -ocsv -n 1000 "$(types_core glibc)"
	[[ ${lines[0]} == type,kind,module,count,size,* ]]
	sed 's/"[^"]*"/x/g' <<<"$output" | awk -F, 'NR == 1 { n = NF } NF != n { print; exit 1 }'
}

@test "--redact leaves out what comes from memory, in every format" {
	local core format old saved=$BATS_TEST_TMPDIR/old.json
	# The program has it as an argument, the heap as texts that fill words, and behind pointers.
	core=$(fixture structs.secret.core dump -k @ \
		"$(fixture structs "${CC:-cc}" -O1 -o @ "$repo/fixtures/structs.c")" hunter2hunter2hunter2)
	topleak -0 --types -n 1000 -ojson "$core"
	contains "$output" hunter2
	"$TOPLEAK" --types --redact -n 1000 -ojson "$core" >"$saved"
	for format in text json csv; do
		topleak -0 -v --types --redact -n 1000 -o $format "$core"
		lacks "$output$stderr" hunter2
		contains "$output" "-> session_methods @+8"
		"$TOPLEAK" --types -n 1000 -ojson "$core" >"$saved.plain"
		topleak -0 -v --types --redact --diff "$saved.plain" -n 1000 -o $format "$saved.plain"
		lacks "$output$stderr" hunter2
		for old in "$saved" "$(fixture structs.core dump -k @ "$(fixture structs)")"; do
			topleak -0 -v --types --redact --diff "$old" -n 1000 -o $format "$core"
			lacks "$output$stderr" hunter2
		done
	done
}

@test "what does not go with --types is a usage error that names both" {
	local option core
	core=$(types_core glibc)
	for option in "--kind data" "-s 8" "-l 8" --raw --no-names "-w 8" "-e little" "-ogdb"; do
		# shellcheck disable=SC2086 # an option and its argument
		topleak -2 --types $option "$core"
		fails "--types" "$(sed 's/^-s.*/--offset/; s/^-l.*/--limit/; s/^-w.*/--word/; s/^-e .*/--endian/; s/^-ogdb/--output gdb/; s/ data//' <<<"$option")"
	done
	topleak -2 --sort count "$core"
	fails --sort --types
	topleak -2 --diff "$core" "$core"
	fails --diff --types
	topleak -2 --types --sort weight "$core"
	fails --sort weight
	head -c 4096 /dev/zero >"$BATS_TEST_TMPDIR/plain"
	topleak -2 --types "$BATS_TEST_TMPDIR/plain"
	contains "$stderr" "--types"
}

# plain_rows: COUNT SIZE and TYPE of the rows in output, without what libraries have
plain_rows() {
	awk '$1 ~ /^[0-9]+$/ && $2 > 400 { print $2, $3, $0 }' <<<"$output" |
		sed -E 's/^([0-9]+ [0-9]+) .*B +[0-9.]+ +(.*[^ ]) +(plain(\.stripped)? +)?heap +0x.*/\1 \2/; s/ +plain(\.stripped)?$//; s/ +$//'
}

@test "blocks without a type: by size, and by what most of a size have in common" {
	local program core
	program=$(fixture plain "${CC:-cc}" -O1 -g -falign-functions=16 -o @ "$repo/fixtures/plain.c")
	core=$(fixture plain.core dump -k @ "$program")
	topleak -0 --types -n 100 "$core"
	equal "$(plain_rows)" '600 4384 (no type) 4384 bytes, -> on_expire @+4240
1500 608 (no type) 608 bytes, held by -> on_retry +8
600 1504 (no type) 1504 bytes
1000 448 (no type) 448 bytes, held by 4016 bytes
2000 144 (no type) 144 bytes, value of the_owner @+96
700 320 (no type) 320 bytes
1500 112 (no type) 112 bytes, text "session:..." @+0
750 112 (no type) 112 bytes, -> leaf_kind @+88
750 112 (no type) 112 bytes, -> node_kind @+88
1500 32 -> on_retry @+0'
	contains "$output" " 300    4384 "
	lacks "$output" main_arena
	# What is free is in no row.
	lacks "$output" "2048"
	local expected=$output
	topleak -0 --types -n 100 -j 5 "$core"
	equal "$output" "$expected"
	topleak -0 --types -n 100 --redact "$core"
	lacks "$output" session
}
