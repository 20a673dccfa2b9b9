#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The blocks that the walkers of allocators find, against programs that know all that they have: fixtures/keeper.c and
# fixtures/lost.cpp. `make check` builds test-blocks beside topleak.

load lib/common

setup() {
	blocks=$(dirname "$TOPLEAK")/test-blocks
	[ -x "$blocks" ] || skip "no $blocks"
}

keeper() {
	fixture keeper "${CC:-cc}" -O1 -rdynamic -pthread -o @ "$repo/fixtures/keeper.c" -ldl
}

# allocator LIBRARY: its path
allocator() {
	local path
	path=$(ldconfig -p | awk -v name="$1" 'index($1, name) == 1 { print $NF; exit }')
	[ -n "$path" ] || skip "no $1"
	echo "$path"
}

# right CORE [-a ALLOCATOR] [-i]: the blocks in use are those of CORE.list, each begin and each size, and all is sound
right() {
	local core=$1 only=()
	shift
	[ "${1-}" != -a ] || { only=("$1" "$2") && shift 2; }
	"$blocks" "${only[@]}" "$core" >"$BATS_TEST_TMPDIR/found" 2>"$BATS_TEST_TMPDIR/said" || { cat "$BATS_TEST_TMPDIR/said" && false; }
	compare-blocks "$@" "$BATS_TEST_TMPDIR/found" "$core.list"
	contains "$(<"$BATS_TEST_TMPDIR/said")" "damaged 0, missing 0, broken lists 0"
}

# histories NAME LIBRARY [-i]: of several lengths and threads; SEED=N repeats one
histories() {
	local path name=$1 seed=${SEED:-$RANDOM} history
	path=$(allocator "$2")
	echo "# SEED=$seed" >&3
	for history in "0 1000" "4 20000" "12 8000"; do
		# shellcheck disable=SC2086 # words
		rm -f "$fixtures/keeper.$name.core"
		right "$(fixture "keeper.$name.core" dump -k @ env LD_PRELOAD="$path" "$(keeper)" @.list "$seed" $history)" "${@:3}"
		contains "$(<"$BATS_TEST_TMPDIR/said")" "$name: "
	done
}

@test "jemalloc: every block in use, and no other" { histories jemalloc libjemalloc.so.2; }
@test "tcmalloc: every block in use, and no other" { histories tcmalloc libtcmalloc_minimal.so.4; }
# Where an aligned block begins in a larger one is known to nobody but its owner.
@test "mimalloc: every block in use, and no other" { histories mimalloc libmimalloc.so -i; }

@test "glibc: every block in use, and no other but the caches of the threads that live" {
	local seed=${SEED:-$RANDOM}
	echo "# SEED=$seed" >&3
	rm -f "$fixtures/keeper.glibc.core"
	right "$(fixture keeper.glibc.core dump -k @ "$(keeper)" @.list "$seed" 4 20000)" -x 4
	contains "$(<"$BATS_TEST_TMPDIR/said")" "glibc: "
}

@test "glibc, 64 bit, big endian: s390x" {
	local program seed=${SEED:-$RANDOM}
	needs s390x-linux-gnu-gcc qemu-s390x
	program=$(fixture keeper.s390x s390x-linux-gnu-gcc -O1 -static -DWRAP -pthread -o @ "$repo/fixtures/keeper.c" \
		-Wl,--wrap={malloc,calloc,realloc,memalign,aligned_alloc,posix_memalign,free})
	echo "# SEED=$seed" >&3
	rm -f "$fixtures/keeper.s390x.core"
	right "$(fixture keeper.s390x.core dump -k @ "$(command -v qemu-s390x)" "$program" @.list "$seed" 4 6000)" -x 4
}

# musl NAME OPTION...: histories of a program for musl
musl() {
	local program seed=${SEED:-$RANDOM} history
	needs musl-gcc
	program=$(fixture "keeper.$1" musl-gcc -O1 -pthread -o @ "$repo/fixtures/keeper.c" "${@:2}")
	echo "# SEED=$seed" >&3
	for history in "0 3000" "4 20000"; do
		rm -f "$fixtures/keeper.$1.core"
		# What can be used of a block is what was asked for: its allocator forgets the rest.
		# shellcheck disable=SC2086 # words
		right "$(fixture "keeper.$1.core" dump -k @ "$program" @.list "$seed" $history)" -s
		contains "$(<"$BATS_TEST_TMPDIR/said")" "musl: "
	done
}

@test "musl: every block in use, and no other" { musl musl -rdynamic; }
@test "musl, linked statically: the same" {
	musl musl-static -static -DWRAP \
		-Wl,--wrap={malloc,calloc,realloc,memalign,aligned_alloc,posix_memalign,free}
}

@test "CPython's objects: every block in use, and no other" {
	local program seed=${SEED:-$RANDOM} history core
	needs pkg-config
	pkg-config --exists python3-embed || skip "no headers of Python"
	# shellcheck disable=SC2046 # words
	program=$(fixture snakes "${CC:-cc}" -O1 -o @ "$repo/fixtures/snakes.c" $(pkg-config --cflags --libs python3-embed))
	echo "# SEED=$seed" >&3
	for history in 1 2; do
		rm -f "$fixtures/snakes.core"
		core=$(fixture snakes.core dump -k @ "$program" @.list $((seed + history)))
		right "$core" -a pymalloc
	done
}

