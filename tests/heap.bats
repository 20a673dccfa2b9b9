#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The walk through the heaps, against a program that knows what it holds and what malloc says of
# itself. `make check` builds the walk's own program beside topleak.

load lib/common

setup() {
	heap=$(dirname "$TOPLEAK")/test-heap
	[ -x "$heap" ] || skip "no $heap"
}

heap_program() {
	fixture heap "${CC:-cc}" -O1 -pthread -o @ "$repo/fixtures/heap.c"
}

# heap_core NAME VARIABLE=VALUE... -- ARG...: the core of the fixture; its truth is CORE.json
heap_core() {
	local name=$1 variables=()
	while [ "$2" != -- ]; do
		variables+=("$2")
		shift
	done
	fixture "heap.$name.core" dump -k @ env "${variables[@]}" "$(heap_program)" @.json "${@:3}"
}

# right CORE: the walk agrees with the truth beside it
right() {
	compare-heap <("$heap" -j 2 -c "$1") "$1.json"
}

@test "one thread: free lists of every kind" { right "$(heap_core one -- 1)"; }

@test "many threads, each with an arena" { right "$(heap_core ten -- 10)"; }

@test "threads that share arenas" {
	right "$(heap_core shared MALLOC_ARENA_MAX=2 -- 10)"
	right "$(heap_core main MALLOC_ARENA_MAX=1 -- 8)"
}

@test "without caches of threads" {
	right "$(heap_core uncached GLIBC_TUNABLES=glibc.malloc.tcache_count=0 -- 4 3000)"
}

@test "long free lists" {
	right "$(heap_core late -- 4 5000 late)"
	right "$(heap_core long GLIBC_TUNABLES=glibc.malloc.tcache_count=2000 -- 4 10000 late)"
}

@test "nothing is free" { right "$(heap_core still -- 2 2000 still)"; }

@test "many chunks that are mapped one by one" {
	right "$(heap_core mapped MALLOC_MMAP_THRESHOLD_=8192 -- 4 4000)"
}

@test "others use brk(2) too" { right "$(heap_core gap -- 3 3000 gap)"; }

@test "the main heap cannot grow, and goes on elsewhere" {
	right "$(heap_core full MALLOC_TOP_PAD_=0 -- 3 20000 full)"
	right "$(heap_core both -- 2 20000 gap full)"
}

@test "heaps that end at every distance from their end" {
	local pad
	for pad in 16 32 48 64 80; do
		right "$(heap_core "end$pad" MALLOC_TOP_PAD_=$pad -- 3 $((20000 + 77 * pad)) late full)"
	done
}

# guest COMPILER QEMU
guest() {
	local program
	needs "$1" "$2"
	program=$(fixture "heap.$2" "$1" -O1 -static -pthread -o @ "$repo/fixtures/heap.c")
	right "$(fixture "heap.$2.core" dump -k @ "$(command -v "$2")" "$program" @.json 4 5000)"
}

@test "32 bit: i386" { guest i686-linux-gnu-gcc qemu-i386; }
@test "32 bit, chunks of multiples of 8: ARM" { guest arm-linux-gnueabi-gcc qemu-arm; }
@test "32 bit, big endian: PowerPC" { guest powerpc-linux-gnu-gcc qemu-ppc; }
@test "64 bit, big endian: s390x" { guest s390x-linux-gnu-gcc qemu-s390x; }

# walk ARG...: what was found but for the time it took
walk() {
	"$heap" "$@" | grep -v '"seconds"'
}

@test "threads do not change the result" {
	local core expected threads
	core=$(heap_core large -- 2 60000)
	right "$core"
	expected=$(walk -c -j 1 "$core")
	for threads in 2 3 8; do
		equal "$(walk -c -j $threads "$core")" "$expected"
	done
}

@test "where segments begin does not change the result" {
	local core expected seed split=$BATS_TEST_TMPDIR/split
	seed=${SEED:-$RANDOM}
	echo "# SEED=$seed" >&3
	core=$(heap_core one -- 1)
	expected=$(walk -c "$core")
	for ((i = 0; i < 4; i++)); do
		split-core $((seed + i)) "$core" "$split"
		equal "$(walk -c "$split")" "$expected"
	done
}

