#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# What the allocator has: --heap, against programs that know it, and against --leaks.

load lib/common

parts_core() {
	fixture parts.core "$repo/scripts/dump" -k @ \
		"$(fixture parts "${CC:-cc}" -O1 -o @ "$repo/fixtures/parts.c")" @.truth
}

# sums: the lists say the same as the totals
sums() {
	is '. as $a | ["used_count", "used_bytes", "free_count", "free_bytes"]
		| all(. as $k | ([$a.heaps[][$k]] | add) == $a.totals[$k]
			and ([$a.histogram[][$k]] | add) == $a.totals[$k]
			and ([$a.sizes[][$k]] | add) == $a.totals[$k])'
	is '.blocks | length > 0 and (map(.size) | . == (sort | reverse))'
	is '.sizes | map(.used_bytes) | . == (sort | reverse)'
	is 'all(.heaps[]; .largest_free <= .free_bytes and .end_bytes <= .largest_free and .free_pages <= .free_bytes)'
}

@test "blocks of a program that knows them: in use, free, pages, the largest, and who holds them" {
	local core
	core=$(parts_core)
	topleak -0 --heap -ojson -n 1000 "$core"
	sums
	# 48 blocks of 100000 bytes, of which 16 were freed: 23 whole pages in each.
	is '.sizes[0] | .least == 100016 and .most == 100016 and .used_count == 32 and .free_count == 16'
	is '.heaps[0] | .kind == "main" and .free_pages >= 16 * 22 * 4096 and .free_pages <= 16 * 24 * 4096'
	is '[.blocks[] | select(.size == 100016)] | length == 32 and all(.[]; .holder.kind == "data" and (.holder.name | startswith("kept")) and .lost == false)'
	is '.histogram[] | select(.most == 131072) | .used_count == 32 and .free_count == 16'
	if python3 -c 'import jsonschema' 2>/dev/null; then
		validate "$repo/share/topleak.schema.json" <<<"$output"
	fi
}

@test "other allocators and arenas: sums are those of --leaks" {
	local core used
	for core in "$BATS_TEST_DIRNAME"/../build/fixtures/{lost.threads,lost.plain,types.jemalloc,types.tcmalloc,types.mimalloc}.core; do
		[ -s "$core" ] || continue
		topleak -0 --leaks -ojson "$core"
		used=$(jq -c '.totals | [.used_count, .used_bytes, .allocator]' <<<"$output")
		topleak -0 --heap -ojson -n 100000 "$core"
		sums
		equal "$(jq -c '[.totals.used_count, .totals.used_bytes, .heaps[0].allocator]' <<<"$output")" "$used"
	done
}

@test "every format; rows are bounded; what does not go with it" {
	local core
	core=$(parts_core)
	topleak -0 --heap -n 2 "$core"
	contains "$output" "glibc: in use"
	contains "$output" "BLOCKS UP TO"
	contains "$output" "<- kept"
	topleak -0 --heap -n 2 -ojson "$core"
	is '(.sizes | length) == 2 and (.blocks | length) == 2 and (.heaps | length) == 1'
	topleak -0 --heap -ocsv "$core"
	sed 's/"[^"]*"/x/g' <<<"$output" | awk -F, 'NF != 18 { print; exit 1 }'
	topleak -2 --heap --leaks "$core"
	fails --heap --leaks
	topleak -2 --heap --kind heap "$core"
	fails --heap --kind
	topleak -2 --heap -ogdb "$core"
	fails --heap --output
	topleak -2 --heap --raw "$core"
	fails --heap --raw
	topleak -2 --heap --all "$core"
	fails --heap --all
}

@test "no heap: that is said, and no number stands for it" {
	mkcore "$BATS_TEST_TMPDIR/core" "segments => [{ vaddr => 0x1000, words => [1, 2, 3] }]"
	topleak -0 --heap "$BATS_TEST_TMPDIR/core"
	contains "$output" "not known"
	lacks "$output" "in use"
	topleak -0 --heap -ojson "$BATS_TEST_TMPDIR/core"
	is '.totals.used_bytes == null and .totals.allocators == null and (has("heaps") | not)'
}