@test "Go: every object, and no other" {
	local program seed=${SEED:-$RANDOM} core
	needs go
	mkdir -p "$fixtures/go"
	program=$(fixture keeper.go.program env GO111MODULE=off GOFLAGS= GOCACHE="$fixtures/go" go build -o @ "$repo/fixtures/keeper.go")
	echo "# SEED=$seed" >&3
	rm -f "$fixtures/keeper.go.core"
	core=$(fixture keeper.go.core dump -k @ env GOTRACEBACK=crash "$program" @.dump "$seed")
	go-objects "$core.dump" >"$core.list"
	right "$core" -a go
}

# lost NAME LIBRARY: what nothing reaches, under another allocator
lost() {
	local path core tool=${TOPLEAK%/*}/test-lost
	path=$(allocator "$2")
	core=$(fixture "lost.$1.core" dump -k @ env LD_PRELOAD="$path" \
		"$(fixture lost "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/lost.cpp")" @.truth 3)
	"$tool" -j 2 "$core" | sort >"$BATS_TEST_TMPDIR/found"
	# What is just behind 120 bytes is outside of a chunk of glibc's only; where an aligned block begins in a larger
	# one is not known.
	grep -v -e '^end ' ${3+-e "$3"} "$core.truth" >"$BATS_TEST_TMPDIR/truth"
	compare-lost "$BATS_TEST_TMPDIR/truth" "$BATS_TEST_TMPDIR/found"
}

@test "jemalloc: every lost object, and no other" { lost jemalloc libjemalloc.so.2; }
@test "tcmalloc: every lost object, and no other" { lost tcmalloc libtcmalloc_minimal.so.4; }
@test "mimalloc: every lost object, and no other" { lost mimalloc libmimalloc.so '^aligned '; }

@test "owners and ways under another allocator" {
	local path core address
	path=$(allocator libjemalloc.so.2)
	core=$(fixture lost.jemalloc.core dump -k @ env LD_PRELOAD="$path" \
		"$(fixture lost "${CXX:-c++}" -O1 -pthread -o @ "$repo/fixtures/lost.cpp")" @.truth 3)
	topleak -0 --leaks -ojson "$core"
	is '.totals.allocator == "jemalloc" and .totals.lost_count > 7000'
	address=$(perl -lane 'if ($F[1] eq "kept") { printf "0x%x\n", ~hex($F[2]); exit }' "$core.truth")
	topleak -0 --path "$address" "$core"
	contains "$output" "${address#0x}"
}

@test "a dump that is cut: bounded, and what is missing is said" {
	local path core cut=$BATS_TEST_TMPDIR/cut share
	path=$(allocator libjemalloc.so.2)
	core=$(fixture keeper.cut.core dump -k @ env LD_PRELOAD="$path" "$(keeper)" @.list 3 2 5000)
	for share in 2 3 5 9 50; do
		head -c $(($(stat -c %s "$core") * (share - 1) / share)) "$core" >"$cut"
		limited "$blocks" "$cut" >/dev/null 2>&1
	done
}

# The layouts of other versions, as their sources have them.
versions=("jemalloc 5.0" "jemalloc 5.2" "jemalloc 5.3" "mimalloc 2.0.7" "mimalloc 2.0.7-secure" "mimalloc 2.0.9"
	"mimalloc 2.0.9-secure" "mimalloc 2.1.7" "mimalloc 2.1.7-secure" "mimalloc 2.2.4" "pymalloc 3.9" "pymalloc 3.11"
	"go 1.19" "go 1.21" "go 1.22" "musl 1.2.3")

@test "layouts of other versions: every block in use, and no other" {
	local core=$BATS_TEST_TMPDIR/core version
	for version in "${versions[@]}"; do
		echo "$version"
		# shellcheck disable=SC2086 # words
		mkslabs "$core" $version >"$core.list"
		"$blocks" "$core" >"$core.found" 2>"$core.said"
		compare-blocks "$core.found" "$core.list"
		contains "$(<"$core.said")" "${version%% *}: "
		contains "$(<"$core.said")" "damaged 0"
		contains "$(<"$core.said")" "broken lists 0"
	done
}

@test "damage at random: nothing crashes or hangs" {
	local core=$BATS_TEST_TMPDIR/core version seed=${SEED:-$RANDOM} i
	echo "# SEED=$seed" >&3
	for version in "${versions[@]}"; do
		# shellcheck disable=SC2086 # words
		mkslabs "$core" $version >/dev/null
		for ((i = 0; i < 12; i++)); do
			damage "$core" "$core.damaged" $((seed + i))
			limited "$blocks" "$core.damaged" >"$core.found" 2>"$core.said" || { echo "$version: SEED=$((seed + i))" && cat "$core.said" && false; }
		done
	done
}

@test "two types of one size that are made in turn: as many as there are, and their bytes" {
	local name core
	for name in jemalloc:libjemalloc.so.2 tcmalloc:libtcmalloc_minimal.so.4 mimalloc:libmimalloc.so; do
		allocator "${name#*:}" >/dev/null
		core=$(fixture "turns.${name%%:*}.core" dump -k @ env LD_PRELOAD="$(allocator "${name#*:}")" \
			"$(fixture turns "${CXX:-c++}" -O1 -o @ "$repo/fixtures/turns.cpp")")
		topleak -0 --types -ojson -n 50 "$core"
		is '[.types[] | select(.name == "A" or .name == "B" or .name == "C")] | length == 3 and
			all(.[]; .size == 80 and .count >= 50000 and .count < 50010 and (.bytes - 4000000 | fabs) < 1000)'
	done
}