@test "a core that is cut: what is left of the chain, and how much is missing" {
	needs jq
	local core cut=$BATS_TEST_TMPDIR/cut
	core=$(heap_core one -- 1)
	head -c $(($(stat -c %s "$core") / 5)) "$core" >"$cut"
	output=$("$heap" -c "$cut" 2>/dev/null)
	is '.break_count == 0 and .missing > 100000 and .in_use.count > 100'
	[ "$(jq -r '.chunks[]' <<<"$output" | sort | comm -13 <("$heap" -c "$core" | jq -r '.chunks[]' | sort) - | wc -l)" -lt 300 ]
}

@test "another allocator is not taken for malloc" {
	local path name
	for name in libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so; do
		path=$(ldconfig -p | awk -v name="$name" 'index($1, name) == 1 { print $NF; exit }')
		[ -n "$path" ] || continue
		output=$("$heap" "$(fixture "heap.$name.core" dump -k @ env LD_PRELOAD="$path" "$(heap_program)" @.json 2 2000 still)")
		is '.allocator != "glibc" and .mapped.count == 0 and .arenas == 0 and all(.regions[]; .kind == "slabs")'
	done
	[ -n "$output" ] || skip "no other allocator"
}

@test "damaged headers: each is found, and the walk goes on" {
	"$heap" -x "$(heap_core small -- 1 100)"
	"$heap" -x "$(heap_core arenas -- 2 60)"
}

@test "damaged headers of 32 bits" {
	local program
	needs i686-linux-gnu-gcc qemu-i386
	program=$(fixture heap.qemu-i386 i686-linux-gnu-gcc -O1 -static -pthread -o @ "$repo/fixtures/heap.c")
	"$heap" -x "$(fixture heap.small.qemu-i386.core dump -k @ "$(command -v qemu-i386)" "$program" @.json 1 100)"
}

@test "damage at random: nothing crashes, hangs, or contradicts itself" {
	local name
	heap_core small -- 1 100
	heap_core arenas -- 2 60
	for name in small arenas; do
		limited "$heap" ${SEED:+-s "$SEED"} -r 1500 "$fixtures/heap.$name.core"
	done
}

@test "the layouts of all versions of glibc since 2.12, 32 and 64 bit, both byte orders" {
	local core=$BATS_TEST_TMPDIR/core version kind what right
	for version in 2.12 2.19 2.26 2.28 2.30 2.31 2.36 2.42 2.43; do
		for kind in class=64 endian=big class=32 "class=32 align=8" "class=32 endian=big" \
			"class=32 endian=big align=8"; do
			# shellcheck disable=SC2086 # words
			right=$(mkheap "$core" "$version" $kind)
			output=$("$heap" "$core" 2>/dev/null)
			for what in in_use binned fast cached; do
				echo "$version $kind: $what"
				equal "$(jq -c ".$what" <<<"$output")" "$(jq -c ".$what" <<<"$right")"
			done
			is ".break_count == 0 and .lists_broken == 0 and .claimed == $((0x20000))"
		done
	done
}

@test "a heap of a terabyte that is a hole in the file takes no time and no memory" {
	! sanitized || skip "sanitizers take memory for what is reserved"
	local core=$BATS_TEST_TMPDIR/core
	mkheap "$core" 2.36
	# The heap's segment, the last one, goes on, and so does the file, as a hole.
	perl -e 'open my $file, "+<:raw", $ARGV[0] or die; local $/; my $bytes = <$file>;
		my ($phoff, $size, $count) = (unpack("Q<", substr $bytes, 32), unpack("S<2", substr $bytes, 54));
		my $at = $phoff + ($count - 1) * $size;
		my $offset = unpack "Q<", substr $bytes, $at + 8;
		seek $file, $at + 32, 0; print $file pack "Q<2", 1 << 40, 1 << 40;
		truncate $file, $offset + (1 << 40) or exit 3' "$core" || skip "the file system has no files of a terabyte"
	ulimit -t 10
	output=$("$heap" -j 2 "$core" 2>/dev/null)
	is '.in_use.count > 200 and .outside > 1000000000000'
	[ "$(peak "$heap" "$core" 2>&1 >/dev/null | tail -1)" -lt 100000 ]
}
