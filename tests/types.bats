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
	right "$(types_core "$1" "$path")" -a -f
	topleak -0 --types "$(types_core "$1" "$path")"
	contains "$output" "deleted objects"
}

@test "jemalloc: the same" { with_allocator jemalloc libjemalloc.so.2; }
@test "tcmalloc: the same" { with_allocator tcmalloc libtcmalloc_minimal.so.4; }
@test "mimalloc: the same" { with_allocator mimalloc libmimalloc.so; }

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
	for core in "$(types_core glibc)" "$fixtures"/types.jemalloc.core; do
		[ -e "$core" ] || continue
		expected=$("$TOPLEAK" --types -n 100000 -ojson "$core" | jq -c '.types[] | del(.share)' | sort)
		for ((i = 0; i < 4; i++)); do
			split-core $((seed + i)) "$core" "$split"
			equal "$("$TOPLEAK" --types -n 100000 -ojson "$split" | jq -c '.types[] | del(.share)' | sort)" "$expected"
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
	core=$(types_core glibc)
	topleak -0 --types -n 100 "$core"
	local expected=$output
	zstd -q -o "$BATS_TEST_TMPDIR/core.zst" "$core"
	topleak -0 --types -n 100 "$BATS_TEST_TMPDIR/core.zst"
	equal "$output" "$expected"
}

@test "a pipe is a usage error" {
	topleak -2 --types - < <(cat "$(types_core glibc)")
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

@test "C structs with musl: found by their distances" {
	needs musl-gcc
	topleak -0 --types "$(fixture structs.musl.core dump -k @ \
		"$(fixture structs.musl musl-gcc -O1 -o @ "$repo/fixtures/structs.c")")"
	# What musl gives away of the program's own pages is data.
	rows | awk 'NR == 1 { ok += $1 >= 1980 && $1 <= 2000 && $2 == 144 && $4 == "session_methods" }
		NR == 2 { ok += $1 >= 2980 && $1 <= 3000 && $2 == 64 && $4 == "stream_methods" }
		NR == 3 { ok += $1 >= 980 && $1 <= 1000 && $2 == 80 && $4 == "timer_fire" }
		END { exit ok != 3 }' || { echo "$output" && false; }
}

@test "OpenSSL: SSL objects and BIOs" {
	echo '#include <openssl/ssl.h>' | "${CC:-cc}" -E -o /dev/null -x c - 2>/dev/null || skip "no OpenSSL"
	topleak -0 --types "$(fixture openssl.core dump -k @ \
		"$(fixture openssl "${CC:-cc}" -O1 -o @ "$repo/fixtures/openssl.c" -lssl -lcrypto)")"
	rows | awk '$1 >= 700 && $1 <= 702 && $4 ~ /libssl/ && $5 == "@+8" { ssl++ }
		$1 >= 1400 && $1 <= 1402 && $4 ~ /libcrypto/ && $5 == "@+8" { bio++ }
		END { exit !(ssl && bio) }' || { echo "$output" && false; }
}

@test "--diff: what grew, by exactly how much, from a dump and from a saved result" {
	needs jq
	local old new saved=$BATS_TEST_TMPDIR/old.json
	old=$(fixture types.small.core dump -k @ "$(types_program)" @.json 20000)
	new=$(types_core glibc)
	topleak -0 --types --diff "$old" -n 100000 -ojson "$new"
	is '.mode == "types-diff" and .old.format == "elf-core"'
	local got expected
	expected=$(jq -n --slurpfile new "$new.json" --slurpfile old "$old.json" -r '
		$new[0].types[] | . as $type | ($old[0].types[] | select(.name == $type.name)) as $was |
		select($type.where == "heap") | "\(.name) \($type.count - $was.count)"' | sort)
	got=$(jq -r '.types[] | select(.kind == "class" and .module == "types" and (.name | startswith("std::") | not)) |
		"\(.name) \(.more_count)"' <<<"$output" | sort)
	# A few may be on the stack.
	paste <(echo "$expected") <(echo "$got") | awk -F '\t' '{
		sub(/ [-0-9]+$/, " ", $0); split($1, a, " "); split($2, b, " ") } END { exit NR < 20 }'
	diff <(sed 's/ [^ ]*$//' <<<"$expected") <(sed 's/ [^ ]*$//' <<<"$got")
	paste -d ' ' <(sed 's/.* //' <<<"$expected") <(sed 's/.* //' <<<"$got") |
		awk '$1 - $2 > 2 || $2 - $1 > 2 { print; wrong++ } END { exit wrong > 0 }'
	local rows
	rows=$(jq -c '.types[] | del(.examples)' <<<"$output")
	"$TOPLEAK" --types -n 1000000 -ojson "$old" >"$saved"
	topleak -0 --types --diff "$saved" -n 100000 -ojson "$new"
	is '.old.format == "json"'
	equal "$(jq -c '.types[] | del(.examples)' <<<"$output")" "$rows"
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
	echo '{"mode": ' >"$cut"
	topleak -1 --types --diff "$cut" "$core"
	fails "$cut" "JSON"
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
	[[ $output =~ "not objects: 0 x 2.8 M, 0x"[0-9a-f]*" x "[0-9]*", text "[0-9]*" words" ]]
}

@test "where: the thread and the module, if all objects are in one" {
	topleak -0 --types -n 1000 "$(types_core glibc)"
	[[ $output =~ OnStack\ +types\ +stack\ of\ thread\ [0-9]+\ +0x ]]
	[[ $output =~ Static\ +types\ +data\ of\ types\ +0x ]]
	topleak -0 --types -n 1000 -ojson "$(types_core glibc)"
	is '[.types[] | select(.name == "Static" or .name == "Plain") | .place] | sort == [null, "data of types"]'
}

@test "csv has a header and as many fields in each row" {
	topleak -0 --types -ocsv -n 1000 "$(types_core glibc)"
	[[ ${lines[0]} == type,kind,module,count,size,* ]]
	sed 's/"[^"]*"/x/g' <<<"$output" | awk -F, 'NR == 1 { n = NF } NF != n { print; exit 1 }'
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
